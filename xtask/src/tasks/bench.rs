//! Runs the benchmark, which is a crate of its own: no other task has to wait until it is built.

use std::ffi::OsString;

use crate::{process, workspace};

/// Arguments of the task.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The arguments of the benchmark: --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds and runs the benchmark.
pub fn run(args: &Args) -> anyhow::Result<()> {
    process::run(
        workspace::cargo_for_host("run")
            .args(["--quiet", "--package=bench", "--"])
            .args(&args.arguments),
    )
}
