//! How much space events take: the arithmetic behind stream-min-size.

use tracer_common::area::{MAX_DATA_BYTES, MAX_STREAM_BYTES as LARGEST, RECORD_HEADER_BYTES};
use tracer_common::event_type::EVENT_SET_WORDS;
use tracer_common::kernel::{EXEC_FILE_BYTES, KERNEL_EVENT_TYPES, exec_space, string_space};

pub use super::trace_name::TRACE_NAME_MAX;

/// Bytes that an event takes beside its data.
pub const EVENT_HEADER_BYTES: usize = 64;

/// Bytes of an event set as event data.
pub const SET_BYTES: usize = EVENT_SET_WORDS * 8;

/// Most data of a system event of the trace system's own: FILTER's two sets.
pub const MAX_SYSTEM_DATA: usize = 2 * SET_BYTES;

/// Most data of an event of the kernel's: more is truncated. An exec with a long command line has
/// the most; a system call has at most two texts of 4,096 bytes, and what its descriptors are.
pub const MAX_KERNEL_DATA: usize = 66 << 10;

/// Most data of a user event that any stream keeps.
pub const MAX_USER_DATA: usize = MAX_DATA_BYTES as usize;

/// Bytes of the largest stream: its chunks in an area have to hold as much.
pub const MAX_STREAM_BYTES: usize = LARGEST as usize;

/// Returns the number of bytes that an event with `data_length` bytes of data takes in a stream.
///
/// Never less than the same event takes in a chunk. A merge at reading time loses nothing that one
/// global buffer would have held, and the argument for that rests on this.
#[must_use]
pub const fn event_size(data_length: usize) -> usize {
    data_length.saturating_add(EVENT_HEADER_BYTES + 7) & !7
}

/// Space set aside beyond the capacity for the START of a stream that is about to be full.
pub(crate) const START_BYTES: usize = event_size(SET_BYTES);

/// Space set aside beyond the capacity for the STOP of a stream that has become full.
pub(crate) const STOP_BYTES: usize = event_size(size_of::<i32>());

/// Returns the smallest stream that keeps events of `max_data_size`: one of them, and one of each
/// control event.
#[must_use]
pub const fn least_stream(max_data_size: usize) -> usize {
    event_size(max_data_size)
        .saturating_add(START_BYTES + STOP_BYTES)
        .saturating_add(event_size(MAX_SYSTEM_DATA))
}

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const _: () = {
    let mut i = 0;
    while i < KERNEL_EVENT_TYPES.len() {
        let kind = &KERNEL_EVENT_TYPES[i];
        assert!(kind.data_bytes <= MAX_KERNEL_DATA && kind.record_bytes <= MAX_KERNEL_DATA);
        i += 1;
    }
    assert!(MAX_KERNEL_DATA > 6 * string_space::LARGE);
    assert!(MAX_KERNEL_DATA > EXEC_FILE_BYTES + exec_space::LARGE + 1024);
    assert!(MAX_KERNEL_DATA > MAX_SYSTEM_DATA);
};

const _: () = {
    assert!(EVENT_HEADER_BYTES >= RECORD_HEADER_BYTES);
    assert!(event_size(0) == EVENT_HEADER_BYTES);
    assert!(event_size(1) == EVENT_HEADER_BYTES + 8);
};
