//! The JSON trace event format, which many viewers read.
//!
//! A slice for each time that a thread was on a CPU; every event but switches as an instant on its
//! thread; names of processes and threads. Times are in microseconds with three digits after the point,
//! on the log's monotonic clock.

use std::collections::HashMap;
use std::io::Write;

use anyhow::Context;
use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::SwitchOutData;
use zerocopy::FromBytes;

use super::names::{Names, News, Thread};
use super::{Ending, Exporter, Origin};
use crate::log_view::Entry;
use crate::report::escape::push_json_string;
use crate::report::numbers::{push_filled, push_number};
use crate::report::task_state::task_state;
use crate::report::{push_data, push_short_name};
use tracer_posix::event::MonotonicNs;

/// CPUs that are kept in mind: more than any machine has, and fewer than a damaged file may name.
const MOST_CPUS: usize = 65_536;

/// A file that is being written.
pub struct Chrome {
    out: Box<dyn Write + Send>,
    /// The objects to be written next.
    pending: Vec<u8>,
    is_first: bool,
    names: Names,
    /// Who is on each CPU, and since when.
    running: HashMap<u32, (Thread, MonotonicNs)>,
    /// When the first event came: who leaves a CPU without having got it was on it from here.
    start: Option<MonotonicNs>,
}

