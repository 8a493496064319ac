//! Sources of the events that a question is about: a log, or traced processes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::ArgGroup;
use tracer_common::event_type::EventTypeId;

use super::log_filter::ids;
use super::predicate_options::PredicateArgs;
use super::probe_options::ProbeArgs;
use super::stack_options::StackArgs;
use super::target_options::targets;
use super::trace_options::chosen_syscalls;
use super::{exit, run};
use tracer_answers::queries::SpanSpec;
use tracer_binary::probes::ProbeSpec;
use tracer_binary::probes::ServerWait;
use tracer_event::consumer::{Consumer, Lines};
use tracer_event::predicate::Predicate;
use tracer_event::robots::Callbacks;
use tracer_event::selection::Selection;
use tracer_kernel::{Counting, CountsBy};
use tracer_live::{
    Beginning, Buffers, ConsumerSetup, Followed, Format, MAX_KERNEL_RING_BYTES,
    MIN_KERNEL_RING_BYTES, Recording, Setup, Targets,
};
use tracer_log_view::WantedEvents;
use tracer_output::report::TextLook;
use tracer_output::terminal::Outcome;
use tracer_output::terminal::output::Sink;
use tracer_syscalls::choice::SyscallSet;
use tracer_syscalls::descriptors::DescriptorOptions;
use tracer_text::quantity::{size, time};

/// Source of events, as typed.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("source").required(true).multiple(true).args(["file", "pid", "comm", "cgroup", "all", "command"])))]
pub struct SourceArgs {
    /// A log; or processes, as --pid takes them, where there is no file of that name
    #[arg(value_name = "FILE|PID")]
    pub(super) file: Option<PathBuf>,
    /// Instead of a log: trace these processes, separated by commas, until they end, or as long as
    /// --duration says, or until Ctrl-C. With a log: look at these processes alone
    #[arg(
        short,
        long,
        value_name = "PID",
        value_delimiter = ',',
        help_heading = TRACED
    )]
    pub(super) pid: Vec<String>,
    /// Trace the processes of this name: 'redis*'
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "pid"], help_heading = TRACED)]
    pub(super) comm: Option<String>,
    /// Trace the processes in this control group: its path, a systemd unit, or the identifier of a
    /// container
    #[arg(
        long,
        value_name = "GROUP",
        conflicts_with_all = ["file", "pid", "comm"],
        help_heading = TRACED
    )]
    pub(super) cgroup: Option<String>,
    /// Trace every process but this one
    #[arg(
        long,
        conflicts_with_all = ["file", "pid", "comm", "cgroup"],
        help_heading = TRACED
    )]
    pub(super) all: bool,
    /// Trace who wakes these too, from then on, but not their children; 256 at most
    #[arg(long, help_heading = TRACED)]
    pub(super) follow_wakers: bool,
    /// For so long: 10s, 500ms, 1m
    #[arg(long, value_name = "TIME", help_heading = TRACED)]
    pub(super) duration: Option<String>,
    /// Record these system calls too, separated by commas: names, patterns ('*at'), classes of
    /// strace (%file, %network), /regular expressions/, or all; those with ! are taken out
    #[arg(long, value_name = "LIST", help_heading = TRACED)]
    pub(super) syscalls: Option<String>,
    /// Record these too: families or types, separated by commas (`tracer-user events` lists them)
    #[arg(long, value_name = "LIST", help_heading = TRACED)]
    pub(super) add_events: Vec<String>,
    /// Record for which locks threads wait, and who has them: mutexes and read-write locks of glibc
    /// and musl. Each wait takes half a microsecond longer. Of a log that has this, `stat` shows
    /// with it which threads had each lock, and which waited for them
    #[arg(long, help_heading = TRACED)]
    pub(super) locks: bool,
    /// Record for which traces and spans of OpenTelemetry threads work, where programs say so in
    /// their thread contexts (OTEP 4947)
    #[arg(long, help_heading = TRACED)]
    pub(super) trace_context: bool,
    #[command(flatten)]
    pub(super) predicate: PredicateArgs,
    #[command(flatten)]
    pub(super) probes: ProbeArgs,
    /// Each ring between kernel and tracer
    #[arg(
        long,
        value_name = "SIZE",
        default_value = RING_SIZE,
        help_heading = TRACED
    )]
    pub(super) ring_size: String,
    /// Where the kernel does not describe its types (/sys/kernel/btf/vmlinux): take them from this
    /// file, BTF or an ELF file with a section .BTF, such as vmlinux. It must be of the very kernel
    /// that runs, which is checked
    #[arg(long, value_name = "FILE", help_heading = TRACED)]
    pub(super) btf: Option<PathBuf>,
    /// Stacks that are recorded
    #[arg(skip)]
    pub(super) stack: StackArgs,
    /// User events alone
    #[arg(skip)]
    pub(super) no_system: bool,
    /// Start this command and trace it, with its children
    #[arg(
        last = true,
        value_name = "COMMAND",
        conflicts_with_all = ["file", "pid", "comm", "cgroup", "all"],
        help_heading = TRACED
    )]
    pub(super) command: Vec<OsString>,
}

