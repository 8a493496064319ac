//! `tracer-user report`: shows a log as a page in one file; and `--report`: a page of a trace,
//! which is made when the trace has ended.

use std::path::PathBuf;
use std::process::ExitCode;

use tracer_answers::html_report::{PageSetup, ReportSetup, SLOWEST, make};
use tracer_answers::queries::SpanSpec;
use tracer_engine::{LogFullPolicy, StreamFullPolicy};
use tracer_live::Setup;
use tracer_log_view::log_output::{Existing, LogSetup};
use tracer_output::terminal::Outcome;

use super::log_filter::{FILTER_HEADING, LogFilterArgs};
use super::{exit, output_beside};

/// Make a page of a trace log: a timeline and tables in one file, for a browser
///
/// The page is one file of HTML. It is opened from disk, and needs neither a network nor a server:
/// it may be sent on, and can load nothing. It shows what each thread did as time went by (it ran,
/// was runnable, blocked, stopped), spans, system calls, events as marks, which thread each CPU
/// ran, interrupts, when events were lost; and the tables of `tracer-user stat`, whose rows lead
/// into the timeline. What is selected is explained; of the slowest spans there is the critical
/// path, as `tracer-user why` has it. Where the log has stacks, as --sample, --off-cpu and --stack
/// record them, there are the flame graphs of `tracer-user stat --flame`.
///
/// In the page, W and S zoom, A and D move, as the wheel (with Ctrl) and the mouse (with Shift) do;
/// F shows what is selected as large as possible, M marks it, / searches, ? shows all keys. It
/// needs a browser of 2023 or later.
///
/// The page has the names of threads and the data of events: send it only to readers who may see
/// those.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// The log
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The file to write, or `-` for the standard output; without it, the log's name with .html. It
    /// appears once all of it is written
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Replace what is there already
    #[arg(long)]
    force: bool,
    /// Explain so many spans one by one, the slowest
    #[arg(long, value_name = "COUNT", default_value_t = SLOWEST)]
    slowest: usize,
    /// Which spans, as `tracer-user why` takes them; without it, all pairs of user events whose
    /// names say so
    #[arg(long, value_name = "SPAN")]
    span: Vec<String>,
    #[command(flatten)]
    filter: LogFilterArgs,
    /// Only events up to this moment, given as for --from
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        help_heading = FILTER_HEADING
    )]
    until: Option<String>,
}

/// Checked configuration of `report`.
#[derive(Clone, Debug)]
pub struct ReportConfig {
    setup: ReportSetup,
}

impl TryFrom<ReportArgs> for ReportConfig {
    type Error = anyhow::Error;

    fn try_from(args: ReportArgs) -> anyhow::Result<Self> {
        let spans = args.span.iter().map(|typed| SpanSpec::parse(typed));
        Ok(Self {
            setup: ReportSetup {
                spans: spans.collect::<anyhow::Result<_>>()?,
                wanted: args.filter.wanted(args.until.as_deref())?,
                title: None,
                output: output_beside(args.output, &args.file, "html"),
                file: args.file,
                force: args.force,
                slowest: args.slowest,
            },
        })
    }
}

/// Makes the page.
///
/// # Errors
///
/// The log cannot be read, or the output is there already or cannot be written.
pub fn run(config: &ReportConfig) -> anyhow::Result<ExitCode> {
    make(&config.setup).map(exit::from_outcome)
}

/// Traces as `setup` says, and makes the page of the trace, if one is requested. Returns how the
/// trace ended, and whether all of it is in the page.
///
/// # Errors
///
/// `trace` fails, or the page cannot be made.
pub fn with_page<T>(
    page: Option<&PageSetup>,
    setup: &Setup,
    trace: impl FnOnce(&Setup) -> anyhow::Result<T>,
) -> anyhow::Result<(T, Outcome)> {
    let Some(page) = page else {
        return Ok((trace(setup)?, Outcome::Complete));
    };
    let log = setup.log.as_ref().map(|log| log.path.as_path());
    let page = page.begin(log)?;
    let mut setup = setup.clone();
    let (stream_bytes, inherit) = (setup.buffers.stream_bytes, setup.followed.children);
    let stream_name = setup.recording.stream_name();
    setup.log.get_or_insert_with(|| LogSetup {
        path: page.log().to_owned(),
        existing: Existing::Stays,
        max_size: 0,
        policy: LogFullPolicy::Append,
        stream_policy: StreamFullPolicy::Flush,
        stream_bytes,
        inherit,
        snapshots: None,
        stream_name,
    });
    let traced = trace(&setup)?;
    Ok((traced, page.make()?))
}
