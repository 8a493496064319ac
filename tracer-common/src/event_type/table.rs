//! The table itself.

use core::mem::offset_of;

use super::{
    CostClass, EVENT_ID_LIMIT, EVENT_SET_WORDS, EventTypeId, FIRST_USER_EVENT, Field, FieldKind,
    SystemEventType,
};
use crate::kernel::{
    BlockCompleteData, BlockIssueData, ExecData, ExitData, FaultData, ForkData, IdleData,
    IrqEnterData, IrqExitData, MigrateData, OomKillData, RenameData, SignalDeliverData,
    SignalGenerateData, SoftirqData, SwitchInData, SwitchOutData, SyscallEnterData,
    SyscallExitData, WakeupData,
};

const fn stream(
    id: EventTypeId,
    constant: &'static str,
    name: &'static str,
    fields: &'static [Field],
    about: &'static str,
) -> SystemEventType {
    SystemEventType::stream(id, constant, name, fields, about)
}

const fn kernel(
    id: EventTypeId,
    constant: &'static str,
    name: &'static str,
    family: &'static str,
    fields: &'static [Field],
    about: &'static str,
) -> SystemEventType {
    SystemEventType::kernel(id, constant, name, family, fields, about)
}

const fn field(name: &'static str, offset: usize, kind: FieldKind) -> Field {
    Field { name, offset, kind }
}

/// The fields of a data struct: name, offset and kind of each. A field may be shown by another
/// name than it is stored: `number as "name"`.
macro_rules! fields {
    ($data:ident { $($member:ident $(as $name:literal)?: $kind:ident),* $(,)? }) => {
        &[$(field(
            fields!(@name $member $($name)?),
            offset_of!($data, $member),
            FieldKind::$kind,
        )),*]
    };
    (@name $member:ident) => { stringify!($member) };
    (@name $member:ident $name:literal) => { $name };
}

const SET_BYTES: usize = EVENT_SET_WORDS * 8;

const FORK_FIELDS: &[Field] = fields!(ForkData {
    child_pid: Pid,
    child_tid: Pid,
    child_comm: Comm,
    child_ns_pid: Pid,
    child_ns_tid: Pid,
});

const EXIT_FIELDS: &[Field] = fields!(ExitData {
    status: I32,
    signal: Signal,
});

const FAULT_FIELDS: &[Field] = fields!(FaultData {
    address: Address,
    write: Flag,
    fetch: Flag,
    protection: Flag,
});

const SOFTIRQ_FIELDS: &[Field] = fields!(SoftirqData {
    vector: U32,
    vector as "name": Softirq,
});

