//! Command line: parses the arguments, checks them, and runs the command.

mod advice;
mod agent_help;
mod asked_for_json;
mod attach;
mod compare;
mod completion;
mod cost_options;
mod count_options;
mod debuginfod;
mod doctor;
mod events;
mod exit;
mod explain;
mod export;
mod info;
mod live_export_options;
mod log_filter;
mod log_options;
pub mod manual;
mod mcp;
mod output_options;
mod predicate_options;
mod probe_options;
mod probes;
mod read;
mod report;
mod run;
mod schema;
mod serve;
mod ship;
mod ship_options;
mod short_help;
mod snapshot;
mod source_options;
mod stack_options;
mod stat;
mod target_options;
mod top;
mod trace_options;
mod tracepoint_list;
mod trigger_options;
mod why;
mod why_now;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use std::io::{self, Write};

use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{FromArgMatches, Parser};
use tracing_subscriber::EnvFilter;

use exit::FailureForm;
use tracer_output::terminal::survive_file_limit;
use tracer_text::escape::harmless_lines;
use tracer_text::say;

pub use tracer_text::quantity::time;

/// Traces running processes: system events from the kernel and the program's own user events in one
/// timeline.
#[derive(Debug, Parser)]
#[command(name = "tracer-user", version)]
struct Cli {
    /// Say on the standard error what is being done
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Attach(attach::AttachArgs),
    Run(run::RunArgs),
    Read(read::ReadArgs),
    Info(info::InfoArgs),
    Stat(stat::StatArgs),
    Why(why::WhyArgs),
    Compare(compare::CompareArgs),
    Explain(explain::ExplainArgs),
    Top(top::TopArgs),
    Report(report::ReportArgs),
    Export(export::ExportArgs),
    Probes(probes::ProbesArgs),
    Doctor(doctor::DoctorArgs),
    Events(events::EventsArgs),
    Snapshot(snapshot::SnapshotArgs),
    Ship(ship::ShipArgs),
    Serve(serve::ServeArgs),
    Mcp(mcp::McpArgs),
    Completion(completion::CompletionArgs),
}

/// Returns the command line's definition, for the texts that are generated from it.
#[must_use]
pub fn definition() -> clap::Command {
    let plain = schema::add(<Cli as clap::CommandFactory>::command());
    manual::complete(short_help::shorten(plain))
}

/// Runs the program: parses the command line and runs its command.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = completion::answer(definition) {
        return code;
    }
    if agent_help::is_asked(std::env::args_os().skip(1)) {
        return exit::code(agent_help::print(), FailureForm::InWords);
    }
    if let Some(command) = schema::asked(std::env::args_os().skip(1)) {
        return exit::code(schema::print(&command), FailureForm::AsJson);
    }
    let typed = definition().try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((
            cli,
            FailureForm::choose(asked_for_json::in_matches(&matches)),
        ))
    });
    match typed {
        Ok((cli, told)) => {
            observe(cli.verbose);
            survive_file_limit();
            exit::code(dispatch(cli.command), told)
        }
        Err(error) => refuse(&error),
    }
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Attach(args) => attach::run(&args.try_into()?),
        Command::Run(args) => run::run(&args.try_into()?),
        Command::Read(args) => read::run(&args.try_into()?),
        Command::Info(args) => info::run(&args.try_into()?),
        Command::Stat(args) => stat::run(&args.try_into()?),
        Command::Why(args) if args.now => why_now::run(&args.try_into()?),
        Command::Why(args) => why::run(&args.try_into()?),
        Command::Compare(args) => compare::run(&args.try_into()?),
        Command::Explain(args) => explain::run(&args.try_into()?),
        Command::Top(args) => top::run(&args.try_into()?),
        Command::Report(args) => report::run(&args.try_into()?),
        Command::Export(args) => export::run(&args.try_into()?),
        Command::Probes(args) => probes::run(&args.try_into()?),
        Command::Doctor(args) => doctor::run(&args.into()),
        Command::Events(args) => events::run(&args.try_into()?),
        Command::Snapshot(args) => snapshot::run(&args),
        Command::Ship(args) => ship::run(&args),
        Command::Mcp(args) => mcp::run(&args),
        Command::Serve(args) => serve::run(&args.try_into()?),
        Command::Completion(args) => completion::run(&args),
    }
}

/// Prints help unchanged; of a parse error, prints the cause on one line.
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
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let line = misplaced(error, &words).unwrap_or_else(|| one_line(error));
    let words = words.into_iter();
    let told = FailureForm::choose(asked_for_json::in_words(&definition(), words));
    exit::code(Err(anyhow::anyhow!("{line}")), told)
}

/// Describes an option that stands before the command that has it; `None` where it is none.
fn misplaced(complaint: &clap::Error, typed: &[OsString]) -> Option<String> {
    let is_unknown = complaint.kind() == ErrorKind::UnknownArgument;
    let option = word(complaint, ContextKind::InvalidArg).filter(|_| is_unknown)?;
    let long = option.strip_prefix("--")?;
    let definition = definition();
    let words = typed.iter().map_while(|word| word.to_str());
    let mut words = words.take_while(|word| *word != "--");
    let is_first = typed.first()?.to_str()?.starts_with('-');
    let command = words.find_map(|word| definition.find_subcommand(word))?;
    let mut options = command.get_arguments();
    let is_its = options.any(|option| option.get_long() == Some(long));
    let name = command.get_name();
    (is_first && is_its).then(|| {
        format!("{option} is an option of {name}: give it behind that word, `tracer-user {name} {option}`")
    })
}

