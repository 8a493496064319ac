//! The JSON trace event format, which many viewers read.
//!
//! A file has a slice for each time that a thread was on a CPU, on the CPU's line (`cpus`), with
//! wake-ups as flows between them; slices on threads and CPUs for times with a beginning and an
//! end; every other event but switches as an instant on its thread; names of processes and threads.
//! Times are in microseconds with three digits after the point, on the log's monotonic clock.

mod cpus;
mod objects;

use std::io::Write;
use std::rc::Rc;

use anyhow::Context;
use tracer_engine::EventTypes;

use super::TraceOrigin;
use super::carried::Carried;
use super::names::{LogThread, News, WrittenNames};
use super::parts::Parts;
use super::slices::{Key, Mark, Slice, SliceExtent, Track};
use cpus::{CpuRow, CpuSlices};
use objects::Objects;
use tracer_event::consumer::Consumer;
use tracer_event::event_view::EventView;
use tracer_event::summary::Summary;
use tracer_output::report::push_data;
use tracer_text::digits::push_decimal;
use tracer_text::escape::push_json_string;
use tracer_text::push_short_name;

/// Exporter that writes a file.
pub struct Chrome {
    out: Box<dyn Write + Send>,
    objects: Objects,
    names: WrittenNames,
    cpus: CpuSlices,
    parts: Parts,
    marks: Vec<Mark<Carried>>,
}

impl Chrome {
    /// Begins the file.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn new(mut out: Box<dyn Write + Send>, origin: &TraceOrigin) -> anyhow::Result<Self> {
        let mut head =
            b"{\"displayTimeUnit\":\"ns\",\"otherData\":{\"made_by\":\"tracer-user ".to_vec();
        head.extend_from_slice(env!("CARGO_PKG_VERSION").as_bytes());
        head.extend_from_slice(b"\",\"stream\":");
        push_json_string(&mut head, origin.attributes.name().as_bytes());
        head.extend_from_slice(b",\"monotonic_ns\":\"");
        push_decimal(&mut head, origin.anchor.monotonic.0);
        head.extend_from_slice(b"\",\"realtime_ns\":\"");
        push_decimal(&mut head, origin.anchor.realtime.0);
        head.extend_from_slice(b"\"},\"traceEvents\":[");
        out.write_all(&head).context(CANNOT_WRITE)?;
        Ok(Self {
            out,
            objects: Objects::default(),
            names: WrittenNames::default(),
            cpus: CpuSlices::default(),
            parts: Parts::new(Rc::clone(&origin.is_wanted)),
            marks: Vec::new(),
        })
    }

    fn write_pending(&mut self) -> anyhow::Result<()> {
        self.out
            .write_all(&self.objects.take())
            .context(CANNOT_WRITE)
    }

    fn write_names(&mut self, entry: &EventView<'_>, thread: LogThread) {
        let comm = entry.comm;
        if self.names.news(thread, comm) == News::None {
            return;
        }
        let Some(comm) = comm else {
            return;
        };
        self.objects.name("thread_name", thread, comm);
        if thread.tid == thread.pid {
            self.objects.name("process_name", thread, comm);
        }
    }

    fn write_marks(&mut self) {
        for mark in std::mem::take(&mut self.marks) {
            let position = Position {
                thread: match mark.track {
                    Track::Thread(thread) => thread,
                    Track::Interrupts(cpu) => {
                        self.cpus.named(cpu, CpuRow::Interrupts, &mut self.objects)
                    }
                    Track::Idle(cpu) => self.cpus.named(cpu, CpuRow::Idle, &mut self.objects),
                },
                row: mark.row,
            };
            // Of one time, some readers put slices that are written whole before those that begin
            // and end.
            let is_at_once = mark.row == 0 && !mark.begins_with_outer;
            match mark.extent {
                SliceExtent::Whole(slice, end, carried) if is_at_once => {
                    self.begin_slice("X", position, &slice);
                    let parts = [&slice.arguments, &carried];
                    let length = end.0.saturating_sub(slice.at.0);
                    self.objects.time("dur", length).carried(parts).end();
                }
                SliceExtent::Whole(slice, end, carried) => {
                    self.begin(position, &slice);
                    self.end(position, end.0, &carried);
                }
                SliceExtent::Begin(slice) => self.begin(position, &slice),
                SliceExtent::End(end, carried) => self.end(position, end.0, &carried),
            }
        }
    }

    fn begin(&mut self, position: Position, slice: &Slice<Carried>) {
        self.begin_slice(if position.row == 0 { "B" } else { "b" }, position, slice);
        self.objects.carried([&slice.arguments]).end();
    }

    fn begin_slice(&mut self, phase: &str, position: Position, slice: &Slice<Carried>) {
        let category = match slice.key {
            Key::Call(_) => "syscall",
            Key::Interrupt(_) => "irq",
            Key::SoftInterrupt(_) => "softirq",
            Key::Idle => "idle",
            Key::Pair(_) => "user",
        };
        self.objects.begin(phase, position.thread);
        self.objects.text("name", &slice.name);
        self.objects.time("ts", slice.at.0);
        self.position(category, position);
    }

    fn end(&mut self, position: Position, at: u64, carried: &Carried) {
        let phase = if position.row == 0 { "E" } else { "e" };
        self.objects.begin(phase, position.thread).time("ts", at);
        self.position("user", position);
        self.objects.carried([carried]).end();
    }

    /// Adds the category of a slice and, for one that is not nested, the id of its own row.
    fn position(&mut self, category: &str, position: Position) {
        if position.row == 0 {
            self.objects.text("cat", category.as_bytes());
            return;
        }
        let id = format!("{}.{}", position.thread.tid, position.row);
        self.objects.text("cat", b"user");
        self.objects.text("id", id.as_bytes());
    }

    fn instant(&mut self, entry: &EventView<'_>, thread: LogThread) {
        let scope: &[u8] = if thread.pid == 0 { b"g" } else { b"t" };
        let class = entry.entry.map_or("user", |_| "system");
        self.objects.begin("i", thread).text("s", scope);
        self.objects.text("cat", class.as_bytes());
        match entry.entry {
            Some(system) => {
                let mut name = Vec::new();
                push_short_name(&mut name, system.name);
                self.objects.text("name", &name);
            }
            None => {
                self.objects.text("name", entry.name);
            }
        }
        self.objects.time("ts", entry.at().0).raw(",\"args\":");
        self.objects.with(|out| push_data(out, entry));
        let address = entry.event.header.program_address;
        if address != 0 {
            self.objects.and_address("prog_address", address);
        }
        self.objects.end();
    }
}

