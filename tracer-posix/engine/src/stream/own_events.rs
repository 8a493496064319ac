//! Events that a stream records of itself: their types, their data, and the filter that applies.

use tracer_common::event_type::EventTypeId;

use super::core::{Filtering, Origin, StreamCore};
use crate::event::{EventHeader, MonotonicNs, Truncation};
use crate::sizes::event_size;
use crate::source::{Loss, LossCause};
use crate::{EventSet, StreamFullPolicy};

const USER: EventTypeId = EventTypeId(300);

fn user_event(time: u64) -> EventHeader {
    EventHeader {
        time: MonotonicNs(time),
        event_type: USER,
        pid: 1,
        tid: 1,
        cpu: None,
        thread_id: 1,
        program_address: 0,
        truncation: Truncation::None,
    }
}

fn set_of(types: &[EventTypeId]) -> EventSet {
    let mut set = EventSet::EMPTY;
    types.iter().for_each(|id| set.insert(*id));
    set
}

/// Returns a started stream with space for some events, its START already read.
fn started(policy: StreamFullPolicy) -> StreamCore {
    let mut core = StreamCore::new(policy, event_size(0) * 4);
    core.start(MonotonicNs(1), Origin::NONE);
    assert_eq!(types_and_data(&mut core).len(), 1);
    core
}

fn types_and_data(core: &mut StreamCore) -> Vec<(EventTypeId, Vec<u8>)> {
    let mut data = Vec::new();
    let mut all = Vec::new();
    while let Some(header) = core.next(&mut data, || MonotonicNs(1000)) {
        all.push((header.event_type, data.clone()));
    }
    all
}

#[test]
fn a_filter_is_set_added_to_and_taken_from() {
    let mut core = StreamCore::new(StreamFullPolicy::Loop, 4096);
    let mut change = |types: &[EventTypeId], how| {
        core.set_filter(&set_of(types), how, MonotonicNs(1), Origin::NONE);
        *core.filter()
    };
    let (one, two, three) = (EventTypeId(301), EventTypeId(302), EventTypeId(303));

    assert_eq!(change(&[one], Filtering::Set), set_of(&[one]));
    assert_eq!(change(&[two], Filtering::Add), set_of(&[one, two]));
    assert_eq!(change(&[two, three], Filtering::Sub), set_of(&[one]));
    assert_eq!(change(&[three], Filtering::Set), set_of(&[three]));
}

#[test]
fn a_change_of_the_filter_is_recorded_with_both_unless_the_old_one_holds_its_type() {
    let mut core = StreamCore::new(StreamFullPolicy::Loop, 4096);
    core.start(MonotonicNs(1), Origin::NONE);
    types_and_data(&mut core);
    let (nothing, itself) = (EventSet::EMPTY, set_of(&[EventTypeId::FILTER]));
    let recorded = |old: &EventSet, new: &EventSet| {
        let data = [old.to_bytes(), new.to_bytes()].concat();
        (EventTypeId::FILTER, data)
    };

    core.set_filter(&itself, Filtering::Set, MonotonicNs(2), Origin::NONE);
    assert_eq!(types_and_data(&mut core), [recorded(&nothing, &itself)]);
    core.set_filter(&nothing, Filtering::Set, MonotonicNs(3), Origin::NONE);
    assert_eq!(types_and_data(&mut core), []);
}

#[test]
fn a_stop_says_whether_the_stream_stopped_itself() {
    let mut core = started(StreamFullPolicy::UntilFull);
    core.stop(MonotonicNs(2), Origin::NONE);
    let called = (EventTypeId::STOP, 0_i32.to_ne_bytes().to_vec());
    assert_eq!(types_and_data(&mut core), [called]);

    core.start(MonotonicNs(3), Origin::NONE);
    types_and_data(&mut core);
    (4..9).for_each(|time| core.feed(user_event(time), b""));
    let by_itself = (EventTypeId::STOP, 1_i32.to_ne_bytes().to_vec());
    assert_eq!(types_and_data(&mut core).get(4), Some(&by_itself));
}

#[test]
fn a_stop_by_a_call_says_so_where_there_is_no_space_left() {
    for policy in [StreamFullPolicy::UntilFull, StreamFullPolicy::Flush] {
        let mut core = started(policy);
        (2..6).for_each(|time| core.feed(user_event(time), b""));
        let caller = Origin {
            pid: 7,
            ..Origin::NONE
        };
        core.stop(MonotonicNs(9), caller);

        let status = core.status();
        assert!(!status.is_running && !status.is_overrun);
        assert_eq!(core.ledger().lost_in_all(), 0);
        let mut data = Vec::new();
        let last = std::iter::from_fn(|| core.next(&mut data, || MonotonicNs(1000))).last();
        let last = last.unwrap();
        assert_eq!(
            (last.event_type, last.time.0, last.pid),
            (EventTypeId::STOP, 9, 7)
        );
        assert_eq!(data, 0_i32.to_ne_bytes());
        assert!(!core.is_running(), "it does not restart");
    }
}

#[test]
fn what_is_lost_once_the_log_is_full_is_no_loss() {
    let loss = |since| Loss {
        cause: LossCause::ThreadRingFull,
        count: 3,
        since: MonotonicNs(since),
        is_marked: false,
    };
    let mut core = started(StreamFullPolicy::Flush);
    core.feed(user_event(5), b"");
    core.suspend();
    assert!(!core.wants_events());
    core.feed(user_event(6), b"");
    core.feed_loss(loss(7));
    assert!(!core.status().is_overrun);
    core.feed_loss(loss(4));
    assert!(core.status().is_overrun);
    assert_eq!(core.ledger().lost_in_all(), 3);
}

#[test]
fn a_flush_is_recorded_with_the_time_of_its_call() {
    let mut core = started(StreamFullPolicy::Flush);
    core.feed(user_event(5), b"");
    core.advance(MonotonicNs(9));
    core.begin_flush(Origin::NONE);
    let mut data = Vec::new();
    let times: Vec<_> = std::iter::from_fn(|| core.next(&mut data, || MonotonicNs(1000)))
        .map(|header| header.time.0)
        .collect();
    assert_eq!(times, [5, 9]);
}

#[test]
fn a_flush_of_a_running_stream_is_recorded_from_its_start_to_its_end() {
    let mut core = started(StreamFullPolicy::Flush);
    core.begin_flush(Origin::NONE);
    core.end_flush(Origin::NONE);
    let recorded: Vec<_> = types_and_data(&mut core)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(
        recorded,
        [EventTypeId::FLUSH_START, EventTypeId::FLUSH_STOP]
    );

    core.stop(MonotonicNs(2), Origin::NONE);
    types_and_data(&mut core);
    core.begin_flush(Origin::NONE);
    core.end_flush(Origin::NONE);
    assert_eq!(types_and_data(&mut core), []);
}

#[test]
fn what_was_shown_and_then_overwritten_makes_no_reader_skip_an_event() {
    let mut core = started(StreamFullPolicy::Loop);
    let mut data = Vec::new();
    let mut shown = |core: &mut StreamCore| core.show_next(&mut data).map(|header| header.time.0);
    (2..6).for_each(|time| core.feed(user_event(time), b""));
    assert_eq!([shown(&mut core), shown(&mut core)], [Some(2), Some(3)]);
    // One that was shown makes space, then both and one that was not.
    core.feed(user_event(6), b"");
    assert_eq!(shown(&mut core), Some(4));
    (7..10).for_each(|time| core.feed(user_event(time), b""));
    assert_eq!([shown(&mut core), shown(&mut core)], [Some(6), Some(7)]);
}
