//! Switches and wake-ups that the kernel did not report: a thread leaves a CPU that it never got,
//! or gets one though nothing woke it.

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    ExecData, ForkData, PID_LIMIT, SwitchInData, SwitchOutData, others, wanted,
};
use tracer_engine::event::EventHeader;
use zerocopy::FromBytes;

/// Types of switches, as bits.
pub const SWITCHES: u64 =
    wanted::bit(EventTypeId::SWITCH_OUT) | wanted::bit(EventTypeId::SWITCH_IN);

/// Bit of the kernel's state of a thread that leaves its CPU for good (`TASK_DEAD`).
const DEAD: u32 = 0x80;

/// Set of the threads that have switched, with a bit for each tid: half a megabyte, of which only
/// the pages that are used take memory.
///
/// A thread's first switch away may come without a switch to the thread before it: the thread had
/// its CPU when the trace began. Where a later switch away comes without one, the kernel did not
/// report the switch to the thread.
#[derive(Default)]
pub struct Switches(Vec<u64>);

impl Switches {
    /// Looks at an event. Returns whether the switch to its thread is missing before it, or a
    /// wake-up of the thread, which the eBPF program has noted in the data.
    pub fn misses_one(&mut self, header: &EventHeader, data: &[u8]) -> bool {
        match header.event_type {
            EventTypeId::EXEC => {
                // The thread got its CPU under its old tid, and the eBPF program noted that tid.
                if ExecData::old_tid_of(data).is_some_and(|old| old != header.tid) {
                    self.begins(header.tid);
                }
                false
            }
            EventTypeId::FORK | EventTypeId::THREAD_CREATE => {
                if let Ok((made, _)) = ForkData::ref_from_prefix(data) {
                    self.begins(made.child_tid.cast_signed());
                }
                false
            }
            EventTypeId::SWITCH_IN => {
                self.see(header.tid);
                SwitchInData::read_from_bytes(data)
                    .is_ok_and(|data| data.others == others::NOT_WOKEN)
            }
            EventTypeId::SWITCH_OUT => {
                let was_seen = self.see(header.tid);
                SwitchOutData::read_from_bytes(data).is_ok_and(|data| {
                    if data.state & DEAD != 0 {
                        self.begins(header.tid);
                    }
                    // 0: the eBPF program did not see the switch to the thread.
                    was_seen && data.ran_ns == 0
                })
            }
            _ => false,
        }
    }

    /// Forgets a thread: another one that has its tid begins, or the thread comes to be traced
    /// while it may have its CPU already.
    pub fn begins(&mut self, tid: i32) {
        if let Some((word, bit)) = self.bit(tid) {
            *word &= !bit;
        }
    }

    /// Notes the thread. Returns whether it was noted before.
    fn see(&mut self, tid: i32) -> bool {
        if self.0.is_empty() {
            // The kernel provides zeroed pages, and only when they are first written.
            self.0 = vec![0; usize::try_from(PID_LIMIT / u64::BITS).unwrap_or(0)];
        }
        let Some((word, bit)) = self.bit(tid) else {
            return false;
        };
        let was_seen = *word & bit != 0;
        *word |= bit;
        was_seen
    }

