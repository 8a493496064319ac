//! The maps, and what is asked of them on every event.

use core::arch::asm;
use core::mem::offset_of;

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::btf_maps::{ArrayOfMaps, RingBuf};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::{btf_map, map};
use aya_ebpf::maps::{Array, HashMap, LruHashMap};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    Choice, CpuRingEnds, InterruptsOf, Issuer, LostOnCpu, MAX_RINGS, PIDS_PAGE, PacketsOf,
    QUEUED_ASLEEP, QUEUED_SLOTS, Queued, Running, SENDER_SLOTS, Sender, TIMED_AT_MOST_NS,
    TIMED_EVERY, TRACED_PAGE, VISIBLE_SLOTS, WAKER_SLOTS, WITHHELD_SLOTS, Waker, call_texts,
    cpu_ring, descriptors, others, syscalls, traced, waker_context, wanted,
};

use crate::asking::{Asking, TASK_BITS, WHO_BITS};
use crate::offsets::RING_MASK;
use crate::pid::Pid;
use crate::truth::{is_not_zero, is_zero};

/// A ring of records. The agent makes those that are used, of the size that was asked for; this one
/// is only their type, whose size every kernel takes.
pub type Ring = RingBuf<u64, 65536>;

/// The rings: as many as the agent has put in, each for some of the CPUs.
#[btf_map]
static RINGS: ArrayOfMaps<Ring, { MAX_RINGS as usize }> = ArrayOfMaps::new();

/// See [`cpu_ring`]. The agent sets the number of chunks, or leaves it at 1 where there are no such
/// rings.
#[map]
static CPU_RINGS: Array<[u8; cpu_ring::ENTRY]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`CpuRingEnds`]. The agent sets the number of CPUs.
#[map]
static CPU_RING_ENDS: Array<CpuRingEnds> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// A byte a process: see [`tracer_common::kernel::traced`]. The agent sets the number of pages.
#[map]
static TRACED: Array<[u8; TRACED_PAGE as usize]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`VISIBLE_SLOTS`].
#[map]
static VISIBLE: Array<u64> = Array::with_max_entries(VISIBLE_SLOTS, BPF_F_MMAPABLE);

/// See [`WITHHELD_SLOTS`].
#[map]
static WITHHELD: Array<[u64; 2]> = Array::with_max_entries(WITHHELD_SLOTS, BPF_F_MMAPABLE);

/// The number of each process and thread in the agent's pid namespace, by that in the first one; 0
/// for one that has none there. The agent sets the number of pages, where its namespace is another.
#[map]
static PIDS: Array<[u32; PIDS_PAGE as usize]> = Array::with_max_entries(1, 0);

/// See [`Choice`].
#[map]
static CHOICE: Array<Choice> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`tracer_common::kernel::wanted`].
#[map]
static WANTED: Array<[u64; wanted::WORDS]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`tracer_common::kernel::syscalls`].
#[map]
static SYSCALLS: Array<[[u64; syscalls::WORDS]; 2]> =
    Array::with_max_entries(syscalls::GENERATIONS, BPF_F_MMAPABLE);

/// User addresses of the calls by which threads were renamed, by thread: an exec is recorded only
/// after the old program's registers are gone. One that finds no space costs an older one its
/// address.
#[map]
static CALLS: LruHashMap<u32, u64> = LruHashMap::with_max_entries(4096, 0);

/// Calls by which threads are replacing their programs, by thread, with [`OF_32_BITS`]: when one
/// ends, the kernel takes it for `execve` in the table of the new program. One that finds no space
/// costs an older one its entry.
#[map]
static EXECS: LruHashMap<u32, u32> = LruHashMap::with_max_entries(1024, 0);

/// Bit of a system call number in [`EXECS`]: it is one of the table for 32-bit programs.
pub const OF_32_BITS: u32 = 1 << 31;

/// See [`Waker`]. The agent sets the number of slots, or leaves it at 1 where wake-ups are not
/// wanted.
#[map]
static WAKERS: Array<Waker> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`Queued`]. The agent leaves the count of entries at 1 where switches are not wanted.
#[map]
static QUEUED: Array<Queued> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`PacketsOf`]. The agent sets the number of CPUs.
#[map]
static PACKETS: Array<PacketsOf> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`Sender`]. The agent leaves the count of entries at 1 where wake-ups are not wanted.
#[map]
static SENDERS: Array<Sender> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// See [`InterruptsOf`]. The agent sets the number of CPUs.
#[map]
static INTERRUPTS: Array<InterruptsOf> = Array::with_max_entries(1, 0);

/// See [`Running`]. The agent sets the number of CPUs.
#[map]
static RUNNING: Array<Running> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Threads that end a signal handler, and by which call: when it ends, the kernel no longer knows.
/// One that finds no space costs an older one its entry.
#[map]
static SIGRETURNS: LruHashMap<u32, u32> = LruHashMap::with_max_entries(4096, 0);

