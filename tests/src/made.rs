//! The beginning of logs that tests write event by event, and a log with one event of each type.

use std::fs::File;
use std::path::Path;

use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES};
use tracer_common::kernel::{probe_kind, typed_data};
use tracer_engine::event::{EventHeader, MonotonicNs, RealtimeNs, Truncation};
use tracer_engine::{Attributes, ClockPair, EventTypes, Ledger, LogFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogWriter};

/// Time at which the logs were made, on the monotonic clock.
pub const START_NS: u64 = 5_000_000_000;
/// [`START_NS`] as a date.
const START_DATE_NS: u64 = 1_700_000_000_000_000_000;

/// Address in the program at which each event was emitted.
pub const PROG_ADDRESS: u64 = 0x1234;
/// The thread's `pthread_t`.
pub const THREAD_ID: u64 = 0x77;

/// Data that are longer than those of any type.
const DATA: [u8; 512] = [0; 512];

/// Begins a log of a stream of this name.
///
/// # Errors
///
/// It cannot be made.
pub fn log(path: &Path, name: &str) -> anyhow::Result<LogWriter> {
    let header = LogHeader {
        attributes: Attributes::default().with_name(name),
        anchor: ClockPair {
            monotonic: MonotonicNs(START_NS),
            realtime: RealtimeNs(START_DATE_NS),
        },
    };
    let options = LogOptions {
        policy: LogFullPolicy::Append,
        max_size: 0,
    };
    let mut file = File::options();
    let file = file.read(true).write(true).create_new(true).open(path)?;
    Ok(LogWriter::create(file, &header, options)?)
}

/// Writes a log with one event of each type of system event, with a millisecond between two events.
///
/// # Errors
///
/// It cannot be written.
pub fn write_each_type(path: &Path) -> anyhow::Result<()> {
    let mut writer = log(path, "types")?;
    let types = EventTypes::default();
    for (event_type, time) in SYSTEM_EVENT_TYPES
        .iter()
        .zip((START_NS..).step_by(1_000_000))
    {
        let header = header_of_type(event_type.id, time);
        writer.append(&header, &DATA, b"worker", &types)?;
    }
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

/// Beginnings of the names of types that say how their data is stored, beside programs' own.
pub const PROBES: [&str; 5] = ["probe:", "retprobe:", "usdt:", "tracepoint:", "ros2:"];

/// Writes a log with events of programs' own, and of each kind of probe in each way of storing what
/// it has read.
///
/// # Errors
///
/// It cannot be written.
pub fn write_probes(path: &Path) -> anyhow::Result<()> {
    let plain = |kind: u16, arguments: &[u64]| {
        let count = u16::try_from(arguments.len()).unwrap_or(0);
        // The last argument is signed, the first one could not be read.
        let bits = [1 << (arguments.len() - 1), u16::from(arguments.len() > 1)];
        let words = [kind, count, bits[0], bits[1]].map(u16::to_ne_bytes);
        let arguments: Vec<_> = arguments.iter().map(|value| value.to_ne_bytes()).collect();
        [words.as_flattened(), arguments.as_flattened()].concat()
    };
    let typed = |kind: u16| {
        let field = |kind: u8, name: &str, unit: u8, value: &[u8]| {
            let lengths = [name.len(), value.len()].map(|length| u8::try_from(length).unwrap_or(0));
            let head = [kind, 0, lengths[0], unit, lengths[1], 0];
            [&head[..], name.as_bytes(), value].concat()
        };
        let words = [kind, 3, 0, 0].map(u16::to_ne_bytes);
        let fields = [
            field(typed_data::SIGNED, "count", 4, &(-7_i32).to_ne_bytes()),
            field(typed_data::TEXT, "name", 1, b"caf\xe9 \"x\""),
            field(typed_data::FLOAT, "share", 8, &0.25_f64.to_ne_bytes()),
        ];
        [words.as_flattened(), &fields.concat()].concat()
    };
    let events = [
        ("request begin", b"GET /".to_vec()),
        ("request end", vec![0xff, 0, 7]),
        (
            "probe:/bin/x:run",
            plain(probe_kind::FUNCTION, &[0, 7, u64::MAX]),
        ),
        ("probe:/bin/x:typed", typed(probe_kind::TYPED_FUNCTION)),
        (
            "retprobe:/bin/x:run",
            plain(probe_kind::RETURN, &[u64::MAX]),
        ),
        ("retprobe:/bin/x:typed", typed(probe_kind::TYPED_RETURN)),
        ("usdt:x:begun", plain(probe_kind::USDT, &[0, 1 << 40])),
        ("tracepoint:sched:x", typed(probe_kind::TRACEPOINT)),
        ("ros2:callback_start", typed(probe_kind::PROGRAMS_OWN)),
    ];
    let mut writer = log(path, "probes")?;
    let mut types = EventTypes::default();
    for (time, (name, data)) in (START_NS..).step_by(1_000).zip(&events) {
        let id = types.define_user(name.as_bytes(), None);
        writer.append(&header_of_type(id, time), data, b"worker", &types)?;
    }
    Ok(writer.complete(&types, &Ledger::default(), FinalStatus::default())?)
}

fn header_of_type(event_type: EventTypeId, time: u64) -> EventHeader {
    EventHeader {
        time: MonotonicNs(time),
        event_type,
        pid: 7,
        tid: 8,
        cpu: Some(1),
        thread_id: THREAD_ID,
        program_address: PROG_ADDRESS,
        truncation: Truncation::None,
    }
}
