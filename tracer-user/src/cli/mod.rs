//! The command line: what was typed, checked, and done.

mod attach;
mod doctor;
mod events;
mod exit;
mod export;
mod info;
mod log_filter;
mod log_options;
mod probe_options;
mod probes;
mod quantity;
mod read;
mod run;
mod trace_options;

use std::process::ExitCode;

use std::io::{self, Write};

use anyhow::Context;
use clap::Parser;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

use crate::report::escape::harmless_lines;

pub use quantity::time;

/// Traces running processes: system events from the kernel and the program's own user events in one
/// timeline.
#[derive(Debug, Parser)]
#[command(name = "tracer-user", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 done, but events were lost, or the log is damaged or was not completed; 2 failed. \
`run` ends with the status of the command when that is not 0.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Attach(attach::AttachArgs),
    Run(run::RunArgs),
    Read(read::ReadArgs),
    Info(info::InfoArgs),
    Export(export::ExportArgs),
    Probes(probes::ProbesArgs),
    Doctor(doctor::DoctorArgs),
    Events(events::EventsArgs),
}

/// The command line's definition, for what is generated from it.
#[must_use]
pub fn definition() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// The program: reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(cli) => exit::code(dispatch(cli.command)),
        Err(error) => refuse(&error),
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Attach(args) => attach::run(&args.try_into()?),
        Command::Run(args) => run::run(&args.try_into()?),
        Command::Read(args) => read::run(&args.try_into()?),
        Command::Info(args) => info::run(&args.into()),
        Command::Export(args) => export::run(&args.try_into()?),
        Command::Probes(args) => probes::run(&args.try_into()?),
        Command::Doctor(args) => doctor::run(&args.into()),
        Command::Events(args) => events::run(&args.into()),
    }
}

/// Help is printed as it is; of a complaint, what is wrong on one line.
fn refuse(error: &clap::Error) -> ExitCode {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if is_help {
        // Who has closed the pipe wants no more help.
        let _ = error.print();
        return if error.use_stderr() {
            exit::FAILED.into()
        } else {
            ExitCode::SUCCESS
        };
    }
    exit::code(Err(anyhow::anyhow!("{}", one_line(&error.to_string()))))
}

/// The first paragraph of a complaint: what is wrong. The usage that follows is in the help.
fn one_line(complaint: &str) -> String {
    let paragraph = complaint.lines().take_while(|line| !line.is_empty());
    let words: Vec<&str> = paragraph.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{line} (see --help)")
}

/// The number of a process.
fn pid(typed: &str) -> anyhow::Result<i32> {
    let pid = typed.parse().ok().filter(|pid| *pid > 0);
    pid.with_context(|| format!("{typed:?} is no pid; give the number of a process, such as 1234"))
}

/// Lets the tool tell what it does, on the standard error. `TRACER_LOG` chooses otherwise.
fn observe(is_verbose: bool) {
    let level = if is_verbose { "debug" } else { "warn" };
    let filter = EnvFilter::try_from_env("TRACER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // A second subscriber is refused, and the first goes on: that is no failure.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Harmless(std::io::stderr()))
        // What is told of may be called anything.
        .with_ansi(false)
        .with_target(false)
        .try_init();
}

/// Writes messages in which names of others may stand.
struct Harmless<W>(W);

impl<W: Write> Write for Harmless<W> {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        self.0.write_all(harmless_lines(&text).as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_positive_numbers_are_pids() {
        assert_eq!(pid("1234").unwrap(), 1234);
        for typed in ["0", "-1", "me", "", "99999999999", "12 "] {
            assert!(pid(typed).is_err(), "{typed}");
        }
    }

    #[test]
    fn a_complaint_is_one_line_without_the_usage() {
        let complaint = Cli::try_parse_from(["tracer-user", "attach", "--no-such"]).unwrap_err();
        assert_eq!(
            one_line(&complaint.to_string()),
            "unexpected argument '--no-such' found (see --help)"
        );
        let complaint = Cli::try_parse_from(["tracer-user", "attach"]).unwrap_err();
        assert_eq!(
            one_line(&complaint.to_string()),
            "the following required arguments were not provided: <PID>... (see --help)"
        );
    }
}