/// See [`call_texts`]. The agent leaves the count of entries at 1 where they are not wanted.
#[map]
static CALL_TEXTS: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Descriptors of each call: see [`descriptors`]. Entries as above.
#[map]
static CALL_DESCRIPTORS: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Threads in calls that point to what could not be read on entry, since it was not in memory; and
/// the address of the call, with what that was. One that finds no space costs an older one its
/// entry.
#[map]
static UNREAD: LruHashMap<u32, u64> = LruHashMap::with_max_entries(4096, 0);

/// Upper bound of the entries in `UNREAD`: where there is none, which is mostly so, no look-up is
/// needed.
#[map]
static UNREAD_COUNT: Array<u64> = Array::with_max_entries(1, 0);

/// See [`Issuer`]. A request that finds no space has an unknown issuer. The agent leaves the count
/// of entries at 1 where requests are not wanted.
#[map]
static ISSUERS: HashMap<u64, Issuer> = HashMap::with_max_entries(1, 0);

/// See [`Issuer`]. Where what is remembered never becomes a request of its own, it gives way in
/// time. Entries as above.
#[map]
static BIOS: LruHashMap<u64, Issuer> = LruHashMap::with_max_entries(1, 0);

/// Events that each CPU could not record. The agent sets the number of CPUs.
#[map]
static LOST: Array<LostOnCpu> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Returns of functions that the kernel did not see: see `probe`.
#[map]
static UNSEEN_RETURNS: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Ends of requests that the kernel did not report: see `block`.
#[map]
static UNTOLD_ENDS: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Returns the byte of process `pid`, unless its pid is beyond all that a kernel gives.
#[inline(always)]
fn traced_byte(Pid(pid): Pid) -> Option<*mut u8> {
    let mut byte = TRACED.get_ptr_mut(pid / TRACED_PAGE)?.cast::<u8>();
    let offset = u64::from(pid % TRACED_PAGE);
    // Written out because the compiler would add before it has asked whether there is such a
    // page, which is harmless to a processor, and refused by the verifier.
    // SAFETY: an addition, whose result is inside the page.
    unsafe {
        asm!("{byte} += {offset}", byte = inout(reg) byte, offset = in(reg) offset, options(readonly, nostack))
    };
    Some(byte)
}

/// Returns the [`traced`](tracer_common::kernel::traced) bits of process `pid`.
#[inline(always)]
pub fn traced(pid: Pid) -> u8 {
    match traced_byte(pid) {
        // SAFETY: inside the page; a byte is read whole, even where it is written meanwhile.
        Some(byte) => unsafe { byte.read_volatile() },
        None => 0,
    }
}

/// Sets the [`traced`](tracer_common::kernel::traced) bits of process `pid`.
#[inline(always)]
pub fn set_traced(pid: Pid, bits: u8) {
    if let Some(byte) = traced_byte(pid) {
        // SAFETY: inside the page; a byte is written whole.
        unsafe { byte.write_volatile(bits) };
    }
}

/// Tells whether guarded process `pid` could be looked into when it was last judged.
#[inline(always)]
pub fn was_visible(Pid(pid): Pid) -> bool {
    match VISIBLE.get_ptr(pid % VISIBLE_SLOTS) {
        // SAFETY: the slot that the look-up gave, which is read whole.
        Some(slot) => unsafe { slot.read_volatile() == u64::from(pid) },
        None => false,
    }
}

/// Notes whether guarded process `pid` can be looked into. Nothing is written where that is known:
/// CPUs that judge one process would take the line from each other.
#[inline(always)]
pub fn set_visible(Pid(pid): Pid, is_visible: bool) {
    let Some(slot) = VISIBLE.get_ptr_mut(pid % VISIBLE_SLOTS) else {
        return;
    };
    // SAFETY: the slot that the look-up gave, which is read whole.
    let was_visible = unsafe { slot.read_volatile() } == u64::from(pid);
    if was_visible != is_visible {
        let noted = if is_visible { u64::from(pid) } else { 0 };
        // SAFETY: as above, and written whole.
        unsafe { slot.write_volatile(noted) };
    }
}

/// Returns where the pid of `pid` in the agent's pid namespace is stored.
#[inline(always)]
fn own_entry(Pid(pid): Pid) -> Option<*mut u32> {
    let mut entry = PIDS.get_ptr_mut(pid / PIDS_PAGE)?.cast::<u32>();
    let offset = u64::from(pid % PIDS_PAGE) * 4;
    // Written out for the same reason as in `traced_byte`.
    // SAFETY: an addition, whose result is inside the page.
    unsafe {
        asm!("{entry} += {offset}", entry = inout(reg) entry, offset = in(reg) offset, options(readonly, nostack))
    };
    Some(entry)
}

