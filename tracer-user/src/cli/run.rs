//! `tracer-user run`: starts a command and traces it from its first instruction.

use std::ffi::OsString;
use std::process::ExitCode;

use super::trace_options::TraceArgs;
use super::{exit, observe};
use crate::trace::{self, Setup};

/// Start a command and trace it, with its children, from its first instruction
///
/// Ends when the command and the children that are traced have ended, with the status of the command
/// when that is not 0 (128 and the signal's number when a signal ended it), or else as `attach` does.
/// A command that cannot be started: 2. Ctrl-C goes to the command; a second one ends the trace.
/// The command writes to the same standard output as the trace: `--output` keeps them apart.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// The command, with its arguments
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// What `run` does, checked.
#[derive(Clone, Debug)]
pub struct RunConfig {
    command: Vec<OsString>,
    setup: Setup,
}

impl TryFrom<RunArgs> for RunConfig {
    type Error = anyhow::Error;

    fn try_from(args: RunArgs) -> anyhow::Result<Self> {
        Ok(Self {
            command: args.command,
            setup: args.trace.try_into()?,
        })
    }
}

/// Starts the command and traces it.
///
/// # Errors
///
/// It cannot be started or traced.
pub fn run(config: &RunConfig) -> anyhow::Result<ExitCode> {
    observe(config.setup.verbose);
    let (outcome, status) = trace::launch(&config.command, &config.setup)?;
    let failed = status.and_then(exit::of_command);
    Ok(failed.unwrap_or_else(|| exit::of_outcome(outcome)))
}
