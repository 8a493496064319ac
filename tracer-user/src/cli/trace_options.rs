//! Options that `attach` and `run` have in common.

use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context, ensure};
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::exec_space;
use tracer_log::System;

use super::cost_options::CostArgs;
use super::live_export_options::LiveExportArgs;
use super::log_options::LogArgs;
use super::output_options::OutputArgs;
use super::predicate_options::{PredicateArgs, narrow, refuse_waiting};
use super::probe_options::ProbeArgs;
use super::stack_options::StackArgs;
use super::trigger_options::TriggerArgs;
use tracer_answers::html_report::PageSetup;
use tracer_answers::trigger::{FlightRecorder, TriggerSetup};
use tracer_binary::probes::ProbeSpec;
use tracer_event::selection::Selection;
use tracer_export::{LiveExport, TraceOrigin};
use tracer_live::{
    Beginning, Buffers, ConsumerSetup, DEFAULT_STRING_BYTES, Followed, Format,
    MAX_KERNEL_RING_BYTES, MIN_KERNEL_RING_BYTES, Recording, Setup, THREAD_RING_BYTES,
};
use tracer_output::report::TextLook;
use tracer_output::terminal::output::Sink;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::descriptors::DescriptorOptions;
use tracer_text::quantity::{size, time};

/// Least and most bytes of the stream, which holds the events that are read and not shown yet.
const STREAM_BYTES: (u64, u64) = (64 << 10, 64 << 30);

/// Least and most bytes that are read of the memory an argument points to, and of the arguments and
/// environment of a program.
const STRING_BYTES: (u64, u64) = (0, exec_space::LARGE as u64);

/// Types that say for which locks threads wait, and how long.
const LOCKS: [EventTypeId; 4] = [
    EventTypeId::LOCK_WAIT,
    EventTypeId::SWITCH_IN,
    EventTypeId::SWITCH_OUT,
    EventTypeId::WAKEUP,
];

/// Word of `--events` for probes.
pub(super) const PROBE: &str = "probe";

/// Detail in which descriptors are shown.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Descriptors {
    Paths,
    Full,
}

/// Time at which system calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CallsAt {
    Both,
    Exit,
}

