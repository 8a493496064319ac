//! Traces and spans of OpenTelemetry that threads work for.
//!
//! The agent says of a process where its threads have the pointer to their contexts. The running
//! thread's is read as it comes to the kernel, and recorded where it differs from what was recorded
//! of that thread last: so it counts for the events that follow. Only the thread itself writes it,
//! and does not run meanwhile; one that is not valid at this moment is none.
//!
//! What was recorded last is in a slot by the tid. Each word is mixed with the tid and the epoch,
//! so that another thread's words, or those of an earlier epoch, are never taken for this one's.

use core::mem::{MaybeUninit, offset_of, size_of};

use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap};

use tracer_common::event_type::EventTypeId;
use tracer_common::kernel::{
    CONTEXT_REMAINDERS, CONTEXT_SLOTS, ContextPlace, ContextState, ROUTE_BYTES, Record,
    RecordHeader, ThreadContextData,
};

use crate::cpu::this_cpu;
use crate::gathered::bounded;
use crate::maps::{add, count_ring_full};
use crate::offsets::{THREAD_CONTEXTS, THREAD_ID_BELOW};
use crate::pid::Pid;
use crate::record::{Wake, record_if_it_fits};
use crate::subject::Subject;

/// See [`ContextPlace`]. The agent sets the number of entries, here and below, or leaves it at 1
/// where contexts are not asked for.
#[map]
static CONTEXT_PLACES: HashMap<u32, ContextPlace> = HashMap::with_max_entries(1, 0);

/// Context that was recorded last of each thread: see [`CONTEXT_SLOTS`].
#[map]
static CONTEXTS: Array<Words> = Array::with_max_entries(1, 0);

/// See [`ContextState`].
#[map]
static CONTEXT_STATE: Array<ContextState> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Location that was looked up last on each CPU, by CPU. The agent sets the number of entries.
#[map]
static CONTEXT_AT_HAND: Array<PlaceAtHand> = Array::with_max_entries(1, 0);

/// Location that was looked up last on a CPU: a look-up costs as much as reading a context does.
#[repr(C)]
struct PlaceAtHand {
    /// See [`check`]. Two programs that interrupt each other may write at a time, for two
    /// processes: what does not belong together fails it.
    check: u64,
    place: ContextPlace,
    /// Rest of a line of the processor's memory: CPUs do not share one.
    unused: [u64; 4],
}

/// A context: two words of the trace, and one of the span.
type Words = [u64; 3];

/// No context.
const NONE: Words = [0; 3];

/// Tells whether contexts are asked for: known when the program is loaded.
#[inline(always)]
fn are_asked() -> bool {
    THREAD_CONTEXTS.load() != 0
}

/// Records the context of the running thread, `subject`, where it differs from the last one.
///
/// Three functions one after the other, and not within each other: some programs have little stack
/// left.
#[inline(always)]
pub fn note(subject: &impl Subject) {
    if !are_asked() || !may_have(subject.pid()) {
        return;
    }
    let (pid, tid, thread_id) = (subject.pid().0, subject.tid().0, subject.thread_id());
    if note_context(pid, tid, thread_id) != 0 {
        let route = find_route(pid, thread_id);
        record_context(pid, tid, thread_id, route);
    }
}

/// Notes that a process or thread is made. A process has its contexts where the one has them that
/// made it.
#[inline(always)]
pub fn begins(parent: Pid, child: &impl Subject) {
    if !are_asked() || !may_have(parent) && !may_have(child.pid()) {
        return;
    }
    forget_context(child.pid().0, child.tid().0);
    if parent != child.pid() {
        inherit_contexts(parent.shown(), child.pid().shown());
    }
}

/// Notes that the process of the running thread, `subject`, runs another program, of which it is
/// not known yet where it has contexts.
#[inline(always)]
pub fn replaced(subject: &impl Subject) {
    if are_asked() && may_have(subject.pid()) {
        remove_place(subject.pid().shown());
        forget_context(subject.pid().0, subject.tid().0);
    }
}

