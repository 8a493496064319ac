//! The types of `trace.h`, as C lays them out.

use std::ffi::{c_int, c_void};

use tracer_common::kernel;

use tracer_engine::event::RealtimeNs;
use tracer_engine::sizes::MAX_USER_DATA;
use tracer_engine::{
    Attributes, EventSet, Inheritance, LogFullPolicy, StreamFullPolicy, TraceName,
};

use super::numbers::{Invalid, NamedValue, constants};

/// `trace_id_t`.
pub type TraceId = u32;
/// `trace_event_id_t`.
pub type EventId = u32;

/// `trace_attr_t`: owns no memory, and may be copied over.
///
/// Written by `posix_trace_attr_init()`, `posix_trace_attr_set…()` and `posix_trace_get_attr()`, read by the others.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TraceAttr {
    mark: u64,
    creation_time_ns: u64,
    clock_resolution_ns: u64,
    stream_min_size: u64,
    max_data_size: u64,
    log_max_size: u64,
    /// 0: not set yet.
    stream_full_policy: c_int,
    log_full_policy: c_int,
    inheritance: c_int,
    /// 0: not set.
    kernel_events: c_int,
    name: [u8; 64],
    generation_version: [u8; 64],
    room: [u64; 8],
}

/// What an object that was initialised begins with.
const MARK: u64 = u64::from_le_bytes(*b"lxtrattr");

impl TraceAttr {
    pub(super) fn new(attributes: &Attributes) -> Self {
        let policy = attributes
            .stream_full_policy
            .map_or(0, StreamFullPolicy::number);
        Self {
            mark: MARK,
            creation_time_ns: attributes.creation_time.0,
            clock_resolution_ns: attributes.clock_resolution_ns,
            stream_min_size: attributes.stream_min_size as u64,
            max_data_size: attributes.max_data_size as u64,
            log_max_size: attributes.log_max_size as u64,
            stream_full_policy: policy,
            log_full_policy: attributes.log_full_policy.number(),
            inheritance: attributes.inheritance.number(),
            kernel_events: kernel_events_number(attributes.kernel_events),
            name: *attributes.name.padded(),
            generation_version: *attributes.generation_version.padded(),
            room: [0; 8],
        }
    }

    /// What the object says; `Invalid` when it was never initialised, or destroyed.
    pub(super) fn attributes(&self) -> Result<Attributes, Invalid> {
        if self.mark != MARK {
            return Err(Invalid);
        }
        let stream_full_policy = match self.stream_full_policy {
            0 => None,
            number => Some(StreamFullPolicy::from_number(number)?),
        };
        Ok(Attributes {
            generation_version: TraceName::truncated_from(&self.generation_version),
            name: TraceName::truncated_from(&self.name),
            creation_time: RealtimeNs(self.creation_time_ns),
            clock_resolution_ns: self.clock_resolution_ns,
            stream_min_size: size(self.stream_min_size),
            stream_full_policy,
            max_data_size: size(self.max_data_size),
            inheritance: Inheritance::from_number(self.inheritance)?,
            log_max_size: size(self.log_max_size),
            log_full_policy: LogFullPolicy::from_number(self.log_full_policy)?,
            kernel_events: kernel_events_of(self.kernel_events)?,
        })
    }

    pub(super) fn destroy(&mut self) {
        self.mark = 0;
    }
}

/// The constant that says whether kernel events are wanted.
pub(super) fn kernel_events_number(wanted: Option<bool>) -> c_int {
    match wanted {
        None => constants::LINUX_TRACE_KERNEL_EVENTS_DEFAULT,
        Some(false) => constants::LINUX_TRACE_KERNEL_EVENTS_OFF,
        Some(true) => constants::LINUX_TRACE_KERNEL_EVENTS_ON,
    }
}

