//! Perfetto's protobuf, for `ui.perfetto.dev` and `trace_processor`.
//!
//! - `schema` is the part of the published schema that is written;
//! - `switches` puts the two sides of a switch together; with wake-ups, forks, exits and names they
//!   become the ftrace events (`ftrace`) that trace_processor makes its scheduling tables of;
//!   `ended` threads come late;
//! - `tracks` are threads and CPUs; a time with a beginning and an end is a slice on one, and every
//!   other event but switches and wake-ups an instant (`instant`);
//! - wake-ups are flows beside that;
//! - `stacks` come with samples, which flame graphs are made of, and with slices and instants,
//!   where they are lists of functions: engines count a field that they do not know as an error.
//!
//! trace_processor learns the parent of each process from the forks, and the names of threads from
//! their tracks: a table of processes would make it take a forked process for another one with the
//! same pid.
//!
//! Times are those of the log's monotonic clock. Perfetto's own timeline is `CLOCK_BOOTTIME`, which
//! a log does not know: the snapshot of the clocks says that it is the same as `CLOCK_MONOTONIC`,
//! which is so on a machine that has not slept since it was started.

mod ended;
mod ftrace;
mod instant;
mod schema;
mod stacks;
mod switches;
mod tracks;

use std::io::Write;
use std::rc::Rc;

use anyhow::Context;
use prost::Message;

use super::TraceOrigin;
use super::carried::Carried;
use super::names::LogThread;
use super::parts::Parts;
use super::slices::{Mark, SliceExtent};
use ftrace::Scheduler;
use schema::{
    AnnotationValue, Clock, ClockSnapshot, Data, DebugAnnotation, PerfSample, SystemInfo, Trace,
    TracePacket, TrackEvent, Utsname,
};
use stacks::WrittenStacks;
use switches::Wakeups;
use tracer_common::event_type::EventTypeId;
use tracer_engine::EventTypes;
use tracer_engine::event::MonotonicNs;
use tracer_event::consumer::{Consumer, TraceLosses};
use tracer_event::event_view::EventView;
use tracer_event::summary::Summary;
use tracks::Tracks;

/// Sequence of all packets but those that describe tracks.
const SEQUENCE: u32 = 1;
/// Sequence of the descriptions. A reader takes the thread that a sequence described last for the
/// thread of every event of that sequence that is on no thread's track.
const DESCRIPTIONS: u32 = 2;
/// `TracePacket.SEQ_INCREMENTAL_STATE_CLEARED`: the sequence starts here.
const STATE_CLEARED: u32 = 1;
/// `TracePacket.SEQ_NEEDS_INCREMENTAL_STATE`: it names what was written before.
const NEEDS_STATE: u32 = 2;

/// Exporter that writes a file.
pub struct Perfetto {
    out: Packets,
    tracks: Tracks,
    scheduler: Scheduler,
    parts: Parts,
    wakeups: Wakeups,
    stacks: WrittenStacks,
    marks: Vec<Mark<Carried>>,
    lost: u64,
    /// Time of the last event.
    now: MonotonicNs,
}

