//! Handing the kernel's events to programs that ask for them in their own streams.
//!
//! A program that was started under this tracer finds [`Agent::address`] in its environment. It is
//! given events of processes that are traced here, and only to who might trace them itself: the
//! same user or root, from within the traced family.
//!
//! - `hub`: who wants what, and what waits for them; knows nothing of sockets.
//! - `queue`: what waits for one controller;
//! - `share`: what each user may have;
//! - `viewer`: who may see what a process does; `watched`: a process that somebody sees;
//! - `socket`: where programs can ask;
//! - `tee`: the kernel source, with the hub listening.
//! - `server`: the conversations.

mod hub;
mod queue;
mod server;
mod share;
mod socket;
mod tee;
mod viewer;
mod watched;

pub use hub::Hub;
pub use server::{Agent, converse, listen};
pub use share::{Most, Shares};
pub use tee::Tee;
