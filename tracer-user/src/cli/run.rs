//! `tracer-user run`: starts a command and traces it from its first instruction.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use super::exit;
use super::report::with_page;
use super::trace_options::TraceArgs;
use tracer_answers::html_report::PageSetup;
use tracer_live::Setup;
use tracer_output::terminal::Outcome;
use tracer_output::terminal::output::Sink;

/// Start a command and trace it, with its children, from its first instruction
///
/// Ends when the command and the children that are traced have ended, with the status of the
/// command when that is not 0 (128 and the signal number when a signal ended it), or else as
/// `attach` does. A command that cannot be started: 2. Ctrl-C goes to the command; a second one
/// ends the trace.
///
/// The command has the standard output for itself. Events go to the standard error, as those of
/// strace and perf trace do, or to the file that --output names; `--output -` mixes them with what
/// the command writes.
///
/// Without root, the command is traced through the service, as `attach` does.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// The command, with its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

#[cfg(test)]
impl RunArgs {
    /// Returns the words of the command.
    pub fn command(&self) -> &[OsString] {
        &self.command
    }
}

/// Checked configuration of `run`.
#[derive(Clone, Debug)]
pub struct RunConfig {
    command: Vec<OsString>,
    setup: Setup,
    page: Option<PageSetup>,
}

impl TryFrom<RunArgs> for RunConfig {
    type Error = anyhow::Error;

    fn try_from(args: RunArgs) -> anyhow::Result<Self> {
        let command = args.command;
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let page = args.trace.page(words.join(" "))?;
        Ok(Self {
            setup: args.trace.setup(Sink::Stderr)?,
            command,
            page,
        })
    }
}

/// Starts the command and traces it.
///
/// # Errors
///
/// The command cannot be started or traced.
pub fn run(config: &RunConfig) -> anyhow::Result<ExitCode> {
    let launch = |setup: &Setup| tracer_live::launch(&config.command, setup);
    let ((traced, status), shown) = with_page(config.page.as_ref(), &config.setup, launch)?;
    Ok(code(traced.and(shown), status))
}

/// Starts a command and traces it. Returns its status when that is not 0, else whether the trace is
/// complete; `shown` is asked at the end whether what was shown is.
///
/// # Errors
///
/// The command cannot be started or traced.
pub fn launch(
    command: &[OsString],
    setup: &Setup,
    shown: impl FnOnce() -> Outcome,
) -> anyhow::Result<ExitCode> {
    let (outcome, status) = tracer_live::launch(command, setup)?;
    Ok(code(outcome.and(shown()), status))
}

/// Returns the status of the command when that is not 0, else whether the trace is complete.
fn code(outcome: Outcome, status: Option<ExitStatus>) -> ExitCode {
    let failed = status.and_then(exit::from_command);
    failed.unwrap_or_else(|| exit::from_outcome(outcome))
}
