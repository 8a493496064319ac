//! Programs in the kernel, and what they record.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES, SystemEventType};
use tracer_common::kernel::wanted;
use tracer_engine::EventTypes;
use tracer_engine::event::{EventHeader, MonotonicNs};
use tracer_engine::source::{Batch, Loss, Pending, Source as _};
use tracer_kernel::{KernelOptions, KernelSource, KernelTracer, give_back_what_is_free};
use tracer_posix::agent::protocol::Detail;
use tracer_syscalls::choice::SyscallSet;

use super::detail::{descriptors_of, stacks_of};
use crate::hub::TracedFor;

/// Bytes of each ring.
const RING_BYTES: u32 = 2 << 20;

/// Bytes of each ring, where each stack takes some thousand.
const LARGE_RING_BYTES: u32 = 8 << 20;

/// Bytes of each ring, where calls are to be recorded no more as soon as there are too many: a
/// client hears of those once all before them are read.
const SMALL_RING_BYTES: u32 = 1 << 20;

/// Most bytes that are read of what an argument of a system call points to: as many as tracers ask
/// for that are not told otherwise.
const STRING_BYTES: u32 = 64;

/// Families of types for which programs would be loaded that no subscription can ask for.
const NEVER: &[&str] = &["stack", "sample"];

fn types(bits: u64, has_samples: bool) -> Vec<EventTypeId> {
    let chosen = |entry: &&SystemEventType| {
        let is_sample = has_samples && entry.id == EventTypeId::SAMPLE;
        wanted::bit(entry.id) & bits != 0 && (is_sample || !NEVER.contains(&entry.family))
    };
    let chosen = SYSTEM_EVENT_TYPES.iter().filter(chosen);
    chosen.map(|entry| entry.id).collect()
}

/// Programs in the kernel, and what they record.
pub struct KernelRecording {
    // Dropped in this order: the source owns the rings.
    pub source: KernelSource,
    ring: Option<AsyncFd<OwnedFd>>,
    pub tracer: KernelTracer,
    collected: Collected,
}

impl KernelRecording {
    /// Loads the programs for these types, in this detail; `is_beside` a recording that has what
    /// says which processes exist.
    pub fn load(bits: u64, detail: Option<Detail>, is_beside: bool) -> Result<Self, String> {
        let detail = detail.unwrap_or(Detail {
            string_bytes: STRING_BYTES,
            calls: *SyscallSet::all().words(),
            ..Detail::default()
        });
        let options = KernelOptions {
            ring_bytes: if detail.copied_bytes > 0 || detail.python_frames > 0 {
                LARGE_RING_BYTES
            } else if detail.releases_calls {
                SMALL_RING_BYTES
            } else {
                RING_BYTES
            },
            syscalls: SyscallSet::from_words(detail.calls),
            wanted: types(bits, detail.samples_per_second > 0),
            string_bytes: detail.string_bytes,
            descriptors: descriptors_of(&detail),
            calls_at_exit: detail.calls_at_exit,
            detaches_calls: detail.releases_calls,
            stacks: stacks_of(&detail),
            stacks_for_others: true,
            guards: true,
            thread_contexts: detail.contexts,
            contexts_for_others: true,
            is_beside,
            ..KernelOptions::default()
        };
        let (tracer, source) = KernelTracer::load(&options).map_err(|error| in_words(&error))?;
        // It has no stream of its own: subscriptions alone say what is recorded.
        tracer.wanted().set_types(0);
        let ring = watched(&tracer).map_err(|error| in_words(&error))?;
        give_back_what_is_free();
        Ok(Self {
            source,
            ring,
            tracer,
            collected: Collected::default(),
        })
    }

    pub async fn readable(&self) {
        let Some(ring) = &self.ring else {
            return std::future::pending().await;
        };
        match ring.readable().await {
            Ok(mut guard) => guard.clear_ready(),
            // The tick goes on without it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Has a process traced for its subscriptions, or no longer. In a pid namespace of its own it
    /// may have ended; else one that has is marked until a new process has its pid.
    ///
    /// # Errors
    ///
    /// No process can have this pid: in words.
    pub fn mark(&mut self, pid: i32, traced: Option<TracedFor>) -> Result<(), String> {
        let tracer = &mut self.tracer;
        let marked = match traced {
            Some(TracedFor {
                inherit,
                guard: Some(guard),
            }) => tracer.trace_guarded(pid, inherit, guard),
            Some(traced) => tracer.trace(pid, traced.inherit),
            None => tracer.untrace(pid),
        };
        marked.map_err(|error| in_words(&error))
    }

    /// Collects what was recorded since the last time. Returns its watermark.
    pub fn collect(&mut self) -> MonotonicNs {
        self.source.collect(&mut self.collected.batch())
    }

    /// Returns the losses that were collected.
    pub fn losses(&self) -> &[Loss] {
        &self.collected.losses
    }

    /// Returns the events that were collected.
    pub fn events(&self) -> impl Iterator<Item = (&EventHeader, &[u8])> {
        let data = &self.collected.data;
        let events = self.collected.events.iter();
        events.map(move |event| (&event.header, event.data(data)))
    }

    /// Forgets what was collected.
    pub fn clear(&mut self) {
        self.collected.clear();
    }
}

fn watched(tracer: &KernelTracer) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let ring = tracer.ring_fd();
    if ring < 0 {
        return Ok(None);
    }
    // SAFETY: the tracer lives, and this borrow ends with the call.
    let ring = unsafe { BorrowedFd::borrow_raw(ring) };
    let ring = ring.try_clone_to_owned()?;
    // SAFETY: it owns its descriptor, which it neither closes nor replaces.
    unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) }
        .map(Some)
        .map_err(|error| error.into_parts().1)
}

/// Returns an error with its causes.
pub fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words.push_str(": ");
        words.push_str(&error.to_string());
        source = error.source();
    }
    words
}

/// Events of one round, and what is kept between rounds.
#[derive(Default)]
struct Collected {
    types: EventTypes,
    events: Vec<Pending>,
    data: Vec<u8>,
    losses: Vec<Loss>,
}

impl Collected {
    /// Forgets all of it, and gives the memory of a large round back.
    fn clear(&mut self) {
        /// More than rounds bring that nothing holds up.
        const MOST_KEPT_BYTES: usize = 1 << 20;
        let kept = self.events.capacity() * size_of::<Pending>() + self.data.capacity();
        if kept > MOST_KEPT_BYTES {
            (self.events, self.data) = Default::default();
        }
        self.events.clear();
        self.data.clear();
        self.losses.clear();
    }

    fn batch(&mut self) -> Batch<'_> {
        Batch::new(
            &mut self.types,
            &mut self.events,
            &mut self.data,
            &mut self.losses,
        )
    }
}
