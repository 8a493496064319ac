//! Runs the benchmark, which is a crate of its own: nothing else needs to wait until it is built.

use std::ffi::OsString;

use crate::{process, workspace};

/// What to measure.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The arguments of the benchmark: --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds and runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    process::run(
        workspace::cargo_for_host("run")
            .args(["--quiet", "--package=bench", "--"])
            .args(&args.arguments),
    )
}
