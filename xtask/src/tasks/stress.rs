//! `cargo xtask stress`: random stress of the trace area, for any length of time.

use crate::process;
use crate::tasks::build;
use crate::workspace;

/// Length of the stress, and its seed.
#[derive(clap::Args)]
pub struct Args {
    /// Seconds that it takes
    #[arg(long, default_value_t = 1200)]
    seconds: u64,
    /// What chance is made from; printed, so that a run can be repeated
    #[arg(long)]
    seed: Option<u64>,
}

/// Builds the program, and the command line, which reads some of its streams, and runs it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    build::run()?;
    let mut command = workspace::cargo("run");
    command
        .args(["--release", "--package=tests", "--bin=stress", "--"])
        .arg(args.seconds.to_string())
        .args(args.seed.map(|seed| seed.to_string()))
        .env(
            "TRACER_USER",
            workspace::root().join("target/shipped/tracer-user"),
        );
    process::run(&mut command)
}
