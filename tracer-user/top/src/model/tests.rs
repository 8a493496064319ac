use proptest::prelude::*;
use tracer_common::event_type::{EventTypeId, FIRST_USER_EVENT};
use tracer_common::kernel::{SwitchInData, SwitchOutData, WakeupData, waits_in, waker_context};
use tracer_engine::event::{Event, EventHeader, Truncation};
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::*;
use crate::view::text;
use tracer_answers::stat::{Statistics, Sums};
use tracer_event::summary::Summary;

const MS: u64 = 1_000_000;

fn header(at: u64, event_type: EventTypeId, tid: i32) -> EventHeader {
    EventHeader {
        time: MonotonicNs(at),
        event_type,
        pid: 10,
        tid,
        thread_id: 0,
        program_address: 0,
        cpu: Some(0),
        truncation: Truncation::None,
    }
}

fn feed(model: &mut Model, header: EventHeader, data: &[u8]) {
    let event = Event { header, data };
    model.event(&EventView::bare(event, b"any")).unwrap();
}

/// Emits a switch: `from`, which has run for `ran_ns`, blocks in `read()`, and `to` gets its CPU. A
/// tid of 0 is the idle task.
fn switch(model: &mut Model, at: u64, (from, ran_ns): (i32, u64), to: i32) {
    if from != 0 {
        let mut data = SwitchOutData::new_zeroed();
        (data.state, data.waits_in, data.ran_ns) = (1, waits_in::SYSCALL, ran_ns);
        data.next_tid = to.unsigned_abs();
        feed(
            model,
            header(at, EventTypeId::SWITCH_OUT, from),
            data.as_bytes(),
        );
    }
    if to != 0 {
        let data = SwitchInData::new_zeroed();
        feed(
            model,
            header(at, EventTypeId::SWITCH_IN, to),
            data.as_bytes(),
        );
    }
}

fn wake(model: &mut Model, at: u64, tid: i32) {
    let mut data = WakeupData::new_zeroed();
    data.waker_context = waker_context::HRTIMER;
    feed(model, header(at, EventTypeId::WAKEUP, tid), data.as_bytes());
}

fn row(shot: &Shot, tid: i32) -> &ThreadRow {
    let mut rows = shot.threads.iter();
    rows.find(|row| row.thread.tid == tid).unwrap()
}

#[test]
fn the_last_second_is_summed_up_to_the_nanosecond() {
    let mut model = Model::new(Vec::new());
    switch(&mut model, 0, (0, 0), 11);
    switch(&mut model, 1500 * MS, (11, 1500 * MS), 0);
    wake(&mut model, 1800 * MS, 11);
    switch(&mut model, 1900 * MS, (0, 0), 11);
    model.advance(MonotonicNs(2000 * MS));
    let shot = model.shot(Window::Last(1000 * MS));
    let sum = row(&shot, 11).sum;
    let expected = Sum {
        running: 600 * MS,
        blocked: 300 * MS,
        runnable: 100 * MS,
        switches: 1,
        wakeups: 1,
        worst_wakeup: Some(100 * MS),
        ..Sum::default()
    };
    assert_eq!((sum, shot.span), (expected, 1000 * MS));
    assert_eq!(row(&shot, 11).minute, [1000 * MS, 600 * MS]);
    assert_eq!(row(&model.shot(Window::All), 11).sum.running, 1600 * MS);

    switch(&mut model, 2500 * MS, (11, 600 * MS), 0);
    model.advance(MonotonicNs(9000 * MS));
    let shot = model.shot(Window::Last(1000 * MS));
    let row = row(&shot, 11);
    assert_eq!((row.sum.blocked, row.sum.switches), (1000 * MS, 0));
    assert_eq!(row.waits_for, Some(WaitsFor::LastWokenBy(Waker::Timer)));
    assert_eq!(row.minute.len(), 9);
    assert_eq!(row.minute[2], 500 * MS);
}

#[test]
fn a_long_pause_takes_no_time() {
    let mut model = Model::new(Vec::new());
    switch(&mut model, 0, (0, 0), 11);
    model.advance(MonotonicNs(u64::MAX / 2));
    assert_eq!(
        row(&model.shot(Window::All), 11).minute,
        [1000 * MS; MINUTE]
    );
}

