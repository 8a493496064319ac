//! `tracer-user top`: the current activity of threads, and the reasons for the length of spans.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, ensure};
use tracer_engine::event::MonotonicNs;

use super::exit;
use super::output_options::FormatArgs;
use super::predicate_options::PredicateArgs;
use super::probe_options::ProbeArgs;
use super::source_options::{EventSource, SourceArgs};
use super::stack_options::StackArgs;
use tracer_answers::queries::SpanSpec;
use tracer_live::{may_trace_kernel, own_processes_with_areas};
use tracer_log_view::{Moment, TimePoint};
use tracer_text::quantity::time;
use tracer_text::say;
use tracer_top::{OnceForm, PlayedLog, TopSetup, Window, show_live, show_log, show_once};

/// Watch what threads do, and why spans take as long as they do, live or in a log
///
/// For each thread, by process: how long it ran, waited for a CPU and was blocked in the last
/// second, and how much it ran in each second of the last minute; switches and wake-ups, the worst
/// wait for a CPU after a wake-up, system calls and user events; what it is in now, and what it
/// waits for. For spans: how many, how long they take, where their time goes, and why the slowest
/// of the last ten seconds took that long. The figures are those of `tracer-user stat` and `why`.
///
/// Without a PID, a log or an option that chooses processes, all processes are watched.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Processes to watch, or a log (with a / in its name where that is digits alone)
    #[arg(value_name = "PID|LOG")]
    what: Vec<String>,
    /// Processes to watch, separated by commas, as `stat` and `why` take them
    #[arg(
        short,
        long,
        value_name = "PID",
        value_delimiter = ',',
        conflicts_with_all = ["what", "comm", "cgroup", "all"]
    )]
    pid: Vec<String>,
    /// Watch the processes of this name: 'redis*'
    #[arg(long, value_name = "NAME", conflicts_with_all = ["what", "cgroup", "all"])]
    comm: Option<String>,
    /// Watch the processes in this control group: its path, a systemd unit, or the identifier of a
    /// container
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["what", "all"])]
    cgroup: Option<String>,
    /// Watch every process but this one, as without any of these
    #[arg(long, conflicts_with = "what")]
    all: bool,
    /// Which spans, as `tracer-user why` takes them; without it, all pairs of user events whose
    /// names say so
    #[arg(long, value_name = "SPAN")]
    span: Vec<String>,
    /// Print one screen as text, and end: of a log its end, else after --window
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    format: FormatArgs,
    /// Which time is summed up: the last so long, at most 10s, or all since the beginning
    #[arg(long, value_name = "TIME", default_value = "1s")]
    window: String,
    /// Of a log: the moment that is shown first, or by --once: a time since its start (1.5s), or a
    /// date
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    at: Option<String>,
    /// End after so long: 10s, 500ms, 1m
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// Record these system calls too, separated by commas: names, patterns ('*at'), classes of
    /// strace (%file, %network), /regular expressions/, or all; those with ! are taken out
    #[arg(long, value_name = "LIST")]
    syscalls: Option<String>,
    /// Record these too: families or types, separated by commas (`tracer-user events` lists them)
    #[arg(long, value_name = "LIST")]
    add_events: Vec<String>,
    /// Watch who wakes these too, from then on, but not their children; 256 at most
    #[arg(long)]
    follow_wakers: bool,
    #[command(flatten)]
    probes: ProbeArgs,
    /// Watch user events alone, which needs no rights for one's own processes; so it is anyway
    /// where there are none and no service gives the kernel's events
    #[arg(long, conflicts_with_all = ["comm", "cgroup", "all", "follow_wakers"])]
    no_system: bool,
    /// Each ring between kernel and tracer
    #[arg(long, value_name = "SIZE", default_value = "2M")]
    ring_size: String,
    /// Where the kernel does not describe its types (/sys/kernel/btf/vmlinux): take them from this
    /// file, BTF or an ELF file with a section .BTF, such as vmlinux. It must be of the very kernel
    /// that runs, which is checked
    #[arg(long, value_name = "FILE", conflicts_with = "no_system")]
    btf: Option<PathBuf>,
}

