//! `cargo xtask`: builds, tests and installs the project.

fn main() {}