proptest! {
    /// Checks, for any log and any bytes of a target, that the sums of all of the time are those of
    /// `stat`, that those of the last second are no longer than a second, and that names are
    /// harmless.
    #[test]
    fn sums_are_those_of_stat_whatever_comes(
        events in prop::collection::vec(
            (0..2_000_000_000_u64, 0_u32..60, 0..3_i32, 0..4_i32, any::<Option<u32>>(),
             prop::collection::vec(any::<u8>(), 0..80), prop::option::weighted(0.1, any::<u64>())),
            0..60),
        is_sorted in any::<bool>(),
    ) {
        let mut events = events;
        if is_sorted {
            events.sort_by_key(|(at, ..)| *at);
        }
        let mut types = EventTypes::default();
        types.define_user(b"x begin", None);
        types.define_user(b"x end", None);
        let (mut model, mut sums) = (Model::new(Vec::new()), Sums::new(Vec::new()));
        model.learn_types(&types);
        sums.learn_types(&types);
        for (at, id, pid, tid, cpu, data, lost) in &events {
            let id = if *id < 58 { *id } else { FIRST_USER_EVENT + 1 + id % 2 };
            let header = EventHeader {
                pid: *pid,
                cpu: *cpu,
                ..header(*at, EventTypeId(id), *tid)
            };
            if let Some(until) = lost {
                let gap = Gap {
                    next: header.time,
                    until: (until % 2 == 0).then_some(MonotonicNs(*until)),
                    is_kernels: until % 3 == 0,
                    is_unrecorded: false,
                    tid: None,
                };
                model.gap(&gap);
                sums.gap(&gap);
            }
            let event = Event { header, data };
            let view = EventView::bare(event, b"a\x1b\xff");
            model.event(&view).unwrap();
            sums.event(&view).unwrap();
            if at % 7 == 0 {
                model.shot(Window::Last(1000 * MS));
            }
        }
        let lately = model.shot(Window::Last(1000 * MS));
        if is_sorted {
            for row in &lately.threads {
                prop_assert!(row.sum.all() <= lately.span, "{row:?} of {}", lately.span);
            }
        }
        let shot = model.shot(Window::All);
        let shown = text(&shot);
        prop_assert!(!shown.contains('\x1b'));
        let statistics = Statistics::finish(sums, &Summary::default());
        for (thread, _, total) in &statistics.threads {
            let row = shot.threads.iter().find(|row| row.thread == *thread);
            let sum = row.map(|row| row.sum).unwrap_or_default();
            if is_sorted {
                prop_assert_eq!(
                    [sum.running, sum.runnable, sum.blocked, sum.stopped, sum.unknown],
                    [total.running, total.runnable, total.blocked, total.stopped, total.unknown]
                );
            }
            prop_assert_eq!(sum.wakeups, total.wakeups.count());
        }
        for (kind, row) in statistics.paths.kinds().iter().zip(&shot.spans) {
            prop_assert_eq!((row.count, row.p99), (kind.took.count(), kind.took.quantile(0.99)));
        }
    }
}

#[test]
fn what_the_kernel_did_not_report_is_told_as_it_is_everywhere() {
    let mut model = Model::new(Vec::new());
    switch(&mut model, 0, (0, 0), 11);
    let mut first_words = |lost, not_reported| {
        model.count_losses(ShownLosses { lost, not_reported });
        let text = text(&model.shot(Window::All));
        text.split("  ").next().unwrap().to_owned()
    };
    let lost = vec![(tracer_engine::source::LossCause::KernelNotReported, 7)];
    let summary = Summary::new(Vec::new(), lost, std::time::Duration::ZERO);
    assert_eq!(
        first_words(0, 7),
        format!("0 events lost{}", summary.but_for())
    );
    assert!(
        first_words(0, 7)
            .ends_with("complete, but for 7 switches and wake-ups that the kernel did not report")
    );
    assert_eq!(first_words(0, 0), "0 events lost");
}

#[test]
fn what_a_thread_does_from_the_last_event_on_is_known() {
    let mut model = Model::new(Vec::new());
    switch(&mut model, MS, (0, 0), 11);
    switch(&mut model, 3 * MS, (11, 2 * MS), 12);
    let shot = model.shot(Window::Last(1_000_000_000));
    let state = |tid| row(&shot, tid).current.map(|current| current.state);
    assert_eq!(state(12), Some(State::Running));
    assert!(matches!(state(11), Some(State::Blocked(_))));
    assert_eq!(row(&shot, 11).current.map(|one| one.ns()), Some(0));
}

#[test]
fn threads_that_come_after_very_many_that_have_ended_are_shown_by_name() {
    // Two thousand a second, each of which runs once and ends; no id comes again.
    const COUNT: i32 = 100_000;
    let mut model = Model::new(Vec::new());
    for count in 1..=COUNT {
        let at = u64::from(count.unsigned_abs()) * MS / 2;
        let begins = SwitchInData::new_zeroed();
        let its = |event_type, at| EventHeader {
            pid: 10 + count,
            ..header(at, event_type, 10 + count)
        };
        feed(
            &mut model,
            its(EventTypeId::SWITCH_IN, at),
            begins.as_bytes(),
        );
        let mut ends = SwitchOutData::new_zeroed();
        (ends.state, ends.ran_ns) = (0x80, MS / 4);
        let last = its(EventTypeId::SWITCH_OUT, at + MS / 4);
        if count < COUNT {
            feed(&mut model, last, ends.as_bytes());
        }
    }
    let shot = model.shot(Window::Last(1000 * MS));
    let newest = row(&shot, 10 + COUNT);
    assert_eq!(
        (newest.name.as_str(), newest.process.as_str()),
        ("any", "any")
    );
    assert!(shot.threads.len() >= 1999, "{}", shot.threads.len());
    assert!(model.threads.len() <= MOST_THREADS / 2 + 2000 * 11);
    assert!(!shot.has_others);
}