/// Notes that a process ends: the next one of its pid has none.
#[inline(always)]
pub fn ends(pid: Pid) {
    if are_asked() && may_have(pid) {
        remove_place(pid.shown());
    }
}

/// Tells whether a process may have contexts, at the cost of a look-up.
#[inline(always)]
fn may_have(pid: Pid) -> bool {
    match may_have_byte(pid) {
        // SAFETY: inside the entry; a byte is read whole.
        Some(byte) => unsafe { byte.read_volatile() != 0 },
        None => false,
    }
}

#[inline(always)]
fn may_have_byte(pid: Pid) -> Option<*mut u8> {
    let state = CONTEXT_STATE.get_ptr_mut(0)?.cast::<u8>();
    let remainder = pid.shown() as usize & (CONTEXT_REMAINDERS - 1);
    Some(state.wrapping_add(offset_of!(ContextState, may_have) + remainder))
}

#[inline(always)]
fn remove_place(pid: u32) {
    let _ = CONTEXT_PLACES.remove(pid);
    places_have_changed();
}

#[inline(always)]
fn changes() -> Option<*mut u64> {
    let state = CONTEXT_STATE.get_ptr_mut(0)?.cast::<u8>();
    Some(
        state
            .wrapping_add(offset_of!(ContextState, changes))
            .cast::<u64>(),
    )
}

/// Has all locations looked up again, after a change.
#[inline(always)]
fn places_have_changed() {
    if let Some(changes) = changes() {
        // SAFETY: inside the entry.
        unsafe { add(changes, 1) };
    }
}

/// Returns the check of a process's location as long as there are so many changes.
#[inline(always)]
fn check(changes: u64, pid: u32, place: &ContextPlace) -> u64 {
    let of = (changes << 32) | (u64::from(pid) + 1);
    let words = [place.module, place.offset, place.generation];
    let mixed = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed(mixed(mixed(mixed(0, of), words[0]), words[1]), words[2])
}

/// Returns where a process has its contexts; `None` where it has none. The one that was looked up
/// last is at hand.
#[inline(always)]
fn place_at_hand(pid: Pid) -> Option<ContextPlace> {
    // Before the look-up: a later change counts. SAFETY: inside the entry; the word is read whole.
    let changes = unsafe { changes()?.read_volatile() };
    let at_hand = CONTEXT_AT_HAND.get_ptr_mut(this_cpu())?;
    let check_at = at_hand.cast::<u64>();
    let place_at = at_hand
        .cast::<u8>()
        .wrapping_add(offset_of!(PlaceAtHand, place))
        .cast::<ContextPlace>();
    // SAFETY: inside the entry of this CPU.
    let place = unsafe { place_at.read_volatile() };
    // SAFETY: as above.
    if unsafe { check_at.read_volatile() } == check(changes, pid.shown(), &place) {
        return Some(place);
    }
    let place = place_of(pid)?;
    // SAFETY: inside the entry of this CPU.
    unsafe { place_at.write_volatile(place) };
    // SAFETY: as above.
    unsafe { check_at.write_volatile(check(changes, pid.shown(), &place)) };
    Some(place)
}

/// Looks up where a process has its contexts; `None` where it has none.
#[inline(always)]
fn place_of(pid: Pid) -> Option<ContextPlace> {
    let place = CONTEXT_PLACES.get_ptr(pid.shown())?;
    // SAFETY: it points into the map.
    Some(unsafe { place.read_volatile() })
}

#[inline(always)]
fn epoch() -> u64 {
    match CONTEXT_STATE.get_ptr(0) {
        // SAFETY: the word that the entry begins with, which is read whole.
        Some(state) => unsafe { state.cast::<u64>().read_volatile() },
        None => 0,
    }
}

/// Returns what the words of a thread are mixed with, which is no other thread's and no other
/// epoch's.
#[inline(always)]
fn mixed_with(tid: u32) -> u64 {
    let of = (epoch() << 32) | (u64::from(tid) + 1);
    of.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline(always)]
