//! `tracer-user`: the command line.

fn main() {}