/// Options of a trace, as typed.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    /// Trace the children of traced processes as well, those that are there and those that are
    /// made (the default)
    #[arg(long, overrides_with = "no_inherit")]
    inherit: bool,
    /// Do not trace children, neither those that are there nor those that are made
    #[arg(long)]
    no_inherit: bool,
    /// Trace who wakes traced processes too, from then on, but not their children; 256 at most
    #[arg(long, conflicts_with = "no_system")]
    follow_wakers: bool,
    /// Show only these: families or types, separated by commas (`tracer-user events` lists them,
    /// and which are shown without this option). Marks of lost events are always shown
    // A count is taken too, as it was before there was --limit.
    #[arg(long, value_name = "LIST", allow_negative_numbers = true)]
    events: Vec<String>,
    /// End after so many events
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    limit: Option<String>,
    /// Show these system calls too, separated by commas: names, patterns ('*at'), classes of strace
    /// (%file, %network, %process), /regular expressions/, or all. Words with ! before them are
    /// taken out ('%file,!openat'); a list that begins with it means all but these. While some are
    /// traced, each call of every other program on the machine takes up to 0.2 µs longer too, with
    /// -y 0.3 µs
    #[arg(long, value_name = "LIST")]
    syscalls: Option<String>,
    /// Record system calls as they begin and as they end (both), or only as they end (exit), with
    /// what their arguments hold then, which takes the traced programs and all others half as long.
    /// Then it is not known how long a call took, nor what an exec was given; a call that does not
    /// end is not there
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "both",
        hide_possible_values = true,
        conflicts_with = "no_system"
    )]
    calls: CallsAt,
    #[command(flatten)]
    cost: CostArgs,
    /// Show for which locks threads wait (events `lock`), so that `stat --locks` and `why` of a log
    /// say who had them: mutexes and read-write locks of glibc and musl. Each wait takes half a
    /// microsecond longer
    #[arg(long, conflicts_with = "no_system")]
    locks: bool,
    #[command(flatten)]
    predicate: PredicateArgs,
    /// Read so many bytes of what is read and written by system calls (4096 at most), of paths (256
    /// at least), and of what a program is given by exec (4096 at least, 64K at most); 0: nothing
    /// of system calls
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = DEFAULT_STRING_BYTES.to_string(),
        allow_negative_numbers = true
    )]
    string_size: String,
    /// Show what the descriptors of system calls are, as `strace -yy` does: paths, pipes, the
    /// addresses of sockets; with =paths as `strace -y` does, where a socket has its inode alone.
    /// This takes the program about a microsecond for each call that has descriptors
    #[arg(
        short = 'y',
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "full",
        conflicts_with = "no_system"
    )]
    descriptors: Option<Descriptors>,
    /// With each event, show for which trace and span of OpenTelemetry its thread works, where the
    /// program says so in its thread contexts (OTEP 4947): at system calls, switches, page faults,
    /// samples, waits for locks, and where threads begin and end
    #[arg(long, conflicts_with = "no_system")]
    trace_context: bool,
    /// Show no user events
    #[arg(long)]
    no_user: bool,
    /// Trace no kernel events: needs no privileges for one's own processes
    #[arg(long)]
    no_system: bool,
    #[command(flatten)]
    probes: ProbeArgs,
    #[command(flatten)]
    stack: StackArgs,
    /// End after this time: 10s, 500ms, 1m; without a unit, seconds
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    duration: Option<String>,
    /// How events are shown: text, or json for one object a line
    #[arg(long, value_enum, default_value = "text", hide_possible_values = true)]
    format: Format,
    /// Each ring between kernel and tracer, in bytes or with K, M, G; there is one for every few
    /// CPUs, and at most eight
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2M",
        allow_negative_numbers = true
    )]
    ring_size: String,
    /// Stream of events that are not shown yet
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "16M",
        allow_negative_numbers = true
    )]
    stream_size: String,
    /// Ring of each thread that emits user events
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512K",
        allow_negative_numbers = true
    )]
    thread_ring_size: String,
    /// Where the kernel does not describe its types (/sys/kernel/btf/vmlinux): take them from this
    /// file, BTF or an ELF file with a section .BTF, such as vmlinux. It must be of the very kernel
    /// that runs, which is checked
    #[arg(long, value_name = "FILE", conflicts_with = "no_system")]
    btf: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    export: LiveExportArgs,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    trigger: TriggerArgs,
}

impl TraceArgs {
    /// Returns the setup of the requested page; `traced` names the traced processes.
    ///
    /// # Errors
    ///
    /// The page cannot be written to that output.
    pub fn page(&self, traced: String) -> anyhow::Result<Option<PageSetup>> {
        let page = self.log.page(traced)?;
        Ok(page.map(|page| PageSetup {
            inlined: self.stack.inlined,
            ..page
        }))
    }

