//! Data of the events of signals.

use super::COMM_BYTES;
use crate::event_type::declare::{event_data, event_types};

event_data! {
    /// Data of `LINUX_TRACE_SIGNAL_GENERATE`.
    ///
    /// The event is one of the caller where a traced process sends by a call such as `kill`, and
    /// its program address is that of the call. Otherwise it is one of the target.
    pub struct SignalGenerateData {
        /// The signal.
        #[shown(Signal)]
        pub signal: u32,
        /// Why it was sent: `si_code` of `siginfo_t`.
        #[shown(I32)]
        pub code: i32,
        /// Process that it is sent to.
        #[shown(Pid)]
        pub target_pid: u32,
        /// Thread that it is sent to; of a signal to the process, the thread that was named.
        #[shown(Pid)]
        pub target_tid: u32,
        /// The name of that thread.
        #[shown(Comm)]
        pub target_comm: [u8; COMM_BYTES],
        /// Process that sent it by a call, or whose end it reports; 0 for the kernel itself.
        #[shown(Pid)]
        pub sender_pid: u32,
        /// Its thread.
        #[shown(Pid)]
        pub sender_tid: u32,
        /// 1: to the process; 0: to one thread.
        #[shown(Flag)]
        pub group: u32,
        /// 0: it is on its way; 1: the target ignores it; 2: it is pending already; 3: it is lost;
        /// 4: it is sent without its `siginfo_t` ([`signal_result`]).
        #[shown(SignalResult)]
        pub result: u32,
    }
}

event_data! {
    /// Data of `LINUX_TRACE_SIGNAL_DELIVER`. The program address is where the program was
    /// interrupted.
    pub struct SignalDeliverData {
        /// The signal.
        #[shown(Signal)]
        pub signal: u32,
        /// Why it was sent: `si_code` of `siginfo_t`.
        #[shown(I32)]
        pub code: i32,
        /// The program's handler; 0 for what the kernel does by default (`SIG_DFL`), 1 for nothing
        /// (`SIG_IGN`).
        #[shown(Address)]
        pub handler: u64,
        /// `sa_flags` of the `sigaction`.
        #[shown(U64)]
        pub flags: u64,
        /// Of a fault, the address (`si_addr`), and of a call that a filter refused its own; 0
        /// otherwise.
        #[shown(Address)]
        pub address: u64,
        /// Of a signal with a value, that (`si_value`); 0 otherwise.
        #[shown(U64)]
        pub value: u64,
        /// Of a timer, its identifier in the kernel (`si_timerid`); 0 otherwise.
        #[shown(I32)]
        pub timer: i32,
        /// Of a timer, how often more it has expired (`si_overrun`); 0 otherwise.
        #[shown(I32)]
        pub overrun: i32,
        /// Of a signal that a process sent by a call, or that reports a child, that process as the
        /// program is told (`si_pid`): in its own pid namespace; 0 otherwise.
        #[shown(U32)]
        pub si_pid: u32,
        /// Of such a signal, the user of that process as the program is told (`si_uid`); 0
        /// otherwise.
        #[shown(U32)]
        pub si_uid: u32,
        /// Of a signal that reports a child, its exit status, or the signal that ended, stopped or
        /// continued it (`si_status`); 0 otherwise.
        #[shown(I32)]
        pub si_status: i32,
        /// Zero.
        pub reserved: u32,
    }
}

/// Values of [`SignalGenerateData::result`].
pub mod signal_result {
    /// It is on its way.
    pub const DELIVERED: u32 = 0;
    /// The target ignores it.
    pub const IGNORED: u32 = 1;
    /// Merged into the same signal, which is pending already.
    pub const PENDING: u32 = 2;
    /// The queue of the target is full: it is lost.
    pub const OVERFLOW: u32 = 3;
    /// The queue of the target is full: it is sent without its `siginfo_t`.
    pub const WITHOUT_INFO: u32 = 4;
}

event_types! {
    SIGNAL_GENERATE = 41 {
        about: "a signal was sent",
        family: "signal",
        data: SignalGenerateData,
        recorded_at: [signal_generate],
    }
    SIGNAL_DELIVER = 42 {
        about: "a thread takes a signal",
        family: "signal",
        data: SignalDeliverData,
        recorded_at: [signal_deliver],
    }
}
