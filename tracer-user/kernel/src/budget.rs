//! Limits on the work of the verifier for each program.

/// Most instructions that the verifier may walk. A change that needs more raises the limit in the
/// same commit. Kernels differ a little: the limit is a tenth above what 6.18 needs.
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

/// Budget of a program without a row, such as a new one. A row sets other limits.
const MOST: (u32, u32) = (10_000, 15_000);

/// The programs that were measured.
pub const BUDGETS: &[VerifierBudget] = &[
    budget("sched_process_fork", 8600, 18600),
    budget("task_newtask", 8600, 18500),
    budget("sched_process_exit", 3900, 4450),
    budget("sched_process_exec", 29500, 36000),
    budget("cgroup_attach_task", 9850, 10800),
    budget("task_rename", 4670, 14300),
    budget("hrtimer_expire_entry", 40, 40),
    budget("hrtimer_expire_exit", 40, 40),
    budget("irq_handler_entry", 500, 500),
    budget("irq_handler_exit", 330, 330),
    budget("softirq_entry", 300, 300),
    budget("softirq_exit", 300, 300),
    budget("napi_poll", 40, 40),
    budget("netif_receive_skb", 100, 140),
    budget("netif_rx", 180, 390),
    budget("net_dev_queue", 120, 190),
    budget("sched_waking", 2100, 2900),
    budget("sched_wakeup", 750, 1450),
    budget("sched_wakeup_new", 1110, 2040),
    budget("sched_switch_locks", 4100, 4800),
    budget("sched_switch", 27500, 37500),
    budget("sched_migrate_task", 610, 1130),
    budget("signal_generate", 19000, 10000),
    budget("signal_deliver", 4150, 4700),
    budget("mark_victim", 650, 1140),
    budget("page_fault_user", 3750, 4200),
    budget("page_fault_kernel", 3750, 4200),
    budget("block_io_start", 260, 380),
    budget("block_getrq", 112, 230),
    budget("block_rq_issue", 1480, 1680),
    budget("block_rq_complete", 1200, 1370),
    budget("cpu_idle", 470, 470),
    budget("sched_wakeup_new_counts", 200, 400),
    budget("sched_wakeup_counts", 790, 1150),
    budget("sched_switch_counts", 8700, 12700),
    budget("sys_exit_counts", 1800, 2900),
    budget("sys_enter_counts", 1020, 1730),
    budget("page_fault_user_counts", 127, 195),
    budget("page_fault_kernel_counts", 127, 195),
    budget("sys_enter_descriptors", 31100, 32200),
    budget("sys_exit_descriptors", 29300, 30500),
    budget("sys_enter", 83900, 64500),
    budget("sys_exit", 110100, 108600),
];

/// Returns the budget of a program.
pub fn budget_of(program: &'static str) -> VerifierBudget {
    let row = BUDGETS.iter().find(|row| row.program == program);
    row.copied().unwrap_or(budget(program, MOST.0, MOST.1))
}
