//! Options that select events of a log.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::{Context, ensure};

use super::debuginfod::DebuginfodArgs;
use super::predicate_options::PredicateArgs;
use super::trace_options::{PROBE, chosen_syscalls, split_events};
use tracer_binary::probes::ServerWait;
use tracer_binary::thread_context::parse_trace_id;
use tracer_event::selection::Selection;
use tracer_log_view::{TimePoint, WantedEvents};
use tracer_syscalls::choice::SyscallSet;
use tracer_text::NamePattern;

/// Heading of these options in the help.
pub const FILTER_HEADING: &str = "Which events";

/// Selection of events of a log, as typed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = FILTER_HEADING)]
pub struct LogFilterArgs {
    /// Only these event types: families or types, separated by commas
    /// (fork,exec,exit,switch,wakeup,rename,user; `tracer-user events` lists them; probe for what
    /// --usdt, --probe and --retprobe recorded). Marks of lost events are always among them
    // A count is taken too, as it was before there was --limit.
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    events: Vec<String>,
    /// At most so many events
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    limit: Option<String>,
    /// Only the event type of exactly this name, such as a user event's; may be given again, and
    /// adds to --events
    #[arg(long, value_name = "NAME")]
    event: Vec<OsString>,
    /// Only events of these processes, separated by commas
    #[arg(
        long,
        value_name = "PID",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    pid: Vec<String>,
    /// Only events of these threads, separated by commas
    #[arg(
        long,
        value_name = "TID",
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    tid: Vec<String>,
    /// Only events of threads of this name: `*` matches any bytes, `?` one
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Only events of threads that work for this trace of OpenTelemetry (32 hexadecimal digits), as
    /// --trace-context has recorded it
    #[arg(long, value_name = "ID")]
    trace_id: Option<String>,
    /// No user events
    #[arg(long)]
    no_user: bool,
    /// No events of the kernel
    #[arg(long)]
    no_system: bool,
    /// Of system calls only these, in the words that `run` takes: names, patterns, classes of
    /// strace, expressions, and what ! takes out ('%file,!openat'). Where --events names no system
    /// calls, they are on top
    #[arg(long, value_name = "LIST")]
    syscalls: Option<String>,
    #[command(flatten)]
    predicate: PredicateArgs,
    /// Only events from this moment on: a time since the start of the log (1.5s, 200ms, 2m), or a
    /// date in UTC as the JSON lines show it (2026-02-03T14:05:06.789Z)
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    from: Option<String>,
    /// In stacks, show functions too that the compiler has put into others, and lines of the
    /// source, where the program, or the file with its debugger's part, is still there to say so
    #[arg(long)]
    inlined: bool,
    #[command(flatten)]
    debuginfod: DebuginfodArgs,
}

impl LogFilterArgs {
    /// Returns the selected events, up to the moment `to` as it was typed.
    ///
    /// # Errors
    ///
    /// An option makes no sense.
    pub fn wanted(self, to: Option<&str>) -> anyhow::Result<WantedEvents> {
        let args = self;
        args.debuginfod.ask_servers(ServerWait::ForEach)?;
        let (limit, types) = split_events(&args.events, args.limit.as_deref(), true)?;
        let mut words = args.events.iter().flat_map(|list| list.split(','));
        let has_probes = words.any(|word| word.trim() == PROBE);
        ensure!(
            !(args.no_user && args.no_system),
            "--no-user and --no-system together leave nothing to show; give one of them"
        );
        let types = without(types, args.event.is_empty(), args.no_user, args.no_system);
        let comm = args
            .comm
            .as_deref()
            .map(|typed| NamePattern::new(typed).with_context(|| format!("--comm {typed:?}")));
        let point = |option, typed: Option<&str>| {
            let parsed = typed.map(|typed| TimePoint::parse(option, typed));
            parsed.transpose()
        };
        let mut wanted = WantedEvents {
            types,
            names: args.event.into_iter().map(OsString::into_vec).collect(),
            pids: ids("--pid", &args.pid)?,
            tids: ids("--tid", &args.tid)?,
            comm: comm.transpose()?,
            trace: args.trace_id.as_deref().map(trace_id).transpose()?,
            has_probes,
            predicate: args.predicate.predicate()?,
            from: point("--from", args.from.as_deref())?,
            to: point("--until", to)?,
            limit,
            inlined: args.inlined,
            ..WantedEvents::default()
        };
        if let Some(list) = &args.syscalls {
            wanted = wanted.with_syscalls(chosen_syscalls(list)?);
        }
        if wanted.predicate.is_failed && wanted.syscalls.is_none() {
            wanted = wanted.with_syscalls(SyscallSet::all());
        }
        let is_backwards = match (wanted.from, wanted.to) {
            (Some(TimePoint::Offset(from)), Some(TimePoint::Offset(to))) => from > to,
            (Some(TimePoint::Date(from)), Some(TimePoint::Date(to))) => from > to,
            _ => false,
        };
        ensure!(
            !is_backwards,
            "--from is later than --until, which leaves nothing"
        );
        Ok(wanted)
    }
}

