//! Events as `tracer-user` sees them, wherever they are from and whatever is made of them.
//!
//! - [`event_view`] is an event with what is known of it, and [`consumer`] the seam between its two
//!   producers (a running trace, the walk through a log) and all that takes events; between them
//!   are a [`gap`] where some are missing, and the [`summary`] at the end;
//! - [`counts`] are those that the kernel keeps where nothing is recorded;
//! - [`fields`], [`probe`] and [`self_describing`] are the values in an event;
//! - [`words`], [`kernel_words`], [`value_names`], [`task_state`] and [`recorded`] are the same
//!   values as people read them, and [`document`] is the frame of JSON;
//! - [`thread_contexts`] is the request for which each thread works;
//! - [`robots`] is what the events of robots say of nodes and callbacks;
//! - [`selection`] chooses types of events, and [`predicate`] events by their content.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

pub mod consumer;
pub mod counts;
pub mod document;
pub mod event_view;
pub mod fields;
pub mod gap;
pub mod kernel_words;
pub mod predicate;
pub mod probe;
pub mod recorded;
pub mod robots;
pub mod selection;
pub mod self_describing;
pub mod summary;
pub mod task_state;
pub mod thread_contexts;
pub mod value_names;
pub mod words;