    /// Returns the setup, checked. Events go to `otherwise` when no output was given.
    ///
    /// # Errors
    ///
    /// An option makes no sense.
    pub fn setup(self, otherwise: Sink) -> anyhow::Result<Setup> {
        let args = self;
        ensure!(
            !(args.no_user && args.no_system),
            "--no-user and --no-system together leave nothing to trace; give one of them"
        );
        let tracepoints = args.probes.tracepoints()?;
        let probes: Vec<ProbeSpec> = args.probes.try_into()?;
        let has_probes = !probes.is_empty() || !tracepoints.is_empty();
        ensure!(
            !has_probes || !args.no_system,
            "probes need the kernel; leave --no-system out"
        );
        let (event_limit, chosen) = split_events(&args.events, args.limit.as_deref(), has_probes)?;
        let has_events = chosen.is_some();
        let mut selection = chosen.unwrap_or_else(Selection::usual);
        let syscalls = args.syscalls.as_deref().map(chosen_syscalls).transpose()?;
        if syscalls.is_some() {
            ensure!(
                !args.no_system,
                "--syscalls and --no-system exclude each other; give one of them"
            );
            selection = selection.with_syscalls();
        }
        let predicate = args.predicate.predicate()?;
        ensure!(
            !(predicate.is_failed && args.no_system),
            "--failed chooses system calls, which --no-system leaves out; give one of them"
        );
        if predicate.is_failed {
            selection = selection.with_syscalls();
        }
        if !has_events {
            selection = predicate.with_named(selection);
        }
        if args.locks {
            selection = selection.with(&LOCKS);
        }
        if args.no_user {
            selection = selection.without_user();
        }
        if args.no_system {
            selection = selection.without_kernel();
        }
        ensure!(
            selection.has_user() || !selection.kernel_types().is_empty() || has_probes,
            "--events {} leaves nothing to trace with {}",
            args.events.join(","),
            if args.no_user {
                "--no-user"
            } else {
                "--no-system"
            }
        );
        ensure!(
            args.descriptors.is_none()
                || selection.has(EventTypeId::SYSCALL_ENTER)
                || selection.has(EventTypeId::SYSCALL_EXIT),
            "--descriptors shows what system calls are given, and none is chosen; choose some, by \
             --syscalls all or --syscalls %file"
        );
        let ring = (MIN_KERNEL_RING_BYTES.into(), MAX_KERNEL_RING_BYTES.into());
        let thread_ring = (THREAD_RING_BYTES.0.into(), THREAD_RING_BYTES.1.into());
        let kernel_ring_bytes = sized("--ring-size", &args.ring_size, ring)?;
        let stream_bytes = sized("--stream-size", &args.stream_size, STREAM_BYTES)?;
        let thread_ring_bytes = sized("--thread-ring-size", &args.thread_ring_size, thread_ring)?;
        let string_bytes = sized("--string-size", &args.string_size, STRING_BYTES)?;
        let duration = args.duration.map(|typed| time("--duration", &typed));
        let rules = args.trigger.rules()?;
        for condition in rules.iter().map(|rule| &rule.condition) {
            selection = selection.with(condition.needs());
        }
        let is_replaced = args.log.force;
        let is_choice = syscalls
            .as_ref()
            .is_some_and(|calls| *calls != SyscallSet::all());
        let chosen_calls = args.syscalls.filter(|_| is_choice);
        let chosen = (&predicate, chosen_calls.as_deref());
        let log = args.log.setup(stream_bytes, !args.no_inherit, chosen)?;
        refuse_waiting(&predicate, log.is_some())?;
        let needed = rules.iter().flat_map(|rule| rule.condition.needs());
        let needed: Vec<_> = needed.copied().collect();
        let narrowed = narrow(
            &predicate,
            selection,
            syscalls.unwrap_or_else(SyscallSet::all),
            &needed,
            has_probes,
        )?;
        let (log, trigger) = args.trigger.setup(rules, log)?;
        let export = args.export.export(
            args.output.file(),
            is_replaced,
            (log.is_some(), trigger.is_some()),
        )?;
        let has_lines = export.is_none();
        let consumer = consumer(export, trigger, (args.format, args.output.look()));
        let inlined = args.stack.inlined;
        let calls_at_exit = args.calls == CallsAt::Exit;
        ensure!(
            !calls_at_exit || args.descriptors.is_none(),
            "--calls exit records no beginning of a call, at which --descriptors looks; give one \
             of them"
        );
        ensure!(
            !calls_at_exit || predicate.expression.is_none(),
            "--calls exit records no beginning of a call, of which --filter may ask; give one of \
             them"
        );
        let selection = narrowed
            .selection
            .retain(|id| !calls_at_exit || id != EventTypeId::SYSCALL_ENTER);
        let (stacks, selection) = args.stack.options(selection, !args.no_system)?;
        let (call_cost, switch_cost) = (args.cost.of_calls()?, args.cost.of_switches()?);
        ensure!(
            call_cost.is_none() || selection.has(EventTypeId::SYSCALL_ENTER),
            "--call-cost bounds what recording system calls costs, and none is chosen as it \
             begins; choose some, by --syscalls all"
        );
        ensure!(
            call_cost.is_none() || args.descriptors.is_none(),
            "--descriptors looks at all calls, whatever that costs, and --call-cost says that it \
             may not; give one of them"
        );
        ensure!(
            switch_cost.is_none() || selection.has(EventTypeId::SWITCH_OUT),
            "--switch-cost bounds what recording switches costs, and none are chosen; choose some, by \
             --events switch"
        );
        let trace_context = args.trace_context || selection.has(EventTypeId::THREAD_CONTEXT);
        let mut setup = Setup {
            followed: Followed {
                children: !args.no_inherit,
                wakers: args.follow_wakers,
            },
            recording: Recording {
                system: !args.no_system,
                btf: args.btf,
                selection,
                syscalls: narrowed.syscalls,
                chosen_calls,
                string_bytes,
                only_names: false,
                calls_at_exit,
                most_call_cost: None,
                most_switch_cost: None,
                descriptors: match args.descriptors {
                    None => DescriptorOptions::None,
                    Some(Descriptors::Paths) => DescriptorOptions::Plain,
                    Some(Descriptors::Full) => DescriptorOptions::Full,
                },
                stacks,
                inlined,
                trace_context,
                probes,
                tracepoints,
                counting: None,
                predicate,
            },
            buffers: Buffers {
                kernel_ring_bytes,
                own_ring_bytes: None,
                stream_bytes,
                thread_ring_bytes,
            },
            event_limit,
            duration: duration.transpose()?,
            log,
            output: if has_lines {
                args.output.sink(otherwise)
            } else {
                Sink::Stderr
            },
            consumer,
        };
        if let Some(call_cost) = call_cost {
            setup.recording.bound_calls(call_cost);
        }
        if let Some(switch_cost) = switch_cost {
            setup.recording.bound_switches(switch_cost);
        }
        if let Some(log) = &setup.log {
            setup.recording.mark_log(log.continues());
        }
        Ok(setup)
    }
}