/// Formats the cause, and the suggestion if there is one. The usage that follows is in the help.
fn one_line(complaint: &clap::Error) -> String {
    let typed = match complaint.kind() {
        ErrorKind::UnknownArgument => word(complaint, ContextKind::InvalidArg),
        ErrorKind::InvalidSubcommand => word(complaint, ContextKind::InvalidSubcommand),
        _ => None,
    };
    let what = match typed {
        Some(option) if option.starts_with('-') => format!("there is no option {option}"),
        Some(command) if complaint.kind() == ErrorKind::InvalidSubcommand => {
            format!("there is no command {command}")
        }
        Some(argument) => {
            format!("{argument:?} is one word too many: nothing is to stand there; leave it out")
        }
        _ => first_paragraph(&complaint.to_string())
            .replace("invalid digit found in string", "give a whole number"),
    };
    let meant = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ];
    let meant = meant.into_iter().find_map(|kind| word(complaint, kind));
    let meant = meant.map_or_else(String::new, |meant| format!("; is {meant} meant?"));
    format!("{what}{meant}")
}

/// Returns the word of this kind that an error names; the likeliest when it names several.
fn word(complaint: &clap::Error, kind: ContextKind) -> Option<&str> {
    match complaint.get(kind)? {
        ContextValue::String(word) => Some(word),
        ContextValue::Strings(words) => words.last().map(String::as_str),
        _ => None,
    }
}

fn first_paragraph(complaint: &str) -> String {
    let paragraph = complaint.lines().take_while(|line| !line.is_empty());
    let words: Vec<&str> = paragraph.flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// Parses the number of a process.
fn pid(typed: &str) -> anyhow::Result<i32> {
    let pid = typed.parse().ok().filter(|pid| *pid > 0);
    pid.with_context(|| format!("{typed:?} is no pid; give the number of a process, such as 1234"))
}

/// Returns the given output, or else a name beside the log's, which is reported.
fn output_beside(given: Option<PathBuf>, log: &Path, extension: &str) -> PathBuf {
    given.unwrap_or_else(|| {
        let output = log.with_extension(extension);
        say(&format!("to {}", output.display()));
        output
    })
}

/// Makes the tool report its actions on the standard error. `TRACER_LOG` sets another level.
fn observe(is_verbose: bool) {
    let level = if is_verbose { "debug" } else { "warn" };
    let filter = EnvFilter::try_from_env("TRACER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // A second subscriber is refused, and the first goes on: that is no failure.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Harmless(std::io::stderr()))
        // What is reported may be called anything.
        .with_ansi(false)
        .with_target(false)
        .try_init();
}

/// Writer of messages that may contain names chosen by others.
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
    fn only_positive_integers_are_pids() {
        assert_eq!(pid("1234").unwrap(), 1234);
        for typed in ["0", "-1", "me", "", "99999999999", "12 "] {
            assert!(pid(typed).is_err(), "{typed}");
        }
    }

    fn complaint(typed: &[&str]) -> String {
        let words = std::iter::once(&"tracer-user").chain(typed);
        one_line(&Cli::try_parse_from(words).unwrap_err())
    }

    #[test]
    fn a_complaint_is_one_line_without_the_usage() {
        assert_eq!(
            complaint(&["attach", "--xyzzy"]),
            "there is no option --xyzzy"
        );
        assert_eq!(
            complaint(&["attach"]),
            "the following required arguments were not provided: <PID>..."
        );
    }

    #[test]
    fn a_word_too_many_and_an_option_too_early_are_told_from_unknown_ones() {
        assert_eq!(
            complaint(&["events", "x y"]),
            "\"x y\" is one word too many: nothing is to stand there; leave it out"
        );
        let misplaced = |typed: &[&str]| {
            let words = std::iter::once(&"tracer-user").chain(typed);
            let refused = Cli::try_parse_from(words).unwrap_err();
            let typed: Vec<OsString> = typed.iter().map(OsString::from).collect();
            misplaced(&refused, &typed)
        };
        let said = misplaced(&["--format", "json", "info", "log"]).unwrap();
        assert!(said.contains("`tracer-user info --format`"), "{said}");
        assert_eq!(misplaced(&["--xyzzy", "info", "log"]), None);
        assert_eq!(misplaced(&["info", "--xyzzy", "log"]), None);
        assert_eq!(misplaced(&["--format", "json"]), None);
    }

    #[test]
    fn a_slip_of_the_pen_is_answered_with_what_may_be_meant() {
        for (typed, meant) in [
            (
                &["atach", "1"][..],
                "there is no command atach; is attach meant?",
            ),
            (
                &["attach", "--event", "x"],
                "there is no option --event; is --events meant?",
            ),
            (
                &["run", "--event", "fork", "ls"],
                "no option --event; is --events meant?",
            ),
            (
                &["run", "--formt", "json", "--", "ls"],
                "--formt; is --format meant?",
            ),
            (&["read", "log", "--formta"], "--formta; is --format meant?"),
            (&["attach", "1", "--format", "jsn"], "is json meant?"),
        ] {
            let line = complaint(typed);
            assert!(line.contains(meant), "{typed:?}: {line}");
        }
    }

    #[test]
    fn what_is_done_may_be_asked_for_before_or_after_the_command() {
        for typed in [
            ["-v", "attach", "1"],
            ["attach", "-v", "1"],
            ["attach", "1", "-v"],
        ] {
            let words = std::iter::once("tracer-user").chain(typed);
            assert!(Cli::try_parse_from(words).unwrap().verbose, "{typed:?}");
        }
    }

    #[test]
    fn the_options_of_a_command_are_its_own() {
        let line = ["tracer-user", "run", "ls", "--events", "-v", "--", "x"];
        let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(args.command(), &line[2..]);
    }
}