/// Position of a slice.
#[derive(Clone, Copy)]
struct Position {
    thread: LogThread,
    row: u32,
}

const CANNOT_WRITE: &str = "cannot write the trace events";

impl Consumer for Chrome {
    fn learn_types(&mut self, types: &EventTypes) {
        self.parts.learn_types(types);
    }

    fn event(&mut self, entry: &EventView<'_>) -> anyhow::Result<()> {
        let header = &entry.event.header;
        let thread = LogThread::from_event(header);
        self.write_names(entry, thread);
        if !self.cpus.note(entry, thread, &mut self.objects) {
            let is_part = self.parts.take(entry, thread, None, &mut self.marks);
            self.write_marks();
            if !is_part {
                self.instant(entry, thread);
            }
        }
        self.parts.after(entry, thread, &mut self.marks);
        self.write_marks();
        self.write_pending()
    }

    fn finish(mut self: Box<Self>, summary: &Summary) -> anyhow::Result<()> {
        self.marks = self.parts.finish();
        self.write_marks();
        self.cpus.finish(summary.last, &mut self.objects);
        self.write_pending()?;
        // What the closing line says, for who opens the file.
        let mut tail = b"\n],\n\"metadata\":".to_vec();
        let mut text = Vec::new();
        summary.push_json(&mut text);
        tail.extend_from_slice(text.trim_ascii_end());
        tail.extend_from_slice(b"}\n");
        self.out.write_all(&tail).context(CANNOT_WRITE)?;
        self.out.flush().context(CANNOT_WRITE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::{
        SwitchInData, SwitchOutData, SyscallEnterData, SyscallExitData, WakeupData,
    };
    use tracer_engine::event::MonotonicNs;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::testing::{MemoryFile, origin_of};
    use tracer_log_view::test_log::TestLog;
    use tracer_log_view::{Log as _, Pause, Walk, WantedEvents};

    fn exported(log: TestLog) -> Vec<Value> {
        let written = MemoryFile::default();
        let origin = origin_of(&log);
        let mut chrome = Box::new(Chrome::new(Box::new(written.clone()), &origin).unwrap());
        chrome.learn_types(log.event_types());
        let mut walk = Walk::new(log, WantedEvents::default());
        while walk.go_on(9, |entry| chrome.event(entry)).unwrap() == Pause::Midway {}
        let summary = Summary {
            last: MonotonicNs(9_000),
            ..walk.summary()
        };
        chrome.finish(&summary).unwrap();
        let whole: Value = serde_json::from_slice(&written.bytes()).unwrap();
        assert!(whole["metadata"]["summary"]["lost"].is_object());
        whole["traceEvents"].as_array().unwrap().clone()
    }

    fn switch_in(log: &mut TestLog, ns: u64, tid: i32) {
        let data = SwitchInData {
            prev_pid: 0,
            prev_tid: 0,
            prev_comm: [0; 16],
            others: 0,
            reserved: 0,
        };
        log.push(ns, EventTypeId::SWITCH_IN, (7, tid), data.as_bytes());
    }

    fn switch_out(log: &mut TestLog, ns: u64, tid: i32) {
        let data = SwitchOutData {
            next_pid: 0,
            next_tid: 0,
            next_comm: [0; 16],
            state: 1,
            preempted: 0,
            waits_in: 0,
            syscall: 0,
            ran_ns: 0,
        };
        log.push(ns, EventTypeId::SWITCH_OUT, (7, tid), data.as_bytes());
    }

    fn slices(events: &[Value]) -> Vec<(i64, f64, f64, &str)> {
        let slices = events.iter().filter(|event| event["ph"] == "X");
        slices
            .map(|slice| {
                (
                    slice["args"]["tid"].as_i64().unwrap(),
                    slice["ts"].as_f64().unwrap(),
                    slice["dur"].as_f64().unwrap(),
                    slice["args"]["end"].as_str().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_thread_on_a_cpu_is_a_slice() {
        let mut log = TestLog::default();
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
        let mut log = TestLog::default();
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
    fn a_slice_whose_thread_had_left_unseen_is_not_its() {
        let mut log = TestLog::default();
        switch_in(&mut log, 1_000, 7);
        switch_in(&mut log, 2_000, 8);
        switch_out(&mut log, 3_000, 8);
        let events = exported(log);
        let names: Vec<_> = events
            .iter()
            .filter(|event| event["ph"] == "X")
            .map(|slice| slice["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["unknown", "worker"]);
    }

    #[test]
    fn a_system_call_is_a_slice_with_its_arguments_and_its_result() {
        let nr = i32::try_from(libc::SYS_openat).unwrap();
        let entered = SyscallEnterData {
            number: nr,
            compat: 0,
            args: [0xffff_ff9c, 0x7ffd_0010, 0o101, 0o644, 9, 9],
        };
        let left = SyscallExitData {
            number: nr,
            compat: 0,
            ret: -2,
        };
        let mut log = TestLog::default();
        let name = log.define(b"inside");
        log.push(
            1_000,
            EventTypeId::SYSCALL_ENTER,
            (7, 8),
            entered.as_bytes(),
        );
        log.push(1_200, name, (7, 8), b"");
        log.push(3_500, EventTypeId::SYSCALL_EXIT, (7, 8), left.as_bytes());
        let events = exported(log);
        let slice = events.iter().find(|event| event["ph"] == "X").unwrap();
        assert_eq!(
            *slice,
            json!({"ph": "X", "pid": 7, "tid": 8, "name": "openat", "cat": "syscall", "ts": 1.0,
                "dur": 2.5, "args": {"dfd": "AT_FDCWD", "filename": "0x7ffd0010", "flags": "O_WRONLY|O_CREAT",
                "mode": "0644", "ret": -2, "error": "ENOENT"}})
        );
        let instants = events.iter().filter(|event| event["ph"] == "i");
        assert_eq!(instants.count(), 1);
    }

    #[test]
    fn a_wakeup_is_a_flow_between_the_slices_of_two_threads() {
        let mut log = TestLog::default();
        switch_in(&mut log, 1_000, 7);
        let wakeup = WakeupData {
            target_cpu: 0,
            new_thread: 0,
            waker_pid: 7,
            waker_tid: 7,
            waker_comm: [0; 16],
            waker_context: 1,
            reserved: 0,
        };
        log.push(1_500, EventTypeId::WAKEUP, (7, 8), wakeup.as_bytes());
        switch_out(&mut log, 2_000, 7);
        switch_in(&mut log, 2_000, 8);
        switch_out(&mut log, 3_000, 8);
        let events = exported(log);
        let flows: Vec<_> = events
            .iter()
            .filter(|event| event["cat"] == "wakeup")
            .map(|flow| (flow["ph"].as_str().unwrap(), flow["ts"].as_f64().unwrap()))
            .collect();
        assert_eq!(flows, [("s", 1.5), ("f", 2.0)]);
    }

    #[test]
    fn other_events_are_instants_whatever_they_are_called() {
        let mut log = TestLog::default();
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
        assert_eq!(exported(TestLog::default()), Vec::<Value>::new());
    }
}
