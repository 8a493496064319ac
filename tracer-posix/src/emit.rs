//! Trace points for Rust programs.

use tracer_common::event_type::EventTypeId;

use tracer_area::{self as area, NameTooLong, emitter};

#[doc(inline)]
pub use tracer_area::prefault::PrefaultError;

/// A user event type of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "posix_trace_eventid_open")]
pub struct UserEvent {
    id: EventTypeId,
}

impl UserEvent {
    /// The predefined type without a name of its own.
    pub const UNNAMED: Self = Self {
        id: EventTypeId::UNNAMED_USEREVENT,
    };

    /// Returns the user event type of this name; equal names give equal types.
    ///
    /// A process has `{TRACE_USER_EVENT_MAX}` types that have a bit in sets of event types, the
    /// unnamed one among them. A further name gives a type that streams know by its name only:
    /// filters treat it as [`UNNAMED`](Self::UNNAMED), unless the stream has given it an identifier
    /// of its own ([`define_event_type`](crate::stream::Stream::define_event_type)). A process and
    /// its family may have 32,766 names; a name beyond these gives [`UNNAMED`](Self::UNNAMED).
    ///
    /// # Errors
    ///
    /// [`NameTooLong`] (`ENAMETOOLONG`).
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_eventid_open()`.
    pub fn open(name: &str) -> Result<Self, NameTooLong> {
        match area::define_own_name(name.as_bytes())? {
            EventTypeId::UNNAMED_USEREVENT => Self::open_beside(name),
            id => Ok(Self { id }),
        }
    }

    /// Opens a type like [`open`](Self::open), but never as one of the `{TRACE_USER_EVENT_MAX}`.
    pub(crate) fn open_beside(name: &str) -> Result<Self, NameTooLong> {
        area::define_name_beside(name.as_bytes()).map(|id| Self { id })
    }

    /// Returns the type with this identifier, which was opened before.
    pub(crate) const fn from_id(id: EventTypeId) -> Self {
        Self { id }
    }

    /// Returns the type's identifier in this process. Streams that trace this process use the same
    /// identifier, except for types beyond the `{TRACE_USER_EVENT_MAX}`.
    #[must_use]
    pub const fn id(self) -> EventTypeId {
        self.id
    }

    /// Records an event of this type in every stream that traces this process, runs, and does not
    /// filter the type out. Never fails and never waits.
    ///
    /// # Standard
    ///
    /// XSH `posix_trace_event()`.
    #[inline(always)]
    #[doc(alias = "posix_trace_event")]
    pub fn emit(self, data: &[u8]) {
        if emitter::is_traced() {
            emitter::emit(self.id, data, trace_point(self.id, data));
        }
    }
}

/// Prepares the calling thread and its process for real time: from now on the thread emits without
/// a page fault and without a system call, from its first event on and also when a controller
/// attaches. This holds in the streams that live now, and in further streams of `bytes` bytes
/// together. It costs the process `bytes` of memory, and 6 MiB. Each thread that emits prepares
/// itself.
///
/// The promise holds for a program that has locked its memory (`mlockall()`); in others the kernel
/// may take pages away again. See `docs/real-time.md`.
///
/// ```
/// use tracer_posix::{UserEvent, prefault};
///
/// let cycle = UserEvent::open("cycle")?;
/// let control = std::thread::spawn(move || {
///     prefault(4 << 20)?;
///     for step in 0..100_u32 {
///         cycle.emit(&step.to_ne_bytes());
///     }
///     Ok::<(), tracer_posix::PrefaultError>(())
/// });
/// control.join().expect("the thread returns")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`PrefaultError`] (`ENOMEM`).
#[doc(alias = "posix_trace_prefault_np")]
#[doc(alias = "posix_trace_prefault_size_np")]
pub fn prefault(bytes: usize) -> Result<(), PrefaultError> {
    tracer_area::prefault::prefault(bytes)
}

/// Returns the address of the trace point of an event with this type and data. The trace point is a
/// static probe as well.
#[inline(always)]
fn trace_point(id: EventTypeId, data: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let address: u64;
        // SAFETY: computes an address and writes no memory. A tracer that sets a probe there finds
        // the type and the data in the registers that the probe names. Such a probe may be a call,
        // which writes below the stack pointer, where this function must have no data: hence no
        // `nostack`.
        unsafe {
            std::arch::asm!(
                "lea rcx, [rip + 47f]",
                tracer_area::trace_point_site!(),
                in("edi") id.0,
                in("rsi") data.as_ptr(),
                in("rdx") data.len(),
                out("rcx") address,
                options(readonly, preserves_flags),
            );
        }
        address
    }
    #[cfg(target_arch = "aarch64")]
    {
        let address: u64;
        // SAFETY: as above.
        unsafe {
            std::arch::asm!(
                "adr x3, 47f",
                tracer_area::trace_point_site!(),
                in("w0") id.0,
                in("x1") data.as_ptr(),
                in("x2") data.len(),
                out("x3") address,
                options(nostack, readonly, preserves_flags),
            );
        }
        address
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = (id, data);
        0
    }
}
