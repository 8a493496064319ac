//! Where the fields lie that the programs read, in the kernel that runs. Set by the agent.

use aya_ebpf::Global;

use tracer_common::kernel::globals::{NO_OFFSET, SWITCH_WITHOUT_STATE};

macro_rules! globals {
    ($($(#[$doc:meta])* $name:ident = $unset:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub static $name: Global<u32> = Global::new($unset);
    )*};
}

globals! {
    /// `task_struct::pid`: the thread.
    TASK_PID = NO_OFFSET;
    /// `task_struct::tgid`: the process.
    TASK_TGID = NO_OFFSET;
    /// `task_struct::comm`.
    TASK_COMM = NO_OFFSET;
    /// `task_struct::__state`, before 5.14 `state`.
    TASK_STATE = NO_OFFSET;
    /// `task_struct::exit_code`.
    TASK_EXIT_CODE = NO_OFFSET;
    /// `task_struct::signal`.
    TASK_SIGNAL = NO_OFFSET;
    /// `task_struct::thread.fsbase`; only on x86-64.
    TASK_FSBASE = NO_OFFSET;
    /// The CPU on whose run queue a task is: `thread_info.cpu` or `cpu`.
    TASK_CPU = NO_OFFSET;
    /// `signal_struct::live`: threads of the process that have not begun to exit.
    SIGNAL_LIVE = NO_OFFSET;
    /// `linux_binprm::filename`.
    BINPRM_FILENAME = NO_OFFSET;
    /// Which arguments `sched_switch` has: `tracer_common::kernel::globals::SWITCH_*`.
    SWITCH_ARGUMENTS = SWITCH_WITHOUT_STATE;
    /// 1 when `sched_process_exit` says whether the thread is the last one (6.16 and later).
    EXIT_SAYS_LAST = 0;
    /// A reader is woken once the ring holds so many bytes.
    RING_WAKE_BYTES = 0;
}