/// Every system event type, in order of identifier.
pub const SYSTEM_EVENT_TYPES: &[SystemEventType] = &[
    stream(
        EventTypeId::ERROR,
        "POSIX_TRACE_ERROR",
        "posix_trace_error",
        &[field("error", 0, FieldKind::I32)],
        "an internal error of the trace system",
    )
    .always()
    .without_process(),
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
    )
    .always()
    .without_process(),
    stream(
        EventTypeId::RESUME,
        "POSIX_TRACE_RESUME",
        "posix_trace_resume",
        &[],
        "events are complete again from here on",
    )
    .always()
    .without_process(),
    stream(
        EventTypeId::FLUSH_START,
        "POSIX_TRACE_FLUSH_START",
        "posix_trace_flush_start",
        &[],
        "the stream is being copied to its log",
    )
    .without_process(),
    stream(
        EventTypeId::FLUSH_STOP,
        "POSIX_TRACE_FLUSH_STOP",
        "posix_trace_flush_stop",
        &[],
        "the stream was copied to its log",
    )
    .without_process(),
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
        fields!(ExecData {
            comm: Comm,
            old_tid: Pid,
            file: Text,
        }),
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
        fields!(SwitchInData {
            prev_pid: Pid,
            prev_tid: Pid,
            prev_comm: Comm,
        }),
        "a thread got a CPU",
    )
    .costing(CostClass::Frequent),
    kernel(
        EventTypeId::SWITCH_OUT,
        "LINUX_TRACE_SWITCH_OUT",
        "linux_trace_switch_out",
        "switch",
        fields!(SwitchOutData {
            next_pid: Pid,
            next_tid: Pid,
            next_comm: Comm,
            state: TaskState,
            preempted: Flag,
            ran_ns: U64,
        }),
        "a thread gave up its CPU, or lost it",
    )
    .costing(CostClass::Frequent),
    kernel(
        EventTypeId::WAKEUP,
        "LINUX_TRACE_WAKEUP",
        "linux_trace_wakeup",
        "wakeup",
        fields!(WakeupData {
            target_cpu: U32,
            new: Flag,
            waker_pid: Pid,
            waker_tid: Pid,
            waker_comm: Comm,
            waker_context: WakerContext,
        }),
        "a thread became runnable",
    )
    .costing(CostClass::Frequent),
    kernel(
        EventTypeId::RENAME,
        "LINUX_TRACE_RENAME",
        "linux_trace_rename",
        "rename",
        fields!(RenameData { comm: Comm }),
        "a thread was given another name",
    ),
    kernel(
        EventTypeId::SIGNAL_GENERATE,
        "LINUX_TRACE_SIGNAL_GENERATE",
        "linux_trace_signal_generate",
        "signal",
        fields!(SignalGenerateData {
            signal: Signal,
            code: I32,
            target_pid: Pid,
            target_tid: Pid,
            target_comm: Comm,
            sender_pid: Pid,
            sender_tid: Pid,
            group: Flag,
            result: SignalResult,
        }),
        "a signal was sent",
    ),
    kernel(
        EventTypeId::SIGNAL_DELIVER,
        "LINUX_TRACE_SIGNAL_DELIVER",
        "linux_trace_signal_deliver",
        "signal",
        fields!(SignalDeliverData {
            signal: Signal,
            code: I32,
            handler: Address,
            flags: U64,
        }),
        "a thread takes a signal",
    ),
    kernel(
        EventTypeId::SYSCALL_ENTER,
        "LINUX_TRACE_SYSCALL_ENTER",
        "linux_trace_syscall_enter",
        "syscall",
        fields!(SyscallEnterData {
            number as "name": Syscall,
            number: I32,
            compat: Flag,
            args: Arguments,
            args as "arguments": NamedArguments,
        }),
        "a thread entered a system call",
    )
    .costing(CostClass::Heavy)
    .when_named(),
    kernel(
        EventTypeId::SYSCALL_EXIT,
        "LINUX_TRACE_SYSCALL_EXIT",
        "linux_trace_syscall_exit",
        "syscall",
        fields!(SyscallExitData {
            number as "name": Syscall,
            number: I32,
            compat: Flag,
            ret: SyscallResult,
            ret as "result": ShownResult,
        }),
        "a thread left a system call",
    )
    .costing(CostClass::Heavy)
    .when_named(),
    kernel(
        EventTypeId::FAULT_USER,
        "LINUX_TRACE_FAULT_USER",
        "linux_trace_fault_user",
        "fault",
        FAULT_FIELDS,
        "a page fault of the program",
    )
    .costing(CostClass::Heavy)
    .when_named(),
    kernel(
        EventTypeId::FAULT_KERNEL,
        "LINUX_TRACE_FAULT_KERNEL",
        "linux_trace_fault_kernel",
        "fault",
        FAULT_FIELDS,
        "a page fault of the kernel while it served the thread",
    )
    .costing(CostClass::Frequent)
    .when_named(),
    kernel(
        EventTypeId::MIGRATE,
        "LINUX_TRACE_MIGRATE",
        "linux_trace_migrate",
        "migrate",
        fields!(MigrateData {
            from_cpu: U32,
            to_cpu: U32,
        }),
        "a thread was moved to another CPU",
    )
    .costing(CostClass::Frequent)
    .when_named(),
    kernel(
        EventTypeId::IRQ_ENTER,
        "LINUX_TRACE_IRQ_ENTER",
        "linux_trace_irq_enter",
        "irq",
        fields!(IrqEnterData {
            irq: U32,
            name: Text,
        }),
        "a handler of a device's interrupt began",
    )
    .costing(CostClass::Frequent)
    .when_named()
    .without_process(),
    kernel(
        EventTypeId::IRQ_EXIT,
        "LINUX_TRACE_IRQ_EXIT",
        "linux_trace_irq_exit",
        "irq",
        fields!(IrqExitData {
            irq: U32,
            handled: Flag,
        }),
        "a handler of a device's interrupt ended",
    )
    .costing(CostClass::Frequent)
    .when_named()
    .without_process(),
    kernel(
        EventTypeId::SOFTIRQ_ENTER,
        "LINUX_TRACE_SOFTIRQ_ENTER",
        "linux_trace_softirq_enter",
        "softirq",
        SOFTIRQ_FIELDS,
        "a soft interrupt began",
    )
    .costing(CostClass::Frequent)
    .when_named()
    .without_process(),
    kernel(
        EventTypeId::SOFTIRQ_EXIT,
        "LINUX_TRACE_SOFTIRQ_EXIT",
        "linux_trace_softirq_exit",
        "softirq",
        SOFTIRQ_FIELDS,
        "a soft interrupt ended",
    )
    .costing(CostClass::Frequent)
    .when_named()
    .without_process(),
    kernel(
        EventTypeId::IDLE_ENTER,
        "LINUX_TRACE_IDLE_ENTER",
        "linux_trace_idle_enter",
        "idle",
        fields!(IdleData { state: U32 }),
        "a CPU has nothing to do",
    )
    .costing(CostClass::Frequent)
    .when_named()
    .without_process(),
    kernel(
        EventTypeId::IDLE_EXIT,
        "LINUX_TRACE_IDLE_EXIT",
        "linux_trace_idle_exit",
        "idle",
        &[],
        "a CPU has something to do again",
    )
    .costing(CostClass::Frequent)
    .when_named()
    .without_process(),
    kernel(
        EventTypeId::OOM_KILL,
        "LINUX_TRACE_OOM_KILL",
        "linux_trace_oom_kill",
        "oom",
        fields!(OomKillData {
            comm: Comm,
            uid: U32,
        }),
        "the kernel chose the process to be killed for want of memory",
    )
    .when_named(),
    kernel(
        EventTypeId::BLOCK_ISSUE,
        "LINUX_TRACE_BLOCK_ISSUE",
        "linux_trace_block_issue",
        "block",
        fields!(BlockIssueData {
            operation: BlockOperation,
            major: U32,
            minor: U32,
            bytes: U32,
            sector: U64,
        }),
        "a request went to a block device",
    )
    .costing(CostClass::Frequent)
    .when_named(),
    kernel(
        EventTypeId::BLOCK_COMPLETE,
        "LINUX_TRACE_BLOCK_COMPLETE",
        "linux_trace_block_complete",
        "block",
        fields!(BlockCompleteData {
            operation: BlockOperation,
            major: U32,
            minor: U32,
            bytes: U32,
            sector: U64,
            status: I32,
        }),
        "a block device completed a request",
    )
    .costing(CostClass::Frequent)
    .when_named(),
];

/// The entry of a system event type, or `None` for a user type or an unknown number.
#[must_use]
pub fn system_event_type(id: EventTypeId) -> Option<&'static SystemEventType> {
    SYSTEM_EVENT_TYPES.iter().find(|entry| entry.id == id)
}

/// What `posix_trace_eventid_get_name()` says of the predefined user event type.
pub const UNNAMED_USEREVENT_NAME: &str = "posix_trace_unnamed_userevent";

/// The predefined type of this name: a system type, or the user type without a name of its own.
/// Names and types are one to one, so that opening such a name gives the type that has it.
#[must_use]
pub fn predefined_event_type(name: &[u8]) -> Option<EventTypeId> {
    if name == UNNAMED_USEREVENT_NAME.as_bytes() {
        return Some(EventTypeId::UNNAMED_USEREVENT);
    }
    let entry = SYSTEM_EVENT_TYPES
        .iter()
        .find(|entry| entry.name.as_bytes() == name);
    entry.map(|entry| entry.id)
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
