//! Events as all parts of `tracer-user` see them, from a running trace or from a log.
//!
//! - [`event_view`] is an event with its type, thread, date and stack;
//! - [`consumer`] is the seam between the two producers of events (a running trace, the walk
//!   through a log) and their consumers. A consumer also gets a [`gap`] where events are missing,
//!   and the [`summary`] at the end;
//! - [`counts`] are what the kernel counts where it records no events;
//! - [`fields`], [`probe`] and [`self_describing`] are the values in an event;
//! - [`words`], [`kernel_words`], [`value_names`], [`task_state`] and [`recorded`] are the same
//!   values as people read them, and [`document`] is the frame of JSON;
//! - [`thread_contexts`] are the trace and the span of OpenTelemetry for which each thread works;
//! - [`robots`] is what the events of robots say of nodes and callbacks;
//! - [`selection`] chooses types of events, and [`predicate`] events by their content.

// Data from outside must not end the program.
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
pub mod unrecorded;
pub mod value_names;
pub mod words;
