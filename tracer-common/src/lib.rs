//! Layouts shared across a boundary.
#![no_std]