/// What the constant says.
pub(super) fn kernel_events_of(number: c_int) -> Result<Option<bool>, Invalid> {
    let values = [None, Some(false), Some(true)];
    let found = values
        .into_iter()
        .find(|value| kernel_events_number(*value) == number);
    found.ok_or(Invalid)
}

fn size(stored: u64) -> usize {
    usize::try_from(stored).unwrap_or(usize::MAX)
}

/// `struct posix_trace_event_info`. Written by the getnext functions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EventInfo {
    /// `posix_event_id`.
    pub event_id: EventId,
    /// `posix_pid`.
    pub pid: libc::pid_t,
    /// `posix_prog_address`.
    pub prog_address: *mut c_void,
    /// `posix_truncation_status`.
    pub truncation_status: c_int,
    /// `linux_tid`.
    pub tid: c_int,
    /// `posix_timestamp`.
    pub timestamp: libc::timespec,
    /// `posix_thread_id`.
    pub thread_id: libc::pthread_t,
    /// `linux_cpu`.
    pub cpu: c_int,
}

/// `struct posix_trace_status_info`. Written by `posix_trace_get_status()`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StatusInfo {
    /// `posix_stream_status`.
    pub stream_status: c_int,
    /// `posix_stream_full_status`.
    pub stream_full_status: c_int,
    /// `posix_stream_overrun_status`.
    pub stream_overrun_status: c_int,
    /// `posix_stream_flush_status`.
    pub stream_flush_status: c_int,
    /// `posix_stream_flush_error`.
    pub stream_flush_error: c_int,
    /// `posix_log_overrun_status`.
    pub log_overrun_status: c_int,
    /// `posix_log_full_status`.
    pub log_full_status: c_int,
}

/// A C type: its name, its size, and its members with their offsets.
pub struct Layout {
    /// As C names it.
    pub c_type: &'static str,
    /// In bytes.
    pub size: usize,
    /// Names and offsets.
    pub members: &'static [(&'static str, usize)],
}

macro_rules! layout {
    ($c_type:literal is $rust:ty { $($c:literal is $field:ident),* }) => {
        Layout {
            c_type: $c_type,
            size: size_of::<$rust>(),
            members: &[$(($c, std::mem::offset_of!($rust, $field))),*],
        }
    };
}

