//! An area whose clock is `CLOCK_MONOTONIC`, as on a machine whose kernel makes its clocks from
//! something else than the cycle counter: there an emission is no restartable sequence.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::mem::offset_of;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tracer_area::{Area, AreaSource, RingMode, StreamRequest};
use tracer_common::area::{AreaHeader, ChunkHeader, DATA_OFFSET, chunk_state, clock};
use tracer_engine::source::{Batch, Control, Source};
use tracer_engine::{EventSet, EventTypes};
use tracer_posix::emit::UserEvent;

/// Bytes of the area that are looked at: the fixed parts, and the headers of the first window.
const REACH: usize = DATA_OFFSET + (64 << 10);

/// Maps this process's area.
fn own_area() -> &'static [AtomicU64] {
    let file = tracer_area::own_file_anew().unwrap();
    // SAFETY: asks for a new mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            REACH,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    // SAFETY: mapped as long as the test runs, page aligned, and only reached by atomics.
    unsafe { std::slice::from_raw_parts(base.cast(), REACH / 8) }
}

/// Makes `CLOCK_MONOTONIC` the area's clock, before there is a controller.
fn choose_clock(area: &[AtomicU64]) {
    let offset = offset_of!(AreaHeader, clock);
    let word = &area[offset / 8];
    let shift = offset % 8 * 8;
    assert_eq!(
        word.load(Relaxed) >> shift & 0xffff_ffff,
        clock::UNDECIDED.into()
    );
    word.fetch_or(u64::from(clock::MONOTONIC) << shift, Relaxed);
}

/// Returns the mark of the only open chunk.
fn mark_of_open_chunk(area: &[AtomicU64]) -> &AtomicU64 {
    let headers = (DATA_OFFSET..REACH).step_by(size_of::<ChunkHeader>());
    let is_open = |at: &usize| {
        let state = area[(at + offset_of!(ChunkHeader, state)) / 8].load(Relaxed);
        chunk_state::state_of(state) == chunk_state::OPEN
    };
    let found: Vec<usize> = headers.filter(is_open).collect();
    assert_eq!(found.len(), 1);
    &area[(found[0] + offset_of!(ChunkHeader, begun)) / 8]
}

#[test]
fn an_emission_that_cannot_begin_anew_holds_the_watermark_up() {
    let area = own_area();
    choose_clock(area);
    let request = StreamRequest {
        target: Some(tracer_area::own_pid()),
        inherit: false,
        is_only_source: true,
        bytes: 64 << 10,
        mode: RingMode::OverwriteOldest,
        max_data: 64,
        lease: None,
    };
    let mut source = AreaSource::open(Area::own().unwrap(), &request).unwrap();
    source.control(&Control {
        running: true,
        filter: EventSet::EMPTY,
    });
    let event = UserEvent::open("monotonic").unwrap();
    event.emit(b"first");
    let (mut types, mut events, mut data, mut losses) =
        (EventTypes::default(), Vec::new(), Vec::new(), Vec::new());
    let mut collect = || {
        let batch = &mut Batch::new(&mut types, &mut events, &mut data, &mut losses);
        source.collect(batch)
    };
    let idle = collect();
    assert!(collect() > idle, "nobody is amid an emission");
    let begun = mark_of_open_chunk(area);
    let before = begun.load(Relaxed);
    let mut tries = 0;
    loop {
        tries += 1;
        let begin = Instant::now();
        begun.store(before + 64, Relaxed);
        let (held, next) = (collect(), collect());
        begun.store(before, Relaxed);
        // A reader that had no processor for as long as it waits has given up.
        if begin.elapsed() < Duration::from_millis(100) || tries == 5 {
            assert_eq!(next, held, "somebody is");
            break;
        }
        collect();
    }
    // What it has emitted before is older: nothing has to wait for that.
    event.emit(b"second");
    begun.fetch_add(64, Relaxed);
    collect();
    let until = collect();
    assert!(events.iter().all(|event| event.header.time <= until));
    assert_eq!(events.len(), 2);
}
