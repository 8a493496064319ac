//! Attackers: other users, files, namespaces, reused pids.

mod agent;
mod area;
mod asked;
mod at_service;
mod budgets;
mod files;
mod held;
mod interpreters;
mod logs;
mod namespaces;
mod pids;
mod proofs;
mod proving_calls;
mod serve;
mod served;
mod weather;
mod who_may_trace;
mod written;