/// Size of each ring between kernel and tracer where none is given.
pub(super) const RING_SIZE: &str = "2M";

/// Heading of these options in the help.
const TRACED: &str = "Instead of a log";

/// Checked source of events.
#[derive(Clone, Debug)]
pub enum EventSource {
    /// A log, and the events of it that are selected.
    Log(PathBuf, Box<WantedEvents>),
    /// Processes that are traced.
    Live(Box<LiveSource>),
}

/// Traced processes or command, and the setup of the trace.
#[derive(Clone, Debug)]
pub struct LiveSource {
    who: Who,
    setup: Setup,
}

#[derive(Clone, Debug)]
enum Who {
    Targets(Targets),
    Command(Vec<OsString>),
}

impl SourceArgs {
    /// Treats the name of the log as pids when it consists of digits and no such file exists.
    ///
    /// # Errors
    ///
    /// It is a log, and has an option that a log cannot have.
    pub(super) fn checked(mut self) -> anyhow::Result<Self> {
        let is_pids = |file: &PathBuf| {
            let bytes = file.as_os_str().as_bytes();
            let is_digits = bytes
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b',');
            is_digits && !file.exists()
        };
        if let Some(file) = self.file.take_if(|file| is_pids(file)) {
            let pids = file.to_string_lossy();
            self.pid.extend(pids.split(',').map(str::to_owned));
        }
        if let (Some(file), Some(option)) = (&self.file, self.option_of_processes()) {
            bail!(
                "{option} goes with processes, and {} is read as a log, which has what was recorded",
                file.display()
            );
        }
        Ok(self)
    }

    /// Takes the processes that are selected in a log; empty for all. They are not traced then.
    ///
    /// # Errors
    ///
    /// A word is not a list of processes.
    pub(super) fn pids_of_log(&mut self) -> anyhow::Result<Vec<i32>> {
        if self.file.is_none() {
            return Ok(Vec::new());
        }
        ids("--pid", &std::mem::take(&mut self.pid))
    }

    /// Returns the first given option that a log cannot have.
    fn option_of_processes(&self) -> Option<&'static str> {
        let given = [
            (self.follow_wakers, "--follow-wakers"),
            (self.duration.is_some(), "--duration"),
            (self.syscalls.is_some(), "--syscalls"),
            (!self.add_events.is_empty(), "--add-events"),
            (self.btf.is_some(), "--btf"),
            (self.trace_context, "--trace-context"),
        ];
        let given = given.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, option)| option)
    }

    /// Returns the source of events. The system calls that `spans` name are recorded, and for the
    /// whole machine the types `with_all` too.
    ///
    /// # Errors
    ///
    /// An option makes no sense.
    pub fn source(
        self,
        spans: &[SpanSpec],
        with_all: &[EventTypeId],
    ) -> anyhow::Result<EventSource> {
        let args = self;
        let tracepoints = args.probes.tracepoints()?;
        let mut probes: Vec<ProbeSpec> = args.probes.try_into()?;
        let predicate = args.predicate.predicate()?;
        ensure!(
            args.file.is_some() || !predicate.is_restricted(),
            "--failed and --filter go with a log here: record one by `tracer-user run --log` or \
             `attach --log`, and ask that"
        );
        if let Some(file) = args.file {
            ensure!(
                probes.is_empty() && tracepoints.is_empty(),
                "--usdt, --probe, --retprobe and --tracepoint go with processes; a log has what \
                 was recorded"
            );
            if let Some((option, _)) = args.stack.typed() {
                bail!("{option} goes with processes; a log has what was recorded");
            }
            args.stack.debuginfod.ask_servers(ServerWait::ForEach)?;
            let wanted = WantedEvents {
                predicate: Predicate {
                    // What threads did is not known without the rest.
                    spares_others: true,
                    ..predicate
                },
                inlined: args.stack.inlined,
                ..WantedEvents::default()
            };
            return Ok(EventSource::Log(file, Box::new(wanted)));
        }
        let typed = args.add_events.iter().flat_map(|list| list.split(','));
        let words = typed.map(str::trim).filter(|word| !word.is_empty());
        let named = Selection::from_words(words).context("--add-events")?;
        let mut selection = Selection::usual().with(&named.kernel_types());
        ensure!(
            !(args.trace_context && args.no_system),
            "--trace-context is read by the kernel's events, which --no-system leaves out"
        );
        if args.locks {
            selection = selection.with(&[EventTypeId::LOCK_WAIT]);
        }
        if args.all {
            selection = selection.with(with_all);
        }
        let called = spans.iter().filter_map(|spec| match spec {
            SpanSpec::Call(name, _) => Some(name.as_str()),
            SpanSpec::Named(_) | SpanSpec::Function(..) | SpanSpec::Between { .. } => None,
        });
        for spec in spans {
            if let SpanSpec::Function(typed, _) = spec {
                let function = ProbeSpec::function(typed).context("--span")?;
                let borders = function.span_borders();
                let borders = borders.with_context(|| {
                    format!("--span {typed:?} is of a whole function; give FILE:FUNCTION")
                })?;
                // What is asked for by itself is there already.
                let is_new = |border: &ProbeSpec| {
                    let name = border.event_name();
                    probes.iter().all(|probe| probe.event_name() != name)
                };
                let new: Vec<_> = borders.into_iter().filter(is_new).collect();
                probes.extend(new);
            }
        }
        let mut syscalls = SyscallSet::of_names(called).context("--span")?;
        let called_none = syscalls.is_empty();
        if let Some(list) = &args.syscalls {
            syscalls = syscalls.with(&chosen_syscalls(list)?);
        }
        if syscalls.is_empty() {
            syscalls = SyscallSet::all();
        } else {
            selection = selection.with_syscalls();
        }
        if args.no_system {
            ensure!(
                args.syscalls.is_none()
                    && called_none
                    && probes.is_empty()
                    && tracepoints.is_empty(),
                "--no-system leaves out system calls, probes and tracepoints, which other options \
                 name"
            );
            selection = selection.without_kernel();
        }
        let inlined = args.stack.inlined;
        let (stacks, selection) = args.stack.options(selection, !args.no_system)?;
        let trace_context = args.trace_context || selection.has(EventTypeId::THREAD_CONTEXT);
        let duration = args.duration.map(|typed| time("--duration", &typed));
        let (least, most) = (MIN_KERNEL_RING_BYTES.into(), MAX_KERNEL_RING_BYTES.into());
        let ring_bytes = size("--ring-size", &args.ring_size, least, most)?;
        // A command has the standard output for itself: the answer goes to the standard error then.
        let (who, output) = if args.command.is_empty() {
            let (comm, cgroup) = (args.comm.as_deref(), args.cgroup.as_deref());
            let targets = targets(&args.pid, comm, cgroup, args.all)?;
            (Who::Targets(targets), Sink::Stdout)
        } else {
            (Who::Command(args.command), Sink::Stderr)
        };
        let setup = Setup {
            followed: Followed {
                children: true,
                wakers: args.follow_wakers,
            },
            recording: Recording {
                system: !args.no_system,
                btf: args.btf,
                selection,
                syscalls,
                stacks,
                inlined,
                trace_context,
                probes,
                tracepoints,
                ..Recording::default()
            },
            buffers: Buffers {
                kernel_ring_bytes: u32::try_from(ring_bytes)?,
                ..Buffers::default()
            },
            event_limit: None,
            duration: duration.transpose()?,
            log: None,
            output,
            consumer: ConsumerSetup::report(Format::Text, TextLook::default()),
        };
        Ok(EventSource::Live(Box::new(LiveSource { who, setup })))
    }
}

