//! Readings at the offsets, and the values that they have to give.

use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};

use tracer_common::kernel::globals::NO_OFFSET;

use super::known::{KnownFacts, KnownFile};
use super::program::{ARGUMENTS, Around, CALL};
use crate::btf::offsets::Global;
use crate::btf::reader::Btf;

/// Bytes of the longest reading.
pub const VALUE_BYTES: usize = 16;

/// Start of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// `struct task_struct` of this thread.
    Task,
    /// The registers of its program.
    Registers,
}

/// Reading of a member in the kernel.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The member that it is, as `struct.member`.
    pub name: &'static str,
    pub base: Base,
    /// Offsets. At each but the last there is a pointer, from which the next offset counts.
    pub steps: Vec<i32>,
    /// Bytes of it, at most [`VALUE_BYTES`].
    pub bytes: usize,
    expected: Expected,
}

/// Value that is there if the offsets are right.
#[derive(Clone, Debug)]
enum Expected {
    /// Integer.
    Is(u64),
    /// Bits of an integer: mask and value.
    Bits(u64, u64),
    /// Address in one of these ranges.
    In(Vec<Range<u64>>),
    /// Text, with a null behind it.
    Text(Vec<u8>),
    /// The CPU that it is read on.
    Cpu,
    /// The identifier of the thread's control group.
    Group,
    /// Identifier of the root of all control groups.
    RootGroup,
    /// Beginning of the stack that the registers are on.
    Stack,
}

impl Reading {
    /// Tells whether it is compared with the control groups that helpers return.
    pub fn is_of_group(&self) -> bool {
        matches!(self.expected, Expected::Group | Expected::RootGroup)
    }

    /// Tells whether this is the value that has to be there.
    pub fn is_right(&self, value: &[u8; VALUE_BYTES], around: &Around) -> bool {
        /// Bytes of the largest stack of a thread in the kernel.
        const MOST_STACK_BYTES: u64 = 64 << 10;
        let [a, b, c, d, e, f, g, h, ..] = *value;
        let integer = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        match &self.expected {
            Expected::Is(expected) => integer == *expected,
            Expected::Bits(mask, expected) => integer & mask == *expected,
            Expected::In(ranges) => ranges.iter().any(|range| range.contains(&integer)),
            Expected::Text(text) => {
                let with_end = text.iter().chain(&[0]);
                value.iter().zip(with_end).all(|(is, due)| is == due)
            }
            Expected::Cpu => integer == around.cpu,
            Expected::Group => integer == around.group,
            Expected::RootGroup => integer == around.root_group,
            Expected::Stack => {
                let above = around.registers.checked_sub(integer);
                integer.is_multiple_of(4096) && above.is_some_and(|above| above < MOST_STACK_BYTES)
            }
        }
    }
}

/// Builder of the list of readings, which leaves out those whose offsets are not known.
struct List<'a> {
    globals: &'a [Global],
    btf: &'a Btf<'a>,
    readings: Vec<Reading>,
}

impl<'a> List<'a> {
    fn new(btf: &'a Btf<'a>, globals: &'a [Global]) -> Self {
        Self {
            globals,
            btf,
            readings: Vec::new(),
        }
    }

    /// Returns the offset that a global has.
    fn at(&self, name: &str) -> Option<i32> {
        let mut globals = self.globals.iter();
        let found = globals.find(|global| global.name == name)?;
        (found.value != NO_OFFSET).then(|| found.value.cast_signed())
    }

    fn member(&self, of: &str, name: &str) -> Option<i32> {
        let offset = self.btf.member_offset(of, &[name])?;
        offset.try_into().ok()
    }

    fn add(
        &mut self,
        name: &'static str,
        base: Base,
        steps: &[Option<i32>],
        bytes: usize,
        expected: Option<Expected>,
    ) {
        let steps: Option<Vec<i32>> = steps.iter().copied().collect();
        if let (Some(steps), Some(expected)) = (steps, expected) {
            self.readings.push(Reading {
                name,
                base,
                steps,
                bytes,
                expected,
            });
        }
    }

