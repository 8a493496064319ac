//! Options of `attach` and `run` that select stacks.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tracer_common::event_type::{EventTypeId, system_event_type};
use tracer_common::kernel::{KERNEL_EVENT_TYPES, MOST_FRAMES, MOST_PYTHON_FRAMES, stacks, wanted};

use super::debuginfod::DebuginfodArgs;
use tracer_answers::flame::FlameKind;
use tracer_binary::probes::ServerWait;
use tracer_binary::stacks::StackOptions;
use tracer_event::selection::Selection;
use tracer_text::quantity::{size, time};

/// Stacks, as typed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct StackArgs {
    /// Record the functions that a thread is in as it causes an event: user, kernel, python, or
    /// some of them (user,kernel), and at most so many of each (user,20; 127 where none is given,
    /// 64 of Python). Functions are found by frame pointers: of a program that has none, only the
    /// innermost ones are, without --unwind dwarf. python: functions of CPython 3.8 to 3.14 with
    /// file and line, read without stopping the program; with user they stand where the interpreter
    /// runs them
    #[arg(long, value_name = "LIST")]
    stack: Option<String>,
    /// Record stacks only with these: syscall, fault, switch-out, signal, wakeup (that of the
    /// waker), or single types of them, probe, tracepoint, user, separated by commas; none: only
    /// samples and those of --off-cpu. Without it, with all of these that are recorded, but wakeup
    /// and user. Of a system call it is that with which it begins, unless syscall-exit is named. A
    /// user event costs its program an interruption then: its trace point is probed
    #[arg(long, value_name = "LIST", requires = "stack")]
    stack_for: Option<String>,
    /// Record so many times a second who has each CPU, and its stack: 99, at most 10000. With what
    /// --stack says of stacks; without it, user,kernel
    #[arg(long, value_name = "HZ", allow_negative_numbers = true)]
    sample: Option<String>,
    /// Record the stack of each thread that was blocked for longer than this, as it gets a CPU
    /// again (1ms; 0 for all): it is that with which it blocked. With what --stack says of stacks;
    /// without it, user,kernel
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    off_cpu: Option<String>,
    /// How the functions of programs are found. fp, as without this: by frame pointers. dwarf: by
    /// what their files say of how functions call (.eh_frame), which needs none: the registers are
    /// copied, and 8K of the stack, or so many bytes (dwarf,2K; at most 32K, of a blocked thread
    /// 8K). Each stack takes that much of the ring: give a larger --ring-size where many come. One
    /// that ends before the beginning of its program says why
    #[arg(long, value_name = "HOW")]
    unwind: Option<String>,
    /// In stacks, show functions too that the compiler has put into others, and lines of the
    /// source, where the program, or the file with its debugger's part, says so. A log does not
    /// have them: give this to what reads it
    #[arg(long)]
    pub(super) inlined: bool,
    /// Whether the stacks of blocked threads leave out the kernel's part.
    #[arg(skip)]
    off_cpu_in_program: bool,
    #[command(flatten)]
    pub(super) debuginfod: DebuginfodArgs,
}

/// Word of `--stack-for` for no type.
const NONE: &str = "none";

/// Word of `--stack-for` for user events.
const USER: &str = "user";

/// Most samples per second: each takes some microseconds.
const MOST_SAMPLES: u32 = 10_000;

/// Least and most bytes of a stack that are copied; below, the default.
const COPIED_BYTES: (u64, u64) = (512, 32 << 10);
const USUAL_COPIED_BYTES: u32 = 8192;

/// Event types that `--off-cpu` records: a stack comes with the switch back.
const SWITCHES: [EventTypeId; 2] = [EventTypeId::SWITCH_IN, EventTypeId::SWITCH_OUT];

