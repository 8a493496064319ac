//! The numbers of event types.

/// Where the identifiers of user event types start. The first is the predefined
/// `POSIX_TRACE_UNNAMED_USEREVENT`; named types follow in order of definition.
pub const FIRST_USER_EVENT: u32 = 256;

/// `{TRACE_USER_EVENT_MAX}`: user event types of one process, the unnamed one counted.
pub const TRACE_USER_EVENT_MAX: u32 = 1024;

/// Every identifier is below this.
pub const EVENT_ID_LIMIT: u32 = FIRST_USER_EVENT + TRACE_USER_EVENT_MAX;

/// Words of a bit set that holds every identifier.
pub const EVENT_SET_WORDS: usize = (EVENT_ID_LIMIT / 64) as usize;

/// `{TRACE_EVENT_NAME_MAX}`: the longest event name, without the terminating null.
pub const TRACE_EVENT_NAME_MAX: usize = 64;

/// Identifies an event type. Unique within a trace area and within a stream; equal names have
/// equal identifiers there. Never reused while the area lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct EventTypeId(pub u32);

impl EventTypeId {
    /// An internal error that the trace system reports to the analyzer.
    pub const ERROR: Self = Self(1);
    /// The stream was started.
    pub const START: Self = Self(2);
    /// The stream was stopped, by a call or because it was full.
    pub const STOP: Self = Self(3);
    /// The filter was changed while the stream ran.
    pub const FILTER: Self = Self(4);
    /// An overflow condition began.
    pub const OVERFLOW: Self = Self(5);
    /// An overflow condition ended.
    pub const RESUME: Self = Self(6);
    /// A flush began.
    pub const FLUSH_START: Self = Self(7);
    /// A flush ended.
    pub const FLUSH_STOP: Self = Self(8);
    /// A process was created.
    pub const FORK: Self = Self(32);
    /// A thread was created in a process.
    pub const THREAD_CREATE: Self = Self(33);
    /// A process replaced its program.
    pub const EXEC: Self = Self(34);
    /// A process ended: its last thread left.
    pub const EXIT: Self = Self(35);
    /// A thread ended, and others of its process remain.
    pub const THREAD_EXIT: Self = Self(36);
    /// A thread got a CPU.
    pub const SWITCH_IN: Self = Self(37);
    /// A thread gave up its CPU, or lost it.
    pub const SWITCH_OUT: Self = Self(38);
    /// A sleeping thread became runnable.
    pub const WAKEUP: Self = Self(39);
    /// A thread was given another name.
    pub const RENAME: Self = Self(40);
    /// A signal was sent.
    pub const SIGNAL_GENERATE: Self = Self(41);
    /// A thread takes a signal.
    pub const SIGNAL_DELIVER: Self = Self(42);
    /// A thread entered a system call.
    pub const SYSCALL_ENTER: Self = Self(43);
    /// A thread left a system call.
    pub const SYSCALL_EXIT: Self = Self(44);
    /// A page fault of the program.
    pub const FAULT_USER: Self = Self(45);
    /// A page fault of the kernel while it served the thread.
    pub const FAULT_KERNEL: Self = Self(46);
    /// A thread was moved to another CPU.
    pub const MIGRATE: Self = Self(47);
    /// A handler of a device's interrupt began.
    pub const IRQ_ENTER: Self = Self(48);
    /// A handler of a device's interrupt ended.
    pub const IRQ_EXIT: Self = Self(49);
    /// A soft interrupt began.
    pub const SOFTIRQ_ENTER: Self = Self(50);
    /// A soft interrupt ended.
    pub const SOFTIRQ_EXIT: Self = Self(51);
    /// A CPU has nothing to do.
    pub const IDLE_ENTER: Self = Self(52);
    /// A CPU has something to do again.
    pub const IDLE_EXIT: Self = Self(53);
    /// The kernel chose a process to be killed for want of memory.
    pub const OOM_KILL: Self = Self(54);
    /// A request went to a block device.
    pub const BLOCK_ISSUE: Self = Self(55);
    /// A block device completed a request.
    pub const BLOCK_COMPLETE: Self = Self(56);
    /// The predefined user event without a name of its own.
    pub const UNNAMED_USEREVENT: Self = Self(FIRST_USER_EVENT);

    /// Whether this is a user event type.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 >= FIRST_USER_EVENT
    }
}
