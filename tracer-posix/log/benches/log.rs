//! Cost of a log, for each event: to write it, and to read it.
//!
//! Both are measured on a file in memory, as the time that the processor spends on it, the kernel's
//! copying included: what is asked is the format's cost, not the disk's, nor what else the machine
//! does.

#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to say"
)]

use std::fs::File;
use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tracer_common::event_type::EventTypeId;
use tracer_engine::ClockPair;
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::{Attributes, EventTypes, Ledger, LogFullPolicy};
use tracer_log::{FinalStatus, LogHeader, LogOptions, LogReader, LogWriter};

const EVENTS: u64 = 500_000;

/// User events with 32 bytes of data, from two threads on two CPUs; or a thread switch, as the
/// kernel reports it.
#[derive(Clone, Copy)]
enum Mix {
    User,
    Switches,
}

fn types() -> EventTypes {
    let mut types = EventTypes::default();
    types.define_user(b"request", Some(EventTypeId(257)));
    types
}

fn write(file: &File, mix: Mix, events: u64) {
    let types = types();
    let header = LogHeader {
        attributes: Attributes::default(),
        anchor: ClockPair::default(),
    };
    let options = LogOptions {
        policy: LogFullPolicy::Append,
        max_size: 0,
    };
    let mut writer = LogWriter::create(file.try_clone().unwrap(), &header, options).unwrap();
    for index in 0..events {
        let thread = i32::from(index / 8 % 2 == 1);
        let switch = 37 + u32::from(!index.is_multiple_of(2));
        let header = EventHeader {
            time: MonotonicNs(1_000_000_000 + index * 433),
            event_type: match mix {
                Mix::User => EventTypeId(257),
                Mix::Switches => EventTypeId(switch),
            },
            pid: 4711,
            tid: 4711 + thread,
            cpu: Some(thread.unsigned_abs()),
            thread_id: 0x7fff_f7d8_1000 + u64::from(thread.unsigned_abs()),
            program_address: 0x5555_5555_1234,
            truncation: Truncation::None,
        };
        let mut data = [7; 32];
        match mix {
            Mix::User => {
                for (to, byte) in data.iter_mut().zip(index.to_le_bytes()) {
                    *to = byte;
                }
            }
            Mix::Switches => data[0] = u8::try_from(index % 4).unwrap(),
        }
        writer.append(&header, &data, b"worker", &types).unwrap();
    }
    writer
        .complete(&types, &Ledger::default(), FinalStatus::default())
        .unwrap();
}

fn read(file: &File) -> u64 {
    let mut reader = LogReader::open(file.try_clone().unwrap()).unwrap();
    let mut events = 0;
    while let Some(record) = reader.next_record().unwrap() {
        black_box(&record);
        events += 1;
    }
    events
}

/// Time on a CPU.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is valid to write to; the clock exists on every Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
        Duration::new(
            u64::try_from(now.tv_sec).unwrap(),
            u32::try_from(now.tv_nsec).unwrap(),
        )
    }

    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        WallTime.add(one, other)
    }

    fn zero(&self) -> Duration {
        WallTime.zero()
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn log(criterion: &mut Criterion<CpuTime>) {
    for (name, mix) in [
        ("user events of 32 bytes", Mix::User),
        ("switches", Mix::Switches),
    ] {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        write(&file, mix, EVENTS);
        let bytes = file.metadata().unwrap().len() - 8192;
        println!("{name}: {:.2} bytes an event", bytes as f64 / EVENTS as f64);

        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        group.throughput(Throughput::Elements(EVENTS));
        group.bench_function("write", |bencher| {
            bencher.iter(|| write(&file, mix, EVENTS))
        });
        group.bench_function("read", |bencher| {
            bencher.iter(|| assert_eq!(read(&file), EVENTS));
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = log
}
criterion_main!(benches);
