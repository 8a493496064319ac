//! What the commands have in common that answer questions: how events come to them, which spans are
//! meant, and how people read of it.

mod follow;
mod live;
mod names;
mod paths;
mod span_spec;
pub mod tree_json;
pub mod tree_text;
pub mod words;

pub use follow::{Follower, follow};
pub use live::{AnswerSetup, Asked, pretty};
pub use names::Names;
pub use paths::{Choice, Kind, Paths, Question, Shown};
pub use span_spec::SpanSpec;
