//! A stream's slot in an area, from the controller's side.

use std::ffi::c_int;
use std::fs;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;
use std::time::Duration;

use tracer_common::area::{
    MAX_DATA_BYTES, STREAM_SLOTS, StreamControl, emitters, pool_mode, stream_state,
};

use super::retire::{self, move_state};
use super::type_ids::no_filter;
use crate::discover::alive::{Identity, Life};
use crate::discover::find::Area;
use crate::discover::liveness;
use crate::emit::process;
use crate::layout::chunk_ref::Shape;
use crate::layout::gate;
use crate::layout::links;
use crate::layout::mapping::Parts;
use crate::layout::overcommit;
use crate::system::pids::own_pid;
use tracer_engine::StreamFullPolicy;

/// Behaviour of the threads' chunks when there is no space for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingMode {
    /// The oldest records are overwritten: for `POSIX_TRACE_LOOP`.
    OverwriteOldest,
    /// New records are refused and counted: for `POSIX_TRACE_UNTIL_FULL`.
    KeepOldest,
}

impl RingMode {
    /// Returns the mode of a stream.
    #[must_use]
    pub fn for_policy(policy: StreamFullPolicy) -> Self {
        match policy {
            StreamFullPolicy::Loop => Self::OverwriteOldest,
            StreamFullPolicy::UntilFull | StreamFullPolicy::Flush => Self::KeepOldest,
        }
    }
}

/// The stream that a controller wants in an area.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    /// The process to trace; `None`: every process that uses the area.
    pub target: Option<i32>,
    /// Whether children that the target makes from now on are traced too.
    pub inherit: bool,
    /// Whether all events of the stream come from this area, except those of its controller. Then a
    /// thread that emits alone need not wait for its loads before it reads the clock: nothing that
    /// it has seen was an event of the stream.
    pub is_only_source: bool,
    /// Bytes of events that the area keeps at least until they are read, whichever threads emit
    /// them: the size of the stream, as [`event_size`](tracer_engine::sizes::event_size) counts.
    pub bytes: usize,
    /// Behaviour when there is no space for more.
    pub mode: RingMode,
    /// Most bytes of data recorded of one event.
    pub max_data: usize,
    /// Time within which the controller collects again. Otherwise it counts as dead, and the target
    /// refuses (and counts) events. `None` for a controller that may collect at any time.
    pub lease: Option<Duration>,
}

/// Why a stream could not be opened in an area.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// `EAGAIN`.
    #[error("all {limit} streams of this trace area are in use")]
    TooManyStreams {
        /// Streams that one area can serve.
        limit: usize,
    },
    /// `ENOMEM`: the kernel promises no more memory than it has (`vm.overcommit_memory=2`), and has
    /// too little left for the area.
    #[error(
        "the kernel has no memory left to promise (vm.overcommit_memory=2): raise vm.overcommit_ratio, or end what has reserved it"
    )]
    NoMemory,
}

impl SlotError {
    /// Returns the error number that the C functions return for it.
    #[must_use]
    pub fn error_number(&self) -> c_int {
        match self {
            Self::TooManyStreams { .. } => libc::EAGAIN,
            Self::NoMemory => libc::ENOMEM,
        }
    }
}

/// A slot of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) index: usize,
    pub(super) generation: u32,
    pub(super) shape: Shape,
}

