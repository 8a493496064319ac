//! A shot, drawn into a buffer.

mod bars;
mod columns;
mod look;
mod spans;
mod text;
mod threads;
mod title;

pub use text::text;