impl Perfetto {
    /// Begins the file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new(out: Box<dyn Write + Send>, origin: &TraceOrigin) -> anyhow::Result<Self> {
        let mut out = Packets {
            out,
            buffer: Vec::new(),
        };
        let now = origin.anchor.monotonic;
        out.write(TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            ..packet(now, Data::ClockSnapshot(clocks(origin)))
        })?;
        if let Some(system) = system(origin) {
            out.write(packet(now, Data::SystemInfo(system)))?;
        }
        for packet in Tracks::describe_trace(now, origin) {
            out.write(packet)?;
        }
        Ok(Self {
            out,
            tracks: Tracks::default(),
            scheduler: Scheduler::default(),
            parts: Parts::new(Rc::clone(&origin.is_wanted)),
            wakeups: Wakeups::default(),
            stacks: WrittenStacks::default(),
            marks: Vec::new(),
            lost: 0,
            now,
        })
    }

    fn write_event(&mut self, at: MonotonicNs, event: TrackEvent) -> anyhow::Result<()> {
        self.out.write(packet(at, Data::TrackEvent(event)))
    }

    /// Returns the id of the stack of an event, after writing all its parts; `None` where it has
    /// none.
    fn stack(&mut self, entry: &EventView<'_>) -> anyhow::Result<Option<u64>> {
        let header = &entry.event.header;
        if header.event_type == EventTypeId::EXEC {
            self.stacks.forget(header.pid);
        }
        let Some(stack) = &entry.stack else {
            return Ok(None);
        };
        let (id, new) = if header.event_type == EventTypeId::SAMPLE {
            self.stacks.id(stack)
        } else {
            self.stacks.list(stack)
        };
        if let Some(new) = new {
            self.out.write(TracePacket {
                timestamp: Some(entry.at().0),
                trusted_packet_sequence_id: Some(SEQUENCE),
                sequence_flags: Some(NEEDS_STATE),
                interned_data: Some(new),
                ..TracePacket::default()
            })?;
        }
        Ok(Some(id))
    }

    fn write_stacked(
        &mut self,
        at: MonotonicNs,
        mut event: TrackEvent,
        stack: Option<u64>,
    ) -> anyhow::Result<()> {
        let frames = stack.and_then(|list| self.stacks.names_of(list));
        event
            .debug_annotations
            .extend(frames.map(instant::annotate_frames));
        self.write_event(at, event)
    }

    /// Writes a sample.
    fn write_sample(&mut self, entry: &EventView<'_>, stack: Option<u64>) -> anyhow::Result<()> {
        let header = &entry.event.header;
        let sample = PerfSample {
            cpu: header.cpu,
            pid: u32::try_from(header.pid).ok(),
            tid: u32::try_from(header.tid).ok(),
            callstack_iid: stack,
        };
        self.out.write(packet(entry.at(), Data::PerfSample(sample)))
    }

    /// Writes the slices that are known so far.
    fn write_marks(&mut self) -> anyhow::Result<()> {
        for mark in std::mem::take(&mut self.marks) {
            let (track, descriptor) = self.tracks.row(mark.track, mark.row, self.now);
            if let Some(descriptor) = descriptor {
                self.out.write(descriptor)?;
            }
            let (begun, ended) = match mark.extent {
                SliceExtent::Whole(slice, at, carried) => (Some(slice), Some((at, carried))),
                SliceExtent::Begin(slice) => (Some(slice), None),
                SliceExtent::End(at, carried) => (None, Some((at, carried))),
            };
            if let Some(slice) = begun {
                let beginning = instant::beginning(slice.key, &slice.name, &slice.arguments, track);
                self.write_stacked(slice.at, beginning, slice.stack)?;
            }
            if let Some((at, carried)) = ended {
                self.write_event(at, instant::end(&carried, track))?;
            }
        }
        Ok(())
    }

    /// Writes the flows of a wake-up: from the waker to the CPU that the woken thread gets.
    fn write_wakeups(
        &mut self,
        entry: &EventView<'_>,
        thread: LogThread,
        stack: Option<u64>,
    ) -> anyhow::Result<()> {
        let comm = entry.comm.unwrap_or_default();
        if let Some(waker) = self.wakeups.wake(entry, thread) {
            let known = (!waker.comm.is_empty()).then_some(waker.comm.as_slice());
            for packet in self.tracks.describe(waker.thread, known, entry.at()) {
                self.out.write(packet)?;
            }
            self.parts
                .before_instant(entry, waker.thread, &mut self.marks);
            self.write_marks()?;
            let mut event = instant::build_wakeup("wakes", comm, self.tracks.uuid(waker.thread));
            event.flow_ids.push(waker.flow);
            // That of a wake-up is its waker's.
            self.write_stacked(entry.at(), event, stack)?;
        }
        if let Some(waker) = self.wakeups.run(entry, thread) {
            self.parts.before_instant(entry, thread, &mut self.marks);
            self.write_marks()?;
            let track = self.tracks.uuid(thread);
            let mut event = instant::build_wakeup("woken by", &waker.comm, track);
            event.terminating_flow_ids.push(waker.flow);
            self.write_event(entry.at(), event)?;
        }
        Ok(())
    }
}

/// Returns the description of the system. The states of threads depend on it: the written ones are
/// those that the tracepoint shows since Linux 4.14.
fn system(origin: &TraceOrigin) -> Option<SystemInfo> {
    let release = tracks::text(&origin.system.kernel_release);
    let machine = tracks::text(&origin.system.machine);
    (!release.is_empty()).then(|| SystemInfo {
        utsname: Some(Utsname {
            sysname: Some("Linux".to_owned()),
            release: Some(release),
            machine: Some(machine).filter(|machine| !machine.is_empty()),
        }),
    })
}

/// Returns the moment when the log was made, on every clock.
fn clocks(origin: &TraceOrigin) -> ClockSnapshot {
    /// Clock ids of `BuiltinClock`.
    const REALTIME: u32 = 1;
    const MONOTONIC: u32 = 3;
    const BOOTTIME: u32 = 6;
    let monotonic = origin.anchor.monotonic.0;
    let clock = |id, timestamp| Clock {
        clock_id: Some(id),
        timestamp: Some(timestamp),
    };
    ClockSnapshot {
        clocks: vec![
            clock(BOOTTIME, monotonic),
            clock(MONOTONIC, monotonic),
            clock(REALTIME, origin.anchor.realtime.0),
        ],
    }
}