fn slot(tid: u32) -> Option<*mut u64> {
    CONTEXTS
        .get_ptr_mut(tid & (CONTEXT_SLOTS - 1))
        .map(<*mut _>::cast)
}

/// Reads the words of a slot.
#[inline(always)]
fn read_slot(slot: *mut u64) -> Words {
    // SAFETY: inside the entry that the look-up gave; each word is read whole.
    let word = |at: usize| unsafe { slot.wrapping_add(at).read_volatile() };
    [word(0), word(1), word(2)]
}

/// Tells whether words are the same: as numbers, as a comparison of arrays is a call.
#[inline(always)]
fn are_equal(one: Words, other: Words) -> bool {
    one[0] == other[0] && one[1] == other[1] && one[2] == other[2]
}

/// Writes the words of a slot.
#[inline(always)]
fn write_slot(slot: *mut u64, words: Words) {
    // SAFETY: inside the entry that the look-up gave; each word is written whole.
    let write = |at: usize, word| unsafe { slot.wrapping_add(at).write_volatile(word) };
    write(0, words[0]);
    write(1, words[1]);
    write(2, words[2]);
}

/// Thread that a context is of.
struct Thread {
    pid: u32,
    tid: u32,
}

impl Subject for Thread {
    #[inline(always)]
    fn pid(&self) -> Pid {
        Pid(self.pid)
    }

    #[inline(always)]
    fn tid(&self) -> Pid {
        Pid(self.tid)
    }

    #[inline(always)]
    fn thread_id(&self) -> u64 {
        // Not a zero that the compiler knows: with the next one it would be cleared by a call.
        bounded(0, 0)
    }
}

/// Tells whether the context of the running thread, which has this `pthread_t`, differs from
/// what was recorded of it last. A function of its own, as the others, so that the verifier walks
/// it once.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn note_context(pid: u32, tid: u32, thread_id: u64) -> i32 {
    let Some(slot) = slot(tid) else {
        return 0;
    };
    let Some(place) = place_at_hand(Pid(pid)) else {
        return 0;
    };
    let seen = read(&place, thread_id);
    i32::from(!are_equal(read_slot(slot), seen.words(tid)))
}

/// Records the context of the running thread, which has this `pthread_t`, with its route, where
/// that has one (see [`find_route`]).
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn record_context(pid: u32, tid: u32, thread_id: u64, route: u64) -> i32 {
    let Some(slot) = slot(tid) else {
        return 0;
    };
    // As it was just now: the thread does nothing else meanwhile.
    let Some(seen) = Seen::now(pid, thread_id) else {
        return 0;
    };
    let words = seen.words(tid);
    record(&Thread { pid, tid }, slot, (seen.context, route), words);
    0
}

/// Forgets what was recorded of a thread: no context counts for it any more.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn forget_context(pid: u32, tid: u32) -> i32 {
    if let Some(slot) = slot(tid)
        && !are_equal(read_slot(slot), NONE)
    {
        record(&Thread { pid, tid }, slot, (NONE, 0), NONE);
    }
    0
}

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn inherit_contexts(parent: u32, child: u32) -> i32 {
    match CONTEXT_PLACES.get_ptr(parent) {
        Some(place) => {
            // SAFETY: it points into the map.
            let place = unsafe { place.read_volatile() };
            let _ = CONTEXT_PLACES.insert(child, place, 0);
            places_have_changed();
            if let Some(byte) = may_have_byte(Pid(child)) {
                // SAFETY: inside the entry; a byte is written whole.
                unsafe { byte.write_volatile(1) };
            }
        }
        None => {
            // What an earlier process of this pid had.
            remove_place(child);
        }
    }
    0
}