impl StackArgs {
    /// Returns the requested stacks, and the selection with the types that stacks consist of.
    ///
    /// # Errors
    ///
    /// A word is unknown, or the kernel's events are not traced.
    pub fn options(
        &self,
        selection: Selection,
        has_kernel: bool,
    ) -> anyhow::Result<(StackOptions, Selection)> {
        self.debuginfod.ask_servers(ServerWait::GoesOn)?;
        let typed = self.typed();
        let Some((option, _)) = typed else {
            return Ok((StackOptions::default(), selection));
        };
        ensure!(
            has_kernel,
            "{option} needs the kernel; leave --no-system out"
        );
        let mut selection = selection.with(&tracer_binary::stacks::TYPES);
        let mut options = match &self.stack {
            None => frames("user,kernel")?,
            Some(typed) => frames(typed).with_context(|| format!("--stack {typed}"))?,
        };
        if let Some(typed) = &self.unwind {
            options.copied_bytes = copied_bytes(typed)?;
            ensure!(
                self.stack.is_some() || self.sample.is_some() || self.off_cpu.is_some(),
                "--unwind says how stacks are found, and none is recorded; give --stack, --sample \
                 or --off-cpu"
            );
            ensure!(
                options.user_frames > 0 || options.copied_bytes == 0,
                "--unwind {typed} finds functions of the program, which --stack leaves out; give \
                 --stack user,kernel"
            );
        }
        options.types = match (&self.stack, &self.stack_for) {
            (None, _) => 0,
            (_, None) => stacks::USUAL | stacks::PROBES | stacks::TRACEPOINTS,
            (_, Some(list)) => types(list).context("--stack-for")?,
        };
        options.user_events = self.stack.is_some() && self.names(USER);
        ensure!(
            !options.user_events || options.user_frames > 0,
            "--stack-for {USER}: user events happen in the program, whose functions --stack leaves \
             out; give --stack user"
        );
        ensure!(
            !options.user_events || selection.has_user(),
            "--stack-for {USER}: no user events are chosen; name them in --events too"
        );
        // Of a call one stack is enough: that with which it begins. Another one would cost as much.
        if selection.has(EventTypeId::SYSCALL_ENTER) && !self.names("syscall-exit") {
            options.types &= !wanted::bit(EventTypeId::SYSCALL_EXIT);
        }
        if let Some(typed) = &self.sample {
            options.samples_per_second = samples(typed)?;
            options.types |= stacks::SAMPLES;
            selection = selection.with(&[EventTypeId::SAMPLE]);
        }
        if let Some(typed) = &self.off_cpu {
            options.off_cpu = Some(match typed.as_str() {
                "0" => Duration::ZERO,
                typed => time("--off-cpu", typed)?,
            });
            options.off_cpu_in_kernel = !self.off_cpu_in_program;
            selection = selection.with(&SWITCHES);
        }
        Ok((options, selection))
    }

    /// Tells whether `--stack-for` has exactly this word.
    fn names(&self, wanted: &str) -> bool {
        let words = self.stack_for.as_deref().unwrap_or_default().split(',');
        words.map(str::trim).any(|word| word == wanted)
    }

    /// Returns the first option that was typed, and its value.
    pub fn typed(&self) -> Option<(&'static str, &str)> {
        let options = [
            ("--stack", &self.stack),
            ("--sample", &self.sample),
            ("--off-cpu", &self.off_cpu),
            ("--unwind", &self.unwind),
        ];
        let mut typed = options
            .into_iter()
            .filter_map(|(name, typed)| Some((name, typed.as_deref()?)));
        typed.next()
    }