fn packet(at: MonotonicNs, data: Data) -> TracePacket {
    let sequence = match data {
        Data::TrackDescriptor(_) => DESCRIPTIONS,
        _ => SEQUENCE,
    };
    let needs_state = match &data {
        Data::PerfSample(sample) => sample.callstack_iid.is_some(),
        Data::TrackEvent(event) => {
            let names_others = |of: &DebugAnnotation| {
                let first = of.array_values.first().and_then(|one| one.value.as_ref());
                matches!(first, Some(AnnotationValue::Interned(_)))
            };
            event.debug_annotations.iter().any(names_others)
        }
        _ => false,
    };
    TracePacket {
        timestamp: Some(at.0),
        trusted_packet_sequence_id: Some(sequence),
        sequence_flags: needs_state.then_some(NEEDS_STATE),
        data: Some(data),
        ..TracePacket::default()
    }
}

impl Consumer for Perfetto {
    fn learn_types(&mut self, types: &EventTypes) {
        self.parts.learn_types(types);
    }

    fn event(&mut self, entry: &EventView<'_>) -> anyhow::Result<()> {
        let header = &entry.event.header;
        let thread = LogThread::from_event(header);
        self.now = entry.at();
        for packet in self.tracks.before(entry, thread) {
            self.out.write(packet)?;
        }
        let stack = self.stack(entry)?;
        let is_scheduling = self.scheduler.note(entry, thread);
        if is_scheduling {
            self.write_wakeups(entry, thread, stack)?;
            let is_switch = entry.event.header.event_type != EventTypeId::WAKEUP;
            if is_switch && stack.is_some() {
                self.parts.before_instant(entry, thread, &mut self.marks);
                self.write_marks()?;
                let of_stack = instant::build_stack(entry, self.tracks.uuid(thread));
                self.write_stacked(entry.at(), of_stack, stack)?;
            }
        } else if entry.event.header.event_type == EventTypeId::SAMPLE {
            self.write_sample(entry, stack)?;
        } else {
            let is_part = self.parts.take(entry, thread, stack, &mut self.marks);
            self.write_marks()?;
            if !is_part {
                let track = self.tracks.uuid(thread);
                self.write_stacked(entry.at(), instant::build(entry, track), stack)?;
            }
        }
        self.parts.after(entry, thread, &mut self.marks);
        self.write_marks()?;
        self.tracks.after(entry);
        for packet in self.scheduler.full_bundles() {
            self.out.write(packet)?;
        }
        Ok(())
    }

    fn count_losses(&mut self, losses: &TraceLosses) -> anyhow::Result<()> {
        let total = losses.total();
        let lost = total.saturating_sub(self.lost);
        if lost == 0 {
            return Ok(());
        }
        self.lost = total;
        self.scheduler.lose();
        let instant = instant::build_loss(lost);
        self.out.write(packet(self.now, Data::TrackEvent(instant)))
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.marks = self.parts.finish();
        self.write_marks()?;
        for packet in self.scheduler.end() {
            self.out.write(packet)?;
        }
        // What has not ended by then goes up to the last moment that is heard of.
        if let Some(at) = summary.ended.filter(|at| *at > self.now) {
            self.write_event(at, instant::build_end())?;
        }
        self.out.out.flush().context(CANNOT_WRITE)
    }
}

/// Writer of packets.
struct Packets {
    out: Box<dyn Write + Send>,
    buffer: Vec<u8>,
}

impl Packets {
    fn write(&mut self, packet: TracePacket) -> anyhow::Result<()> {
        self.buffer.clear();
        // Of messages that follow each other, repeated fields are put together: the whole file is
        // one.
        let part = Trace {
            packet: vec![packet],
        };
        part.encode(&mut self.buffer).context(CANNOT_WRITE)?;
        self.out.write_all(&self.buffer).context(CANNOT_WRITE)
    }
}