/// Types that say what threads are called, and that are recorded where these are counted.
const NAMING: [EventTypeId; 4] = [
    EventTypeId::FORK,
    EventTypeId::THREAD_CREATE,
    EventTypeId::EXEC,
    EventTypeId::RENAME,
];

impl EventSource {
    /// Returns where an answer about these events goes.
    #[must_use]
    pub fn output(&self) -> Sink {
        match self {
            Self::Log(..) => Sink::Stdout,
            Self::Live(live) => live.setup.output.clone(),
        }
    }

    /// Tells whether the events are those of a trace that is made for the answer.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}

impl LiveSource {
    /// Has so many bytes read of the names and other short data that system calls are given in
    /// memory, and holds more events before any is lost.
    #[must_use]
    pub fn reading_names(mut self, bytes: u32, own_ring_bytes: Option<u32>) -> Self {
        self.setup.recording.string_bytes = bytes;
        self.setup.recording.only_names = true;
        self.setup.buffers.own_ring_bytes = own_ring_bytes;
        self.setup.buffers.stream_bytes = self.setup.buffers.stream_bytes.saturating_mul(4);
        self
    }

    /// Records what the descriptors of system calls are.
    #[must_use]
    pub fn describing(mut self) -> Self {
        self.setup.recording.descriptors = DescriptorOptions::Full;
        self
    }