/// Records a context with its route, where that has one. Where there is no space, the next event of
/// the thread tries it again.
#[inline(always)]
fn record(thread: &Thread, slot: *mut u64, (context, route): (Words, u64), words: Words) {
    let [first, second, span] = context;
    let is_recorded = record_if_it_fits(
        thread,
        EventTypeId::THREAD_CONTEXT,
        Wake::InTime,
        |space, header| {
            let record: *mut Record<ThreadContextData> = space.as_mut_ptr();
            // SAFETY: the record begins so, and there is space for it. What follows the null of the
            // route is not written, and no reader is given it.
            unsafe {
                record.cast::<WithoutRoute>().write(WithoutRoute {
                    header,
                    trace_id: zerocopy::transmute!([first, second]),
                    span_id: span.to_ne_bytes(),
                })
            };
            let to = record.cast::<u8>().wrapping_add(size_of::<WithoutRoute>());
            push_route(to, route);
        },
    );
    if is_recorded {
        write_slot(slot, words);
    } else {
        write_slot(slot, NONE);
        count_ring_full(this_cpu(), 1);
    }
}

/// A record up to its route.
#[repr(C)]
struct WithoutRoute {
    header: RecordHeader,
    trace_id: [u8; 16],
    span_id: [u8; 8],
}

const _: () = assert!(
    size_of::<WithoutRoute>()
        == offset_of!(Record<ThreadContextData>, data) + offset_of!(ThreadContextData, route)
);

/// Bits of the length of a route in what [`find_route`] returns.
const LENGTH_BITS: u32 = 8;

/// Writes a route and its null to where there is space for [`ROUTE_BYTES`]; the null alone where
/// there is none.
#[inline(always)]
fn push_route(to: *mut u8, route: u64) {
    let length = bounded(route & ((1 << LENGTH_BITS) - 1), ROUTE_BYTES as u64 - 1);
    if route != 0 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fewer bytes than a route has"
        )]
        let bytes = length as u32;
        let address = (route >> LENGTH_BITS) as *const core::ffi::c_void;
        // SAFETY: the helper writes so many bytes, for which there is space, and checks the
        // address; where it fails, it clears them.
        unsafe { bpf_probe_read_user(to.cast(), bytes, address) };
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fewer bytes than a route has"
    )]
    let end = length as usize;
    // SAFETY: there is one more byte than the length may be.
    unsafe { to.wrapping_add(end).write(0) };
}

/// Attributes of a context that are looked at.
const MOST_ATTRIBUTES: u32 = 16;

/// Returns where the running thread has the route of its context: the address, and in the lowest
/// bits the length; 0: it has none. Of several attributes of this index the last one counts.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn find_route(pid: u32, thread_id: u64) -> u64 {
    let Some(seen) = Seen::now(pid, thread_id) else {
        return 0;
    };
    let mut at = seen.attributes;
    let end = at.wrapping_add(seen.attribute_bytes);
    let (mut found, mut nth) = (0, 0);
    while nth < MOST_ATTRIBUTES && at + 2 <= end {
        nth += 1;
        let mut head = MaybeUninit::<[u8; 2]>::uninit();
        // SAFETY: the helper writes two bytes, for which there is space, and checks the address.
        let failed = unsafe {
            bpf_probe_read_user(head.as_mut_ptr().cast(), 2, at as *const core::ffi::c_void)
        };
        if failed != 0 {
            return 0;
        }
        // SAFETY: the helper has written both.
        let [index, length] = unsafe { head.assume_init() };
        let value = at + 2;
        at = value + u64::from(length);
        if at > end {
            break;
        }
        if u64::from(index) + 1 == seen.key && length != 0 {
            found = value << LENGTH_BITS | u64::from(length);
        }
    }
    found
}

/// Context that the running thread has now.
struct Seen {
    context: Words,
    /// Address of its attributes, and how many bytes they have: 0 where none is to be read.
    attributes: u64,
    attribute_bytes: u64,
    /// One more than the index of the attribute that is to be read.
    key: u64,
}

impl Seen {
    /// Looks; `None` where the process has no contexts.
    #[inline(always)]
    fn now(pid: u32, thread_id: u64) -> Option<Self> {
        Some(read(&place_of(Pid(pid))?, thread_id))
    }

