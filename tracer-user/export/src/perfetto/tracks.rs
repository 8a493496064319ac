//! Tracks: one for each thread, two for each CPU, one for the trace itself, and one more for each
//! row of slices but the first.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ForkData;
use zerocopy::FromBytes;

use super::packet;
use super::schema::{Data, ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor};
use crate::TraceOrigin;
use crate::names::{LogThread, News, WrittenNames};
use crate::slices::Track;
use tracer_engine::event::MonotonicNs;
use tracer_event::event_view::EventView;
use tracer_text::escape::push_for_people;

/// Track of events of no process, and of losses.
pub const TRACE_TRACK: u64 = 1;

/// Limit of remembered tids that were given to several threads, one after the other.
const MOST_REUSED: usize = 65_536;

/// Limit of tracks beside those of threads that are known to be described. Beyond it they are
/// described again.
const MOST_DESCRIBED: usize = 65_536;

/// Tracks that were described.
#[derive(Debug, Default)]
pub struct Tracks {
    names: WrittenNames,
    /// Number of times that the number of a thread was given to another one.
    generations: HashMap<LogThread, u32>,
    described: HashSet<u64>,
}

impl Tracks {
    /// Returns the description of the track of the trace itself.
    pub fn describe_trace(
        at: MonotonicNs,
        origin: &TraceOrigin,
    ) -> impl Iterator<Item = TracePacket> {
        let name = text(origin.attributes.name().as_bytes());
        let track = TrackDescriptor {
            uuid: Some(TRACE_TRACK),
            name: Some(format!("trace {name}").trim_end().to_owned()),
            ..TrackDescriptor::default()
        };
        std::iter::once(packet(at, Data::TrackDescriptor(track)))
    }

    /// Returns the number of a thread's track.
    pub fn uuid(&self, thread: LogThread) -> u64 {
        if thread.pid == 0 {
            return TRACE_TRACK;
        }
        self.hash("thread", thread)
    }

    /// Returns the id of the track of a row of slices, and its description if that has not been
    /// written. The track of the thread has to be described already.
    pub fn row(&mut self, track: Track, row: u32, at: MonotonicNs) -> (u64, Option<TracePacket>) {
        let (parent, name) = match track {
            Track::Thread(thread) if row == 0 => return (self.uuid(thread), None),
            Track::Thread(thread) => (Some(self.uuid(thread)), "at the same time".to_owned()),
            Track::Interrupts(cpu) => (None, format!("CPU {cpu} interrupts")),
            Track::Idle(cpu) => (None, format!("CPU {cpu} idle")),
        };
        let mut hasher = DefaultHasher::new();
        ("row", track, row, parent).hash(&mut hasher);
        let uuid = hasher.finish() | 2;
        if self.described.len() >= MOST_DESCRIBED {
            self.described.clear();
        }
        let is_new = self.described.insert(uuid);
        let descriptor = is_new.then(|| TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name),
            parent_uuid: parent,
            ..TrackDescriptor::default()
        });
        let packet = descriptor.map(|track| packet(at, Data::TrackDescriptor(track)));
        (uuid, packet)
    }

    /// Returns the description of the thread of an event, when it is new or has another name.
    pub fn before(&mut self, entry: &EventView<'_>, thread: LogThread) -> Vec<TracePacket> {
        self.describe(thread, entry.comm, entry.at())
    }

    /// Returns the description of a thread, when it is new or has another name.
    pub fn describe(
        &mut self,
        thread: LogThread,
        comm: Option<&[u8]>,
        at: MonotonicNs,
    ) -> Vec<TracePacket> {
        let news = self.names.news(thread, comm);
        if news == News::None || thread.pid == 0 {
            return Vec::new();
        }
        let name = comm.map(text);
        let is_main = thread.pid == thread.tid;
        let mut data = Vec::new();
        if is_main {
            data.push(Data::TrackDescriptor(TrackDescriptor {
                uuid: Some(self.hash("process", thread)),
                process: Some(ProcessDescriptor {
                    pid: Some(thread.pid),
                    process_name: name.clone(),
                }),
                ..TrackDescriptor::default()
            }));
        }
        data.push(Data::TrackDescriptor(TrackDescriptor {
            uuid: Some(self.uuid(thread)),
            thread: Some(ThreadDescriptor {
                pid: Some(thread.pid),
                tid: Some(thread.tid.into()),
                thread_name: name,
            }),
            ..TrackDescriptor::default()
        }));
        data.into_iter().map(|data| packet(at, data)).collect()
    }

    /// Notes a thread that an event makes: it may have a tid that another one had before.
    pub fn after(&mut self, entry: &EventView<'_>) {
        let event = &entry.event;
        let makes_thread = matches!(
            event.header.event_type,
            EventTypeId::FORK | EventTypeId::THREAD_CREATE
        );
        if !makes_thread {
            return;
        }
        let Ok((fork, _)) = ForkData::read_from_prefix(event.data) else {
            return;
        };
        let thread = LogThread {
            pid: fork.child_pid.cast_signed(),
            tid: fork.child_tid.cast_signed(),
        };
        if self.names.forget(thread) {
            if self.generations.len() >= MOST_REUSED {
                self.generations.clear();
            }
            *self.generations.entry(thread).or_default() += 1;
        }
    }

    fn hash(&self, kind: &str, thread: LogThread) -> u64 {
        // Its keys are always the same: an export of a log is always the same, too.
        let mut hasher = DefaultHasher::new();
        let generation = self.generations.get(&thread);
        (kind, thread, generation).hash(&mut hasher);
        hasher.finish() | 2
    }
}

