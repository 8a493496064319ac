//! Common parts of the commands that answer questions: how events come to them, which spans are
//! meant, and how people read of it.

mod answering;
mod commands;
mod context_spans;
mod early_spans;
mod functions;
mod kind;
mod names;
mod objects;
mod paths;
mod relatives;
mod rules;
mod scope;
mod span_spec;
mod stillness;
pub mod tree;
mod unmet;
pub mod words;
mod works;

pub use answering::{Answering, Following, follow, follow_while};
pub use commands::{Commands, current_command};
pub use functions::{CodeAddress, Functions, Place, is_runtime};
pub use kind::{Explained, GivenSteps, ShownSpan, SpanKind, Split};
pub use names::{Groups, LastNames, made_by};
pub use objects::{CallObject, CallObjects};
pub use paths::Paths;
pub use scope::{Question, Scope, SpanChoice};
pub use span_spec::SpanSpec;