/// Checked configuration of `top`.
#[derive(Clone, Debug)]
pub struct TopConfig {
    source: EventSource,
    spans: Vec<SpanSpec>,
    window: Window,
    is_once: bool,
    /// Format of a single screen.
    form: OnceForm,
    /// Whether the screen stays when the trace ends.
    stays: bool,
    /// Moment of a log that is shown first.
    at: Option<TimePoint>,
}

impl TryFrom<TopArgs> for TopConfig {
    type Error = anyhow::Error;

    fn try_from(args: TopArgs) -> anyhow::Result<Self> {
        let spans = args.span.iter().map(|typed| SpanSpec::parse(typed));
        let spans: Vec<SpanSpec> = spans.collect::<anyhow::Result<_>>()?;
        let window = window(&args.window)?;
        let form = if args.format.is_json() {
            OnceForm::Json
        } else {
            OnceForm::Text
        };
        ensure!(
            args.once || form == OnceForm::Text,
            "--format json goes with --once: it is of one screen"
        );
        let (file, mut pid) = what([args.what, args.pid].concat())?;
        let is_chosen = args.comm.is_some() || args.cgroup.is_some();
        let has_none = file.is_none() && pid.is_empty() && !is_chosen && !args.all;
        // A user who asks for kernel events gets a message that says what is missing for them.
        let wants_kernel = is_chosen || args.all || args.follow_wakers || args.syscalls.is_some();
        let lacks_rights = file.is_none() && !wants_kernel && !may_trace_kernel();
        let no_system = args.no_system || lacks_rights;
        if lacks_rights && !args.no_system {
            say(
                "user events alone: for what the kernel does run it with sudo, or have the service \
                 (sudo systemctl enable --now tracer-user.socket)",
            );
        }
        if no_system && has_none {
            pid = own_processes_with_areas()
                .into_iter()
                .map(|pid| pid.to_string())
                .collect();
            ensure!(
                !pid.is_empty(),
                "none of your processes can emit user events (none has the library loaded): give a \
                 pid to wait for some, or watch what the kernel does with sudo"
            );
        }
        let is_all = args.all || (has_none && !no_system);
        let at = args.at.map(|typed| TimePoint::parse("--at", &typed));
        let at = at.transpose()?;
        ensure!(
            at.is_none() || file.is_some(),
            "--at goes with a log: it counts from its start"
        );
        let has_live_option = args.duration.is_some()
            || args.syscalls.is_some()
            || !args.add_events.is_empty()
            || args.btf.is_some()
            || args.follow_wakers;
        ensure!(
            file.is_none() || !has_live_option,
            "--duration, --syscalls, --add-events, --btf and --follow-wakers go with processes; a \
             log has what was recorded"
        );
        let (is_once, stays) = (args.once, args.duration.is_none());
        let duration = match (window, args.duration) {
            (_, Some(typed)) => Some(typed),
            // Where it begins little is known: that is not shown.
            (Window::Last(ns), None) if args.once => Some(format!("{}ms", ns / 1_000_000 + 100)),
            (Window::All, None) if args.once && file.is_none() => {
                bail!("--once --window all needs --duration: how long to watch, such as 10s")
            }
            (Window::Last(_) | Window::All, None) => None,
        };
        let source = SourceArgs {
            file,
            pid,
            comm: args.comm,
            cgroup: args.cgroup,
            all: is_all,
            follow_wakers: args.follow_wakers,
            duration,
            syscalls: args.syscalls,
            add_events: args.add_events,
            locks: false,
            trace_context: false,
            predicate: PredicateArgs::default(),
            probes: args.probes,
            ring_size: args.ring_size,
            btf: args.btf,
            stack: StackArgs::default(),
            no_system,
            command: Vec::new(),
        };
        let mut source = source.source(&spans, &[])?;
        if let EventSource::Log(_, wanted) = &mut source
            && is_once
        {
            wanted.to = at;
        }
        Ok(Self {
            source,
            spans,
            window,
            is_once,
            form,
            stays,
            at,
        })
    }
}

/// Parses the window that is summed up.
fn window(typed: &str) -> anyhow::Result<Window> {
    if typed == "all" {
        return Ok(Window::All);
    }
    let window = time("--window", typed)?;
    let ns = u64::try_from(window.as_nanos())?;
    ensure!(
        (1_000_000..=10_000_000_000).contains(&ns),
        "--window is {typed}, and must be from 1ms to 10s, or all"
    );
    Ok(Window::Last(ns))
}