    /// Adds a member of the task.
    fn add_task_member(
        &mut self,
        name: &'static str,
        global: &str,
        bytes: usize,
        expected: Expected,
    ) {
        self.add(name, Base::Task, &[self.at(global)], bytes, Some(expected));
    }

    /// Adds a member that pointers lead to.
    fn behind(
        &mut self,
        name: &'static str,
        steps: &[Option<i32>],
        bytes: usize,
        expected: Option<Expected>,
    ) {
        self.add(name, Base::Task, steps, bytes, expected);
    }

    /// Returns the way to an open file.
    fn way_to(&self, file: RawFd) -> Vec<Option<i32>> {
        vec![
            self.at("TASK_FILES"),
            self.at("FILES_TABLE"),
            self.at("TABLE_FILES"),
            file.checked_mul(8),
        ]
    }
}

/// Returns the readings of the task itself, and of the registers of its system call.
pub fn direct(btf: &Btf<'_>, globals: &[Global], known: &KnownFacts) -> Vec<Reading> {
    let mut list = List::new(btf, globals);
    list.add_task_member("task_struct.pid", "TASK_PID", 4, Expected::Is(known.tid));
    list.add_task_member("task_struct.tgid", "TASK_TGID", 4, Expected::Is(known.pid));
    let comm = Expected::Text(known.comm.clone());
    list.add_task_member("task_struct.comm", "TASK_COMM", VALUE_BYTES, comm);
    list.add_task_member("task_struct.__state", "TASK_STATE", 4, Expected::Is(0));
    list.add_task_member(
        "task_struct.exit_code",
        "TASK_EXIT_CODE",
        4,
        Expected::Is(0),
    );
    list.add_task_member("task_struct.cpu", "TASK_CPU", 4, Expected::Cpu);
    list.add_task_member("task_struct.stack", "TASK_STACK", 8, Expected::Stack);
    if let Some(flags) = known.stat(9) {
        list.add_task_member("task_struct.flags", "TASK_FLAGS", 4, Expected::Is(flags));
    }
    if let Some(pointer) = known.thread_pointer {
        let expected = Expected::Is(pointer);
        list.add_task_member("task_struct.thread", "TASK_THREAD_POINTER", 8, expected);
    }
    registers(&mut list, known);
    list.readings
}

fn registers(list: &mut List<'_>, known: &KnownFacts) {
    const NAME: &str = "pt_regs";
    let mut add = |global: &str, bytes, expected| {
        let at = list.at(global);
        list.add(NAME, Base::Registers, &[at], bytes, Some(expected));
    };
    add("REGS_IP", 8, Expected::In(known.code.clone()));
    add("REGS_STACK", 8, Expected::In(vec![known.stack.clone()]));
    add("REGS_CALL", 4, Expected::Is(CALL));
    let names = [
        "REGS_ARGUMENT_0",
        "REGS_ARGUMENT_1",
        "REGS_ARGUMENT_2",
        "REGS_ARGUMENT_3",
        "REGS_ARGUMENT_4",
        "REGS_ARGUMENT_5",
    ];
    for (name, value) in names.iter().zip(ARGUMENTS) {
        add(name, 8, Expected::Is(value));
    }
}

/// Returns the readings of data that pointers of the task lead to.
pub fn followed(btf: &Btf<'_>, globals: &[Global], known: &KnownFacts) -> Vec<Reading> {
    let mut list = List::new(btf, globals);
    ids(&mut list, known);
    rights(&mut list, known);
    memory(&mut list, known);
    groups(&mut list);
    folder(&mut list, known);
    file(&mut list, &known.file, known.tid);
    namespace_file(&mut list, &known.namespace_file);
    table(&mut list, known);
    datagrams(&mut list, known);
    streams(&mut list, known);
    run_queue(&mut list);
    list.readings
}