impl Chrome {
    /// Begins the file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new(mut out: Box<dyn Write + Send>, origin: &Origin) -> anyhow::Result<Self> {
        let mut head =
            b"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"made_by\":\"tracer-user ".to_vec();
        head.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
        head.extend_from_slice(b"\",\"stream\":");
        push_json_string(&mut head, origin.attributes.name().as_bytes());
        head.extend_from_slice(b",\"monotonic_ns\":\"");
        push_number(&mut head, origin.anchor.monotonic.0);
        head.extend_from_slice(b"\",\"realtime_ns\":\"");
        push_number(&mut head, origin.anchor.realtime.0);
        head.extend_from_slice(b"\"},\"traceEvents\":[");
        out.write_all(&head).context(CANNOT_WRITE)?;
        Ok(Self {
            out,
            pending: Vec::new(),
            is_first: true,
            names: Names::default(),
            running: HashMap::new(),
            start: None,
        })
    }

    fn write_pending(&mut self) -> anyhow::Result<()> {
        self.out.write_all(&self.pending).context(CANNOT_WRITE)?;
        self.pending.clear();
        Ok(())
    }

    /// Begins an object with what all of them have.
    fn begin(&mut self, phase: char, thread: Thread) {
        let start: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.pending.extend_from_slice(start);
        self.pending.extend_from_slice(b"{\"ph\":\"");
        self.pending.push(u8::try_from(phase).unwrap_or(b'i'));
        self.pending.extend_from_slice(b"\",\"pid\":");
        push_number(&mut self.pending, thread.pid);
        self.pending.extend_from_slice(b",\"tid\":");
        push_number(&mut self.pending, thread.tid);
    }

    fn time(&mut self, name: &str, ns: u64) {
        self.pending.extend_from_slice(b",\"");
        self.pending.extend_from_slice(name.as_bytes());
        self.pending.extend_from_slice(b"\":");
        push_number(&mut self.pending, ns / 1000);
        self.pending.push(b'.');
        push_filled(&mut self.pending, ns % 1000, 3, b'0');
    }

    fn tell_names(&mut self, entry: &Entry<'_>, thread: Thread) {
        let comm = entry.line.comm;
        if self.names.news(thread, comm) == News::None {
            return;
        }
        let Some(comm) = comm else {
            return;
        };
        self.name("thread_name", thread, comm);
        if thread.tid == thread.pid {
            self.name("process_name", thread, comm);
        }
    }

    fn name(&mut self, what: &str, thread: Thread, comm: &[u8]) {
        self.begin('M', thread);
        self.pending.extend_from_slice(b",\"name\":\"");
        self.pending.extend_from_slice(what.as_bytes());
        self.pending.extend_from_slice(b"\",\"args\":{\"name\":");
        push_json_string(&mut self.pending, comm);
        self.pending.extend_from_slice(b"}}");
    }

    /// A slice: `thread` was on `cpu` until `end`, and left it for the reason `why`.
    fn slice(
        &mut self,
        cpu: u32,
        thread: Thread,
        since: Option<MonotonicNs>,
        end: MonotonicNs,
        why: &str,
    ) {
        let start = since.or(self.start).unwrap_or(end);
        self.begin('X', thread);
        self.pending
            .extend_from_slice(b",\"cat\":\"sched\",\"name\":\"on CPU ");
        push_number(&mut self.pending, cpu);
        self.pending.push(b'"');
        self.time("ts", start.0);
        self.time("dur", end.0.saturating_sub(start.0));
        self.pending.extend_from_slice(b",\"args\":{\"cpu\":");
        push_number(&mut self.pending, cpu);
        self.pending.extend_from_slice(b",\"end\":\"");
        self.pending.extend_from_slice(why.as_bytes());
        self.pending.push(b'"');
        if since.is_none() {
            self.pending
                .extend_from_slice(b",\"start\":\"before the first event\"");
        }
        self.pending.extend_from_slice(b"}}");
    }

    /// Notes a switch. False when the event is none, or not as it should be.
    fn switch(&mut self, entry: &Entry<'_>, thread: Thread) -> bool {
        let event = &entry.line.event;
        let Some(cpu) = event.header.cpu else {
            return false;
        };
        match event.header.event_type {
            EventTypeId::SWITCH_IN if self.running.len() < MOST_CPUS => {
                let before = self.running.insert(cpu, (thread, entry.at));
                if let Some((before, since)) = before {
                    self.slice(cpu, before, Some(since), entry.at, "not recorded");
                }
                true
            }
            EventTypeId::SWITCH_OUT => {
                let Ok((switch, _)) = SwitchOutData::read_from_prefix(event.data) else {
                    return false;
                };
                let why = task_state(switch.state, switch.preempted != 0).1;
                let since = match self.running.remove(&cpu) {
                    Some((before, since)) if before == thread => Some(since),
                    Some((before, since)) => {
                        self.slice(cpu, before, Some(since), entry.at, "not recorded");
                        // How it got here was not recorded either.
                        Some(entry.at)
                    }
                    None => None,
                };
                self.slice(cpu, thread, since, entry.at, why);
                true
            }
            _ => false,
        }
    }

    fn instant(&mut self, entry: &Entry<'_>, thread: Thread) {
        let line = &entry.line;
        let is_of_thread = thread.pid != 0;
        self.begin('i', thread);
        self.pending.extend_from_slice(if is_of_thread {
            b",\"s\":\"t\",\"cat\":\""
        } else {
            b",\"s\":\"g\",\"cat\":\""
        });
        let class = line.entry.map_or("user", |_| "system");
        self.pending.extend_from_slice(class.as_bytes());
        self.pending.extend_from_slice(b"\",\"name\":");
        match line.entry {
            Some(system) => {
                self.pending.push(b'"');
                push_short_name(&mut self.pending, system.name);
                self.pending.push(b'"');
            }
            None => push_json_string(&mut self.pending, line.name),
        }
        self.time("ts", entry.at.0);
        self.pending.extend_from_slice(b",\"args\":");
        push_data(&mut self.pending, line);
        self.pending.push(b'}');
    }
}

const CANNOT_WRITE: &str = "cannot write the trace events";

impl Exporter for Chrome {
    fn event(&mut self, entry: &Entry<'_>) -> anyhow::Result<()> {
        let header = &entry.line.event.header;
        let thread = Thread {
            pid: header.pid,
            tid: header.tid,
        };
        self.start.get_or_insert(entry.at);
        self.tell_names(entry, thread);
        if !self.switch(entry, thread) {
            self.instant(entry, thread);
        }
        self.write_pending()
    }

