//! `tracer-user compare`: what became slower from some logs to others, and why.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};

use super::exit;
use super::output_options::{BudgetArgs, FormatArgs};
use tracer_answers::budget::Budget;
use tracer_answers::compare::{Comparison, Run, json, page, text};
use tracer_answers::queries::SpanSpec;
use tracer_log_view::{Output, Walk, WantedEvents, open};
use tracer_output::destination::Destination;
use tracer_output::output_file::is_same_file;
use tracer_output::terminal::output::{Sink, is_stdout};

/// Say what became slower between two logs, or several of each kind, and which causes explain it
///
/// Spans of the same name are compared with each other, and the first process of each log as a
/// whole. Their time is parted by critical paths, as `tracer-user why` has them; the causes whose
/// time differs most come first, with the system calls that belong to them. It is said how often
/// chance alone would make such a difference: by dealing the runs out anew to both sides, or, with
/// one log each, portions of their spans. What differs by less than a tenth is no difference.
///
/// Logs need switches and wake-ups, which are recorded by default; --syscalls all, when they are
/// recorded, says which calls are made more often or take longer. Locks (--locks) and stacks
/// (--sample, --off-cpu) are set beside each other, by names that are the same in another run.
///
/// With --output, a page of HTML has all of it, with a timeline of each side: of a span, or of the
/// process, that took about as long as half of them.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// The log of before
    #[arg(value_name = "A", required_unless_present = "a", requires = "after")]
    before: Option<PathBuf>,
    /// The log of after
    #[arg(value_name = "B")]
    after: Option<PathBuf>,
    /// Logs of before: a file, or a pattern such as 'old*.log'. May be given again
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["before", "after"], requires = "b")]
    a: Vec<String>,
    /// Logs of after, likewise
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["before", "after"], requires = "a")]
    b: Vec<String>,
    /// Which spans, as `tracer-user why` takes them; without it, all pairs of user events whose
    /// names say so
    #[arg(long, value_name = "SPAN")]
    span: Vec<String>,
    /// Make a page too, one file for a browser, which loads nothing; `-` for the standard output,
    /// instead of text
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace what is there already
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    budget: BudgetArgs,
}

/// Checked configuration of `compare`.
#[derive(Clone, Debug)]
pub struct CompareConfig {
    a: Vec<PathBuf>,
    b: Vec<PathBuf>,
    spans: Vec<SpanSpec>,
    output: Option<PathBuf>,
    is_replaced: bool,
    is_json: bool,
    budget: Budget,
}

impl TryFrom<CompareArgs> for CompareConfig {
    type Error = anyhow::Error;

    fn try_from(args: CompareArgs) -> anyhow::Result<Self> {
        let spans = args.span.iter().map(|typed| SpanSpec::parse(typed));
        Ok(Self {
            a: files(args.before, "--a", &args.a)?,
            b: files(args.after, "--b", &args.b)?,
            spans: spans.collect::<anyhow::Result<_>>()?,
            output: args.output,
            is_replaced: args.force,
            is_json: args.format.is_json(),
            budget: args.budget.budget(args.format.is_json(), &Sink::Stdout)?,
        })
    }
}

/// Returns the given file, or those that patterns mean, each once.
fn files(file: Option<PathBuf>, option: &str, patterns: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = file.into_iter().collect();
    for pattern in patterns {
        let before = files.len();
        // A file may be called anything.
        if Path::new(pattern).exists() {
            files.push(pattern.into());
            continue;
        }
        let found = glob::glob(pattern)
            .with_context(|| format!("{option} {pattern} is no pattern of file names"))?;
        files.extend(found.filter_map(Result::ok));
        ensure!(
            files.len() > before,
            "{option} {pattern} matches no file; `ls` shows what there is"
        );
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Ensures that the page that is asked for can be written, before anything else is done.
fn destination(config: &CompareConfig) -> anyhow::Result<Option<Destination>> {
    let Some(output) = &config.output else {
        return Ok(None);
    };
    let mut logs = config.a.iter().chain(&config.b);
    let log = logs.find(|log| is_same_file(output, log));
    let log = log.map(PathBuf::as_path);
    Destination::file(output, log, config.is_replaced).map(Some)
}

/// Shows the comparison.
///
/// # Errors
///
/// A log cannot be read, they have nothing in common, or the lines cannot be written.
pub fn run(config: &CompareConfig) -> anyhow::Result<ExitCode> {
    let destination = destination(config)?;
    let has_timelines = destination.is_some();
    let runs = |files: &[PathBuf]| -> anyhow::Result<Vec<Run>> {
        let runs = files.iter().map(|file| {
            let walk = Walk::new(open(file)?, WantedEvents::default());
            Run::take(file, walk, config.spans.clone(), has_timelines)
        });
        runs.collect()
    };
    let comparison = Comparison::new(runs(&config.a)?, runs(&config.b)?);
    ensure!(
        !comparison.is_empty(),
        "the logs have no spans of the same name, and no process of which switches were recorded \
         (--events switch,wakeup, or what is recorded by default); `tracer-user info` shows what \
         they have"
    );
    if let Some(destination) = destination {
        let mut writer = destination.writer()?;
        writer.write_all(page(&comparison).as_bytes())?;
        writer.flush()?;
        drop(writer);
        destination.complete()?;
    }
    let has_stdout = config.output.as_deref().is_some_and(is_stdout);
    if has_stdout {
        return Ok(exit::from_outcome(comparison.outcome()));
    }
    let shown = if config.is_json {
        config.budget.document(&json(&comparison))
    } else {
        config.budget.text(text(&comparison))
    };
    let mut output = Output::open(&Sink::Stdout, Path::new(""))?;
    output.lines().bytes().extend_from_slice(shown.as_bytes());
    output.flush()?;
    Ok(exit::from_outcome(comparison.outcome()))
}