/// Separates a log from pids.
fn what(typed: Vec<String>) -> anyhow::Result<(Option<PathBuf>, Vec<String>)> {
    let is_pid = |word: &String| {
        word.bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',')
    };
    if typed.iter().all(is_pid) {
        let pids = typed.iter().flat_map(|words| words.split(','));
        return Ok((None, pids.map(str::to_owned).collect()));
    }
    let mut typed = typed.into_iter();
    match (typed.next(), typed.next()) {
        (Some(file), None) => {
            let is_there = Path::new(&file).exists();
            ensure!(
                is_there,
                "{file:?} is neither a pid nor a log that is there; give the pid of a process, such \
                 as 1234, or the file that `attach --log` has made"
            );
            Ok((Some(file.into()), Vec::new()))
        }
        _ => bail!("give one log, or pids"),
    }
}

/// Shows the screen.
///
/// # Errors
///
/// The log cannot be read, the processes cannot be traced, or the screen cannot be drawn.
pub fn run(config: &TopConfig) -> anyhow::Result<ExitCode> {
    let (spans, window) = (config.spans.clone(), config.window);
    let live = match &config.source {
        EventSource::Log(file, wanted) if config.is_once => {
            return show_once(file, wanted, spans, (window, config.form)).map(exit::from_outcome);
        }
        EventSource::Log(file, wanted) => {
            let recording = PlayedLog {
                file: file.clone(),
                wanted: (**wanted).clone(),
                spans,
                at: config.at.map_or(Ok(0), since_start)?,
            };
            return show_log(recording, window).map(exit::from_outcome);
        }
        EventSource::Live(live) => live,
    };
    let form = config.form;
    let trace = |setup: TopSetup| {
        live.trace(form == OnceForm::Json, move |lines| {
            setup.consumer(form, &lines)
        })
    };
    if config.is_once {
        return trace(TopSetup {
            spans,
            window,
            link: None,
        });
    }
    show_live(spans, window, config.stays, trace)
}

/// Converts a moment in a log to nanoseconds since its start.
fn since_start(at: TimePoint) -> anyhow::Result<u64> {
    match at.moment(MonotonicNs(0)) {
        Moment::Time(time) => Ok(time.0),
        Moment::Date(_) => bail!("--at takes a date with --once only; give a time: 1.5s"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        top: TopArgs,
    }

    fn config(typed: &str) -> anyhow::Result<TopConfig> {
        let words = std::iter::once("any").chain(typed.split_whitespace());
        Line::try_parse_from(words)?.top.try_into()
    }

    fn refused(typed: &str) -> String {
        format!("{:#}", config(typed).unwrap_err())
    }

    #[test]
    fn digits_are_pids_and_other_words_a_log() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let log = log.path().to_str().unwrap();
        let of_log = config(&format!("--once {log}")).unwrap();
        assert!(matches!(of_log.source, EventSource::Log(..)));
        assert!(matches!(
            config("--once 1 2,3").unwrap().source,
            EventSource::Live(_)
        ));
        assert!(matches!(
            config("--once -p 1,2").unwrap().source,
            EventSource::Live(_)
        ));
        assert!(refused("--once nowhere").contains("neither a pid nor a log"));
        assert!(refused(&format!("--once {log} 1")).contains("give one log, or pids"));
        assert!(refused(&format!("--once --syscalls read {log}")).contains("--syscalls"));
    }

    #[test]
    fn windows_that_make_no_sense_are_refused() {
        assert_eq!(
            config("--once --window 2s").unwrap().window,
            Window::Last(2_000_000_000)
        );
        assert!(refused("--once --window 11s").contains("from 1ms to 10s"));
        assert!(refused("--once --window long").contains("is no time"));
        assert!(refused("--once --window all").contains("needs --duration"));
        assert!(config("--once --window all --duration 5s").is_ok());
        assert!(refused("--format json 1").contains("goes with --once"));
        assert!(config("--format json --once 1").unwrap().form == OnceForm::Json);
        assert!(refused("--once --at 1s 1").contains("--at goes with a log"));
    }
}
