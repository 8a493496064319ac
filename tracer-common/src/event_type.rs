//! The one table of system event types.
//!
//! `trace.h`, the text and JSON output, the filter and the command line all take numbers, names
//! and fields from [`SYSTEM_EVENT_TYPES`].

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
    /// The predefined user event without a name of its own.
    pub const UNNAMED_USEREVENT: Self = Self(FIRST_USER_EVENT);

    /// Whether this is a user event type.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 >= FIRST_USER_EVENT
    }
}

/// How one field of a system event's data is stored and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A signed 32-bit number.
    I32,
    /// An unsigned 32-bit number.
    U32,
    /// A process or thread identifier, 32 bits.
    Pid,
    /// A thread name: 16 bytes, ended by a null unless full.
    Comm,
    /// A path or other text up to the end of the data, ended by a null.
    Text,
    /// `task_struct`'s state when the thread left its CPU, as the kernel's bits, 32 bits.
    TaskState,
    /// A truth value, 32 bits.
    Flag,
    /// A signal number, 32 bits; 0 for none.
    Signal,
    /// An event set (`trace_event_set_t`).
    EventSet,
}

/// One field of a system event's data.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Name in JSON and in the C struct.
    pub name: &'static str,
    /// Offset from the start of the data, in bytes.
    pub offset: usize,
    /// How it is stored.
    pub kind: FieldKind,
}

/// Who brings a type of system event forth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The trace system itself; the standard names the type.
    Stream,
    /// The kernel; the type is this implementation's own.
    Kernel,
}

/// One system event type.
#[derive(Clone, Copy, Debug)]
pub struct SystemEventType {
    /// Its identifier.
    pub id: EventTypeId,
    /// The constant's name in `trace.h`.
    pub constant: &'static str,
    /// What `posix_trace_eventid_get_name()` says, and what is printed.
    pub name: &'static str,
    /// The word of `--events` that chooses it; several types may share one.
    pub family: &'static str,
    /// Who brings it forth.
    pub origin: Origin,
    /// The fields of its data.
    pub fields: &'static [Field],
    /// What it tells, in one line.
    pub about: &'static str,
}

const fn field(name: &'static str, offset: usize, kind: FieldKind) -> Field {
    Field { name, offset, kind }
}

const fn stream(
    id: EventTypeId,
    constant: &'static str,
    name: &'static str,
    fields: &'static [Field],
    about: &'static str,
) -> SystemEventType {
    SystemEventType {
        id,
        constant,
        name,
        family: "stream",
        origin: Origin::Stream,
        fields,
        about,
    }
}

const fn kernel(
    id: EventTypeId,
    constant: &'static str,
    name: &'static str,
    family: &'static str,
    fields: &'static [Field],
    about: &'static str,
) -> SystemEventType {
    SystemEventType {
        id,
        constant,
        name,
        family,
        origin: Origin::Kernel,
        fields,
        about,
    }
}

const SET_BYTES: usize = EVENT_SET_WORDS * 8;

/// Of [`ForkData`](crate::kernel::ForkData).
const FORK_FIELDS: &[Field] = &[
    field("child_pid", 0, FieldKind::Pid),
    field("child_tid", 4, FieldKind::Pid),
    field("child_comm", 8, FieldKind::Comm),
];

/// Of [`ExitData`](crate::kernel::ExitData).
const EXIT_FIELDS: &[Field] = &[
    field("status", 0, FieldKind::I32),
    field("signal", 4, FieldKind::Signal),
];