    /// Takes from `other` the options that were not typed.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            stack: self.stack.or(other.stack),
            stack_for: self.stack_for.or(other.stack_for),
            sample: self.sample.or(other.sample),
            off_cpu: self.off_cpu.or(other.off_cpu),
            unwind: self.unwind.or(other.unwind),
            inlined: self.inlined || other.inlined,
            off_cpu_in_program: self.off_cpu_in_program || other.off_cpu_in_program,
            debuginfod: self.debuginfod.or(other.debuginfod),
        }
    }

    /// Returns the options that record what an explanation asks of stacks: of long waits, and of
    /// samples.
    #[must_use]
    pub fn for_explanations() -> Self {
        Self {
            sample: Some("99".to_owned()),
            off_cpu: Some("1ms".to_owned()),
            unwind: Some("dwarf,4K".to_owned()),
            off_cpu_in_program: true,
            ..Self::default()
        }
    }

    /// Returns the options that record the stacks for a flame graph of this kind.
    #[must_use]
    pub fn for_flames(kind: FlameKind) -> Self {
        let typed = |word: &str| Some(word.to_owned());
        match kind {
            FlameKind::OnCpu => Self {
                sample: typed("99"),
                stack_for: typed(NONE),
                ..Self::default()
            },
            FlameKind::OffCpu => Self {
                off_cpu: typed("0"),
                stack_for: typed(NONE),
                ..Self::default()
            },
            FlameKind::Wakeup => Self {
                stack: typed("user,kernel"),
                stack_for: typed("wakeup"),
                off_cpu: typed("0"),
                ..Self::default()
            },
        }
    }
}

/// Parses the number of samples per second.
fn samples(typed: &str) -> anyhow::Result<u32> {
    let count = typed.parse().ok();
    count
        .filter(|count| (1..=MOST_SAMPLES).contains(count))
        .with_context(|| {
            format!(
                "--sample {typed} is no count of samples a second; give 1 to {MOST_SAMPLES}, such \
                 as 99"
            )
        })
}

/// Parses how many bytes of a stack are copied; 0: functions are found by frame pointers.
fn copied_bytes(typed: &str) -> anyhow::Result<u32> {
    match typed.split_once(',').unwrap_or((typed, "")) {
        ("fp", "") => Ok(0),
        ("dwarf", "") => Ok(USUAL_COPIED_BYTES),
        ("dwarf", bytes) => {
            let (least, most) = COPIED_BYTES;
            Ok(u32::try_from(size("--unwind dwarf", bytes, least, most)?)?)
        }
        _ => bail!(
            "--unwind {typed} is no way to find functions; give fp, or dwarf, or dwarf with the \
             bytes that are copied of a stack: dwarf,8K"
        ),
    }
}

/// Parses how many addresses of each kind are recorded.
fn frames(typed: &str) -> anyhow::Result<StackOptions> {
    let mut most = u32::try_from(MOST_FRAMES)?;
    let most_of_python = u32::try_from(MOST_PYTHON_FRAMES)?;
    let (mut has_user, mut has_kernel, mut has_python) = (false, false, false);
    for word in typed.split(',').map(str::trim) {
        match (word, word.parse::<u32>()) {
            ("user", _) => has_user = true,
            ("kernel", _) => has_kernel = true,
            ("python", _) => has_python = true,
            (_, Ok(count)) if (1..=most).contains(&count) => most = count,
            (_, Ok(_)) => bail!("a stack has 1 to {MOST_FRAMES} functions, not {word}"),
            _ => bail!(
                "\"{word}\" is no part of a stack; give user, kernel, python, or some of them: \
                 user,kernel"
            ),
        }
    }
    ensure!(
        has_user || has_kernel || has_python,
        "whose functions? give user, kernel, python, or some of them: user,kernel"
    );
    Ok(StackOptions {
        types: 0,
        kernel_frames: if has_kernel { most } else { 0 },
        user_frames: if has_user { most } else { 0 },
        python_frames: if has_python {
            most.min(most_of_python)
        } else {
            0
        },
        ..StackOptions::default()
    })
}