/// Returns the number of `pid` in the agent's pid namespace; 0 when it has none.
#[inline(always)]
pub fn own(pid: Pid) -> u32 {
    match own_entry(pid) {
        // SAFETY: inside the page; a pid is read whole.
        Some(entry) => unsafe { entry.read_volatile() },
        None => 0,
    }
}

/// Sets the number of `pid` in the agent's pid namespace.
#[inline(always)]
pub fn set_own(pid: Pid, own: u32) {
    if let Some(entry) = own_entry(pid) {
        // SAFETY: inside the page; a pid is written whole.
        unsafe { entry.write_volatile(own) };
    }
}

/// Returns the choice of processes by what they are.
#[inline(always)]
pub fn choice() -> Option<&'static Choice> {
    // SAFETY: it is not written once the programs are attached.
    CHOICE.get(0)
}

/// Tells whether process `pid` is traced.
#[inline(always)]
pub fn is_traced(pid: Pid) -> bool {
    traced(pid) & traced::TRACED != 0
}

/// Returns the word of the types that are wanted.
#[inline(always)]
fn wanted_word() -> u64 {
    match WANTED.get_ptr(0) {
        // SAFETY: the look-up gave the words' address; the first is read whole.
        Some(words) => unsafe { words.cast::<u64>().read_volatile() },
        None => 0,
    }
}

/// Returns since when switches have been recorded without a pause.
#[inline(always)]
pub fn recorded_since() -> u64 {
    match WANTED.get_ptr(0) {
        // SAFETY: inside the entry that the look-up gave; the word is read whole.
        Some(words) => unsafe { words.cast::<u64>().wrapping_add(1).read_volatile() },
        None => 0,
    }
}

/// Tells whether events of this type are wanted. Not asked for lifecycle types.
#[inline(always)]
pub fn is_wanted(id: EventTypeId) -> bool {
    wanted_word() & wanted::bit(id) != 0
}

/// In which of both tables the code that was asked for is that of a wanted call.
#[derive(Clone, Copy)]
pub struct CallWanted {
    native: bool,
    compat: bool,
}

impl CallWanted {
    const NO: Self = Self {
        native: false,
        compat: false,
    };

    /// Tells whether the call is wanted in one of the tables.
    #[inline(always)]
    pub fn in_any(self) -> bool {
        self.native | self.compat
    }

    /// Tells whether the call is wanted in the table for 32-bit programs, or else in that of the
    /// machine.
    #[inline(always)]
    pub fn in_table(self, is_compat: bool) -> bool {
        if is_compat { self.compat } else { self.native }
    }
}

/// Tells in which tables events of this type are wanted of the system call with this code.
#[inline(always)]
pub fn call_wanted(id: EventTypeId, code: u32) -> CallWanted {
    let word = wanted_word();
    if word & wanted::bit(id) == 0 {
        return CallWanted::NO;
    }
    chosen_in(word, code)
}

/// Tells in which tables the system call with this code is one of those that are chosen.
#[inline(always)]
pub fn call_chosen(code: u32) -> CallWanted {
    chosen_in(wanted_word(), code)
}

/// Tells in which tables the call is chosen, where this is the word of what is wanted.
#[inline(always)]
fn chosen_in(word: u64, code: u32) -> CallWanted {
    let Some(sets) = SYSCALLS.get_ptr((word & wanted::GENERATION) as u32) else {
        return CallWanted::NO;
    };
    let code = code.min(syscalls::OTHERS);
    let mut native = sets.cast::<u64>();
    // Written out because the compiler knows that no mask is needed, and the verifier does not.
    // SAFETY: an addition, whose result is inside the first set: the mask leaves less than its
    // words.
    unsafe {
        asm!(
            "{entry} &= {mask}",
            "{entry} <<= 3",
            "{word} += {entry}",
            entry = inout(reg) u64::from(code / 64) => _,
            word = inout(reg) native,
            mask = const syscalls::WORDS - 1,
            options(readonly, nostack),
        )
    };
    let compat = native.wrapping_add(syscalls::WORDS);
    let bit = |word: u64| word >> (code % 64) & 1 != 0;
    CallWanted {
        // SAFETY: inside the first set, as the mask sees to; the word is read whole.
        native: bit(unsafe { native.read_volatile() }),
        // SAFETY: the same offset in the second set, which is as long.
        compat: bit(unsafe { compat.read_volatile() }),
    }
}

