//! Messages to a service manager.

pub use tracer_agent::say_ready;