/// Returns the bits of the types that a list names.
fn types(list: &str) -> anyhow::Result<u64> {
    let mut bits = 0;
    for word in list.split(',').map(str::trim) {
        bits |= match word {
            "probe" => stacks::PROBES,
            "tracepoint" => stacks::TRACEPOINTS,
            NONE | USER => 0,
            _ => {
                let named = Selection::from_words([word])?;
                let named = named.kernel_types();
                let of_word = named.iter().fold(0, |bits, id| bits | wanted::bit(*id));
                ensure!(
                    of_word & stacks::TYPES != 0,
                    "events of \"{word}\" have no stacks; those that have are {}, probe, tracepoint, user",
                    known().join(", ")
                );
                of_word & stacks::TYPES
            }
        };
    }
    Ok(bits)
}

/// Lists the names of the types that can have stacks.
fn known() -> Vec<String> {
    let with_stacks = KERNEL_EVENT_TYPES
        .iter()
        .filter(|known| stacks::TYPES & wanted::bit(known.entry.id) != 0);
    let names = with_stacks.filter_map(|known| {
        let name = system_event_type(known.entry.id)?.name;
        Some(name.trim_start_matches("linux_trace_").replace('_', "-"))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(stack: &str, types: Option<&str>) -> anyhow::Result<StackOptions> {
        let args = StackArgs {
            stack: Some(stack.to_owned()),
            stack_for: types.map(str::to_owned),
            ..StackArgs::default()
        };
        Ok(args.options(Selection::usual(), true)?.0)
    }

    fn refused(stack: &str, types: Option<&str>) -> String {
        format!("{:#}", options(stack, types).unwrap_err())
    }

    #[test]
    fn parts_and_their_length_are_chosen() {
        let chosen = options("user,kernel,20", None).unwrap();
        assert_eq!((chosen.kernel_frames, chosen.user_frames), (20, 20));
        assert!(chosen.types & stacks::PROBES != 0);
        let chosen = options("python,user,100", None).unwrap();
        assert_eq!((chosen.python_frames, chosen.user_frames), (64, 100));
        let chosen = options("python", None).unwrap();
        assert_eq!((chosen.python_frames, chosen.user_frames), (64, 0));
        assert!(chosen.are_wanted());
        let chosen = options("user", Some("syscall,probe")).unwrap();
        assert_eq!(chosen.python_frames, 0);
        assert_eq!((chosen.kernel_frames, chosen.user_frames), (0, 127));
        let both = wanted::bit(tracer_common::event_type::EventTypeId::SYSCALL_ENTER)
            | wanted::bit(tracer_common::event_type::EventTypeId::SYSCALL_EXIT);
        assert_eq!(chosen.types, both | stacks::PROBES);
    }

    #[test]
    fn a_call_has_one_stack_unless_its_end_is_named() {
        let enter = wanted::bit(EventTypeId::SYSCALL_ENTER);
        let exit = wanted::bit(EventTypeId::SYSCALL_EXIT);
        let of = |stack_for: Option<&str>, selection: Selection| {
            let args = StackArgs {
                stack: Some("user".to_owned()),
                stack_for: stack_for.map(str::to_owned),
                ..StackArgs::default()
            };
            args.options(selection, true).unwrap().0.types & (enter | exit)
        };
        let both = Selection::from_words(["syscall"]).unwrap();
        assert_eq!(of(None, both.clone()), enter);
        assert_eq!(of(Some("syscall"), both.clone()), enter);
        assert_eq!(of(Some("probe, syscall-exit"), both), exit);
        let ends = Selection::from_words(["syscall-exit"]).unwrap();
        assert_eq!(of(None, ends), enter | exit);
    }

    #[test]
    fn user_events_have_stacks_where_they_are_named() {
        assert!(!options("user", None).unwrap().user_events);
        let chosen = options("user", Some("user")).unwrap();
        assert_eq!((chosen.user_events, chosen.types), (true, 0));
        assert_eq!(chosen.recorded_types(), stacks::PROBES);
        assert!(chosen.are_wanted());
        assert!(refused("kernel", Some("user")).contains("give --stack user"));
        let args = StackArgs {
            stack: Some("user".to_owned()),
            stack_for: Some("user".to_owned()),
            ..StackArgs::default()
        };
        let refusal = args.options(Selection::from_words(["exec"]).unwrap(), true);
        assert!(refusal.unwrap_err().to_string().contains("--events"));
    }

    #[test]
    fn what_is_no_stack_is_refused() {
        assert!(refused("users", None).contains("\"users\" is no part of a stack"));
        assert!(refused("user,200", None).contains("1 to 127"));
        assert!(refused("20", None).contains("whose functions"));
        assert!(refused("user", Some("exec")).contains("have no stacks"));
        assert!(refused("user", Some("exce")).contains("is exec meant"));
        let args = StackArgs {
            stack: Some("user".to_owned()),
            ..StackArgs::default()
        };
        assert!(args.options(Selection::usual(), false).is_err());
    }

    #[test]
    fn functions_are_found_by_what_was_chosen() {
        let copied = |unwind: &str, stack: Option<&str>| {
            let args = StackArgs {
                stack: stack.map(str::to_owned),
                unwind: Some(unwind.to_owned()),
                ..StackArgs::default()
            };
            let options = args.options(Selection::usual(), true);
            options.map(|(options, _)| options.copied_bytes)
        };
        let user = Some("user");
        assert_eq!(copied("fp", user).unwrap(), 0);
        assert_eq!(copied("dwarf", user).unwrap(), 8192);
        assert_eq!(copied("dwarf,2K", user).unwrap(), 2048);
        assert_eq!(copied("fp", Some("kernel")).unwrap(), 0);
        for (wrong, stack, said) in [
            ("lbr", user, "give fp, or dwarf"),
            ("fp,8K", user, "give fp, or dwarf"),
            ("dwarf,64K", user, "from 512"),
            ("dwarf,many", user, "is no size"),
            ("dwarf", Some("kernel"), "--stack user,kernel"),
            ("dwarf", None, "--off-cpu"),
        ] {
            let refusal = format!("{:#}", copied(wrong, stack).unwrap_err());
            assert!(refusal.contains(said), "{wrong}: {refusal}");
        }
    }

    #[test]
    fn samples_and_blocked_threads_have_stacks_of_their_own() {
        let options = |sample: Option<&str>, off_cpu: Option<&str>, stack: Option<&str>| {
            let args = StackArgs {
                stack: stack.map(str::to_owned),
                stack_for: None,
                sample: sample.map(str::to_owned),
                off_cpu: off_cpu.map(str::to_owned),
                ..StackArgs::default()
            };
            args.options(Selection::nothing(), true)
        };
        let (chosen, selection) = options(Some("99"), None, None).unwrap();
        assert_eq!((chosen.samples_per_second, chosen.user_frames), (99, 127));
        assert_eq!(chosen.types, stacks::SAMPLES);
        assert_eq!(chosen.sampled_ns(), 10_101_010);
        assert!(selection.has(EventTypeId::SAMPLE) && !selection.has(EventTypeId::SWITCH_IN));
        let (chosen, selection) = options(None, Some("1ms"), Some("user,9")).unwrap();
        assert_eq!(chosen.off_cpu, Some(Duration::from_millis(1)));
        assert_eq!((chosen.user_frames, chosen.kernel_frames), (9, 0));
        assert!(selection.has(EventTypeId::SWITCH_IN));
        assert!(chosen.types & stacks::SAMPLES == 0 && chosen.are_wanted());
        let (chosen, _) = options(None, Some("0"), None).unwrap();
        assert_eq!((chosen.off_cpu, chosen.types), (Some(Duration::ZERO), 0));
        for wrong in ["0", "-1", "10001", "many", ""] {
            let refusal = format!("{:#}", options(Some(wrong), None, None).unwrap_err());
            assert!(refusal.starts_with("--sample") && refusal.contains("1 to 10000"));
        }
        assert!(options(None, Some("soon"), None).is_err());
        assert!(options(None, None, None).is_ok_and(|(chosen, _)| !chosen.are_wanted()));
    }
}