/// Returns the description of the data that a call's arguments point to: see [`call_texts`].
#[inline(always)]
pub fn call_texts(code: u32, is_compat: bool) -> u64 {
    let table = if is_compat { call_texts::CALLS } else { 0 };
    let entry = CALL_TEXTS.get_ptr(table + (code & (call_texts::CALLS - 1)));
    match entry {
        // SAFETY: the entry that the look-up gave, which is read whole.
        Some(entry) if code < call_texts::CALLS => unsafe { entry.read_volatile() },
        _ => 0,
    }
}

/// Returns the half of an entry that has something in it.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the upper half is zero")]
fn lower_half(entry: u64) -> u32 {
    entry as u32
}

/// Returns the description of a call's descriptors: see [`descriptors`].
#[inline(always)]
pub fn call_descriptors(code: u32, is_compat: bool) -> u32 {
    let table = if is_compat { descriptors::CALLS } else { 0 };
    let entry = CALL_DESCRIPTORS.get_ptr(table + (code & (descriptors::CALLS - 1)));
    match entry {
        // SAFETY: the entry that the look-up gave, which is read whole.
        Some(entry) if code < descriptors::CALLS => lower_half(unsafe { entry.read_volatile() }),
        _ => 0,
    }
}

/// Bits of a user address that are never set: they say which arguments could not be read.
const UNREAD_AT: u32 = 62;

/// Remembers that the thread's call at this address points to what could not be read: a bit for
/// each argument.
#[inline(always)]
pub fn remember_unread(Pid(tid): Pid, address: u64, unread: u32) {
    if let Some(count) = UNREAD_COUNT.get_ptr_mut(0) {
        // SAFETY: the entry is the count.
        unsafe { add(count, 1) };
    }
    // Without space, it stays unread.
    let _ = UNREAD.insert(tid, address | u64::from(unread) << UNREAD_AT, 0);
}

/// Takes out the arguments of the thread's call at this address that point to what could not be
/// read as it began: a bit for each.
#[inline(always)]
pub fn forget_unread(Pid(tid): Pid, address: u64) -> u32 {
    let Some(count) = UNREAD_COUNT.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: the entry that the look-up gave, which is read whole.
    if unsafe { count.read_volatile() } == 0 {
        return 0;
    }
    // SAFETY: only the thread that runs writes its entry.
    let entry = unsafe { UNREAD.get(tid) }.copied().unwrap_or(0);
    if entry == 0 {
        return 0;
    }
    if UNREAD.remove(tid).is_ok() {
        // SAFETY: the entry is the count, and one less is all bits more.
        unsafe { add(count, u64::MAX) };
    }
    if entry & ((1 << UNREAD_AT) - 1) != address {
        return 0;
    }
    (entry >> UNREAD_AT) as u32
}

/// Remembers the user address of the call that renames a thread.
#[inline(always)]
pub fn remember_call(Pid(tid): Pid, address: u64) {
    // Without space, an exec is recorded without its address.
    let _ = CALLS.insert(tid, address, 0);
}

/// Takes out the user address that was remembered for a thread; 0 where there is none.
#[inline(always)]
pub fn forget_call(Pid(tid): Pid) -> u64 {
    // SAFETY: only the thread that runs writes its entry.
    let address = unsafe { CALLS.get(tid) }.copied().unwrap_or(0);
    if address != 0 {
        let _ = CALLS.remove(tid);
    }
    address
}

/// Remembers by which call a thread is replacing its program.
#[inline(always)]
pub fn remember_exec(Pid(tid): Pid, code: u32, is_compat: bool) {
    // Without space, its end is recorded as the kernel has it.
    let table = if is_compat { OF_32_BITS } else { 0 };
    let _ = EXECS.insert(tid, code & !OF_32_BITS | table, 0);
}

/// Takes out the call by which a thread has replaced its program, with [`OF_32_BITS`].
#[inline(always)]
pub fn forget_exec(Pid(tid): Pid) -> Option<u32> {
    // SAFETY: only the thread that runs writes its entry.
    let call = unsafe { EXECS.get(tid) }.copied()?;
    let _ = EXECS.remove(tid);
    Some(call)
}

/// Where in [`Waker::who`] the rest of the tid lies of the thread that is woken. Before it lies
/// [`Asking::who`].
const REST_AT: u32 = WHO_BITS;

/// Remembers who wakes thread `tid`.
#[inline(always)]
pub fn remember_waker(Pid(tid): Pid, waker: Asking) {
    let Some(entry) = WAKERS.get_ptr_mut(tid % WAKER_SLOTS) else {
        return;
    };
    let who = u64::from(tid / WAKER_SLOTS) << REST_AT | waker.who;
    let word = entry.cast::<u64>();
    // Until the name is there, no waker is found.
    // SAFETY: inside the entry that the look-up gave; the word is written whole.
    unsafe { word.write_volatile(0) };
    // SAFETY: as above.
    unsafe { word.wrapping_add(1).write_volatile(waker.name[0]) };
    // SAFETY: as above.
    unsafe { word.wrapping_add(2).write_volatile(waker.name[1]) };
    // SAFETY: as above.
    unsafe { word.write_volatile(who) };
}

