//! Logs as files: written, read, damaged, followed, continued.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod follow;
mod independent;
mod model;
mod policies;
mod support;
