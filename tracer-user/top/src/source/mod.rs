//! Sources of events.

mod answer;
mod link;
mod live;
mod player;
mod titles;

pub use answer::TopSetup;
pub use link::{Link, Play, ShotRequest};
pub use player::{PlayedLog, SPEEDS, play};
