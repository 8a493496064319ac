//! A live view in the terminal: what threads do now, and why spans take as long as they do.
//!
//! - `model` knows what is shown: events in, and what they show up to a moment ([`Shot`]) out. It
//!   stands on the same engine as `stat` and `why`;
//! - `view` draws a shot, and knows nothing of where it comes from;
//! - `source` feeds a model: from a running trace, or from a log.

mod model;
mod once;
mod source;
mod view;

pub use model::{Model, Shot, Window};
pub use once::show_once;
pub use source::OnceSetup;
