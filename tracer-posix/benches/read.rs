//! Cost of reading, one question each. Times are by event.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::time::Instant;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tracer_area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_engine::event::{EventHeader, MonotonicNs, Truncation};
use tracer_engine::source::{Batch, Control, Source, Unread};
use tracer_engine::{ActiveStream, Origin, StreamFullPolicy};
use tracer_posix::emit::UserEvent;

const EVENTS: u32 = 65_536;

/// Brings events of its own, one every so many nanoseconds, all at once.
struct Given {
    first: u64,
    step: u64,
    count: u32,
}

impl Source for Given {
    fn collect(&mut self, batch: &mut Batch<'_>) -> MonotonicNs {
        for index in 0..self.count {
            let time = MonotonicNs(self.first + u64::from(index) * self.step);
            batch.push(header(time), &[7; 32]);
        }
        MonotonicNs(u64::MAX)
    }

    fn count_unread(&mut self, _: MonotonicNs, _: Instant, _: &mut Batch<'_>) -> Unread {
        Unread::Nothing
    }

    fn control(&mut self, _: &Control) {}
}

fn header(time: MonotonicNs) -> EventHeader {
    EventHeader {
        time,
        event_type: UserEvent::UNNAMED.id(),
        pid: 1,
        tid: 1,
        cpu: None,
        thread_id: 1,
        program_address: 1,
        truncation: Truncation::None,
    }
}

fn now() -> MonotonicNs {
    MonotonicNs(0)
}

fn empty_stream() -> ActiveStream {
    ActiveStream::new(StreamFullPolicy::Loop, 64 << 20, now)
}

/// Returns a stream with so many sources whose events lie between each other.
fn with_sources(sources: u32) -> ActiveStream {
    let mut stream = empty_stream();
    stream.start(Origin::NONE);
    for index in 0..sources {
        stream.add_source(Box::new(Given {
            first: 1000 + u64::from(index),
            step: u64::from(sources),
            count: EVENTS / sources,
        }));
    }
    stream
}

fn merge(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge and policy/sources");
    group.throughput(Throughput::Elements(u64::from(EVENTS)));
    for sources in [1, 8, 64] {
        group.bench_function(BenchmarkId::from_parameter(sources), |bencher| {
            let sync = |mut stream: ActiveStream| {
                stream.sync();
                assert!(stream.held() >= EVENTS as usize);
                stream
            };
            bencher.iter_batched(|| with_sources(sources), sync, BatchSize::PerIteration);
        });
    }
}

fn next_event(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("next event");
    group.throughput(Throughput::Elements(u64::from(EVENTS)));
    group.bench_function("that is there", |bencher| {
        let full = || {
            let mut stream = with_sources(1);
            stream.sync();
            stream
        };
        let drain = |mut stream: ActiveStream| {
            let mut bytes = 0;
            for _ in 0..EVENTS {
                bytes += stream.next_event().map_or(0, |event| event.data.len());
            }
            assert!(bytes >= 31 * EVENTS as usize);
            stream
        };
        bencher.iter_batched(full, drain, BatchSize::PerIteration);
    });
}

/// From the rings of this process's own area.
fn collect(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("collect from a ring");
    group.throughput(Throughput::Elements(u64::from(EVENTS)));
    group.bench_function("32 bytes of data", |bencher| {
        let request = StreamRequest {
            target: None,
            inherit: false,
            is_only_source: true,
            bytes: 16 << 20,
            mode: RingMode::KeepOldest,
            max_data: 4096,
            lease: None,
        };
        let event = UserEvent::open("bench").unwrap();
        let area = Area::own().expect("the library has made an area");
        let mut stream = empty_stream();
        stream.add_source(Box::new(AreaSource::open(area, &request).unwrap()));
        stream.start(Origin::NONE);
        let stream = std::cell::RefCell::new(stream);
        let emit = || {
            while stream.borrow_mut().try_next_event().is_some() {}
            for _ in 0..EVENTS {
                event.emit(&[7; 32]);
            }
        };
        let sync = |()| {
            stream.borrow_mut().sync();
            assert!(stream.borrow().held() >= EVENTS as usize);
        };
        bencher.iter_batched(emit, sync, BatchSize::PerIteration);
    });
}

criterion_group!(benches, merge, next_event, collect);
criterion_main!(benches);
