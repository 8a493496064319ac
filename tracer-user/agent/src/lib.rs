//! Handing the kernel's events to programs that ask for them in their own streams.
//!
//! A program that was started under this tracer finds [`Agent::address`] in its environment. It is
//! given events of processes that are traced here, and only of those that it might trace itself: it
//! has to run as the same user or as root, and be of the traced family.
//!
//! - `hub`: subscriptions, and the events that wait for them; knows nothing of sockets.
//! - `code`: what processes have mapped, for those that find the functions of stacks;
//! - `concerned`: the subscriptions that an event may concern;
//! - `queue`: events that wait for one controller;
//! - `share`: limits per user;
//! - `leaving`: processes that have ended, whose last switches are still to come;
//! - `viewer`: rights to see what a process does; `watched`: a process that a controller sees;
//! - `socket`: where programs can ask;
//! - `tee`: the kernel source, with the hub listening.
//! - `rights`: proof that a client may trace a process; `mounts`: files of other mounts of `/proc`,
//!   rights with which clients have connected, and owners of user namespaces;
//! - `mask`: what events say of processes that their reader does not see;
//! - `receive`: requests, and the descriptors that come with them; `closing`: where these may have
//!   to be waited for;
//! - `server`: the conversations; `untrusted`: those in which any bytes are said.

// Whatever comes from outside is no reason to end the program.
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stdout
    )
)]

mod closing;
mod code;
mod concerned;
mod hub;
mod leaving;
mod mask;
mod mounts;
mod queue;
mod receive;
mod rights;
mod server;
mod service;
mod share;
mod socket;
mod tee;
mod untrusted;
mod viewer;
mod watched;

pub use hub::Hub;
pub use server::{Agent, RoundRequest, listen};
pub use service::{
    ListenError, Listening, Policy, PolicyError, are_addresses_public, listen as listen_as_service,
    say_ready, serve,
};
pub use share::{Most, Shares};
pub use tee::Tee;
pub use tracer_posix::agent::SYSTEM_ADDRESS;
#[doc(hidden)]
pub use untrusted::{converse, converse_with_service};
