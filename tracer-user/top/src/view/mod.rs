//! Parts of a shot, drawn into a buffer.

mod bars;
mod columns;
mod look;
pub mod opened;
pub mod spans;
mod text;
pub mod threads;
pub mod title;

pub use columns::{ALL as ALL_COLUMNS, ThreadColumn};
pub use look::{Role, ScreenLook};
pub use text::text;
pub use threads::{Line, ThreadListing};