/// Returns the waker of thread `tid`, which becomes runnable now, as far as it is known. It is no
/// longer remembered: who asks for the next wake-up may not be seen.
#[inline(always)]
pub fn take_waker(Pid(tid): Pid) -> Asking {
    let unknown = Asking::no_thread(waker_context::UNKNOWN);
    let Some(entry) = WAKERS.get_ptr_mut(tid % WAKER_SLOTS) else {
        return unknown;
    };
    let word = entry.cast::<u64>();
    // SAFETY: inside the entry that the look-up gave; the word is read whole.
    let who = unsafe { word.read_volatile() };
    // SAFETY: as above.
    let first = unsafe { word.wrapping_add(1).read_volatile() };
    // SAFETY: as above.
    let second = unsafe { word.wrapping_add(2).read_volatile() };
    // SAFETY: as above.
    let still = unsafe { word.read_volatile() };
    if who == 0 || still != who || who >> REST_AT != u64::from(tid / WAKER_SLOTS) {
        return unknown;
    }
    // SAFETY: as above, and written whole. Nothing else writes it until the thread sleeps again.
    unsafe { word.write_volatile(0) };
    Asking {
        who: who & ((1 << REST_AT) - 1),
        name: [first, second],
    }
}

/// Remembers that the thread ends a signal handler by this call.
#[inline(always)]
pub fn remember_sigreturn(Pid(tid): Pid, code: u32) {
    // Without space, its end is recorded without its code.
    let _ = SIGRETURNS.insert(tid, code, 0);
}

/// Takes out the call by which the thread ended a signal handler.
#[inline(always)]
pub fn forget_sigreturn(Pid(tid): Pid) -> Option<u32> {
    // SAFETY: only the thread that runs writes its entry.
    let code = unsafe { SIGRETURNS.get(tid) }.copied()?;
    let _ = SIGRETURNS.remove(tid);
    Some(code)
}

/// Returns the notes on the interrupts of a CPU, which is this one.
#[inline(always)]
pub fn interrupts(cpu: u32) -> Option<*mut u32> {
    INTERRUPTS.get_ptr_mut(cpu).map(<*mut _>::cast)
}

/// Returns the notes on the packets of a CPU, which is this one.
#[inline(always)]
pub fn packets(cpu: u32) -> Option<*mut u64> {
    PACKETS.get_ptr_mut(cpu).map(<*mut _>::cast)
}

/// Lowest bits of a packet's address that are not looked at: packets are further apart.
const PACKET_BITS: u32 = 6;

/// Returns the entry of a packet in [`SENDERS`].
#[inline(always)]
fn sender_entry(packet: u64) -> Option<*mut u64> {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is enough")]
    let slot = (packet >> 8) as u32 % SENDER_SLOTS;
    SENDERS.get_ptr_mut(slot).map(<*mut _>::cast)
}

/// Returns the bits of [`Sender::who`] that say which packet it is.
#[inline(always)]
fn mark(packet: u64) -> u64 {
    packet >> PACKET_BITS << TASK_BITS
}

/// Remembers who has sent the packet at this address, which comes in by this device; 0: it is not
/// known.
#[inline(always)]
pub fn set_sender(packet: u64, tid: u64, device: u64) {
    let Some(entry) = sender_entry(packet) else {
        return;
    };
    let who = mark(packet) | tid;
    // SAFETY: inside the entry that the look-up gave; the word is written whole.
    unsafe { entry.wrapping_add(1).write_volatile(device) };
    // SAFETY: as above.
    unsafe { entry.write_volatile(who) };
}

/// Takes out who has sent the packet at this address, which comes in by this device; 0 where that
/// is not known.
#[inline(always)]
pub fn take_sender(packet: u64, device: u64) -> u64 {
    let Some(entry) = sender_entry(packet) else {
        return 0;
    };
    // SAFETY: inside the entry that the look-up gave; the word is read whole.
    let who = unsafe { entry.read_volatile() };
    let tid = who ^ mark(packet);
    if who == 0 || tid >> TASK_BITS != 0 {
        return 0;
    }
    // SAFETY: as above, and written whole.
    unsafe { entry.write_volatile(0) };
    // SAFETY: as above.
    if unsafe { entry.wrapping_add(1).read_volatile() } != device {
        return 0;
    }
    tid
}

/// Returns when `tid` was switched to on this CPU; 0 where that was not seen.
#[inline(always)]
pub fn running_since(cpu: u32, Pid(tid): Pid) -> u64 {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return 0;
    };
    let word = running.cast::<u64>();
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    let running = unsafe { word.read_volatile() };
    // SAFETY: as above.
    let since = unsafe { word.wrapping_add(1).read_volatile() };
    if running == u64::from(tid) { since } else { 0 }
}