/// Sizes and offsets of the types, to be compared with what the C compiler says.
pub const LAYOUTS: &[Layout] = &[
    layout!("trace_attr_t" is TraceAttr {}),
    layout!("trace_event_set_t" is EventSet {}),
    layout!("struct posix_trace_event_info" is EventInfo {
        "posix_event_id" is event_id,
        "posix_pid" is pid,
        "posix_prog_address" is prog_address,
        "posix_truncation_status" is truncation_status,
        "linux_tid" is tid,
        "posix_timestamp" is timestamp,
        "posix_thread_id" is thread_id,
        "linux_cpu" is cpu
    }),
    layout!("struct posix_trace_status_info" is StatusInfo {
        "posix_stream_status" is stream_status,
        "posix_stream_full_status" is stream_full_status,
        "posix_stream_overrun_status" is stream_overrun_status,
        "posix_stream_flush_status" is stream_flush_status,
        "posix_stream_flush_error" is stream_flush_error,
        "posix_log_overrun_status" is log_overrun_status,
        "posix_log_full_status" is log_full_status
    }),
    layout!("struct linux_trace_fork" is kernel::ForkData {
        "linux_child_pid" is child_pid,
        "linux_child_tid" is child_tid,
        "linux_child_comm" is child_comm,
        "linux_child_ns_pid" is child_ns_pid,
        "linux_child_ns_tid" is child_ns_tid
    }),
    layout!("struct linux_trace_exec" is kernel::ExecData {
        "linux_comm" is comm,
        "linux_old_tid" is old_tid,
        "linux_file" is file
    }),
    layout!("struct linux_trace_exit" is kernel::ExitData {
        "linux_status" is status,
        "linux_signal" is signal
    }),
    layout!("struct linux_trace_switch_in" is kernel::SwitchInData {
        "linux_prev_pid" is prev_pid,
        "linux_prev_tid" is prev_tid,
        "linux_prev_comm" is prev_comm
    }),
    layout!("struct linux_trace_switch_out" is kernel::SwitchOutData {
        "linux_next_pid" is next_pid,
        "linux_next_tid" is next_tid,
        "linux_next_comm" is next_comm,
        "linux_state" is state,
        "linux_preempted" is preempted,
        "linux_ran_ns" is ran_ns
    }),
    layout!("struct linux_trace_wakeup" is kernel::WakeupData {
        "linux_target_cpu" is target_cpu,
        "linux_new_thread" is new,
        "linux_waker_pid" is waker_pid,
        "linux_waker_tid" is waker_tid,
        "linux_waker_comm" is waker_comm,
        "linux_waker_context" is waker_context
    }),
    layout!("struct linux_trace_rename" is kernel::RenameData {
        "linux_comm" is comm
    }),
    layout!("struct linux_trace_signal_generate" is kernel::SignalGenerateData {
        "linux_signal" is signal,
        "linux_code" is code,
        "linux_target_pid" is target_pid,
        "linux_target_tid" is target_tid,
        "linux_target_comm" is target_comm,
        "linux_sender_pid" is sender_pid,
        "linux_sender_tid" is sender_tid,
        "linux_group" is group,
        "linux_result" is result
    }),
    layout!("struct linux_trace_signal_deliver" is kernel::SignalDeliverData {
        "linux_signal" is signal,
        "linux_code" is code,
        "linux_handler" is handler,
        "linux_flags" is flags
    }),
    layout!("struct linux_trace_syscall_enter" is kernel::SyscallEnterData {
        "linux_number" is number,
        "linux_compat" is compat,
        "linux_args" is args
    }),
    layout!("struct linux_trace_syscall_exit" is kernel::SyscallExitData {
        "linux_number" is number,
        "linux_compat" is compat,
        "linux_ret" is ret
    }),
    layout!("struct linux_trace_fault" is kernel::FaultData {
        "linux_address" is address,
        "linux_write" is write,
        "linux_fetch" is fetch,
        "linux_protection" is protection,
        "linux_reserved" is reserved
    }),
    layout!("struct linux_trace_migrate" is kernel::MigrateData {
        "linux_from_cpu" is from_cpu,
        "linux_to_cpu" is to_cpu
    }),
    layout!("struct linux_trace_oom_kill" is kernel::OomKillData {
        "linux_comm" is comm,
        "linux_uid" is uid,
        "linux_reserved" is reserved
    }),
    layout!("struct linux_trace_block_issue" is kernel::BlockIssueData {
        "linux_operation" is operation,
        "linux_major" is major,
        "linux_minor" is minor,
        "linux_bytes" is bytes,
        "linux_sector" is sector
    }),
    layout!("struct linux_trace_block_complete" is kernel::BlockCompleteData {
        "linux_operation" is operation,
        "linux_major" is major,
        "linux_minor" is minor,
        "linux_bytes" is bytes,
        "linux_sector" is sector,
        "linux_status" is status,
        "linux_reserved" is reserved
    }),
    layout!("struct linux_trace_irq_enter" is kernel::IrqEnterData {
        "linux_irq" is irq,
        "linux_name" is name
    }),
    layout!("struct linux_trace_irq_exit" is kernel::IrqExitData {
        "linux_irq" is irq,
        "linux_handled" is handled
    }),
    layout!("struct linux_trace_softirq" is kernel::SoftirqData {
        "linux_vector" is vector,
        "linux_reserved" is reserved
    }),
    layout!("struct linux_trace_idle" is kernel::IdleData {
        "linux_state" is state,
        "linux_reserved" is reserved
    }),
];

const _: () = {
    assert!(size_of::<TraceAttr>() == 256);
    assert!(MAX_USER_DATA <= c_int::MAX as usize);
};
