//! Protocol between controller and agent: a request, a reply. A connection serves one stream.
//!
//! Descriptors that prove a right go with the first byte of the message that needs them, a
//! [`Ask::Hello`] or an [`Ask::Add`], in this order: a pidfd of the process, and its `mem` in
//! `/proc`, opened for reading, where the kernel allows that. `docs/agent.md` has all of it.

use serde::{Deserialize, Serialize};

use tracer_common::event_type::EVENT_SET_WORDS;
use tracer_common::kernel::{PYTHON_PROCESS_WORDS, syscalls};

use crate::wire::SentEvent;
use tracer_engine::source::LossCause;

/// Version of this protocol.
pub const VERSION: u32 = 4;

/// Version of the protocol without [`Detail`]. That part has not changed since, so that programs
/// and agents of different versions understand each other.
pub const PLAIN_VERSION: u32 = 2;

/// Most descriptors that go with a message that names a process.
pub const PROOF_DESCRIPTORS: usize = 2;

/// Most bytes of events in one reply; more come with the next.
pub const MOST_REPLY_BYTES: usize = 1 << 20;

/// Detail in which events are recorded, for a client that wants more of them than is usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Detail {
    /// The types that the conversation may ask for by its filter, as bits.
    pub types: u64,
    /// The system calls that are recorded, as bits by their numbers: those of the machine, and
    /// those of 32-bit programs.
    pub calls: [[u64; syscalls::WORDS]; 2],
    /// Bytes that are read of what an argument of a system call points to.
    pub string_bytes: u32,
    /// Descriptors: 0 for numbers alone, 1 with paths, 2 with addresses too.
    pub descriptors: u32,
    /// The types of whose events stacks are recorded, as bits.
    pub stack_types: u64,
    /// Addresses of the kernel in a stack, at most.
    pub kernel_frames: u32,
    /// Addresses of the program in a stack, at most.
    pub user_frames: u32,
    /// Bytes of the program's stack that are copied, so that its functions are found by the unwind
    /// data of their files.
    pub copied_bytes: u32,
    /// Nanoseconds that a thread has to be blocked for its stack to be recorded.
    pub off_cpu_ns: Option<u64>,
    /// Samples per second of each CPU.
    pub samples_per_second: u32,
    /// Recording of system calls only as they end, with their arguments.
    pub calls_at_exit: bool,
    /// Recording of the contexts of threads, as their programs publish them.
    pub contexts: bool,
    /// Detachment of the eBPF programs at system calls while no conversation of this recording lets
    /// calls through its filter.
    pub releases_calls: bool,
    /// Frames of Python in a stack, at most.
    pub python_frames: u32,
}

/// A request of the controller.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Comes first, or after a `Record`, and once; with the descriptors.
    Hello {
        /// [`VERSION`], or [`PLAIN_VERSION`].
        version: u32,
        /// The process to trace; 0 for the one that asks. A service goes by the pidfd alone.
        pid: i32,
        /// Whether its children are traced too.
        inherit: bool,
        /// Bytes of events that are held for the controller until it collects them.
        capacity: u64,
        /// Whether new events are refused when there is no space; else the oldest give way.
        keeps_oldest: bool,
    },
    /// State that the stream asks for from now on.
    Control {
        /// Whether it records.
        running: bool,
        /// The types that it does not want.
        filter: [u64; EVENT_SET_WORDS],
    },
    /// A request for everything up to now.
    Collect,
    /// Another process whose events are wanted too; with the descriptors.
    Add {
        /// The process. A service goes by the pidfd alone.
        pid: i32,
    },
    /// Detail that is wanted, before the hello. Only a service records it.
    Record {
        /// The detail, in a box: it is larger than all that programs send.
        detail: Box<Detail>,
    },
    /// Where a process that was asked for has the contexts of its threads, for a recording that has
    /// them; with the descriptors.
    Contexts {
        /// The process. A service goes by the pidfd alone.
        pid: i32,
        /// The place ([`ContextPlace`](tracer_common::kernel::ContextPlace)): module, offset and
        /// generation. `None`: it has none any more.
        place: Option<[u64; 3]>,
    },
    /// Announces the call `pidfd_getfd(pidfd, -1, 0)`, by which the controller proves its right
    /// where it cannot open the process's `mem`; with the pidfd. The `Hello`, `Add`, `Contexts` or
    /// `Interpreter` that comes next is proven by it, and brings the pidfd alone.
    Prove,
    /// The interpreter of Python of a process that was asked for, for a recording that has frames
    /// of Python; with the descriptors.
    Interpreter {
        /// The process. A service goes by the pidfd alone.
        pid: i32,
        /// The words of [`PythonProcess`](tracer_common::kernel::PythonProcess), in a box: they
        /// are more than programs send. `None`: it has none any more.
        process: Option<Box<[u64; PYTHON_PROCESS_WORDS]>>,
    },
}

/// A reply of the agent.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The reply to all but `Collect`.
    Done,
    /// The reply to all but `Control` and `Collect` where the agent refuses.
    Refused {
        /// The standard's error number.
        error: i32,
        /// Why, and what to do.
        why: String,
    },
    /// The reply to `Collect`.
    Events {
        /// Events in order of time.
        events: Vec<SentEvent>,
        /// Events lost before them: by the index of the cause in [`LossCause::ALL`], how many, and
        /// since when.
        lost: Vec<(u32, u64, u64)>,
        /// Watermark: nothing older will come; nanoseconds on `CLOCK_MONOTONIC`.
        watermark: u64,
        /// Whether more is there already.
        has_more: bool,
    },
}

/// Returns a cause of loss as sent.
#[must_use]
pub fn sent_cause(cause: LossCause) -> u32 {
    let index = LossCause::ALL.iter().position(|known| *known == cause);
    index
        .and_then(|index| u32::try_from(index).ok())
        .unwrap_or(0)
}

/// Returns a cause of loss as received. An unknown one counts as a full ring of the kernel.
#[must_use]
pub fn received_cause(untrusted: u32) -> LossCause {
    let index = usize::try_from(untrusted).ok();
    let known = index.and_then(|index| LossCause::ALL.get(index));
    known.copied().unwrap_or(LossCause::KernelRingFull)
}
