//! The tracks: one for each thread, one for the trace itself.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::ForkData;
use zerocopy::FromBytes;

use super::instant::text;
use super::packet;
use super::schema::{
    Data, Process, ProcessDescriptor, ProcessTree, ThreadDescriptor, TracePacket, TrackDescriptor,
    TreeThread,
};
use crate::export::Origin;
use crate::export::names::{Names, News, Thread};
use crate::log_view::Entry;
use tracer_posix::event::MonotonicNs;

/// The track of events of no process, and of losses.
pub const TRACE_TRACK: u64 = 1;

/// Numbers that were given to several threads, one after the other, and are kept in mind.
const MOST_REUSED: usize = 65_536;

/// The tracks that were described.
#[derive(Debug, Default)]
pub struct Tracks {
    names: Names,
    /// How often the number of a thread was given to another one.
    generations: HashMap<Thread, u32>,
}

impl Tracks {
    /// What describes the track of the trace itself.
    pub fn of_trace(at: MonotonicNs, origin: &Origin) -> impl Iterator<Item = TracePacket> {
        let name = text(origin.attributes.name().as_bytes());
        let track = TrackDescriptor {
            uuid: Some(TRACE_TRACK),
            name: Some(format!("trace {name}").trim_end().to_owned()),
            ..TrackDescriptor::default()
        };
        std::iter::once(packet(at, Data::TrackDescriptor(track)))
    }

    /// The number of a thread's track.
    pub fn uuid(&self, thread: Thread) -> u64 {
        if thread.pid == 0 {
            return TRACE_TRACK;
        }
        self.hash("thread", thread)
    }

    /// What describes the thread of an event, when it is new or has another name.
    pub fn before(&mut self, entry: &Entry<'_>, thread: Thread) -> Vec<TracePacket> {
        let news = self.names.news(thread, entry.line.comm);
        if news == News::None || thread.pid == 0 {
            return Vec::new();
        }
        let name = entry.line.comm.map(text);
        let is_main = thread.pid == thread.tid;
        let mut told = vec![Data::ProcessTree(tree(thread, name.as_deref()))];
        if is_main {
            told.push(Data::TrackDescriptor(TrackDescriptor {
                uuid: Some(self.hash("process", thread)),
                process: Some(ProcessDescriptor {
                    pid: Some(thread.pid),
                    process_name: name.clone(),
                }),
                ..TrackDescriptor::default()
            }));
        }
        told.push(Data::TrackDescriptor(TrackDescriptor {
            uuid: Some(self.uuid(thread)),
            thread: Some(ThreadDescriptor {
                pid: Some(thread.pid),
                tid: Some(thread.tid.into()),
                thread_name: name,
            }),
            ..TrackDescriptor::default()
        }));
        told.into_iter()
            .map(|data| packet(entry.at, data))
            .collect()
    }

    /// Notes that an event makes a thread: it may have a number that another one had before.
    pub fn after(&mut self, entry: &Entry<'_>) {
        let event = &entry.line.event;
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
        let thread = Thread {
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

    fn hash(&self, kind: &str, thread: Thread) -> u64 {
        // Its keys are always the same: an export of a log is always the same, too.
        let mut hasher = DefaultHasher::new();
        let generation = self.generations.get(&thread);
        (kind, thread, generation).hash(&mut hasher);
        hasher.finish() | 2
    }
}

/// Which process a thread belongs to, and how they are called.
fn tree(thread: Thread, name: Option<&str>) -> ProcessTree {
    let process = Process {
        pid: Some(thread.pid),
        ppid: None,
        cmdline: name.iter().map(|name| (*name).to_owned()).collect(),
        cmdline_is_comm: Some(true),
    };
    let is_main = thread.pid == thread.tid;
    ProcessTree {
        processes: is_main.then_some(process).into_iter().collect(),
        threads: vec![TreeThread {
            tid: Some(thread.tid),
            name: name.map(str::to_owned),
            tgid: Some(thread.pid),
        }],
    }
}

#[cfg(test)]
mod tests {
    use tracer_posix::log::LogRecord;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::log_view::made_up::MadeUpLog;
    use crate::log_view::{Log, Pause, Walk, Wanted};

    /// Runs the events of a log by a table of tracks.
    fn tracks(log: MadeUpLog) -> Tracks {
        let mut tracks = Tracks::default();
        let mut walk = Walk::new(log, Wanted::default());
        let visit = |tracks: &mut Tracks, entry: &Entry<'_>| {
            let header = &entry.line.event.header;
            let thread = Thread {
                pid: header.pid,
                tid: header.tid,
            };
            tracks.before(entry, thread);
            tracks.after(entry);
            Ok(())
        };
        while walk.go_on(9, |entry| visit(&mut tracks, entry)).unwrap() == Pause::Midway {}
        tracks
    }

    #[test]
    fn a_number_that_is_given_again_is_another_track() {
        let child = Thread { pid: 9, tid: 9 };
        let fork = ForkData {
            child_pid: 9,
            child_tid: 9,
            child_comm: [0; 16],
            child_ns_pid: 0,
            child_ns_tid: 0,
        };
        let mut uuids = Vec::new();
        for forks in 0..3 {
            let mut log = MadeUpLog::default();
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
    fn a_thread_is_told_with_its_process() {
        let mut log = MadeUpLog::default();
        let name = log.define(b"x");
        log.push(200, name, (7, 8), b"");
        let record: LogRecord<'_> = log.next_record().unwrap().unwrap();
        let entry = Entry::new(&record, b"x", None);
        let told = Tracks::default().before(&entry, Thread { pid: 7, tid: 8 });
        let Some(Data::ProcessTree(tree)) = &told[0].data else {
            panic!("{told:?}");
        };
        assert_eq!(tree.threads[0].tgid, Some(7));
        assert_eq!(tree.threads[0].name.as_deref(), Some("worker"));
        assert!(tree.processes.is_empty(), "not its main thread");
    }
}