/// Reads the identifier of a trace.
///
/// # Errors
///
/// It is none.
pub(super) fn trace_id(typed: &str) -> anyhow::Result<[u8; 16]> {
    parse_trace_id(typed).with_context(|| {
        format!("--trace-id {typed:?} is no trace; give 32 hexadecimal digits, not all 0")
    })
}

/// Removes the types that are left out. Where types are named by --event alone, they are all that
/// is selected.
fn without(
    types: Option<Selection>,
    is_open: bool,
    no_user: bool,
    no_system: bool,
) -> Option<Selection> {
    if !no_user && !no_system {
        return types;
    }
    let everything = is_open.then(Selection::everything);
    let mut types = types.or(everything)?;
    if no_user {
        types = types.without_user();
    }
    if no_system {
        types = types.without_kernel();
    }
    Some(types)
}

/// Parses the numbers of processes or threads.
///
/// # Errors
///
/// A word is no such number.
pub fn ids(option: &str, typed: &[String]) -> anyhow::Result<Vec<i32>> {
    let id = |typed: &String| {
        let id = typed.trim().parse().ok().filter(|id| *id > 0);
        id.with_context(|| format!("{option} {typed:?} is no number of a process or thread"))
    };
    typed.iter().map(id).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tracer_common::event_type::EventTypeId;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        filter: LogFilterArgs,
        #[arg(long, allow_negative_numbers = true)]
        to: Option<String>,
    }

    fn wanted(typed: &str) -> anyhow::Result<WantedEvents> {
        let words = std::iter::once("any").chain(typed.split_whitespace());
        let line = Line::try_parse_from(words)?;
        line.filter.wanted(line.to.as_deref())
    }

    #[test]
    fn without_options_nothing_is_left_out() {
        let wanted = wanted("").unwrap();
        assert!(wanted.types.is_none() && wanted.names.is_empty() && wanted.limit.is_none());
        assert!(wanted.from.is_none() && wanted.to.is_none());
    }

    #[test]
    fn lists_are_separated_by_commas_or_given_again() {
        let wanted = wanted("--pid 1,2 --pid 3 --tid 7 --event a --event b").unwrap();
        assert_eq!((wanted.pids, wanted.tids), (vec![1, 2, 3], vec![7]));
        assert_eq!(wanted.names, [b"a", b"b"]);
    }

    #[test]
    fn a_list_and_a_count_have_names_of_their_own() {
        for typed in [
            "--limit 5 --events fork,user",
            "--events 5 --events fork,user",
        ] {
            let wanted = wanted(typed).unwrap();
            assert_eq!(wanted.limit, Some(5));
            assert!(wanted.types.unwrap().has(EventTypeId::FORK));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_option_named() {
        for (typed, option) in [
            ("--pid me", "--pid"),
            ("--pid 0", "--pid"),
            ("--tid -4", "--tid"),
            ("--from soon", "--from"),
            ("--to -1", "--until"),
            ("--from 3s --to 2s", "--from"),
            ("--events frok", "--events"),
            ("--syscalls %fiel", "--syscalls"),
        ] {
            let refusal = format!("{:#}", wanted(typed).unwrap_err());
            assert!(refusal.contains(option), "{typed}: {refusal}");
        }
    }
}