impl Slot {
    /// Takes a free slot and fills it in: suspended, nothing filtered.
    pub(super) fn take(area: &Area, request: &StreamRequest) -> Result<Self, SlotError> {
        let none_free = || SlotError::TooManyStreams {
            limit: STREAM_SLOTS,
        };
        let parts = area.parts().ok_or_else(none_free)?;
        if !overcommit::provide_opened(parts) {
            return Err(SlotError::NoMemory);
        }
        retire::reclaim(area, parts, abandoned);
        let (index, control) = parts
            .streams()
            .find(|(_, control)| move_state(control, stream_state::FREE, retire::claimed(area)))
            .ok_or_else(none_free)?;
        // A process that reads any of the words below, and the generation after that, sees that it
        // is no longer that of the stream before.
        fence(Release);
        let generation = next_generation(parts);
        let max_data = u32::try_from(request.max_data).unwrap_or(MAX_DATA_BYTES);
        let max_data = max_data.min(MAX_DATA_BYTES);
        let chunk_bytes = Shape::for_data(max_data);
        let shape = Shape::new(chunk_bytes).ok_or_else(none_free)?;
        control.mode.store(
            match request.mode {
                RingMode::OverwriteOldest => pool_mode::OVERWRITE_OLDEST,
                RingMode::KeepOldest => pool_mode::KEEP_OLDEST,
            },
            Relaxed,
        );
        control.chunk_bytes.store(chunk_bytes, Relaxed);
        control.max_data.store(max_data, Relaxed);
        let chunks = shape.for_size(request.bytes, max_data);
        control.chunks_for_size.store(chunks, Relaxed);
        empty_pool(control);
        control
            .target_pid
            .store(request.target.map_or(0, innermost_pid), Relaxed);
        control.inherit.store(u32::from(request.inherit), Relaxed);
        let is_confined = request.is_only_source && !request.inherit;
        let emitters = if is_confined {
            emitters::NONE
        } else {
            emitters::MANY
        };
        control.emitters.store(emitters, Relaxed);
        let own = Identity::own();
        control.controller_pid.store(own.pid, Relaxed);
        control.controller_start.store(own.start, Relaxed);
        let stack = if may_show_stack(area) { own.stack } else { 0 };
        control.controller_stack.store(stack, Relaxed);
        control.controller_namespace.store(own.namespace, Relaxed);
        let is_in_own_namespace =
            |pid: &i32| *pid == own_pid() || liveness::is_in_own_namespace(*pid);
        let of_target = request
            .target
            .filter(is_in_own_namespace)
            .map(|_| own.namespace);
        control
            .target_namespace
            .store(of_target.unwrap_or(0), Relaxed);
        if area.is_own() {
            process::note_namespace(own.namespace);
        }
        control.lease_until.store(u64::MAX, Relaxed);
        gate::open(control);
        control.lost_until.store(0, Relaxed);
        control.lost_since.store(u64::MAX, Relaxed);
        for (word, value) in parts.filter(index).zip(no_filter()) {
            word.store(value, Relaxed);
        }
        control.generation.store(generation, Release);
        control.state.store(stream_state::LIVE, Release);
        Ok(Self {
            index,
            generation,
            shape,
        })
    }

    /// Lets the stream's trace points emit, or stops them.
    pub(super) fn set_running(self, parts: Parts<'_>, is_running: bool) {
        let bit = 1_u32 << self.index;
        let active = &parts.header().active;
        if is_running {
            active.fetch_or(bit, AcqRel);
        } else {
            active.fetch_and(!bit, AcqRel);
        }
    }

    /// Gives the slot and its memory back.
    pub(super) fn give_back(self, area: &Area) {
        if let Some(parts) = area.parts()
            && let Some(control) = parts.stream(self.index)
        {
            retire::end(area, parts, (self.index, control), self.generation);
        }
    }
}

/// Fills in a pool from which nothing was taken yet. Its queue of closed chunks begins with chunk
/// 0, which was never used, since a queue is never quite empty.
fn empty_pool(control: &StreamControl) {
    control.writers.store(0, Relaxed);
    control.fresh.store(1, Relaxed);
    control.changes.store(0, Relaxed);
    control.oldest.store(links::word(0), Relaxed);
    control.newest.store(links::word(0), Relaxed);
    control.consumed.store(1, Relaxed);
    control.ended.store(0, Relaxed);
    control.free_chains.store(0, Relaxed);
    control.released.store(0, Relaxed);
    control.refused_no_chunk.store(0, Relaxed);
    control.refused_nested.store(0, Relaxed);
    control.waiting.store(0, Relaxed);
}

/// Tells whether the processes of an area may know where this process's stack is: they could ask
/// `/proc` for it as well. It would help one of another user to attack this process.
fn may_show_stack(area: &Area) -> bool {
    // SAFETY: takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    // SAFETY: takes no pointers.
    let is_dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 1;
    let is_of_family = area.id() == process::area_id();
    is_dumpable && (is_of_family || !is_root)
}

