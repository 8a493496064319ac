//! Contents of an entry of the table.

use super::EventTypeId;

/// How one field of a system event's data is stored and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A signed 32-bit integer.
    I32,
    /// An unsigned 32-bit integer.
    U32,
    /// An unsigned 64-bit integer.
    U64,
    /// A process or thread identifier, 32 bits.
    Pid,
    /// A thread name: 16 bytes, ended by a null unless full.
    Comm,
    /// A path or other text up to the end of the data, ended by a null.
    Text,
    /// Texts that follow such a text up to the end of the data: the arguments of an exec.
    Strings,
    /// `task_struct`'s state when the thread left its CPU, as the kernel's bits, 32 bits.
    TaskState,
    /// A truth value, 32 bits.
    Flag,
    /// A truth value, 8 bits.
    ShortFlag,
    /// Context that a thread blocks in: 8 bits of [`waits_in`](crate::kernel::waits_in), and 16
    /// bits that are the number of a system call. Shown as the name of the call, or as the context.
    WaitsIn,
    /// Whether a thread that blocks waits for a device: a bit of the same 8.
    IoWait,
    /// State of a thread that is looked at, 32 bits: see
    /// [`thread_state`](crate::kernel::thread_state).
    ThreadState,
    /// A signal number, 32 bits; 0 for none.
    Signal,
    /// Result of a signal that was sent, 32 bits: see
    /// [`signal_result`](crate::kernel::signal_result).
    SignalResult,
    /// An address in the process, 64 bits; 0 for none.
    Address,
    /// The number of a system call, 32 bits, and 32 bits that are 1 when it is one of the table
    /// for 32-bit programs. Shown as its name.
    Syscall,
    /// The six arguments of a system call, 64 bits each.
    Arguments,
    /// The six arguments of a system call, with their names and in readable form.
    NamedArguments,
    /// As [`Syscall`](Self::Syscall), of a call that a thread is in; -1 for none.
    HeldSyscall,
    /// As [`Arguments`](Self::Arguments), of that call.
    HeldArguments,
    /// As [`NamedArguments`](Self::NamedArguments), of that call; what they point to is not read.
    NamedHeldArguments,
    /// Return value of a system call, 64 bits: -4095 to -1 are error numbers.
    SyscallResult,
    /// Return value of a system call, in readable form.
    ShownResult,
    /// The 64 bits of a return value, and behind them the arguments that the call filled in, with
    /// their names; all of them where the call was recorded only as it ended.
    FilledArguments,
    /// The number of a soft interrupt, 32 bits.
    Softirq,
    /// Operation that a block request asks for, 32 bits: `enum req_op` of the kernel.
    BlockOperation,
    /// Context that asks for a wake-up, 32 bits: see
    /// [`waker_context`](crate::kernel::waker_context).
    WakerContext,
    /// Whether others had a CPU too, 32 bits: see [`others`](crate::kernel::others).
    Others,
    /// Type of the lock that memory around a futex shows: see
    /// [`LockWaitData`](crate::kernel::LockWaitData).
    LockType,
    /// Thread that has it, as that memory says, by the numbers of its own pid namespace; 0 where
    /// the memory does not say.
    LockOwner,
    /// An event set (`trace_event_set_t`).
    EventSet,
}

impl FieldKind {
    /// Returns its name, as shown to users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Pid => "pid",
            Self::Comm => "comm",
            Self::Text => "text",
            Self::Strings => "strings",
            Self::TaskState => "task_state",
            Self::Flag | Self::ShortFlag | Self::IoWait => "flag",
            Self::WaitsIn => "waits_in",
            Self::ThreadState => "thread_state",
            Self::Signal => "signal",
            Self::SignalResult => "signal_result",
            Self::Address => "address",
            Self::Syscall | Self::HeldSyscall => "syscall",
            Self::Arguments | Self::HeldArguments => "arguments",
            Self::NamedArguments | Self::NamedHeldArguments => "named_arguments",
            Self::SyscallResult => "syscall_result",
            Self::ShownResult => "shown_result",
            Self::FilledArguments => "filled_arguments",
            Self::Softirq => "softirq",
            Self::BlockOperation => "block_operation",
            Self::WakerContext => "waker_context",
            Self::Others => "others",
            Self::LockType => "lock_type",
            Self::LockOwner => "lock_owner",
            Self::EventSet => "event_set",
        }
    }
}