/// Notes that `tid` has this CPU from `since_ns` on; 0 for a thread that is not traced.
#[inline(always)]
pub fn set_running(cpu: u32, Pid(tid): Pid, since_ns: u64) {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return;
    };
    let word = running.cast::<u64>();
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    unsafe { word.write_volatile(u64::from(tid)) };
    // SAFETY: as above.
    unsafe { word.wrapping_add(1).write_volatile(since_ns) };
}

/// Notes that no traced thread has this CPU.
#[inline(always)]
pub fn forget_running(cpu: u32) {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return;
    };
    let tid = running.cast::<u64>();
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    if unsafe { tid.read_volatile() } != 0 {
        // SAFETY: as above.
        unsafe { tid.write_volatile(0) };
    }
}

/// Adds to how long traced threads have had this CPU: the last one had it since then.
#[inline(always)]
pub fn add_running(cpu: u32, ran_ns: u64) {
    add_to_running(cpu, offset_of!(Running, ran_ns), ran_ns);
}

/// Counts events of switches, wake-ups and page faults that are recorded.
#[inline(always)]
pub fn count_recorded(cpu: u32, events: u64) {
    add_to_running(cpu, offset_of!(Running, recorded), events);
}

/// Counts a system call where a traced thread is known to have this CPU.
#[inline(always)]
pub fn count_call(cpu: u32) {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return;
    };
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    let tid = unsafe { running.cast::<u64>().read_volatile() };
    add_to_running(cpu, offset_of!(Running, calls), is_not_zero(tid));
}

/// Begins to time the run of a program at a system call, where it is one that is to be timed.
#[inline(always)]
pub fn begin_timing(cpu: u32) {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return;
    };
    let word = running.cast::<u64>();
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    let tid = unsafe { word.read_volatile() };
    let calls = word.wrapping_add(offset_of!(Running, calls) / 8);
    // SAFETY: as above.
    let calls = unsafe { calls.read_volatile() };
    if tid == 0 || calls & (TIMED_EVERY - 1) != 0 {
        return;
    }
    // SAFETY: the helper takes no argument and only reads the clock.
    let now = unsafe { bpf_ktime_get_ns() };
    let since = word.wrapping_add(offset_of!(Running, timed_since_ns) / 8);
    // SAFETY: as above.
    unsafe { since.write_volatile(now) };
}

/// Adds the run of a program at a system call, where it is timed.
#[inline(always)]
pub fn end_timing(cpu: u32) {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return;
    };
    let word = running.cast::<u64>();
    let since = word.wrapping_add(offset_of!(Running, timed_since_ns) / 8);
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    let began = unsafe { since.read_volatile() };
    if began == 0 {
        return;
    }
    // SAFETY: as above.
    unsafe { since.write_volatile(0) };
    // SAFETY: the helper takes no argument and only reads the clock.
    let took = unsafe { bpf_ktime_get_ns() }.wrapping_sub(began);
    // It was interrupted, or another one took its place.
    if took > TIMED_AT_MOST_NS {
        return;
    }
    add_to_running(cpu, offset_of!(Running, timed), 1);
    add_to_running(cpu, offset_of!(Running, timed_ns), took);
}

/// Adds to a word of the entry of this CPU, which only this CPU writes.
#[inline(always)]
fn add_to_running(cpu: u32, at: usize, more: u64) {
    let Some(running) = RUNNING.get_ptr_mut(cpu) else {
        return;
    };
    let word = running.cast::<u64>().wrapping_add(at / 8);
    // SAFETY: inside the entry that the look-up gave, which only this CPU uses.
    let before = unsafe { word.read_volatile() };
    // SAFETY: as above.
    unsafe { word.write_volatile(before.wrapping_add(more)) };
}

/// Returns how far the registers are from the stack of a thread, as this CPU has found; 0 before.
#[inline(always)]
pub fn registers_from_stack(cpu: u32) -> Option<*mut u64> {
    let word = RUNNING.get_ptr_mut(cpu)?.cast::<u64>();
    Some(word.wrapping_add(offset_of!(Running, registers) / 8))
}

/// Returns the value of [`Queued::since`] for the thread, on this CPU, after so many switches.
#[inline(always)]
fn queued(tid: u32, cpu: u32, switches: u64) -> u64 {
    let rest = u64::from(tid / QUEUED_SLOTS) + 1;
    rest << 48 | u64::from(cpu & 0xffff) << 32 | switches & 0xffff_ffff
}