/// Every system event type, in order of identifier.
pub const SYSTEM_EVENT_TYPES: &[SystemEventType] = &[
    stream(
        EventTypeId::ERROR,
        "POSIX_TRACE_ERROR",
        "posix_trace_error",
        &[field("error", 0, FieldKind::I32)],
        "an internal error of the trace system",
    ),
    stream(
        EventTypeId::START,
        "POSIX_TRACE_START",
        "posix_trace_start",
        &[field("filter", 0, FieldKind::EventSet)],
        "the stream was started",
    ),
    stream(
        EventTypeId::STOP,
        "POSIX_TRACE_STOP",
        "posix_trace_stop",
        &[field("auto", 0, FieldKind::I32)],
        "the stream was stopped, or stopped itself because it was full",
    ),
    stream(
        EventTypeId::FILTER,
        "POSIX_TRACE_FILTER",
        "posix_trace_filter",
        &[
            field("old_filter", 0, FieldKind::EventSet),
            field("new_filter", SET_BYTES, FieldKind::EventSet),
        ],
        "the filter was changed while the stream ran",
    ),
    stream(
        EventTypeId::OVERFLOW,
        "POSIX_TRACE_OVERFLOW",
        "posix_trace_overflow",
        &[],
        "events are missing from here on",
    ),
    stream(
        EventTypeId::RESUME,
        "POSIX_TRACE_RESUME",
        "posix_trace_resume",
        &[],
        "events are complete again from here on",
    ),
    stream(
        EventTypeId::FLUSH_START,
        "POSIX_TRACE_FLUSH_START",
        "posix_trace_flush_start",
        &[],
        "the stream is being copied to its log",
    ),
    stream(
        EventTypeId::FLUSH_STOP,
        "POSIX_TRACE_FLUSH_STOP",
        "posix_trace_flush_stop",
        &[],
        "the stream was copied to its log",
    ),
    kernel(
        EventTypeId::FORK,
        "LINUX_TRACE_FORK",
        "linux_trace_fork",
        "fork",
        FORK_FIELDS,
        "a process was created",
    ),
    kernel(
        EventTypeId::THREAD_CREATE,
        "LINUX_TRACE_THREAD_CREATE",
        "linux_trace_thread_create",
        "fork",
        FORK_FIELDS,
        "a thread was created",
    ),
    kernel(
        EventTypeId::EXEC,
        "LINUX_TRACE_EXEC",
        "linux_trace_exec",
        "exec",
        &[
            field("comm", 0, FieldKind::Comm),
            field("old_tid", 16, FieldKind::Pid),
            field("file", 20, FieldKind::Text),
        ],
        "a process replaced its program",
    ),
    kernel(
        EventTypeId::EXIT,
        "LINUX_TRACE_EXIT",
        "linux_trace_exit",
        "exit",
        EXIT_FIELDS,
        "a process ended",
    ),
    kernel(
        EventTypeId::THREAD_EXIT,
        "LINUX_TRACE_THREAD_EXIT",
        "linux_trace_thread_exit",
        "exit",
        EXIT_FIELDS,
        "a thread ended and others of its process remain",
    ),
    kernel(
        EventTypeId::SWITCH_IN,
        "LINUX_TRACE_SWITCH_IN",
        "linux_trace_switch_in",
        "switch",
        &[
            field("prev_pid", 0, FieldKind::Pid),
            field("prev_tid", 4, FieldKind::Pid),
            field("prev_comm", 8, FieldKind::Comm),
        ],
        "a thread got a CPU",
    ),
    kernel(
        EventTypeId::SWITCH_OUT,
        "LINUX_TRACE_SWITCH_OUT",
        "linux_trace_switch_out",
        "switch",
        &[
            field("next_pid", 0, FieldKind::Pid),
            field("next_tid", 4, FieldKind::Pid),
            field("next_comm", 8, FieldKind::Comm),
            field("state", 24, FieldKind::TaskState),
            field("preempted", 28, FieldKind::Flag),
        ],
        "a thread gave up its CPU, or lost it",
    ),
    kernel(
        EventTypeId::WAKEUP,
        "LINUX_TRACE_WAKEUP",
        "linux_trace_wakeup",
        "wakeup",
        &[
            field("target_cpu", 0, FieldKind::U32),
            field("new", 4, FieldKind::Flag),
        ],
        "a thread became runnable",
    ),
    kernel(
        EventTypeId::RENAME,
        "LINUX_TRACE_RENAME",
        "linux_trace_rename",
        "rename",
        &[field("comm", 0, FieldKind::Comm)],
        "a thread was given another name",
    ),
];

/// The entry of a system event type, or `None` for a user type or an unknown number.
#[must_use]
pub fn system_event_type(id: EventTypeId) -> Option<&'static SystemEventType> {
    SYSTEM_EVENT_TYPES.iter().find(|entry| entry.id == id)
}

const _: () = {
    assert!(
        EVENT_ID_LIMIT.is_multiple_of(64),
        "the set has no partly used word"
    );
    let mut i = 1;
    while i < SYSTEM_EVENT_TYPES.len() {
        assert!(
            SYSTEM_EVENT_TYPES[i - 1].id.0 < SYSTEM_EVENT_TYPES[i].id.0,
            "in order"
        );
        assert!(SYSTEM_EVENT_TYPES[i].id.0 < FIRST_USER_EVENT);
        i += 1;
    }
};