/// Returns the consumer of the events: an export, a recorder that waits for something, or lines.
fn consumer(
    export: Option<LiveExport>,
    trigger: Option<TriggerSetup>,
    (format, look): (Format, TextLook),
) -> ConsumerSetup {
    if let Some(export) = export {
        return ConsumerSetup::of_file(move |beginning| export.start(&origin(beginning)));
    }
    if let Some(trigger) = trigger {
        tracer_kernel::give_back_large_pieces_at_once();
        return ConsumerSetup::new(format == Format::Text, move |beginning, lines| {
            Ok(Box::new(FlightRecorder::new(
                trigger.clone(),
                beginning.start,
                lines,
            )))
        });
    }
    ConsumerSetup::report(format, look)
}

/// Returns the facts about a trace that exports state.
fn origin(beginning: &Beginning<'_>) -> TraceOrigin {
    let has_user = beginning.has_user;
    TraceOrigin {
        attributes: beginning.attributes.clone(),
        anchor: beginning.clocks,
        system: System::detect(),
        is_wanted: Rc::new(move |_, _| has_user),
        table: tracer_export::TableChoice::default(),
    }
}

fn sized<T: TryFrom<u64>>(option: &str, typed: &str, bounds: (u64, u64)) -> anyhow::Result<T> {
    let bytes = size(option, typed, bounds.0, bounds.1)?;
    let bytes = T::try_from(bytes).ok();
    bytes.with_context(|| format!("{option} {typed} is too large for this machine"))
}

