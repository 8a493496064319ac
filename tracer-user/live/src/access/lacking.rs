//! Options whose events the service does not give.

use anyhow::bail;

use super::super::setup::Buffers;
use super::Setup;
use super::detail::lacks_kernel_frames;

/// Options, and what works without them.
struct Lacking {
    /// Whether it is asked for.
    is_asked_for: fn(&Setup) -> bool,
    /// The options that may have asked.
    options: &'static str,
    /// Words that say what works without root.
    instead: &'static str,
}

const LACKING: [Lacking; 7] = [
    Lacking {
        is_asked_for: |setup| setup.recording.counting.is_some(),
        options: "--count",
        instead: "leave it out: `tracer-user stat` sums up what the service records",
    },
    Lacking {
        is_asked_for: |setup| !setup.recording.tracepoints.is_empty(),
        options: "--tracepoint",
        instead: "its fields may be of any process; leave it out for the events that `tracer-user events` lists",
    },
    Lacking {
        is_asked_for: |setup| !setup.recording.probes.is_empty(),
        options: "--probe, --retprobe, --usdt or --span of a function",
        instead: "the service sets no probes, as it opens no file of a program; without root there \
                  are user events, which a program has without a probe (--span by their names)",
    },
    Lacking {
        is_asked_for: |setup| setup.recording.stacks.user_events,
        options: "--stack-for user",
        instead: "leave `user` out: other events have stacks",
    },
    Lacking {
        is_asked_for: |setup| {
            let stacks = &setup.recording.stacks;
            let is_of_program = stacks.user_frames > 0 || stacks.python_frames > 0;
            stacks.are_wanted() && !is_of_program && lacks_kernel_frames(setup)
        },
        options: "--stack kernel",
        instead: "give --stack user; functions of the kernel are for who may read their addresses: \
                  kernel.kptr_restrict is 0 and kernel.perf_event_paranoid at most 1",
    },
    Lacking {
        is_asked_for: |setup| setup.recording.btf.is_some(),
        options: "--btf",
        instead: "leave it out: the service knows the kernel's types",
    },
    Lacking {
        is_asked_for: |setup| {
            setup.buffers.kernel_ring_bytes != Buffers::default().kernel_ring_bytes
        },
        options: "--ring-size",
        instead: "leave it out: the service has rings of its own",
    },
];

/// Makes sure that nothing is asked for that the service does not give.
///
/// # Errors
///
/// The first option of those.
pub fn refuse(setup: &Setup) -> anyhow::Result<()> {
    let asked = LACKING.iter().find(|lacking| (lacking.is_asked_for)(setup));
    if let Some(Lacking {
        options, instead, ..
    }) = asked
    {
        bail!("{options}: needs root (run with sudo); {instead}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracer_binary::probes::ProbeSpec;
    use tracer_event::selection::Selection;
    use tracer_kernel::named_tracepoints::Pattern;
    use tracer_output::report::TextLook;
    use tracer_output::terminal::output::Sink;
    use tracer_syscalls::choice::SyscallSet;
    use tracer_syscalls::descriptors::DescriptorOptions;

    use super::super::super::setup::DEFAULT_STRING_BYTES;
    use super::*;
    use crate::{ConsumerSetup, Followed, Format, Recording};

    fn setup(change: impl FnOnce(&mut Setup)) -> Setup {
        let mut setup = Setup {
            followed: Followed {
                children: true,
                wakers: false,
            },
            recording: Recording {
                selection: Selection::usual().with_syscalls(),
                string_bytes: DEFAULT_STRING_BYTES,
                ..Recording::default()
            },
            buffers: Buffers::default(),
            event_limit: Some(1),
            duration: None,
            log: None,
            output: Sink::Stdout,
            consumer: ConsumerSetup::report(Format::Json, TextLook::default()),
        };
        change(&mut setup);
        setup
    }

    #[test]
    fn what_the_service_does_not_give_is_refused_by_its_option() {
        let stacks = |change: fn(&mut tracer_binary::stacks::StackOptions)| {
            setup(|setup| change(&mut setup.recording.stacks))
        };
        let refused = [
            (setup(|it| it.recording.btf = Some("f".into())), "--btf"),
            (setup(|it| it.buffers.kernel_ring_bytes *= 2), "--ring-size"),
            (stacks(|it| it.user_events = true), "--stack-for user"),
            (
                setup(|it| {
                    let probe = ProbeSpec::function("libc.so.6:malloc").unwrap();
                    it.recording.probes = vec![probe];
                }),
                "--probe",
            ),
            (
                setup(|it| {
                    let pattern = Pattern::new("sock:*").unwrap();
                    it.recording.tracepoints = vec![pattern];
                }),
                "--tracepoint",
            ),
        ];
        for (setup, option) in &refused {
            let error = refuse(setup).unwrap_err().to_string();
            assert!(error.contains(option), "{option}: {error}");
            assert!(error.contains("needs root"), "{error}");
        }
    }

    #[test]
    fn the_rest_is_given() {
        assert!(refuse(&setup(|_| {})).is_ok());
        let chosen = setup(|it| it.recording.syscalls = SyscallSet::of_list("openat").unwrap());
        assert!(refuse(&chosen).is_ok());
        let detailed = setup(|it| {
            it.recording.string_bytes = 65;
            it.recording.descriptors = DescriptorOptions::Plain;
            it.recording.inlined = true;
            it.recording.calls_at_exit = true;
            it.recording.trace_context = true;
            let stacks = &mut it.recording.stacks;
            (stacks.off_cpu, stacks.user_frames) = (Some(Duration::ZERO), 8);
            stacks.python_frames = 9;
        });
        assert!(refuse(&detailed).is_ok());
    }
}