fn ids(list: &mut List<'_>, known: &KnownFacts) {
    let leader = [list.at("TASK_LEADER"), list.at("TASK_PID")];
    let pid = Some(Expected::Is(known.pid));
    list.behind("task_struct.group_leader", &leader, 4, pid);
    let threads = known.status("Threads").next();
    let threads = threads.and_then(|count| count.parse().ok());
    let live = [list.at("TASK_SIGNAL"), list.at("SIGNAL_LIVE")];
    list.behind("signal_struct.live", &live, 4, threads.map(Expected::Is));
    let pid = list.at("TASK_THREAD_PID");
    let upids = list.at("PID_UPIDS");
    let level = [pid, list.at("PID_LEVEL")];
    list.behind("pid.level", &level, 4, Some(Expected::Is(0)));
    // The first member of the first entry is the pid.
    let tid = Some(Expected::Is(known.tid));
    list.behind("upid.nr", &[pid, upids], 4, tid);
    let namespace = upids.zip(list.at("UPID_NAMESPACE"));
    let namespace = namespace.and_then(|(at, inside)| at.checked_add(inside));
    let inode = [pid, namespace, list.at("NAMESPACE_INODE")];
    let expected = Some(Expected::Is(known.pid_namespace));
    list.behind("pid_namespace.ns.inum", &inode, 4, expected);
}

fn rights(list: &mut List<'_>, known: &KnownFacts) {
    let cred = list.at("TASK_CRED");
    for (of, names) in [
        (
            "Uid",
            [
                ("cred.uid", "CRED_UID"),
                ("cred.euid", "CRED_EUID"),
                ("cred.suid", "CRED_SUID"),
            ],
        ),
        (
            "Gid",
            [
                ("cred.gid", "CRED_GID"),
                ("cred.egid", "CRED_EGID"),
                ("cred.sgid", "CRED_SGID"),
            ],
        ),
    ] {
        for ((name, global), id) in names.into_iter().zip(known.status(of)) {
            let expected = id.parse().ok().map(Expected::Is);
            list.behind(name, &[cred, list.at(global)], 4, expected);
        }
    }
    let permitted = known.status("CapPrm").next();
    let permitted = permitted.and_then(|word| u64::from_str_radix(word, 16).ok());
    let at = [cred, list.at("CRED_PERMITTED")];
    list.behind("cred.cap_permitted", &at, 8, permitted.map(Expected::Is));
    let level = [cred, list.at("CRED_USER_NS"), list.at("USER_NS_LEVEL")];
    list.behind("user_namespace.level", &level, 4, Some(Expected::Is(0)));
}

fn memory(list: &mut List<'_>, known: &KnownFacts) {
    let memory = list.at("TASK_MM");
    for (name, global, field) in [
        ("mm_struct.arg_start", "MM_ARG_START", 48),
        ("mm_struct.arg_end", "MM_ARG_END", 49),
    ] {
        let expected = known.stat(field).map(Expected::Is);
        list.behind(name, &[memory, list.at(global)], 8, expected);
    }
    /// Bits that say whether the memory may be dumped, and which parts of it. The other bits change
    /// as the process runs.
    const MASK: u64 = 0x7ff;
    let flags = known.memory_flags;
    let flags = flags.map(|flags| Expected::Bits(MASK, flags & MASK));
    list.behind("mm_struct.flags", &[memory, list.at("MM_FLAGS")], 8, flags);
}

fn groups(list: &mut List<'_>) {
    let group = [list.at("TASK_CGROUPS"), list.at("CGROUPS_DEFAULT")];
    let id = [list.at("CGROUP_NODE"), list.at("NODE_ID")];
    let own = [&group[..], &id].concat();
    list.behind("kernfs_node.id", &own, 8, Some(Expected::Group));
    let ancestors = [&group[..], &[list.at("CGROUP_ANCESTORS")], &id].concat();
    let root = || Some(Expected::RootGroup);
    list.behind("cgroup.ancestors", &ancestors, 8, root());
    let ids = [&group[..], &[list.at("CGROUP_ANCESTOR_IDS")]].concat();
    list.behind("cgroup.ancestor_ids", &ids, 8, root());
}