/// Returns the system calls that `--syscalls` selects.
pub(super) fn chosen_syscalls(list: &str) -> anyhow::Result<SyscallSet> {
    SyscallSet::of_list(list).context("--syscalls")
}

/// Reads the words of `--events`, and the number of `--limit`.
pub(super) fn split_events(
    typed: &[String],
    limit: Option<&str>,
    has_probes: bool,
) -> anyhow::Result<(Option<u64>, Option<Selection>)> {
    let mut limit = limit.map(|typed| count("--limit", typed)).transpose()?;
    let mut words = Vec::new();
    for typed in typed {
        if typed.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            let count = count("--events", typed)?;
            ensure!(
                limit.replace(count).is_none(),
                "--events and --limit are given two counts; give one, by --limit"
            );
        } else {
            words.extend(typed.split(',').map(str::trim));
        }
    }
    if words.is_empty() {
        return Ok((limit, None));
    }
    ensure!(
        has_probes || !words.contains(&PROBE),
        "--events {PROBE} shows what --usdt, --probe, --retprobe and --tracepoint name; give one of them"
    );
    // They are shown anyway: alone, the word chooses nothing else.
    words.retain(|word| *word != PROBE);
    let selection = Selection::from_words(words).with_context(|| "--events")?;
    Ok((limit, Some(selection)))
}

