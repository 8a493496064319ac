//! Where the fields lie that the programs read, in the kernel that runs. Set by the agent.

use aya_ebpf::Global;

use tracer_common::kernel::globals::{NO_CALL, NO_OFFSET, SWITCH_WITHOUT_STATE};

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
    /// `task_struct::on_cpu`.
    TASK_ON_CPU = NO_OFFSET;
    /// `task_struct::exit_code`.
    TASK_EXIT_CODE = NO_OFFSET;
    /// `task_struct::signal`.
    TASK_SIGNAL = NO_OFFSET;
    /// The thread pointer: `task_struct::thread.fsbase`, on arm64 `thread.uw.tp_value`.
    TASK_THREAD_POINTER = NO_OFFSET;
    /// How far below the thread pointer the C library has what a `pthread_t` is the address of.
    THREAD_ID_BELOW = 0;
    /// The CPU on whose run queue a task is: `thread_info.cpu` or `cpu`.
    TASK_CPU = NO_OFFSET;
    /// `signal_struct::live`: threads of the process that have not begun to exit.
    SIGNAL_LIVE = NO_OFFSET;
    /// `task_struct::group_leader`.
    TASK_LEADER = NO_OFFSET;
    /// `task_struct::thread_pid`.
    TASK_THREAD_PID = NO_OFFSET;
    /// Where a task says that it is in a system call of a 32-bit program: `thread_info.status`, on
    /// arm64 `thread_info.flags`.
    TASK_STATUS = NO_OFFSET;
    /// The bit that says so: `TS_COMPAT`, on arm64 `TIF_32BIT`.
    COMPAT_STATUS = 0;
    /// `task_struct::cgroups`.
    TASK_CGROUPS = NO_OFFSET;
    /// `css_set::dfl_cgrp`: the control group of version 2.
    CGROUPS_DEFAULT = NO_OFFSET;
    /// `cgroup::level`: how deep it is nested.
    CGROUP_LEVEL = NO_OFFSET;
    /// `cgroup::ancestors`: pointers, the outermost first; since 6.1.
    CGROUP_ANCESTORS = NO_OFFSET;
    /// `cgroup::ancestor_ids`: identifiers, the outermost first; before 6.1.
    CGROUP_ANCESTOR_IDS = NO_OFFSET;
    /// `cgroup::kn`.
    CGROUP_NODE = NO_OFFSET;
    /// `kernfs_node::id`.
    NODE_ID = NO_OFFSET;
    /// `pid::level`: how deep its pid namespace is nested.
    PID_LEVEL = NO_OFFSET;
    /// `pid::numbers`: its pid in each namespace, the outermost first.
    PID_UPIDS = NO_OFFSET;
    /// `upid::ns`: the namespace in which a pid counts.
    UPID_NAMESPACE = NO_OFFSET;
    /// `pid_namespace::ns.inum`: its inode.
    NAMESPACE_INODE = NO_OFFSET;
    /// The number of the pid namespace in which the agent is; 0 for the first one.
    NAMESPACE = 0;
    /// `pt_regs`: where the program goes on.
    REGS_IP = NO_OFFSET;
    /// `pt_regs`: where the program's stack ends.
    REGS_STACK = NO_OFFSET;
    /// `pt_regs`: the program's frame pointer.
    REGS_FRAME = NO_OFFSET;
    /// Flags of a task that is a worker which the kernel made for a program (`PF_IO_WORKER`,
    /// `PF_USER_WORKER`): before 6.4 the second bit means something else.
    USER_WORKER = 0x10;
    /// Bits of an address to which a function returns; those above show that it is not forged.
    CODE_ADDRESS_BITS = 64;
    /// How far behind the end of the stack the signals lie that are blocked once a signal handler
    /// has ended.
    SIGNAL_MASK_AT = 0;
    /// `SIGNAL_MASK_AT` of 32-bit programs.
    COMPAT_SIGNAL_MASK_AT = 0;
    /// `SIGNAL_MASK_AT` of 32-bit programs whose handler was entered without more than its signal.
    COMPAT_OLD_MASK_AT = 0;
    /// `pt_regs`: the number of the system call.
    REGS_CALL = NO_OFFSET;
    /// `pt_regs`: the arguments of the system call.
    REGS_ARGUMENT_0 = NO_OFFSET;
    /// The second one.
    REGS_ARGUMENT_1 = NO_OFFSET;
    /// The third one.
    REGS_ARGUMENT_2 = NO_OFFSET;
    /// The fourth one.
    REGS_ARGUMENT_3 = NO_OFFSET;
    /// The fifth one.
    REGS_ARGUMENT_4 = NO_OFFSET;
    /// The sixth one.
    REGS_ARGUMENT_5 = NO_OFFSET;
    /// `pt_regs`: the arguments of the system call of a 32-bit program.
    REGS_COMPAT_0 = NO_OFFSET;
    /// The second one.
    REGS_COMPAT_1 = NO_OFFSET;
    /// The third one.
    REGS_COMPAT_2 = NO_OFFSET;
    /// The fourth one.
    REGS_COMPAT_3 = NO_OFFSET;
    /// The fifth one.
    REGS_COMPAT_4 = NO_OFFSET;
    /// The sixth one.
    REGS_COMPAT_5 = NO_OFFSET;
    /// `kernel_siginfo::si_code`.
    SIGINFO_CODE = NO_OFFSET;
    /// `kernel_siginfo::_sifields`: what depends on the signal.
    SIGINFO_FIELDS = NO_OFFSET;
    /// `k_sigaction::sa.sa_handler`.
    SIGACTION_HANDLER = NO_OFFSET;
    /// `k_sigaction::sa.sa_flags`.
    SIGACTION_FLAGS = NO_OFFSET;
    /// `irqaction::name`.
    IRQACTION_NAME = NO_OFFSET;
    /// `request::q`.
    REQUEST_QUEUE = NO_OFFSET;
    /// `request::cmd_flags`.
    REQUEST_FLAGS = NO_OFFSET;
    /// `request::__data_len`.
    REQUEST_BYTES = NO_OFFSET;
    /// `request::__sector`.
    REQUEST_SECTOR = NO_OFFSET;
    /// `request::bio`.
    REQUEST_BIO = NO_OFFSET;
    /// 1 when `block_io_start` says who starts a request (6.5 and later).
    SEES_STARTS = 0;
    /// 1 when the first argument of `block_getrq` is a queue (before 5.11).
    GETRQ_HAS_QUEUE = 0;
    /// `request_queue::disk`; since 5.14.
    QUEUE_DISK = NO_OFFSET;
    /// `gendisk::major`.
    DISK_MAJOR = NO_OFFSET;
    /// `gendisk::first_minor`.
    DISK_MINOR = NO_OFFSET;
    /// `task_struct::real_cred`.
    TASK_CRED = NO_OFFSET;
    /// `cred::uid`.
    CRED_UID = NO_OFFSET;
    /// `cred::euid`.
    CRED_EUID = NO_OFFSET;
    /// `cred::suid`.
    CRED_SUID = NO_OFFSET;
    /// `cred::gid`.
    CRED_GID = NO_OFFSET;
    /// `cred::egid`.
    CRED_EGID = NO_OFFSET;
    /// `cred::sgid`.
    CRED_SGID = NO_OFFSET;
    /// `cred::cap_permitted`.
    CRED_PERMITTED = NO_OFFSET;
    /// `cred::user_ns`.
    CRED_USER_NS = NO_OFFSET;
    /// `user_namespace::level`.
    USER_NS_LEVEL = NO_OFFSET;
    /// `user_namespace::parent`.
    USER_NS_PARENT = NO_OFFSET;
    /// `user_namespace::owner`.
    USER_NS_OWNER = NO_OFFSET;
    /// `user_namespace::ns.inum`: its inode.
    USER_NS_ID = NO_OFFSET;
    /// `task_struct::mm`.
    TASK_MM = NO_OFFSET;
    /// `mm_struct::flags`.
    MM_FLAGS = NO_OFFSET;
    /// `mm_struct::user_ns`.
    MM_USER_NS = NO_OFFSET;
    /// `mm_struct::arg_start`.
    MM_ARG_START = NO_OFFSET;
    /// `mm_struct::arg_end`.
    MM_ARG_END = NO_OFFSET;
    /// `linux_binprm::filename`.
    BINPRM_FILENAME = NO_OFFSET;
    /// Where in the variable [`PREEMPT_COUNT`](tracer_common::kernel::cpu_variable::PREEMPT_COUNT)
    /// the count is.
    PREEMPT_COUNT = NO_OFFSET;
    /// `task_struct::se.cfs_rq`.
    TASK_FAIR_QUEUE = NO_OFFSET;
    /// `cfs_rq::rq`: the CPU's run queue.
    FAIR_QUEUE_RUN_QUEUE = NO_OFFSET;
    /// `rq::nr_switches`: how many switches the CPU has made, the one that is reported included.
    RUN_QUEUE_SWITCHES = NO_OFFSET;
    /// The type that [`READABLE`](tracer_common::kernel::cpu_variable::READABLE) makes an address
    /// one of: a word. 0 where the kernel has no such function.
    WORD_TYPE = 0;
    /// From the run queue of a CPU to its variable
    /// [`PREEMPT_COUNT`](tracer_common::kernel::cpu_variable::PREEMPT_COUNT), modulo 2^32.
    PREEMPT_COUNT_DISTANCE = NO_OFFSET;
    /// From there to [`HRTIMER_BASES`](tracer_common::kernel::cpu_variable::HRTIMER_BASES).
    HRTIMER_BASES_DISTANCE = NO_OFFSET;
    /// From there to [`TIMER_BASES`](tracer_common::kernel::cpu_variable::TIMER_BASES).
    TIMER_BASES_DISTANCE = NO_OFFSET;
    /// `task_struct::thread_info.preempt_count`; on machines that have it there.
    TASK_PREEMPT_COUNT = NO_OFFSET;
    /// Bits of the count: interrupts that are no soft ones.
    INTERRUPT_BITS = 0x00ff_0000;
    /// `task_struct::softirq_disable_cnt`; on real-time kernels.
    TASK_SOFTIRQ_COUNT = NO_OFFSET;
    /// Addresses of the kernel that are taken when a thread blocks, at most.
    OFF_CPU_KERNEL_FRAMES = 0;
    /// `task_struct::pagefault_disabled`.
    TASK_FAULTS_OFF = NO_OFFSET;
    /// `hrtimer_cpu_base::clock_base`, and in its first entry `running`.
    HRTIMER_RUNNING = NO_OFFSET;
    /// Bytes of `struct hrtimer_clock_base`.
    HRTIMER_BASE_BYTES = 0;
    /// `timer_base::running_timer`, in the first entry of `timer_bases`.
    TIMER_RUNNING = NO_OFFSET;
    /// Bytes of `struct timer_base`.
    TIMER_BASE_BYTES = 0;
    /// Entries of `timer_bases`.
    TIMER_BASES = 0;
    /// 1 when interrupts are noted where they begin and end, as their count cannot be read.
    NOTES_INTERRUPTS = 0;
    /// `task_struct::utask`.
    TASK_UTASK = NO_OFFSET;
    /// `uprobe_task::depth`.
    UTASK_DEPTH = NO_OFFSET;
    /// `task_struct::flags`.
    TASK_FLAGS = NO_OFFSET;
    /// `task_struct::throttled` (6.18 and later).
    TASK_THROTTLED = NO_OFFSET;
    /// `cfs_rq::throttle_count`.
    FAIR_QUEUE_THROTTLED = NO_OFFSET;
    /// `cfs_rq::throttled`: the 32 bits in which it is.
    FAIR_QUEUE_LIMITED_BITS = NO_OFFSET;
    /// Those of them.
    FAIR_QUEUE_LIMITED_MASK = 0;
    /// `cfs_rq::tg`: the group whose queue it is.
    FAIR_QUEUE_GROUP = NO_OFFSET;
    /// `task_group::css.cgroup`.
    GROUP_CGROUP = NO_OFFSET;
    /// `task_struct::se.parent`: the entity of the group that a task is in.
    TASK_PARENT_ENTITY = NO_OFFSET;
    /// `sched_entity::parent`.
    ENTITY_PARENT = NO_OFFSET;
    /// `sched_entity::cfs_rq`.
    ENTITY_QUEUE = NO_OFFSET;
    /// `kernfs_node::name`.
    NODE_NAME = NO_OFFSET;
    /// `kernfs_node::__parent`, before 6.15 `parent`.
    NODE_PARENT = NO_OFFSET;
    /// `task_struct::dl.dl_throttled`: the 32 bits in which it is.
    TASK_DEADLINE_BITS = NO_OFFSET;
    /// The bit within these.
    DEADLINE_THROTTLED_BIT = 0;
    /// `task_struct::prio`.
    TASK_PRIORITY = NO_OFFSET;
    /// `task_struct::rt.rt_rq`, with control groups for real-time threads.
    TASK_REAL_TIME_QUEUE = NO_OFFSET;
    /// `rt_rq::rt_throttled`.
    REAL_TIME_QUEUE_THROTTLED = NO_OFFSET;
    /// `task_struct::in_iowait`: the 32 bits in which it is.
    TASK_IO_WAIT = NO_OFFSET;
    /// The bit within these.
    IO_WAIT_BIT = 0;
    /// `task_struct::files`.
    TASK_FILES = NO_OFFSET;
    /// `files_struct::fdt`.
    FILES_TABLE = NO_OFFSET;
    /// `fdtable::max_fds`.
    TABLE_SIZE = NO_OFFSET;
    /// `fdtable::fd`.
    TABLE_FILES = NO_OFFSET;
    /// `file::f_path.mnt`.
    FILE_MOUNT = NO_OFFSET;
    /// `file::f_path.dentry`.
    FILE_DENTRY = NO_OFFSET;
    /// `file::f_inode`.
    FILE_INODE = NO_OFFSET;
    /// `file::private_data`.
    FILE_PRIVATE = NO_OFFSET;
    /// `task_struct::fs`.
    TASK_FS = NO_OFFSET;
    /// `fs_struct::pwd.mnt`.
    FS_FOLDER_MOUNT = NO_OFFSET;
    /// `fs_struct::pwd.dentry`.
    FS_FOLDER_DENTRY = NO_OFFSET;
    /// `dentry::d_seq`.
    DENTRY_SEQUENCE = NO_OFFSET;
    /// `dentry::d_hash.pprev`.
    DENTRY_HASHED = NO_OFFSET;
    /// `dentry::d_parent`.
    DENTRY_PARENT = NO_OFFSET;
    /// `dentry::d_name.name`.
    DENTRY_NAME = NO_OFFSET;
    /// `dentry::d_op`.
    DENTRY_OPERATIONS = NO_OFFSET;
    /// `dentry_operations::d_dname`.
    OPERATIONS_NAME = NO_OFFSET;
    /// `inode::i_ino`.
    INODE_NUMBER = NO_OFFSET;
    /// `inode::i_sb`.
    INODE_SUPER = NO_OFFSET;
    /// `inode::i_private`.
    INODE_PRIVATE = NO_OFFSET;
    /// `super_block::s_magic`.
    SUPER_MAGIC = NO_OFFSET;
    /// `vfsmount::mnt_root`.
    MOUNT_ROOT = NO_OFFSET;
    /// `mount::mnt`.
    MOUNT_MOUNT = NO_OFFSET;
    /// `mount::mnt_parent`.
    MOUNT_PARENT = NO_OFFSET;
    /// `mount::mnt_mountpoint`.
    MOUNT_POINT = NO_OFFSET;
    /// `ns_common::ops`.
    NS_OPERATIONS = NO_OFFSET;
    /// `proc_ns_operations::name`.
    NS_NAME = NO_OFFSET;
    /// `socket::sk`.
    SOCKET_SOCK = NO_OFFSET;
    /// `socket_alloc::vfs_inode`.
    SOCKET_INODE = NO_OFFSET;
    /// `sock::__sk_common.skc_family`.
    SOCK_FAMILY = NO_OFFSET;
    /// `sock::sk_protocol`.
    SOCK_PROTOCOL = NO_OFFSET;
    /// `sock::sk_socket`.
    SOCK_SOCKET = NO_OFFSET;
    /// `sock::__sk_common.skc_num`.
    SOCK_LOCAL_PORT = NO_OFFSET;
    /// `sock::__sk_common.skc_dport`.
    SOCK_REMOTE_PORT = NO_OFFSET;
    /// `sock::__sk_common.skc_rcv_saddr`.
    SOCK_LOCAL = NO_OFFSET;
    /// `sock::__sk_common.skc_daddr`.
    SOCK_REMOTE = NO_OFFSET;
    /// `sock::__sk_common.skc_v6_rcv_saddr`.
    SOCK_LOCAL_6 = NO_OFFSET;
    /// `sock::__sk_common.skc_v6_daddr`.
    SOCK_REMOTE_6 = NO_OFFSET;
    /// `sk_buff::dev`: the device by which a packet goes out or comes in.
    PACKET_DEVICE = NO_OFFSET;
    /// `unix_sock::peer`.
    UNIX_PEER = NO_OFFSET;
    /// `unix_sock::addr`.
    UNIX_ADDRESS = NO_OFFSET;
    /// `unix_address::len`.
    UNIX_ADDRESS_BYTES = NO_OFFSET;
    /// `unix_address::name`.
    UNIX_ADDRESS_NAME = NO_OFFSET;
    /// `netlink_sock::portid`.
    NETLINK_PORT = NO_OFFSET;
    /// `task_struct::stack`.
    TASK_STACK = NO_OFFSET;
    /// The call that ends a signal handler: `rt_sigreturn`.
    SIGRETURN = NO_CALL;
    /// Call of 32-bit programs that ends a signal handler: `sigreturn`.
    COMPAT_SIGRETURN = NO_CALL;
    /// Call of 32-bit programs that ends a signal handler: `rt_sigreturn`.
    COMPAT_RT_SIGRETURN = NO_CALL;
    /// The call that every exec is once it has succeeded: `execve`.
    EXECVE = NO_CALL;
    /// `EXECVE` of 32-bit programs.
    COMPAT_EXECVE = NO_CALL;
    /// Calls that wait for a word of memory: `futex`,
    FUTEX = NO_CALL;
    /// and, since 6.7, `futex_wait`.
    FUTEX_WAIT = NO_CALL;
    /// Call of 32-bit programs that is several calls: `socketcall`.
    SOCKETCALL = NO_CALL;
    /// Arguments of `sched_switch`: `tracer_common::kernel::globals::SWITCH_*`.
    SWITCH_ARGUMENTS = SWITCH_WITHOUT_STATE;
    /// 1 when `sched_process_exit` says whether the thread is the last one (6.16 and later).
    EXIT_SAYS_LAST = 0;
    /// 1 when `mark_victim` says which task it is (6.8 and later), and not only its pid.
    VICTIM_IS_TASK = 0;
    /// 1 when there is the helper `bpf_task_pt_regs` (5.15 and later).
    HAS_TASK_PT_REGS = 0;
    /// Bytes that are read of what an argument of a system call points to; 0: none.
    STRING_BYTES = 0;
    /// 1: of what arguments of a system call point to, only names are read, as
    /// `tracer_common::kernel::call_texts::names` chooses them.
    ONLY_NAMES = 0;
    /// Bytes that are read of what a program was given.
    EXEC_BYTES = 4096;
    /// The types of whose events the stack is recorded: the lower 32 of their bits.
    STACK_TYPES_LOW = 0;
    /// The upper 32.
    STACK_TYPES_HIGH = 0;
    /// Addresses of the kernel that are recorded of a stack; 0: none.
    STACK_KERNEL_FRAMES = 0;
    /// Addresses of the program that are recorded of a stack; 0: none.
    STACK_USER_FRAMES = 0;
    /// Python frames that are recorded of a stack; 0: none.
    STACK_PYTHON_FRAMES = 0;
    /// Whether traces and spans of OpenTelemetry are recorded.
    THREAD_CONTEXTS = 0;
    /// Bytes that are copied of a program's stack, whose functions the agent finds; 0: none.
    UNWIND_BYTES = 0;
    /// Bytes of the registers of a program (`struct pt_regs`).
    UNWIND_REGISTERS_BYTES = 0;
    /// 1 when the stacks of threads are recorded that were blocked for longer than a limit.
    OFF_CPU = 0;
    /// The lower 32 bits of that limit, in nanoseconds.
    OFF_CPU_LOW = 0;
    /// The upper 32.
    OFF_CPU_HIGH = 0;
    /// For how much time a sample counts, in nanoseconds.
    SAMPLE_NS = 0;
    /// 1 when processes are chosen by what they are: `tracer_common::kernel::Choice`.
    CHOOSES = 0;
    /// The number of rings, a power of two, less one.
    RING_MASK = 0;
    /// A reader is woken once the ring holds so many bytes.
    RING_WAKE_BYTES = 0;
    /// 1 where all system calls were wanted when the programs were loaded.
    ALL_CALLS = 0;
    /// 1 where it is counted how many calls traced threads make, and how long these run.
    COUNTS_RATES = 0;
    /// 1 where calls are recorded only as they end, and no program runs as they begin.
    CALLS_AT_EXIT = 0;
    /// Bytes of the ring of each CPU for records of system calls; 0: there are none.
    CPU_RING_BYTES = 0;
    /// The number of chunks of each of these rings, a power of two.
    CPU_RING_CHUNKS = 1;
    /// Kinds that are counted, and not recorded: bits of
    /// [`counting`](tracer_common::kernel::counting).
    COUNTS = 0;
    /// By what it is counted, of [`counting`](tracer_common::kernel::counting) as well.
    COUNTS_BY = 0;
    /// 1 where a program may be preempted by others.
    COUNTS_ARE_PREEMPTED = 0;
    /// 1 when a reader is woken by each exec.
    EXEC_WAKES = 0;
    /// Whether there may be [guarded](tracer_common::kernel::traced::GUARDED) processes, one of
    /// [`guards`](tracer_common::kernel::globals::guards): where there are none, the verifier has
    /// nothing of what judges them to walk.
    GUARDS = 0;
}
