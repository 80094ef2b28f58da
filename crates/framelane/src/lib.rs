//! framelane
