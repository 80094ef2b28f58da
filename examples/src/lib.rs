//! Examples live beside this file, numbered in reading order.
