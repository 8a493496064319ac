//! Cost of a trace point, one question each. Through the Rust interface, which is inlined.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tracer_area::{Area, AreaSource, RingMode, StreamRequest, monotonic_now};
use tracer_engine::source::{Control, Source as _};
use tracer_engine::{ActiveStream, EventSet, Filtering, Origin, StreamFullPolicy};
use tracer_posix::emit::UserEvent;

/// Makes a running stream without a reader.
fn stream(mode: RingMode) -> AreaSource {
    let mut source = source(mode);
    source.control(&Control {
        running: true,
        filter: EventSet::EMPTY,
    });
    source
}

fn source(mode: RingMode) -> AreaSource {
    let request = StreamRequest {
        target: None,
        inherit: false,
        is_only_source: true,
        bytes: 1 << 20,
        mode,
        max_data: 4096,
        lease: None,
    };
    let area = Area::own().expect("the library has made an area");
    AreaSource::open(area, &request).unwrap()
}

fn event() -> UserEvent {
    UserEvent::open("bench").unwrap()
}

fn disabled(criterion: &mut Criterion) {
    let event = event();
    criterion.bench_function("emit/not traced", |bencher| {
        bencher.iter(|| event.emit(black_box(&[1; 32])));
    });
}

fn payload_size(criterion: &mut Criterion) {
    let event = event();
    let mut group = criterion.benchmark_group("emit/bytes of data");
    for bytes in [0, 8, 32, 256] {
        let data = vec![7; bytes];
        let _stream = stream(RingMode::OverwriteOldest);
        group.bench_with_input(
            BenchmarkId::from_parameter(bytes),
            &data,
            |bencher, data| {
                bencher.iter(|| event.emit(black_box(data)));
            },
        );
    }
}

fn streams(criterion: &mut Criterion) {
    let event = event();
    let mut group = criterion.benchmark_group("emit/streams");
    for count in [1, 2, 4, 8] {
        let _streams: Vec<_> = (0..count)
            .map(|_| stream(RingMode::OverwriteOldest))
            .collect();
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| event.emit(black_box(&[1; 32])));
        });
    }
}

fn threads(criterion: &mut Criterion) {
    let event = event();
    let mut group = criterion.benchmark_group("emit/threads");
    for count in [1, 2, 4, 8] {
        let _stream = stream(RingMode::OverwriteOldest);
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter_custom(|iterations| emit_at_once(event, count, iterations));
        });
    }
}

/// Returns the time that all threads together take, by the events of one: on fewer CPUs than
/// threads they take turns.
fn emit_at_once(event: UserEvent, threads: usize, iterations: u64) -> Duration {
    let barrier = Barrier::new(threads);
    let emit = || {
        event.emit(&[0; 32]);
        barrier.wait();
        let start = Instant::now();
        for _ in 0..iterations {
            event.emit(black_box(&[1; 32]));
        }
        start.elapsed()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(emit)).collect();
        let longest = running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .max();
        longest.unwrap_or_default()
    })
}

fn filtered(criterion: &mut Criterion) {
    let event = event();
    let mut filter = EventSet::EMPTY;
    filter.insert(event.id());
    let mut stream = ActiveStream::new(StreamFullPolicy::Loop, 1 << 20, monotonic_now);
    stream.add_source(Box::new(source(RingMode::OverwriteOldest)));
    stream.start(Origin::NONE);
    stream.learn_event_types();
    stream.set_filter(&filter, Filtering::Set, Origin::NONE);
    // The source learns the type's id with its first event, and filters from then on.
    event.emit(&[1; 32]);
    stream.sync();
    stream.sync();
    let before = stream.ledger().recorded();
    criterion.bench_function("emit/filtered out", |bencher| {
        bencher.iter(|| event.emit(black_box(&[1; 32])));
    });
    stream.sync();
    assert_eq!(stream.ledger().recorded(), before);
}

fn full(criterion: &mut Criterion) {
    let event = event();
    let mut group = criterion.benchmark_group("emit/into a full stream");
    for (name, mode) in [
        ("oldest overwritten", RingMode::OverwriteOldest),
        ("newest refused", RingMode::KeepOldest),
    ] {
        let _stream = stream(mode);
        for _ in 0..100_000 {
            event.emit(&[1; 32]);
        }
        group.bench_function(name, |bencher| {
            bencher.iter(|| event.emit(black_box(&[1; 32])));
        });
    }
}

criterion_group!(
    benches,
    disabled,
    payload_size,
    streams,
    threads,
    filtered,
    full
);
criterion_main!(benches);
