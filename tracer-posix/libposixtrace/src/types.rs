//! The types of `trace.h`, as C lays them out.

use std::ffi::{c_int, c_void};

use tracer_engine::event::RealtimeNs;
use tracer_engine::sizes::MAX_USER_DATA;
use tracer_engine::{
    Attributes, EventSet, Inheritance, LogFullPolicy, StreamFullPolicy, TraceName,
};

use super::codes::{Invalid, NamedValue, constants};

/// `trace_id_t`.
pub type TraceId = u32;
/// `trace_event_id_t`.
pub type EventId = u32;

/// `trace_attr_t`. It owns no memory, and may be overwritten.
///
/// Written by `posix_trace_attr_init()`, `posix_trace_attr_set…()` and `posix_trace_get_attr()`,
/// read by the others.
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
    reserved: [u64; 8],
}

/// Start of an object that was initialised.
const MARK: u64 = u64::from_le_bytes(*b"lxtrattr");

impl TraceAttr {
    pub(super) fn new(attributes: &Attributes) -> Self {
        let policy = attributes
            .stream_full_policy
            .map_or(0, StreamFullPolicy::code);
        Self {
            mark: MARK,
            creation_time_ns: attributes.creation_time.0,
            clock_resolution_ns: attributes.clock_resolution_ns,
            stream_min_size: attributes.stream_min_size as u64,
            max_data_size: attributes.max_data_size as u64,
            log_max_size: attributes.log_max_size as u64,
            stream_full_policy: policy,
            log_full_policy: attributes.log_full_policy.code(),
            inheritance: attributes.inheritance.code(),
            kernel_events: kernel_events_code(attributes.kernel_events),
            name: *attributes.name.padded(),
            generation_version: *attributes.generation_version.padded(),
            reserved: [0; 8],
        }
    }

    /// Returns the attributes that the object holds; `Invalid` when it was never initialised, or
    /// destroyed.
    pub(super) fn attributes(&self) -> Result<Attributes, Invalid> {
        if self.mark != MARK {
            return Err(Invalid);
        }
        let stream_full_policy = match self.stream_full_policy {
            0 => None,
            code => Some(StreamFullPolicy::from_code(code)?),
        };
        Ok(Attributes {
            generation_version: TraceName::truncated_from(&self.generation_version),
            name: TraceName::truncated_from(&self.name),
            creation_time: RealtimeNs(self.creation_time_ns),
            clock_resolution_ns: self.clock_resolution_ns,
            stream_min_size: size(self.stream_min_size),
            stream_full_policy,
            max_data_size: size(self.max_data_size),
            inheritance: Inheritance::from_code(self.inheritance)?,
            log_max_size: size(self.log_max_size),
            log_full_policy: LogFullPolicy::from_code(self.log_full_policy)?,
            kernel_events: kernel_events_of(self.kernel_events)?,
        })
    }

    pub(super) fn destroy(&mut self) {
        self.mark = 0;
    }
}

/// Returns the constant that says whether kernel events are wanted.
pub(super) fn kernel_events_code(wanted: Option<bool>) -> c_int {
    match wanted {
        None => constants::LINUX_TRACE_KERNEL_EVENTS_DEFAULT,
        Some(false) => constants::LINUX_TRACE_KERNEL_EVENTS_OFF,
        Some(true) => constants::LINUX_TRACE_KERNEL_EVENTS_ON,
    }
}

/// Decodes the constant.
pub(super) fn kernel_events_of(code: c_int) -> Result<Option<bool>, Invalid> {
    let values = [None, Some(false), Some(true)];
    let found = values
        .into_iter()
        .find(|value| kernel_events_code(*value) == code);
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
    /// Size in bytes.
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

/// Sizes and offsets of the types, to be compared with what the C compiler says. Those of the data
/// of the kernel's events are in [`tracer_common::kernel::KERNEL_EVENT_TYPES`].
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
];

const _: () = {
    assert!(size_of::<TraceAttr>() == 256);
    assert!(MAX_USER_DATA <= c_int::MAX as usize);
};