/// One field of a system event's data.
#[derive(Clone, Copy, Debug)]
pub struct SystemField {
    /// Name in JSON; the member of the C struct has `linux_` before it.
    pub name: &'static str,
    /// Offset from the start of the data, in bytes.
    pub offset: usize,
    /// How it is stored.
    pub kind: FieldKind,
}

/// Origin of a type of system event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOrigin {
    /// The trace system itself; the standard names the type.
    Stream,
    /// The kernel; the type is this implementation's own.
    Kernel,
}

/// How much an event type costs the traced process, by how often it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostClass {
    /// A few times in the life of a process or thread: not to be noticed.
    Rare,
    /// Up to some ten thousand times a second: a percent or so.
    Frequent,
    /// Up to a million times a second: it slows the process down.
    Heavy,
}

impl CostClass {
    /// Returns its name, as shown to users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rare => "rare",
            Self::Frequent => "frequent",
            Self::Heavy => "heavy",
        }
    }
}

/// One system event type.
#[derive(Clone, Copy, Debug)]
pub struct SystemEventType {
    /// Its identifier.
    pub id: EventTypeId,
    /// The constant's name in `trace.h`.
    pub constant: &'static str,
    /// Name that `posix_trace_eventid_get_name()` returns, and that is printed.
    pub name: &'static str,
    /// The word of `--events` that chooses it; several types may share one.
    pub family: &'static str,
    /// Its origin.
    pub origin: EventOrigin,
    /// The fields of its data.
    pub fields: &'static [SystemField],
    /// Meaning of its events, in one line.
    pub about: &'static str,
    /// How often it happens.
    pub cost: CostClass,
    /// Whether it is traced when no choice of event types is made.
    pub is_default: bool,
    /// Whether its events belong to a process. The others are those of
    /// `POSIX_TRACE_WOPID_EVENTS`.
    pub has_process: bool,
}

impl SystemEventType {
    /// Describes a type of the standard's own.
    pub(super) const fn stream(
        id: EventTypeId,
        constant: &'static str,
        name: &'static str,
        fields: &'static [SystemField],
        about: &'static str,
    ) -> Self {
        Self {
            id,
            constant,
            name,
            family: "stream",
            origin: EventOrigin::Stream,
            fields,
            about,
            cost: CostClass::Rare,
            is_default: false,
            has_process: true,
        }
    }

    /// Describes a type of the kernel's, by default rare and traced without being named.
    pub(super) const fn kernel(
        id: EventTypeId,
        constant: &'static str,
        name: &'static str,
        family: &'static str,
        fields: &'static [SystemField],
        about: &'static str,
    ) -> Self {
        Self {
            id,
            constant,
            name,
            family,
            origin: EventOrigin::Kernel,
            fields,
            about,
            cost: CostClass::Rare,
            is_default: true,
            has_process: true,
        }
    }

    /// Sets the cost class.
    pub(super) const fn costing(self, cost: CostClass) -> Self {
        Self { cost, ..self }
    }

    /// Makes the type traced only where it is asked for by name.
    pub(super) const fn when_named(self) -> Self {
        Self {
            is_default: false,
            ..self
        }
    }

    /// Makes the type shown whatever was chosen.
    pub(super) const fn always(self) -> Self {
        Self {
            is_default: true,
            ..self
        }
    }

    /// Makes the type belong to no process.
    pub(super) const fn without_process(self) -> Self {
        Self {
            has_process: false,
            ..self
        }
    }
}