/// Returns the value of [`Queued::since`] for the thread where it waits for something else.
#[inline(always)]
fn asleep(tid: u32) -> u64 {
    queued(tid, 0, 0) | QUEUED_ASLEEP
}

/// Notes that the thread waits for this CPU from now on, which has made so many switches.
#[inline(always)]
pub fn set_queued(Pid(tid): Pid, cpu: u32, switches: u64) {
    set_waiting(tid, queued(tid, cpu, switches));
}

/// Notes that the thread leaves its CPU, which has made so many switches: to wait for it, where
/// `gives_way` is 1, and else for something else, which is noted where wake-ups are recorded.
#[inline(always)]
pub fn leave_queue(Pid(tid): Pid, cpu: u32, switches: u64, gives_way: u64) {
    let is_told = is_zero(!wanted_word() & QUEUE_TYPES);
    let waits = queued(tid, cpu, switches).wrapping_mul(gives_way);
    let sleeps = asleep(tid).wrapping_mul(is_told & !gives_way);
    set_waiting(tid, waits | sleeps);
}

/// Forgets what the thread waits for.
#[inline(always)]
pub fn forget_queued(Pid(tid): Pid) {
    set_waiting(tid, 0);
}

/// Types of events of which the last wake-up of a thread is noted only where both are recorded.
const QUEUE_TYPES: u64 = wanted::bit(EventTypeId::WAKEUP) | wanted::bit(EventTypeId::SWITCH_IN);

#[inline(always)]
fn set_waiting(tid: u32, since: u64) {
    if let Some(entry) = QUEUED.get_ptr_mut(tid % QUEUED_SLOTS) {
        // SAFETY: the entry that the look-up gave; the word is written whole.
        unsafe { entry.cast::<u64>().write_volatile(since) };
    }
}

/// Tells whether others than the last one had this CPU, which has made so many switches, while the
/// thread waited for it: one of [`others`](tracer_common::kernel::others). It waits no longer.
#[inline(always)]
pub fn take_queued(Pid(tid): Pid, cpu: u32, switches: u64) -> u32 {
    let Some(entry) = QUEUED.get_ptr_mut(tid % QUEUED_SLOTS) else {
        return others::UNKNOWN;
    };
    let word = entry.cast::<u64>();
    // SAFETY: the entry that the look-up gave; the word is read whole.
    let since = unsafe { word.read_volatile() };
    // SAFETY: as above, and written whole.
    unsafe { word.write_volatile(0) };
    let is_known = is_zero((since ^ queued(tid, cpu, 0)) >> 32);
    let count = switches.wrapping_sub(since) & 0xffff_ffff;
    // None where there was one switch, some where there were more.
    let others = is_known * is_not_zero(count) * (1 + is_not_zero(count >> 1));
    let is_not_woken = is_zero(since ^ asleep(tid));
    #[expect(clippy::cast_possible_truncation, reason = "0 to 3")]
    let others = (others + is_not_woken * u64::from(others::NOT_WOKEN)) as u32;
    others
}

const _: () = assert!(others::UNKNOWN == 0 && others::NONE == 1 && others::SOME == 2);

/// Remembers who started the request at address `request`.
#[inline(always)]
pub fn remember_issuer(request: u64, issuer: &Issuer) {
    let _ = ISSUERS.insert(request, issuer, 0);
}

/// Remembers who begins a request for what is at address `bio`.
#[inline(always)]
pub fn remember_bio(bio: u64, issuer: &Issuer) {
    let _ = BIOS.insert(bio, issuer, 0);
}

/// Takes out the issuer of a request for what is at address `bio`.
#[inline(always)]
pub fn forget_bio(bio: u64) -> Option<Issuer> {
    // SAFETY: the entry lives until the request is handed over, which is now.
    let issuer = unsafe { BIOS.get(bio) }.copied()?;
    let _ = BIOS.remove(bio);
    Some(issuer)
}

/// Returns the issuer of the request, as far as its start was seen.
#[inline(always)]
pub fn issuer(request: u64) -> Option<Issuer> {
    // SAFETY: the entry lives from the start of the request to its end.
    unsafe { ISSUERS.get(request) }.copied()
}

/// Notes that the request was handed to the device.
#[inline(always)]
pub fn note_issued(request: u64) {
    if let Some(issuer) = ISSUERS.get_ptr_mut(request) {
        let issued = issuer.cast::<u8>().wrapping_add(offset_of!(Issuer, issued));
        // SAFETY: inside the entry that the look-up gave; a request is in one queue at a time.
        unsafe { issued.cast::<u32>().write_volatile(1) };
    }
}

/// Forgets who started the request.
#[inline(always)]
pub fn forget_issuer(request: u64) {
    let _ = ISSUERS.remove(request);
}