/// Parses a number of events.
fn count(option: &str, typed: &str) -> anyhow::Result<u64> {
    let count: u64 = typed.parse().ok().with_context(|| {
        format!("{option} {typed} is no number of events; give one, such as --limit 100")
    })?;
    ensure!(count > 0, "{option} 0 would show nothing; give at least 1");
    Ok(count)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tracer_engine::{LogFullPolicy, StreamFullPolicy};

    use super::*;
    use tracer_log_view::log_output::Existing;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        trace: TraceArgs,
    }

    fn setup(typed: &str) -> anyhow::Result<Setup> {
        let words = std::iter::once("any").chain(typed.split_whitespace());
        Line::try_parse_from(words)?.trace.setup(Sink::Stdout)
    }

    fn refused(typed: &str) -> String {
        format!("{:#}", setup(typed).unwrap_err())
    }

    #[test]
    fn without_options_the_usual_is_traced() {
        let setup = setup("").unwrap();
        let recording = &setup.recording;
        assert!(setup.followed.children && recording.system);
        assert_eq!(recording.selection, Selection::usual());
        assert_eq!(setup.buffers, Buffers::default());
    }

    #[test]
    fn a_list_of_types_and_a_count_of_events_have_names_of_their_own() {
        for count in ["--limit 5", "--events 5"] {
            let setup = setup(&format!("{count} --events fork,user --events exec")).unwrap();
            assert_eq!(setup.event_limit, Some(5));
            assert!(setup.recording.selection.has_user());
            assert!(setup.recording.selection.has(EventTypeId::EXEC));
            assert!(!setup.recording.selection.has(EventTypeId::EXIT));
        }
    }

    #[test]
    fn a_log_is_limited_only_where_that_is_asked_for() {
        let log = |typed: &str| setup(typed).unwrap().log.unwrap();
        assert_eq!(setup("").unwrap().log, None);
        assert_eq!(log("--log f").policy, LogFullPolicy::Append);
        assert_eq!(log("--log f").stream_policy, StreamFullPolicy::Flush);
        let limited = log("--log f --log-size 1M");
        assert_eq!(
            (limited.policy, limited.max_size),
            (LogFullPolicy::Loop, 1 << 20)
        );
        let recorder = log("--log f --full-policy loop --stream-size 1M");
        assert_eq!(recorder.stream_policy, StreamFullPolicy::Loop);
        assert_eq!(recorder.stream_bytes, 1 << 20);
        assert_eq!(log("--log f").existing, Existing::Stays);
        assert_eq!(log("--log f --append").existing, Existing::Continued);
        assert_eq!(log("--log f --force").existing, Existing::Replaced);
    }

    #[test]
    fn options_of_a_log_that_make_no_sense_are_refused() {
        assert!(refused("--log f --output g").contains("--output"));
        assert!(refused("--log-size 1M").contains("--log"));
        assert!(refused("--log f --log-size 1M --append").contains("--append"));
        assert!(refused("--log f --log-size 1M --log-policy append").contains("no limit"));
        assert!(refused("--log f --log-size 1").starts_with("--log-size"));
        assert!(refused("--log /dev/null").contains("ordinary file"));
        assert!(refused("--log -").contains("standard output"));
    }

    #[test]
    fn system_calls_are_chosen_by_name_and_come_on_top() {
        let chosen = setup("--syscalls openat,read").unwrap();
        assert!(chosen.recording.selection.has(EventTypeId::SYSCALL_ENTER));
        assert!(chosen.recording.selection.has(EventTypeId::SWITCH_IN));
        assert_eq!(
            chosen.recording.syscalls,
            SyscallSet::of_names(["read", "openat"]).unwrap()
        );
        let all = setup("--events exec --syscalls all").unwrap();
        assert!(!all.recording.selection.has(EventTypeId::SWITCH_IN));
        assert_eq!(all.recording.syscalls, SyscallSet::all());
        assert!(refused("--syscalls opneat").contains("is openat meant?"));
        assert!(refused("--syscalls read --no-system").contains("--syscalls"));
    }

    #[test]
    fn descriptors_are_those_of_system_calls() {
        let chosen = |typed: &str| setup(typed).unwrap().recording.descriptors;
        assert_eq!(chosen("--syscalls all"), DescriptorOptions::None);
        assert_eq!(
            chosen("--syscalls all --descriptors"),
            DescriptorOptions::Full
        );
        assert_eq!(chosen("-y --events syscall"), DescriptorOptions::Full);
        assert_eq!(
            chosen("--syscalls read --descriptors=paths"),
            DescriptorOptions::Plain
        );
        assert!(refused("--descriptors").contains("--syscalls all"));
        assert!(refused("--descriptors=all --syscalls all").contains("paths"));
        assert!(refused("-y --syscalls all --no-system").contains("--no-system"));
    }

    #[test]
    fn probes_may_be_all_that_is_shown() {
        let probed = setup("--usdt a:b --events probe").unwrap();
        assert_eq!(probed.recording.probes.len(), 1);
        assert!(!probed.recording.selection.has_user());
        assert!(probed.recording.selection.kernel_types().is_empty());

        assert!(refused("--events probe").contains("give one of them"));
        assert!(refused("--usdt a:b --no-system").starts_with("probes need the kernel"));
    }

    #[test]
    fn the_last_word_on_inheritance_counts() {
        assert!(!setup("--no-inherit").unwrap().followed.children);
        assert!(!setup("--inherit --no-inherit").unwrap().followed.children);
        assert!(setup("--no-inherit --inherit").unwrap().followed.children);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_option_named() {
        assert!(refused("--events frok").contains("\"frok\"; is fork meant?"));
        assert!(refused("--events 0").starts_with("--events 0"));
        assert!(refused("--events -1").starts_with("--events -1"));
        assert!(refused("--events 1 --limit 2").starts_with("--events"));
        assert!(refused("--limit 0").starts_with("--limit 0"));
        assert!(refused("--limit few").starts_with("--limit few"));
        assert!(refused("--no-user --no-system").contains("give one"));
        assert!(refused("--no-user --events user").contains("nothing to trace"));
        assert!(refused("--no-system --events fork").contains("nothing to trace"));
        assert!(refused("--ring-size 1").starts_with("--ring-size"));
        assert!(refused("--thread-ring-size 2G").starts_with("--thread-ring-size"));
        assert!(refused("--stream-size lots").starts_with("--stream-size"));
        assert!(refused("--duration -1").starts_with("--duration"));
    }
}