const CANNOT_WRITE: &str = "cannot write the packets";

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;

    use super::schema::Ftrace;
    use super::*;
    use crate::testing::{MemoryFile, origin_of};
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Log as _, Pause, Walk, WantedEvents};

    fn exported(log: TestLog) -> Vec<TracePacket> {
        let written = MemoryFile::default();
        let origin = origin_of(&log);
        let out = Box::new(written.clone());
        let mut perfetto = Box::new(Perfetto::new(out, &origin).unwrap());
        perfetto.learn_types(log.event_types());
        let mut walk = Walk::new(log, WantedEvents::default());
        while walk.go_on(9, |entry| perfetto.event(entry)).unwrap() == Pause::Midway {}
        perfetto.count_losses(&walk.losses()).unwrap();
        let summary = Summary {
            last: MonotonicNs(9_000),
            ..walk.summary()
        };
        perfetto.finish(&summary).unwrap();
        Trace::decode(&*written.bytes()).unwrap().packet
    }

    fn instants(packets: &[TracePacket]) -> Vec<&schema::TrackEvent> {
        let data = packets.iter().filter_map(|packet| packet.data.as_ref());
        data.filter_map(|data| match data {
            Data::TrackEvent(event) => Some(event),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn user_events_are_instants_with_their_data() {
        let mut log = TestLog::default();
        let hostile = log.define(b"a\n\xff");
        log.push(200, hostile, (7, 8), b"worker=1");
        log.push(300, hostile, (7, 8), b"\xff\0");
        let packets = exported(log);

        let instants = instants(&packets);
        assert_eq!(instants.len(), 2);
        assert_eq!(instants[0].name.as_deref(), Some("a\\n\\xff"));
        let values: Vec<_> = instants
            .iter()
            .map(|instant| {
                let annotation = &instant.debug_annotations[0];
                (annotation.name.clone().unwrap(), annotation.value.clone())
            })
            .collect();
        let text = |text: &str| Some(AnnotationValue::String(text.to_owned()));
        assert_eq!(values[0], ("text".to_owned(), text("worker=1")));
        assert_eq!(values[1], ("hex".to_owned(), text("ff00")));
    }

    #[test]
    fn the_end_of_the_trace_is_an_instant_where_it_is_later_than_the_last_event() {
        let names = |ended| {
            let mut log = TestLog::default();
            let name = log.define(b"x");
            log.push(200, name, (7, 8), b"");
            log.ended = ended;
            let packets = exported(log);
            let named = instants(&packets).into_iter().map(|one| one.name.clone());
            let last = packets.last().and_then(|packet| packet.timestamp);
            (named.collect::<Vec<_>>(), last)
        };
        let known = |name: &str| Some(name.to_owned());
        let end = Some(MonotonicNs(9_000));
        let both = vec![known("x"), known("the trace ended")];
        assert_eq!(names(end), (both, Some(9_000)));
        assert_eq!(names(Some(MonotonicNs(200))).0, [known("x")]);
        assert_eq!(names(None).0, [known("x")]);
    }

    #[test]
    fn a_track_is_described_before_the_first_event_on_it() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        log.push(200, name, (7, 8), b"");
        let mut described = Vec::new();
        for packet in exported(log) {
            match packet.data {
                Some(Data::TrackDescriptor(track)) => described.push(track.uuid.unwrap()),
                Some(Data::TrackEvent(event)) => {
                    assert!(described.contains(&event.track_uuid.unwrap()));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn losses_are_reported() {
        let mut log = TestLog {
            late: 12,
            ..TestLog::default()
        };
        log.push(200, EventTypeId::EXIT, (7, 7), &[0; 8]);
        let packets = exported(log);

        let loss = instants(&packets)[1];
        assert_eq!(loss.name.as_deref(), Some("events lost"));
        assert_eq!(
            loss.debug_annotations[0].value,
            Some(AnnotationValue::Uint(12))
        );
        let has_flag = packets.iter().any(|packet| match &packet.data {
            Some(Data::FtraceEvents(bundle)) => bundle.lost_events == Some(true),
            _ => false,
        });
        assert!(has_flag);
    }

    #[test]
    fn an_exit_is_an_instant_and_an_event_of_the_kernel() {
        let mut log = TestLog::default();
        log.push(200, EventTypeId::EXIT, (7, 7), &[0; 8]);
        let packets = exported(log);

        assert_eq!(instants(&packets)[0].name.as_deref(), Some("exit"));
        let kernel = packets.iter().find_map(|packet| match &packet.data {
            Some(Data::FtraceEvents(bundle)) => bundle.event[0].event.clone(),
            _ => None,
        });
        assert!(matches!(kernel, Some(Ftrace::SchedProcessExit(exit)) if exit.pid == Some(7)));
    }

    #[test]
    fn data_of_any_length_is_written_without_a_panic() {
        for entry in tracer_common::event_type::SYSTEM_EVENT_TYPES {
            let mut log = TestLog::default();
            for length in 0..400 {
                log.push(200, entry.id, (7, 7), &vec![0xa5; length]);
            }
            assert!(exported(log).len() > 1);
        }
    }
}