/// Returns the ring of a CPU.
#[inline(always)]
pub fn ring(cpu: u32) -> Option<&'static Ring> {
    RINGS.get(cpu & RING_MASK.load())
}

/// Returns the positions of the ring of this CPU: see [`CpuRingEnds`].
#[inline(always)]
pub fn cpu_ring_ends(cpu: u32) -> Option<*mut u8> {
    CPU_RING_ENDS.get_ptr_mut(cpu).map(<*mut _>::cast)
}

/// Returns where the position lies in this chunk: see [`cpu_ring`].
#[inline(always)]
pub fn cpu_ring_at(chunk: u32, position: u64) -> Option<*mut u8> {
    let mut at = CPU_RINGS.get_ptr_mut(chunk)?.cast::<u8>();
    // Written out because the verifier has to see that the offset is inside the chunk, and the
    // compiler that it is a multiple of 8.
    // SAFETY: an addition, whose result is inside the chunk.
    unsafe {
        asm!(
            "{offset} &= {mask}",
            "{at} += {offset}",
            offset = inout(reg) position => _,
            at = inout(reg) at,
            mask = const cpu_ring::CHUNK - 8,
            options(readonly, nostack),
        )
    };
    Some(at)
}

/// Counts events that `cpu`, which is this one, could not record because its ring was full.
///
/// They count before their time is read: a reader that has read the clock and then finds no count
/// knows that none is missing up to that time, however long the program is held up in between.
#[inline(always)]
pub fn count_ring_full(cpu: u32, events: u64) {
    let Some(lost) = LOST.get_ptr_mut(cpu) else {
        return;
    };
    let at = |offset: usize| lost.cast::<u8>().wrapping_add(offset).cast::<u64>();
    let count = at(offset_of!(LostOnCpu, ring_full));
    // SAFETY: the helper takes no argument and only reads the clock.
    let began = unsafe { bpf_ktime_get_ns() };
    // SAFETY: inside the entry that the look-up gave; the count is read whole.
    let so_far = unsafe { count.read_volatile() };
    // SAFETY: as above.
    let reported = unsafe { at(offset_of!(LostOnCpu, reported)).read_volatile() };
    // Atomic although each CPU has its own: a program that interrupts another one on the same CPU
    // must not undo its count.
    // SAFETY: as above.
    unsafe { add(count, events) };
    if so_far == reported {
        let first = at(offset_of!(LostOnCpu, first_ns));
        // SAFETY: as above.
        let noted = unsafe { first.read_volatile() };
        // A program that has interrupted this one has noted an earlier time.
        if noted < began {
            // SAFETY: the helper takes no argument and only reads the clock.
            let now = unsafe { bpf_ktime_get_ns() };
            // SAFETY: as above, and the time is written whole.
            unsafe { first.write_volatile(now) };
        }
    }
}

/// Counts events of guarded process `pid` that `cpu`, which is this one, must not record.
#[inline(always)]
pub fn count_withheld(cpu: u32, pid: Pid, events: u64) {
    if let Some(slot) = WITHHELD.get_ptr_mut(pid.0 % WITHHELD_SLOTS) {
        let (holder, count) = (slot.cast::<u64>(), slot.cast::<u64>().wrapping_add(1));
        let process = u64::from(pid.shown());
        // SAFETY: the slot that the look-up gave, whose words are read and written whole.
        let before = unsafe { holder.read_volatile() };
        if before == 0 {
            // SAFETY: as above.
            unsafe { holder.write_volatile(process) };
        }
        if before == 0 || before == process {
            // SAFETY: as above.
            unsafe { add(count, events) };
        }
    }
    if let Some(lost) = LOST.get_ptr_mut(cpu) {
        let count = lost
            .cast::<u8>()
            .wrapping_add(offset_of!(LostOnCpu, withheld));
        // SAFETY: inside the entry that the look-up gave.
        unsafe { add(count.cast::<u64>(), events) };
    }
}

/// Counts a return that the kernel will not see.
#[inline(always)]
pub fn count_unseen_return() {
    if let Some(count) = UNSEEN_RETURNS.get_ptr_mut(0) {
        // SAFETY: the entry is the count.
        unsafe { add(count, 1) };
    }
}

/// Counts the end of a request that the kernel did not report.
#[inline(always)]
pub fn count_untold_end() {
    if let Some(count) = UNTOLD_ENDS.get_ptr_mut(0) {
        // SAFETY: the entry is the count.
        unsafe { add(count, 1) };
    }
}

/// Adds to a count that others add to at the same time.
///
/// # Safety
///
/// The count is in a map, and aligned.
#[inline(always)]
pub unsafe fn add(count: *mut u64, more: u64) {
    // This target's atomics have no addition, so it is written out.
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("lock *(u64 *)({count} + 0) += {more}", count = in(reg) count, more = in(reg) more)
    };
}