fn folder(list: &mut List<'_>, known: &KnownFacts) {
    let folder = [list.at("TASK_FS"), list.at("FS_FOLDER_DENTRY")];
    let name = [&folder[..], &[list.at("DENTRY_NAME"), Some(0)]].concat();
    let expected = known.folder.clone().map(Expected::Text);
    list.behind("fs_struct.pwd", &name, VALUE_BYTES, expected);
}

/// Adds a file of `/proc`, and the place where that is mounted.
fn file(list: &mut List<'_>, known: &KnownFile, tid: u64) {
    let way = list.way_to(known.file.as_raw_fd());
    let (inode, super_block) = (list.at("FILE_INODE"), list.at("INODE_SUPER"));
    let at = [&way[..], &[inode, list.at("INODE_NUMBER")]].concat();
    let expected = Some(Expected::Is(known.inode));
    list.behind("inode.i_ino", &at, 8, expected);
    let magic = [&way[..], &[inode, super_block, list.at("SUPER_MAGIC")]].concat();
    let expected = Some(Expected::Is(known.magic));
    list.behind("super_block.s_magic", &magic, 8, expected);
    let (entry, parent) = (list.at("FILE_DENTRY"), list.at("DENTRY_PARENT"));
    let name = [list.at("DENTRY_NAME"), Some(0)];
    let mut named = |what, steps: &[Option<i32>], expected: Option<Vec<u8>>| {
        let steps = [&way[..], steps, &name].concat();
        list.behind(what, &steps, VALUE_BYTES, expected.map(Expected::Text));
    };
    named("dentry.d_name", &[entry], Some(b"comm".into()));
    let folder = tid.to_string().into_bytes();
    named("dentry.d_parent", &[entry, parent], Some(folder));
    mount(list, known, &way, &name);
}

fn mount(list: &mut List<'_>, known: &KnownFile, way: &[Option<i32>], name: &[Option<i32>; 2]) {
    let mount = list.at("FILE_MOUNT");
    let (root, inside) = (list.at("MOUNT_ROOT"), list.at("MOUNT_MOUNT"));
    // Returns the distance from the part of a mount that files point to, to another member of the
    // mount.
    let beside = |member: Option<i32>| member?.checked_sub(inside?);
    let point = beside(list.at("MOUNT_POINT"));
    let parent = beside(list.at("MOUNT_PARENT"));
    let root_of_parent = inside.zip(root).and_then(|(a, b)| a.checked_add(b));
    for (what, steps, expected) in [
        ("vfsmount.mnt_root", vec![mount, root], &known.mount_root),
        (
            "mount.mnt_mountpoint",
            vec![mount, point],
            &known.mount_point,
        ),
        (
            "mount.mnt_parent",
            vec![mount, parent, root_of_parent],
            &known.parent_root,
        ),
    ] {
        let steps = [way, &steps, name].concat();
        let expected = expected.clone().map(Expected::Text);
        list.behind(what, &steps, VALUE_BYTES, expected);
    }
}

fn namespace_file(list: &mut List<'_>, known: &KnownFile) {
    let way = list.way_to(known.file.as_raw_fd());
    let steps = [
        list.at("FILE_INODE"),
        list.at("INODE_PRIVATE"),
        list.at("NS_OPERATIONS"),
        list.at("NS_NAME"),
        Some(0),
    ];
    let steps = [&way[..], &steps].concat();
    let expected = Some(Expected::Text(b"pid".into()));
    list.behind("proc_ns_operations.name", &steps, VALUE_BYTES, expected);
}

fn table(list: &mut List<'_>, known: &KnownFacts) {
    let size = known.status("FDSize").next();
    let size = size.and_then(|size| size.parse().ok()).map(Expected::Is);
    let steps = [
        list.at("TASK_FILES"),
        list.at("FILES_TABLE"),
        list.at("TABLE_SIZE"),
    ];
    list.behind("fdtable.max_fds", &steps, 4, size);
}

