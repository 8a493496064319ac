//! How long the verifier may take for each program.

/// The most instructions that the verifier may walk. A change that needs more raises it in the
/// same commit. Kernels differ a little: there is room for a tenth above what 6.18 needs.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The program, and its tracepoint.
    pub program: &'static str,
    /// For the program at the BTF tracepoint.
    pub instructions: u32,
    /// For the program at the raw tracepoint.
    pub raw_instructions: u32,
}

const fn budget(program: &'static str, instructions: u32, raw_instructions: u32) -> Budget {
    Budget {
        program,
        instructions,
        raw_instructions,
    }
}

/// A row for each program, in the order in which they are attached.
pub const BUDGETS: &[Budget] = &[
    budget("sched_process_fork", 4300, 12660),
    budget("sched_process_exit", 230, 400),
    budget("sched_process_exec", 5950, 10510),
    budget("cgroup_attach_task", 3890, 3980),
    budget("task_rename", 4670, 14300),
    budget("sched_waking", 100, 200),
    budget("sched_wakeup", 250, 410),
    budget("sched_wakeup_new", 230, 400),
    budget("sched_switch", 510, 800),
    budget("sched_migrate_task", 170, 300),
    budget("signal_generate", 1220, 2560),
    budget("signal_deliver", 275, 470),
    budget("mark_victim", 170, 300),
    budget("page_fault_user", 245, 400),
    budget("page_fault_kernel", 245, 400),
    budget("block_io_start", 80, 210),
    budget("block_rq_issue", 390, 740),
    budget("block_rq_complete", 220, 390),
    budget("irq_handler_entry", 450, 470),
    budget("irq_handler_exit", 270, 270),
    budget("softirq_entry", 250, 250),
    budget("softirq_exit", 250, 250),
    budget("cpu_idle", 470, 470),
    budget("sys_enter", 460, 970),
    budget("sys_exit", 255, 425),
];