    /// Returns the words of the thread's slot: attributes are added where the identifiers stay.
    #[inline(always)]
    fn words(&self, tid: u32) -> Words {
        let mix = mixed_with(tid) ^ (self.attribute_bytes << 48);
        let [first, second, span] = self.context;
        [first ^ mix, second ^ mix, span ^ mix]
    }
}

/// Record of the program, but for what programs add.
#[repr(C, packed(4))]
struct Published {
    ids: Words,
    /// Whether it is valid, in the lowest byte; the highest two: bytes of the attributes.
    rest: u32,
}

const PUBLISHED_BYTES: u32 = 28;

const _: () = assert!(size_of::<Published>() == PUBLISHED_BYTES as usize);

/// Reads the context of the running thread, which has this `pthread_t`, and where its attributes
/// are.
#[inline(always)]
fn read(place: &ContextPlace, thread_id: u64) -> Seen {
    /// Value of the byte that says that the record is valid: all others are reserved.
    const VALID: u32 = 1;
    let [address] = words(variable(place, thread_id));
    // Not cleared first, which would be a call.
    let mut record = MaybeUninit::<Published>::uninit();
    // SAFETY: the helper writes so many bytes, for which there is space, and checks the address.
    let failed = unsafe {
        bpf_probe_read_user(
            record.as_mut_ptr().cast(),
            PUBLISHED_BYTES,
            address as *const core::ffi::c_void,
        )
    };
    // SAFETY: the helper has written all of it, zeroes where it failed.
    let Published {
        ids: [first, second, span],
        rest,
    } = unsafe { record.assume_init() };
    let is_valid = address != 0
        && failed == 0
        && rest.to_le() & 0xff == VALID
        && first | second != 0
        && span != 0;
    let key = place.module >> 32;
    Seen {
        context: if is_valid {
            [first, second, span]
        } else {
            NONE
        },
        attributes: address.wrapping_add(u64::from(PUBLISHED_BYTES)),
        attribute_bytes: if is_valid && key != 0 {
            u64::from(rest.to_le() >> 16)
        } else {
            0
        },
        key,
    }
}

/// Returns where the running thread, which has this `pthread_t`, has the pointer to its context; 0:
/// it has none yet.
#[inline(always)]
fn variable(place: &ContextPlace, thread_id: u64) -> u64 {
    /// Memory of a module that was not asked for yet.
    const UNALLOCATED: u64 = u64::MAX;
    let thread_pointer = thread_id.wrapping_add(u64::from(THREAD_ID_BELOW.load()));
    let module = place.module & u64::from(u32::MAX);
    if module == 0 {
        return thread_pointer.wrapping_add(place.offset);
    }
    // The second word of a thread, on arm64 the first, is the table's address; its entries have two
    // words, and the one before the first says how many there are.
    let table_at = if THREAD_ID_BELOW.load() == 0 { 8 } else { 0 };
    let [table] = words(thread_pointer.wrapping_add(table_at));
    let [count, _, generation] = words(table.wrapping_sub(16));
    if table == 0 || module > count || generation < place.generation {
        return 0;
    }
    let [memory] = words(table.wrapping_add(module.wrapping_mul(16)));
    if memory == 0 || memory == UNALLOCATED {
        return 0;
    }
    memory.wrapping_add(place.offset)
}

/// Reads words of the program's memory; zeroes where they are not there.
#[inline(always)]
fn words<const N: usize>(address: u64) -> [u64; N] {
    let mut words = MaybeUninit::<[u64; N]>::uninit();
    #[expect(clippy::cast_possible_truncation, reason = "three words at most")]
    let bytes = size_of::<[u64; N]>() as u32;
    // SAFETY: the helper writes so many bytes, for which there is space, and checks the address.
    let failed = unsafe {
        bpf_probe_read_user(
            words.as_mut_ptr().cast(),
            bytes,
            address as *const core::ffi::c_void,
        )
    };
    // SAFETY: the helper has written all of them, zeroes where it failed.
    let words = unsafe { words.assume_init() };
    if failed == 0 { words } else { [0; N] }
}
