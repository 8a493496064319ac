//! Limits on the work of the verifier for each program.

/// The most instructions that the verifier may walk. A change that needs more raises it in the
/// same commit. Kernels differ a little: a tenth is allowed above what 6.18 needs.
#[derive(Clone, Copy, Debug)]
pub struct VerifierBudget {
    /// The program, and its tracepoint.
    pub program: &'static str,
    /// Limit for the program at the BTF tracepoint.
    pub instructions: u32,
    /// Limit for the program at the raw tracepoint.
    pub raw_instructions: u32,
}

const fn budget(program: &'static str, instructions: u32, raw_instructions: u32) -> VerifierBudget {
    VerifierBudget {
        program,
        instructions,
        raw_instructions,
    }
}

/// Budget of a program without a row, such as a new one: the most that programs with rows take. A
/// row limits it more closely.
const MOST: (u32, u32) = (10_000, 15_000);

/// The programs that were measured.
pub const BUDGETS: &[VerifierBudget] = &[
    budget("sched_process_fork", 4450, 14440),
    budget("sched_process_exit", 230, 400),
    budget("sched_process_exec", 25600, 32200),
    budget("cgroup_attach_task", 9850, 10800),
    budget("task_rename", 4670, 14300),
    budget("hrtimer_expire_entry", 40, 40),
    budget("hrtimer_expire_exit", 40, 40),
    budget("irq_handler_entry", 500, 500),
    budget("irq_handler_exit", 330, 330),
    budget("softirq_entry", 300, 300),
    budget("softirq_exit", 300, 300),
    budget("sched_waking", 1280, 1960),
    budget("sched_wakeup", 325, 610),
    budget("sched_wakeup_new", 655, 1140),
    budget("sched_switch", 18000, 22300),
    budget("sched_migrate_task", 180, 300),
    budget("signal_generate", 3950, 5400),
    budget("signal_deliver", 1050, 1500),
    budget("mark_victim", 200, 300),
    budget("page_fault_user", 935, 1155),
    budget("page_fault_kernel", 935, 1155),
    budget("block_io_start", 165, 370),
    budget("block_getrq", 95, 210),
    budget("block_rq_issue", 500, 900),
    budget("block_rq_complete", 250, 390),
    budget("cpu_idle", 470, 470),
    budget("sys_enter_descriptors", 28400, 29500),
    budget("sys_exit_descriptors", 26500, 29500),
    budget("sys_enter", 77500, 53000),
    budget("sys_exit", 86000, 79000),
];

/// Returns the budget of a program.
pub fn budget_of(program: &'static str) -> VerifierBudget {
    let row = BUDGETS.iter().find(|row| row.program == program);
    row.copied().unwrap_or(budget(program, MOST.0, MOST.1))
}
