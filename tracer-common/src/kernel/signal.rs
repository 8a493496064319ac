//! Data of the events of signals.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{COMM_BYTES, RecordHeader, records};

/// Data of `LINUX_TRACE_SIGNAL_GENERATE`.
///
/// The event is one of the caller where a traced process sends by a call such as `kill`, and its
/// program address is that of the call. Otherwise it is one of the target.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalGenerateData {
    /// The signal.
    pub signal: u32,
    /// Why it was sent: `si_code` of `siginfo_t`.
    pub code: i32,
    /// Process that it is sent to.
    pub target_pid: u32,
    /// Thread that it is sent to; of a signal to the process, the thread that was named.
    pub target_tid: u32,
    /// The name of that thread.
    pub target_comm: [u8; COMM_BYTES],
    /// Process that sent it by a call, or whose end it tells; 0 for the kernel itself.
    pub sender_pid: u32,
    /// Its thread.
    pub sender_tid: u32,
    /// 1: to the process; 0: to one thread.
    pub group: u32,
    /// What became of it: see [`signal_result`].
    pub result: u32,
}

/// Data of `LINUX_TRACE_SIGNAL_DELIVER`. The program address is where the program was
/// interrupted.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalDeliverData {
    /// The signal.
    pub signal: u32,
    /// Why it was sent: `si_code` of `siginfo_t`.
    pub code: i32,
    /// The program's handler; 0 for what the kernel does by default (`SIG_DFL`), 1 for nothing
    /// (`SIG_IGN`).
    pub handler: u64,
    /// `sa_flags` of the `sigaction`.
    pub flags: u64,
}

/// Values of [`SignalGenerateData::result`].
pub mod signal_result {
    /// It is on its way.
    pub const DELIVERED: u32 = 0;
    /// The target ignores it.
    pub const IGNORED: u32 = 1;
    /// The same signal is pending already: this one is merged with it.
    pub const PENDING: u32 = 2;
    /// The queue of the target is full: it is lost.
    pub const OVERFLOW: u32 = 3;
    /// The queue of the target is full: it is sent without its `siginfo_t`.
    pub const WITHOUT_INFO: u32 = 4;
}

records! {
    /// Record of a signal that was sent.
    SignalGenerateRecord: SignalGenerateData,
    /// Record of a signal that is taken.
    SignalDeliverRecord: SignalDeliverData,
}