    /// Lets the recording of system calls, and that of switches, cost the traced threads at most
    /// these parts of their CPU time, in thousandths.
    #[must_use]
    pub fn bounding_cost(mut self, of_calls: u32, of_switches: u32) -> Self {
        self.setup.recording.bound_calls(of_calls);
        self.setup.recording.bound_switches(of_switches);
        self
    }

    /// Leaves out what programs emit themselves.
    #[must_use]
    pub fn without_user(mut self) -> Self {
        let recording = &mut self.setup.recording;
        recording.selection = recording.selection.clone().without_user();
        self
    }

    /// Tells whether what programs emit themselves is recorded.
    #[cfg(test)]
    pub fn has_user(&self) -> bool {
        self.setup.recording.selection.has_user()
    }

    /// Tells whether probes or tracepoints are named.
    pub fn has_points(&self) -> bool {
        let recording = &self.setup.recording;
        !recording.probes.is_empty() || !recording.tracepoints.is_empty()
    }

    /// Counts this, and records only what says which processes there are.
    pub fn count(&mut self, what: Counting) {
        let recording = &mut self.setup.recording;
        let mut selection = Selection::nothing();
        if what.switches {
            selection = selection.with(&[EventTypeId::THREAD_STATE]);
        }
        if what.by != CountsBy::All {
            selection = selection.with(&NAMING);
        }
        recording.selection = selection;
        recording.counting = Some(what);
    }

    /// Traces, and shows the lines that a consumer appends; it says itself what people are to
    /// know, and `shown` whether all of it is complete.
    ///
    /// # Errors
    ///
    /// The processes cannot be traced.
    pub fn trace_with(
        &self,
        consumer: impl Fn(&Beginning<'_>, Lines) -> anyhow::Result<Box<dyn Consumer>> + 'static,
        shown: impl FnOnce() -> Outcome,
    ) -> anyhow::Result<ExitCode> {
        let setup = Setup {
            consumer: ConsumerSetup::new(false, consumer),
            ..self.setup.clone()
        };
        self.run(&setup, shown)
    }

    /// Traces, and shows the answer at the end: the lines that `consumer` appends.
    ///
    /// # Errors
    ///
    /// The processes cannot be traced.
    pub fn trace(
        &self,
        is_json: bool,
        consumer: impl Fn(Lines) -> Box<dyn Consumer> + 'static,
    ) -> anyhow::Result<ExitCode> {
        self.trace_to(self.setup.output.clone(), is_json, consumer)
    }

    /// Traces, and writes the answer to `output` at the end.
    ///
    /// # Errors
    ///
    /// The processes cannot be traced.
    pub fn trace_to(
        &self,
        output: Sink,
        is_json: bool,
        consumer: impl Fn(Lines) -> Box<dyn Consumer> + 'static,
    ) -> anyhow::Result<ExitCode> {
        let setup = Setup {
            consumer: ConsumerSetup::new(!is_json, move |_, lines| {
                Ok(Box::new(Callbacks::before(consumer(lines))))
            }),
            output,
            ..self.setup.clone()
        };
        self.run(&setup, || Outcome::Complete)
    }

    fn run(&self, setup: &Setup, shown: impl FnOnce() -> Outcome) -> anyhow::Result<ExitCode> {
        match &self.who {
            Who::Targets(targets) => {
                let outcome = tracer_live::attach(targets, setup)?;
                Ok(exit::from_outcome(outcome.and(shown())))
            }
            Who::Command(command) => run::launch(command, setup, shown),
        }
    }
}
