//! framelane-media
