//! A log that a test writes event by event, with names and data as a hostile program would choose
//! them.

use std::fs::File;
use std::path::Path;

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{ForkData, SwitchInData, SwitchOutData, WakeupData};
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::source::{Loss, LossCause};
use tracer_engine::{Attributes, EventTypes, LogFullPolicy, Origin, StreamCore, StreamFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogWriter};
use zerocopy::IntoBytes as _;

/// Time at which the log was made, on the monotonic clock.
pub const START_NS: u64 = 5_000_000_000;
/// [`START_NS`] as a date.
pub const START_DATE_NS: u64 = 1_700_000_000_123_456_789;

/// Names of user event types, and how they are shown.
pub const NAMES: [(&[u8], &str); 6] = [
    (b"request", "request"),
    (b"a\"b\\c\n\x1b[2J", "a\"b\\\\c\\n\\u{1b}[2J"),
    ("größe 測試".as_bytes(), "größe 測試"),
    (b"\xff\xfe", "\\xff\\xfe"),
    (b"%s{}$(x),;=1", "%s{}$(x),;=1"),
    (b"event", "event"),
];

/// Data of user events.
const DATA: [&[u8]; 6] = [
    b"worker=1\0",
    b"\xff\0\n",
    b"",
    b"quo\"te\\, \n tab\t",
    "größe".as_bytes(),
    b"\x1b[2J",
];

/// The name of the thread that is switched to.
const NEXT: [u8; 16] = *b"w\"k\n\xff,\0\0\0\0\0\0\0\0\0\0";

/// Rounds of events; each takes a millisecond.
pub const ROUNDS: u64 = 2_000;

/// Writes a log of [`ROUNDS`] rounds, `lost` events of which are said to be lost. Returns how many
/// are in it.
///
/// # Errors
///
/// It cannot be written.
pub fn write(path: &Path, lost: u64) -> anyhow::Result<u64> {
    let header = LogHeader {
        attributes: Attributes::default().with_name("made \"up\""),
        anchor: ClockPair {
            monotonic: MonotonicNs(START_NS),
            realtime: RealtimeNs(START_DATE_NS),
        },
    };
    let options = LogOptions {
        policy: LogFullPolicy::Append,
        max_size: 0,
    };
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)?;
    let mut log = MadeLog {
        writer: LogWriter::create(file, &header, options)?,
        types: EventTypes::default(),
        events: 0,
    };
    for round in 0..ROUNDS {
        log.round(round, START_NS + round * 1_000_000)?;
    }
    let mut stream = StreamCore::new(StreamFullPolicy::Loop, 1 << 16);
    stream.start(MonotonicNs(START_NS), Origin::NONE);
    stream.feed_loss(Loss {
        cause: LossCause::Late,
        count: lost,
        since: MonotonicNs(START_NS),
        is_marked: false,
    });
    let status = FinalStatus::default();
    log.writer.complete(&log.types, stream.ledger(), status)?;
    Ok(log.events)
}

struct MadeLog {
    writer: LogWriter,
    types: EventTypes,
    events: u64,
}

impl MadeLog {
    /// Adds a round: user events of two threads, a switch away and back, a wake-up, a fork, now and
    /// then others.
    fn round(&mut self, round: u64, ns: u64) -> anyhow::Result<()> {
        for (index, sequence) in (0..).zip(round..round + 5) {
            let choice = usize::try_from(sequence)?;
            let (name, _) = NAMES[choice % NAMES.len()];
            let id = self.types.define_user(name, None);
            let mut header = header(
                ns + 100_000 * index,
                id,
                7,
                7 + i32::try_from(sequence % 2)?,
            );
            header.program_address = 0xffff_ffff_ffff_fff0 + sequence % 16;
            header.thread_id = sequence;
            if sequence.is_multiple_of(9) {
                header.truncation = Truncation::Record;
            }
            self.append(header, DATA[choice % DATA.len()])?;
        }
        let out = SwitchOutData {
            next_pid: 900,
            next_tid: 901,
            next_comm: NEXT,
            state: 1,
            preempted: 0,
            waits_in: 0,
            syscall: 0,
            ran_ns: 0,
        };
        let wakeup = WakeupData {
            target_cpu: 1,
            new_thread: 0,
            waker_pid: 900,
            waker_tid: 901,
            waker_comm: NEXT,
            waker_context: 1,
            reserved: 0,
        };
        let back = SwitchInData {
            prev_pid: 900,
            prev_tid: 901,
            prev_comm: NEXT,
            others: 0,
            reserved: 0,
        };
        let fork = ForkData {
            child_pid: 1_000 + u32::try_from(round)?,
            child_tid: 1_000 + u32::try_from(round)?,
            child_comm: NEXT,
            child_ns_pid: 1_000 + u32::try_from(round)?,
            child_ns_tid: 1_000 + u32::try_from(round)?,
        };
        let kernel: [(EventTypeId, &[u8]); 4] = [
            (EventTypeId::SWITCH_OUT, out.as_bytes()),
            (EventTypeId::WAKEUP, wakeup.as_bytes()),
            (EventTypeId::SWITCH_IN, back.as_bytes()),
            (EventTypeId::FORK, fork.as_bytes()),
        ];
        for (index, (id, data)) in (0..).zip(kernel) {
            let mut header = header(ns + 600_000 + 1_000 * index, id, 7, 7);
            header.cpu = Some(1);
            self.append(header, data)?;
        }
        if round.is_multiple_of(100) {
            // Data that is not as its type says, and a start, whose filter leaves out no switches.
            let mut header = header(ns + 700_000, EventTypeId::EXIT, 7, 8);
            header.cpu = Some(0);
            self.append(header, b"\xffx")?;
            let mut header = self::header(ns + 700_001, EventTypeId::START, 0, 0);
            header.cpu = None;
            self.append(
                header,
                &[0x81; tracer_common::event_type::EVENT_SET_WORDS * 8],
            )?;
        }
        Ok(())
    }

    fn append(&mut self, header: EventHeader, data: &[u8]) -> anyhow::Result<()> {
        let comm: &[u8] = match header.tid {
            0 => b"",
            7 => b"main \"x\"",
            _ => b"\xffw\n",
        };
        self.events += 1;
        self.writer.append(&header, data, comm, &self.types)?;
        Ok(())
    }
}

fn header(ns: u64, event_type: EventTypeId, pid: i32, tid: i32) -> EventHeader {
    EventHeader {
        time: MonotonicNs(ns),
        event_type,
        pid,
        tid,
        cpu: None,
        thread_id: 0,
        program_address: 0,
        truncation: Truncation::None,
    }
}