    fn bit(&mut self, tid: i32) -> Option<(&mut u64, u64)> {
        let bits = usize::try_from(u64::BITS).unwrap_or(64);
        let index = usize::try_from(tid).ok()?;
        Some((self.0.get_mut(index / bits)?, 1 << (index % bits)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracer_common::kernel::{WakeupData, traced, waker_context, wanted};
    use tracer_engine::event::{MonotonicNs, Truncation};
    use zerocopy::{FromZeros, IntoBytes};

    use super::*;
    use crate::decode::decode;
    use crate::loading::Plan;
    use crate::options::KernelOptions;
    use crate::programs::unload;
    use crate::requirements;
    use crate::rings::Rings;
    use crate::traced::TracedMap;

    /// Naps of a thread.
    const NAPS: usize = 50;

    fn header(event_type: EventTypeId, tid: i32) -> EventHeader {
        EventHeader {
            time: MonotonicNs(5),
            event_type,
            pid: 8,
            tid,
            cpu: Some(1),
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    fn leaves(switches: &mut Switches, tid: i32, ran_ns: u64) -> bool {
        let mut data = SwitchOutData::new_zeroed();
        data.ran_ns = ran_ns;
        switches.misses_one(&header(EventTypeId::SWITCH_OUT, tid), data.as_bytes())
    }

    #[test]
    fn a_thread_that_had_its_cpu_before_the_trace_misses_nothing() {
        let mut switches = Switches::default();

        assert!(!leaves(&mut switches, 9, 0));
        assert!(!leaves(&mut switches, 9, 100));
    }

    #[test]
    fn a_thread_that_leaves_what_it_never_got_misses_a_switch() {
        let mut switches = Switches::default();
        let comes = header(EventTypeId::SWITCH_IN, 9);
        assert!(!switches.misses_one(&comes, SwitchInData::new_zeroed().as_bytes()));

        assert!(!leaves(&mut switches, 9, 7));
        assert!(leaves(&mut switches, 9, 0));
        assert!(!leaves(&mut switches, 10, 0), "another thread");
    }

    #[test]
    fn a_tid_that_is_used_again_or_a_thread_that_is_chosen_again_misses_nothing() {
        let mut switches = Switches::default();
        assert!(!leaves(&mut switches, 9, 7));
        let mut last = SwitchOutData::new_zeroed();
        (last.state, last.ran_ns) = (DEAD, 7);
        let last_header = header(EventTypeId::SWITCH_OUT, 9);
        assert!(!switches.misses_one(&last_header, last.as_bytes()));
        assert!(!leaves(&mut switches, 9, 0), "another thread of the tid");

        switches.begins(9);
        assert!(!leaves(&mut switches, 9, 0), "chosen again");

        let mut made = ForkData::new_zeroed();
        made.child_tid = 9;
        let fork = header(EventTypeId::FORK, 8);
        assert!(!switches.misses_one(&fork, made.as_bytes()));
        assert!(!leaves(&mut switches, 9, 0), "made anew");
        assert!(leaves(&mut switches, 9, 0));
    }

    #[test]
    fn a_thread_that_gets_a_cpu_without_being_woken_misses_a_wakeup() {
        let mut switches = Switches::default();
        let comes = header(EventTypeId::SWITCH_IN, 9);
        let mut data = SwitchInData::new_zeroed();

        for (others, misses) in [(others::SOME, false), (others::NOT_WOKEN, true)] {
            data.others = others;
            assert_eq!(switches.misses_one(&comes, data.as_bytes()), misses);
        }
    }

    #[test]
    fn a_thread_that_runs_a_program_under_another_tid_misses_nothing() {
        let mut switches = Switches::default();
        assert!(!leaves(&mut switches, 9, 7));
        let mut exec = ExecData::new_zeroed();
        exec.old_tid = 10;
        let is_one = switches.misses_one(&header(EventTypeId::EXEC, 9), &exec.as_bytes()[..21]);
        assert!(!is_one && !leaves(&mut switches, 9, 0));
        assert!(leaves(&mut switches, 9, 0));
    }

    #[test]
    fn tids_that_no_thread_has_are_borne() {
        let mut switches = Switches::default();

        assert!(!leaves(&mut switches, -1, 0));
        assert!(!leaves(&mut switches, i32::MAX, 0));
        assert!(!leaves(&mut switches, i32::MAX, 0));
    }

    /// Naps of the running thread, as they were recorded.
    #[derive(Debug, Default)]
    struct Naps {
        /// How often it got a CPU.
        comes: usize,
        /// How often it did so without being woken.
        unwoken: usize,
        /// How often it was woken by an unknown waker.
        unknown_wakers: usize,
        /// How often it was woken by a timer.
        by_timers: usize,
    }

    fn nap(rings: &mut Rings) -> Naps {
        for _ in 0..NAPS {
            std::thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: no memory is concerned.
        let own = unsafe { libc::gettid() };
        let mut switches = Switches::default();
        let mut naps = Naps::default();
        let mut take = |header: EventHeader, data: &[u8]| match header.event_type {
            _ if header.tid != own => {}
            EventTypeId::SWITCH_IN => {
                naps.comes += 1;
                naps.unwoken += usize::from(switches.misses_one(&header, data));
            }
            EventTypeId::WAKEUP => {
                let data = WakeupData::read_from_bytes(data).unwrap();
                let is_timer = data.waker_context == waker_context::HRTIMER;
                naps.by_timers += usize::from(is_timer);
                naps.unknown_wakers += usize::from(data.waker_context == waker_context::UNKNOWN);
            }
            _ => {}
        };
        rings.look_at_ends();
        rings.drain(|record| decode(record, &mut take).unwrap());
        naps
    }

    #[test]
    #[ignore = "loads eBPF: run by cargo xtask test"]
    fn wakeups_that_are_not_reported_are_counted_and_have_no_waker_of_another_one() {
        if let Err(lacking) = requirements::capabilities() {
            let is_required = std::env::var_os("TRACER_REQUIRE_PRIVILEGED");
            assert!(is_required.is_none_or(|value| value != "1"), "{lacking}");
            return;
        }
        let types = vec![
            EventTypeId::SWITCH_IN,
            EventTypeId::SWITCH_OUT,
            EventTypeId::WAKEUP,
        ];
        let bits = types.iter().fold(0, |bits, id| bits | wanted::bit(*id));
        let options = KernelOptions {
            wanted: types,
            ..KernelOptions::default()
        };
        let kernel = requirements::examine(None).unwrap();
        let plan = Plan::new(&options, &kernel, options.rounded_ring_bytes().unwrap());
        let mut ebpf = plan.load(crate::loading::object()).unwrap();
        let mut maps = plan.map(&mut ebpf).unwrap();
        let attached = plan.attach(&mut ebpf).unwrap();
        assert_eq!(attached.recorded & bits, bits);
        maps.wanted.set_recorded(bits);
        maps.wanted.set_types(bits);
        let all_traced = TracedMap::from_object(&ebpf).unwrap();
        let own = usize::try_from(std::process::id()).unwrap();
        all_traced.set(own, traced::TRACED).unwrap();

        // On a virtual machine, the kernel leaves some of them unreported by itself.
        let most = |count: usize| count > NAPS * 3 / 4;
        let naps = nap(&mut maps.rings);
        assert!(
            most(naps.comes) && most(naps.by_timers) && naps.unwoken < NAPS / 4,
            "{naps:?}"
        );

        // No wake-up counts as missing while wake-ups are not recorded.
        maps.wanted
            .set_types(bits & !wanted::bit(EventTypeId::WAKEUP));
        let naps = nap(&mut maps.rings);
        assert!(most(naps.comes) && naps.unwoken == 0, "{naps:?}");
        maps.wanted.set_types(bits);

        // The waker of an earlier wake-up is not taken for the waker of this one.
        assert!(most(nap(&mut maps.rings).by_timers));
        unload(&mut ebpf, ["sched_waking", "sched_waking_raw"]);
        let naps = nap(&mut maps.rings);
        assert!(most(naps.unknown_wakers) && naps.by_timers <= 1, "{naps:?}");

        unload(&mut ebpf, ["sched_wakeup", "sched_wakeup_raw"]);
        let naps = nap(&mut maps.rings);
        assert!(
            most(naps.comes) && naps.unwoken > naps.comes * 3 / 4,
            "{naps:?}"
        );
    }
}
