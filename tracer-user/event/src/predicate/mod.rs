//! Choosing events by their data: `--filter`, an expression of the Common Expression Language, and
//! `--failed`.
//!
//! - [`Predicate`] is what was asked for;
//! - [`Expression`] is one that was read and checked: what is wrong with it is said before anything
//!   is traced;
//! - `variables` knows what may be named, `values` what an event says of it, `comparison` what that
//!   can be compared with;
//! - [`Narrowed`] is what can match at all: the kernel records no more;
//! - [`Sieve`] is where events pass, or not. A call's entry waits there for its exit, where the
//!   answer depends on that;
//! - [`LogChoices`] is what a log says of the expression and the calls that it was recorded by;
//! - [`Settled`] is what was found out about entries in a first pass over a log, so that a second
//!   one goes in order of time.

mod check;
mod comparison;
mod expression;
mod narrow;
mod of_log;
mod open_calls;
mod settled;
mod sieve;
mod values;
mod variables;

pub use expression::{BadExpression, Expression};
pub use narrow::Narrowed;
pub use of_log::{FilterReach, LogChoices, LogFilter, STREAM_NAME};
pub use settled::Settled;
pub use sieve::{Show, Sieve};

use std::sync::Arc;

use crate::selection::Selection;

/// Events that are wanted, by the data that they carry.
#[derive(Clone, Debug, Default)]
pub struct Predicate {
    /// Whether of system calls only those that return an error are wanted.
    pub is_failed: bool,
    /// Expression that is true of all events that are wanted.
    pub expression: Option<Arc<Expression>>,
    /// Whether it judges system calls and user events alone, and every other event is wanted: for
    /// answers that need to know what threads did.
    pub spares_others: bool,
}

impl Predicate {
    /// Tells whether it leaves anything out.
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.is_failed || self.expression.is_some()
    }

    /// Returns the reason why a system call cannot be judged before it has ended, if there is one:
    /// the option or the variable, as it is typed.
    #[must_use]
    pub fn needs_exit(&self) -> Option<String> {
        if self.is_failed {
            return Some("--failed".to_owned());
        }
        let name = self.expression.as_ref()?.needs_exit()?;
        Some(format!("--filter with {name:?}"))
    }

    /// Tells whether it chooses threads by names that they may change.
    #[must_use]
    pub fn is_of_names(&self) -> bool {
        let expression = self.expression.as_ref();
        expression.is_some_and(|known| known.reach() == FilterReach::Names)
    }

    /// Adds to `selection` the types that are asked for by name: event types, and system calls
    /// where something is named that only these have.
    #[must_use]
    pub fn with_named(&self, selection: Selection) -> Selection {
        let Some(expression) = &self.expression else {
            return selection;
        };
        let selection = selection.with(expression.types());
        if expression.is_of_calls() {
            selection.with_syscalls()
        } else {
            selection
        }
    }
}