    fn finish(mut self: Box<Self>, ending: &Ending) -> anyhow::Result<()> {
        let mut running: Vec<_> = self.running.drain().collect();
        running.sort_by_key(|(cpu, _)| *cpu);
        for (cpu, (thread, since)) in running {
            self.slice(cpu, thread, Some(since), ending.at, "after the last event");
        }
        // What the closing line tells, for who opens the file.
        self.pending.extend_from_slice(b"\n],\n\"metadata\":");
        let mut summary = Vec::new();
        ending.summary.push_json(&mut summary);
        self.pending.extend_from_slice(summary.trim_ascii_end());
        self.pending.extend_from_slice(b"}\n");
        self.write_pending()?;
        self.out.flush().context(CANNOT_WRITE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tracer_common::kernel::SwitchInData;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::export::testing::{Written, origin_of};
    use crate::log_view::made_up::MadeUpLog;
    use crate::log_view::{Pause, Walk, Wanted};

    fn exported(log: MadeUpLog) -> Vec<Value> {
        let written = Written::default();
        let origin = origin_of(&log);
        let mut chrome = Box::new(Chrome::new(Box::new(written.clone()), &origin).unwrap());
        let mut walk = Walk::new(log, Wanted::default());
        while walk.go_on(9, |entry| chrome.event(entry)).unwrap() == Pause::Midway {}
        let ending = Ending {
            summary: walk.summary(),
            at: MonotonicNs(9_000),
        };
        chrome.finish(&ending).unwrap();
        let whole: Value = serde_json::from_slice(&written.bytes()).unwrap();
        assert!(whole["metadata"]["summary"]["lost"].is_object());
        whole["traceEvents"].as_array().unwrap().clone()
    }

    fn switch_in(log: &mut MadeUpLog, ns: u64, tid: i32) {
        let data = SwitchInData {
            prev_pid: 0,
            prev_tid: 0,
            prev_comm: [0; 16],
        };
        log.push(ns, EventTypeId::SWITCH_IN, (7, tid), data.as_bytes());
    }

    fn switch_out(log: &mut MadeUpLog, ns: u64, tid: i32) {
        let data = SwitchOutData {
            next_pid: 0,
            next_tid: 0,
            next_comm: [0; 16],
            state: 1,
            preempted: 0,
        };
        log.push(ns, EventTypeId::SWITCH_OUT, (7, tid), data.as_bytes());
    }

    fn slices(events: &[Value]) -> Vec<(i64, f64, f64, &str)> {
        let slices = events.iter().filter(|event| event["ph"] == "X");
        slices
            .map(|slice| {
                (
                    slice["tid"].as_i64().unwrap(),
                    slice["ts"].as_f64().unwrap(),
                    slice["dur"].as_f64().unwrap(),
                    slice["args"]["end"].as_str().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_thread_on_a_cpu_is_a_slice() {
        let mut log = MadeUpLog::default();
        switch_out(&mut log, 1_000, 7);
        switch_in(&mut log, 2_000, 8);
        switch_out(&mut log, 2_500, 8);
        switch_in(&mut log, 3_001, 7);
        assert_eq!(
            slices(&exported(log)),
            [
                (7, 1.0, 0.0, "sleeping"),
                (8, 2.0, 0.5, "sleeping"),
                (7, 3.001, 5.999, "after the last event")
            ]
        );
    }

    #[test]
    fn switches_that_are_missing_do_not_make_slices_overlap() {
        let mut log = MadeUpLog::default();
        switch_in(&mut log, 1_000, 7);
        switch_in(&mut log, 2_000, 8);
        switch_out(&mut log, 3_000, 9);
        assert_eq!(
            slices(&exported(log)),
            [
                (7, 1.0, 1.0, "not recorded"),
                (8, 2.0, 1.0, "not recorded"),
                (9, 3.0, 0.0, "sleeping")
            ]
        );
    }

    #[test]
    fn other_events_are_instants_whatever_they_are_called() {
        let mut log = MadeUpLog::default();
        let hostile = log.define(b"a\"\n\0\xff");
        log.push(1_500, hostile, (7, 8), b"\xff\"\n");
        log.push(1_600, EventTypeId::FORK, (7, 7), b"short");
        let events = exported(log);

        let names: Vec<_> = events.iter().map(|event| &event["name"]).collect();
        assert_eq!(
            names,
            [
                "thread_name",
                "a\"\n\0\u{fffd}",
                "thread_name",
                "process_name",
                "fork"
            ]
        );
        assert_eq!(events[1]["args"], json!({"hex": "ff220a"}));
        assert_eq!(events[1]["ts"].as_f64(), Some(1.5));
        assert_eq!(events[3]["args"]["name"], "worker");
    }

    #[test]
    fn a_log_without_events_makes_valid_json() {
        assert_eq!(exported(MadeUpLog::default()), Vec::<Value>::new());
    }
}