/// Returns bytes that a target chose, made harmless, as the text of `read` shows them.
pub fn text(untrusted: &[u8]) -> String {
    let mut out = Vec::new();
    push_for_people(&mut out, untrusted);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use tracer_log::LogRecord;
    use zerocopy::IntoBytes;

    use super::*;
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Log, Pause, Walk, WantedEvents};

    /// Feeds the events of a log to a table of tracks.
    fn tracks(log: TestLog) -> Tracks {
        let mut tracks = Tracks::default();
        let mut walk = Walk::new(log, WantedEvents::default());
        let visit = |tracks: &mut Tracks, entry: &EventView<'_>| {
            let header = &entry.event.header;
            let thread = LogThread::from_event(header);
            tracks.before(entry, thread);
            tracks.after(entry);
            Ok(())
        };
        while walk.go_on(9, |entry| visit(&mut tracks, entry)).unwrap() == Pause::Midway {}
        tracks
    }

    #[test]
    fn a_tid_that_is_given_again_is_another_track() {
        let child = LogThread { pid: 9, tid: 9 };
        let fork = ForkData {
            child_pid: 9,
            child_tid: 9,
            child_comm: [0; 16],
            child_ns_pid: 0,
            child_ns_tid: 0,
        };
        let mut uuids = Vec::new();
        for forks in 0..3 {
            let mut log = TestLog::default();
            let name = log.define(b"x");
            for _ in 0..forks {
                log.push(200, EventTypeId::FORK, (7, 7), fork.as_bytes());
                log.push(300, name, (9, 9), b"");
            }
            uuids.push(tracks(log).uuid(child));
        }
        assert_eq!(uuids[0], uuids[1], "the first fork makes it");
        assert_ne!(uuids[1], uuids[2]);
    }

    #[test]
    fn a_thread_is_described_with_its_process() {
        let mut log = TestLog::default();
        let name = log.define(b"x");
        log.push(200, name, (7, 8), b"");
        assert!(log.advance().unwrap());
        let record: LogRecord<'_> = log.record().unwrap();
        let entry = tracer_log_view::view_of(&record, b"x", None);
        let packets = Tracks::default().before(&entry, LogThread { pid: 7, tid: 8 });
        let [packets] = packets.as_slice() else {
            panic!("not its main thread: {packets:?}");
        };
        let Some(Data::TrackDescriptor(track)) = &packets.data else {
            panic!("{packets:?}");
        };
        let thread = track.thread.clone().unwrap();
        assert_eq!((thread.pid, thread.tid), (Some(7), Some(8)));
        assert_eq!(thread.thread_name.as_deref(), Some("worker"));
    }

    #[test]
    fn a_row_is_described_once() {
        let mut tracks = Tracks::default();
        let at = MonotonicNs(1);
        let track = Track::Thread(LogThread { pid: 7, tid: 8 });
        let (first, packets) = tracks.row(track, 0, at);
        assert_eq!(
            (first, packets),
            (tracks.uuid(LogThread { pid: 7, tid: 8 }), None)
        );
        let (second, packets) = tracks.row(track, 1, at);
        assert!(second != first && packets.is_some());
        assert_eq!(tracks.row(track, 1, at), (second, None));
        assert_ne!(tracks.row(Track::Interrupts(1), 0, at).0, second);
    }
}
