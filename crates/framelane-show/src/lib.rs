//! framelane-show