/// Returns the generation of the stream, if its controller has ended. Where this process cannot see
/// whether the controller lives, the controller counts as alive until its lease ends.
fn abandoned(area: &Area, control: &StreamControl) -> Option<u32> {
    let generation = control.generation.load(Acquire);
    if generation == 0 || control.state.load(Acquire) != stream_state::LIVE {
        return None;
    }
    let controller = Identity {
        pid: control.controller_pid.load(Relaxed),
        start: control.controller_start.load(Relaxed),
        namespace: control.controller_namespace.load(Relaxed),
        stack: control.controller_stack.load(Relaxed),
    };
    let lease_until = control.lease_until.load(Relaxed);
    // Another stream may have taken the slot meanwhile: then the words above are not all of one
    // controller.
    fence(Acquire);
    if control.generation.load(Relaxed) != generation {
        return None;
    }
    let is_gone = match controller.life() {
        Life::Alive => false,
        Life::Dead => true,
        Life::Unknown => lease_until < area.ticks().now(),
    };
    is_gone.then_some(generation)
}

/// Returns the pid of a process in its own pid namespace, which the library in that process knows.
fn innermost_pid(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    let innermost = status.ok().and_then(|status| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_ascii_whitespace().next_back()?.parse().ok()
    });
    innermost.unwrap_or(pid)
}

fn next_generation(parts: Parts<'_>) -> u32 {
    loop {
        let generation = parts
            .header()
            .generations
            .fetch_add(1, AcqRel)
            .wrapping_add(1);
        if generation != 0 {
            return generation;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATION: u32 = 7;

    /// Returns the control words of a running stream of this controller.
    fn control(controller: Identity, lease_until: u64) -> StreamControl {
        // SAFETY: all of it is atomics, for which zeros are valid.
        let control: StreamControl = unsafe { std::mem::zeroed() };
        control.controller_pid.store(controller.pid, Relaxed);
        control.controller_start.store(controller.start, Relaxed);
        control
            .controller_namespace
            .store(controller.namespace, Relaxed);
        control.lease_until.store(lease_until, Relaxed);
        control.generation.store(GENERATION, Relaxed);
        control.state.store(stream_state::LIVE, Relaxed);
        control
    }

    #[test]
    fn a_controller_that_is_there_and_the_same_has_not_abandoned_its_stream() {
        let area = Area::own().unwrap();
        let own = Identity::own();
        let later = Identity {
            start: own.start + 1,
            ..own
        };

        assert_eq!(abandoned(&area, &control(own, 0)), None);
        assert_eq!(
            abandoned(&area, &control(later, u64::MAX)),
            Some(GENERATION)
        );
    }

    #[test]
    fn a_controller_that_cannot_be_seen_lives_as_long_as_its_lease() {
        let area = Area::own().unwrap();
        let own = Identity::own();
        let elsewhere = Identity {
            namespace: own.namespace + 1,
            ..own
        };
        let now = area.ticks().now();

        assert_eq!(abandoned(&area, &control(elsewhere, u64::MAX)), None);
        for ended in [now - 1, 0] {
            let control = control(elsewhere, ended);
            assert_eq!(abandoned(&area, &control), Some(GENERATION));
        }
    }

    #[test]
    fn a_stream_that_has_taken_the_slot_of_an_ended_one_is_not_ended() {
        let area = Area::for_command().unwrap();
        let parts = area.parts().unwrap();
        let control = parts.stream(3).unwrap();
        control.generation.store(GENERATION + 1, Relaxed);
        control.state.store(stream_state::LIVE, Relaxed);

        retire::end(&area, parts, (3, control), GENERATION);
        assert_eq!(control.generation.load(Relaxed), GENERATION + 1);
        assert_eq!(control.state.load(Relaxed), stream_state::LIVE);

        retire::end(&area, parts, (3, control), GENERATION + 1);
        assert_eq!(control.state.load(Relaxed), stream_state::FREE);
    }
}