fn datagrams(list: &mut List<'_>, known: &KnownFacts) {
    const LOCALHOST: u64 = u32::from_ne_bytes([127, 0, 0, 1]) as u64;
    let Some(known) = &known.datagrams else {
        return;
    };
    let way = list.way_to(known.socket.as_raw_fd());
    let (private, sock) = (list.at("FILE_PRIVATE"), list.at("SOCKET_SOCK"));
    let remote = u16::from_ne_bytes(known.port.to_be_bytes());
    for (name, global, bytes, value) in [
        ("sock.skc_family", "SOCK_FAMILY", 2, 2),
        ("sock.sk_protocol", "SOCK_PROTOCOL", 2, 17),
        ("sock.skc_num", "SOCK_LOCAL_PORT", 2, known.port.into()),
        ("sock.skc_dport", "SOCK_REMOTE_PORT", 2, remote.into()),
        ("sock.skc_rcv_saddr", "SOCK_LOCAL", 4, LOCALHOST),
        ("sock.skc_daddr", "SOCK_REMOTE", 4, LOCALHOST),
    ] {
        let steps = [&way[..], &[private, sock, list.at(global)]].concat();
        list.behind(name, &steps, bytes, Some(Expected::Is(value)));
    }
    let back = [
        private,
        sock,
        list.at("SOCK_SOCKET"),
        sock,
        list.at("SOCK_FAMILY"),
    ];
    let back = [&way[..], &back].concat();
    list.behind("sock.sk_socket", &back, 2, Some(Expected::Is(2)));
    let inode = list.at("SOCKET_INODE").zip(list.at("INODE_NUMBER"));
    let inode = inode.and_then(|(at, inside)| at.checked_add(inside));
    let steps = [&way[..], &[private, inode]].concat();
    let expected = Some(Expected::Is(known.inode));
    list.behind("socket_alloc.vfs_inode", &steps, 8, expected);
}

fn streams(list: &mut List<'_>, known: &KnownFacts) {
    const FAMILY: u64 = 1;
    let Some((stream, _)) = &known.streams else {
        return;
    };
    let way = list.way_to(stream.as_raw_fd());
    let peer = [
        list.at("FILE_PRIVATE"),
        list.at("SOCKET_SOCK"),
        list.at("UNIX_PEER"),
        list.at("SOCK_FAMILY"),
    ];
    let peer = [&way[..], &peer].concat();
    list.behind("unix_sock.peer", &peer, 2, Some(Expected::Is(FAMILY)));
}

/// Adds the data that the kernel has for each CPU.
fn run_queue(list: &mut List<'_>) {
    let fair = list.at("TASK_FAIR_QUEUE");
    let queue = list.at("FAIR_QUEUE_RUN_QUEUE");
    let cpu = || Some(Expected::Cpu);
    let own = [fair, queue, list.member("rq", "cpu")];
    list.behind("rq.cpu", &own, 4, cpu());
    for (name, distance, of) in [
        (
            "hrtimer_bases",
            "HRTIMER_BASES_DISTANCE",
            "hrtimer_cpu_base",
        ),
        ("timer_bases", "TIMER_BASES_DISTANCE", "timer_base"),
    ] {
        let at = list.at(distance).zip(list.member(of, "cpu"));
        let at = at.and_then(|(distance, inside)| distance.checked_add(inside));
        list.behind(name, &[fair, queue, at], 4, cpu());
    }
    /// Bits of the count for soft interrupts, and for others.
    const INTERRUPTS: u64 = 0xff_ff00;
    let count = list
        .at("PREEMPT_COUNT_DISTANCE")
        .zip(list.at("PREEMPT_COUNT"));
    let count = count.and_then(|(distance, inside)| distance.checked_add(inside));
    let none = Some(Expected::Bits(INTERRUPTS, 0));
    list.behind("__preempt_count", &[fair, queue, count], 4, none);
}
