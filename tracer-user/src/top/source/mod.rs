//! Where events come from.

mod answer;

pub use answer::OnceSetup;
