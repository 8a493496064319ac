//! Owners of locks, in the memory of programs: where the layout of a C library tells them.
//!
//! - glibc, 64 bits: `pthread_mutex_t` has its futex word first, its owner eight bytes behind it
//!   and its kind sixteen; `pthread_rwlock_t` has the thread that writes behind both of its futex
//!   words; `pthread_join()` waits for the word that has the tid until the thread has ended;
//! - musl: the word of a mutex that is not of the plain kind has the tid of its owner, and its
//!   kind is before it;
//! - a mutex with priority inheritance has the tid of its owner in the word, as the kernel says.
//!
//! What is read has to fit in each of its parts: else it is no lock that is known here. A reader
//! makes sure that the owner is a thread that could hold it.

/// C library that a thread waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The GNU C library.
    Glibc,
    /// musl.
    Musl,
}

/// Wait for a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexWait {
    /// Address of the word.
    pub address: u64,
    /// `FUTEX_WAIT` and its like, without flags.
    pub operation: u64,
    /// Of one process alone (`FUTEX_PRIVATE_FLAG`).
    pub is_private: bool,
    /// Expected value.
    pub value: u32,
    /// Whether it ends by itself.
    pub has_timeout: bool,
}

/// Operations, without flags.
const WAIT: u64 = 0;
const LOCK_PI: u64 = 6;
const WAIT_BITSET: u64 = 9;
const WAIT_REQUEUE_PI: u64 = 11;
const LOCK_PI2: u64 = 13;

/// `FUTEX_PRIVATE_FLAG`, and the mask of what is no flag.
const PRIVATE: u64 = 128;
const OPERATION: u64 = 127;

/// Bit of a futex word for waiters, and those of a tid (`FUTEX_WAITERS`, `FUTEX_TID_MASK`).
const WAITERS: u32 = 1 << 31;
const TID: u32 = (1 << 30) - 1;

impl FutexWait {
    /// Reads the arguments of `futex`; `None` where it does not wait.
    pub fn from_args(args: &[u64; 6]) -> Option<Self> {
        let [address, operation, value, timeout, ..] = *args;
        let found = Self {
            address,
            operation: operation & OPERATION,
            is_private: operation & PRIVATE != 0,
            value: u32::try_from(value & u64::from(u32::MAX)).ok()?,
            has_timeout: timeout != 0,
        };
        matches!(
            found.operation,
            WAIT | LOCK_PI | WAIT_BITSET | WAIT_REQUEUE_PI | LOCK_PI2
        )
        .then_some(found)
    }

    /// Tells whether it waits for a lock of the kernel's, which has its owner in the word.
    fn is_lock(&self) -> bool {
        matches!(self.operation, LOCK_PI | LOCK_PI2)
    }
}

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A mutex whose owner may die: it is in a list of its owner's.
    RobustMutex,
    /// A lock of readers and a writer.
    RwLock,
    /// The end of a thread.
    ThreadEnd,
}

/// Owner of a lock, as the memory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// Thread, by its id in its own pid namespace.
    Thread(i32),
    /// Number of readers, which the memory does not name.
    Readers(u32),
}

/// Lock that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundLock {
    /// Its kind.
    pub kind: LockKind,
    /// Where it begins: before the futex, or there.
    pub address: u64,
    /// The thread or the readers that have it.
    pub owner: LockOwner,
}

/// Finds the lock that a thread waits for. `read` reads words of 32 bits from an address on, all of
/// them.
pub fn find(
    wait: &FutexWait,
    runtime: Option<Runtime>,
    read: &dyn Fn(u64, &mut [u32]) -> bool,
) -> Option<FoundLock> {
    if wait.is_lock() {
        let mut word = [0];
        let owner = read(wait.address, &mut word).then(|| tid(word[0] & TID))?;
        return Some(FoundLock {
            kind: LockKind::Mutex,
            address: wait.address,
            owner: LockOwner::Thread(owner?),
        });
    }
    match runtime? {
        Runtime::Glibc => {
            let found = glibc_mutex(wait, read).or_else(|| glibc_rwlock(wait, read));
            found.or_else(|| glibc_join(wait, read))
        }
        Runtime::Musl => musl_mutex(wait, read),
    }
}

/// Finds as [`find`] does, where the C library is not known: what fits the layouts of both in
/// different ways is none.
pub fn find_any(wait: &FutexWait, read: &dyn Fn(u64, &mut [u32]) -> bool) -> Option<FoundLock> {
    let glibc = find(wait, Some(Runtime::Glibc), read);
    let musl = find(wait, Some(Runtime::Musl), read);
    match (glibc, musl) {
        (Some(one), Some(other)) => (one == other).then_some(one),
        (one, other) => one.or(other),
    }
}

fn tid(word: u32) -> Option<i32> {
    i32::try_from(word).ok().filter(|tid| *tid > 0)
}

/// Kinds of glibc's mutexes: type, and bits.
mod glibc {
    pub const TYPE: u32 = 3;
    pub const ROBUST: u32 = 16;
    pub const PRIORITY_INHERITANCE: u32 = 32;
    pub const PRIORITY_PROTECTED: u32 = 64;
    pub const SHARED: u32 = 128;
    /// With and without lock elision.
    pub const ELISION: u32 = 256 | 512;
    /// Value of a lock without waiters.
    pub const LOCKED: u32 = 1;
    /// Value of a lock with waiters.
    pub const CONTENDED: u32 = 2;
    /// Where the ceiling of one with a protected priority begins.
    pub const CEILING_SHIFT: u32 = 19;
    /// Most users of a mutex that are believed.
    pub const MOST_USERS: u32 = 1 << 16;
}

fn glibc_mutex(wait: &FutexWait, read: &dyn Fn(u64, &mut [u32]) -> bool) -> Option<FoundLock> {
    let mut words = [0; 5];
    // Without a time limit it waits by the one, with one by either. Rust's own mutex, whose word is
    // alike, always waits by the other.
    let is_call = match wait.operation {
        WAIT => true,
        WAIT_BITSET => wait.has_timeout,
        _ => false,
    };
    if !is_call || !read(wait.address, &mut words) {
        return None;
    }
    let [lock, count, owner, users, kind] = words;
    let known =
        glibc::TYPE | glibc::ROBUST | glibc::PRIORITY_PROTECTED | glibc::SHARED | glibc::ELISION;
    if kind & !(known | glibc::PRIORITY_INHERITANCE) != 0
        || kind & glibc::PRIORITY_INHERITANCE != 0
        // The kernel wakes for a robust one as for several processes, whosever it is.
        || ((kind & glibc::SHARED == 0) != wait.is_private && kind & glibc::ROBUST == 0)
        || users == 0
        || users > glibc::MOST_USERS
    {
        return None;
    }
    let is_robust = kind & glibc::ROBUST != 0;
    let is_as_locked = if is_robust {
        // It may have another owner than when the wait began.
        lock & TID == owner && wait.value & WAITERS != 0
    } else if kind & glibc::PRIORITY_PROTECTED != 0 {
        lock == wait.value && lock & ((1 << glibc::CEILING_SHIFT) - 1) == glibc::CONTENDED
    } else {
        // Another thread may have taken it meanwhile, which knows of no waiter.
        wait.value == glibc::CONTENDED && (lock == glibc::CONTENDED || lock == glibc::LOCKED)
    };
    // Only one that may be locked again by its owner counts that.
    let is_counted = kind & glibc::TYPE == 1;
    if !is_as_locked || (count != 0 && !is_counted && !is_robust) {
        return None;
    }
    Some(FoundLock {
        kind: if is_robust {
            LockKind::RobustMutex
        } else {
            LockKind::Mutex
        },
        address: wait.address,
        owner: LockOwner::Thread(tid(owner)?),
    })
}

/// The words of a lock of readers and a writer: readers, writers, the two futexes, two that are not
/// used, the thread that writes, whether it is of several processes.
fn glibc_rwlock(wait: &FutexWait, read: &dyn Fn(u64, &mut [u32]) -> bool) -> Option<FoundLock> {
    /// Offsets of the futexes.
    const FUTEXES: [u64; 3] = [0, 8, 12];
    /// Bit of the number of writers.
    const HANDED_OVER: u32 = 1 << 31;
    /// Bits of the number of readers.
    const WRITE_PHASE: u32 = 1;
    const WRITE_LOCKED: u32 = 2;
    const READERS_SHIFT: u32 = 3;
    /// Bit of a reader that waits, in their word.
    const READER_WAITS: u32 = 4;
    /// Values of the futexes: a bit that is set while a writer has it, and one where one waits.
    const IN_USE: u32 = 2;
    const MOST_VALUE: u32 = 3;
    if wait.operation != WAIT_BITSET && wait.operation != WAIT {
        return None;
    }
    FUTEXES.into_iter().find_map(|offset| {
        let mut words = [0; 8];
        let address = wait.address.checked_sub(offset)?;
        if !read(address, &mut words) {
            return None;
        }
        let [readers, writers, phase, writer_futex, _, _, writer, shared] = words;
        let word = match offset {
            0 => readers,
            8 => phase,
            _ => writer_futex,
        };
        let is_one = phase <= MOST_VALUE
            && writer_futex <= MOST_VALUE
            && writers & !HANDED_OVER <= glibc::MOST_USERS
            && (shared == 0) == wait.is_private
            && shared <= 1
            && word == wait.value
            && readers >> READERS_SHIFT <= glibc::MOST_USERS
            && match offset {
                0 => word & READER_WAITS != 0,
                // A reader waits for a writer, and a writer for readers, whose word has its bit.
                8 => wait.value == IN_USE | (readers & WRITE_PHASE),
                _ => wait.value == MOST_VALUE,
            };
        let is_written = readers & (WRITE_PHASE | WRITE_LOCKED) == WRITE_PHASE | WRITE_LOCKED;
        let count = readers >> READERS_SHIFT;
        let owner = if is_written && writer != 0 {
            LockOwner::Thread(tid(writer)?)
        } else if readers & (WRITE_PHASE | WRITE_LOCKED) == WRITE_LOCKED && count > 0 && writer == 0
        {
            LockOwner::Readers(count)
        } else {
            return None;
        };
        is_one.then_some(FoundLock {
            kind: LockKind::RwLock,
            address,
            owner,
        })
    })
}

/// The tid in the structure of a thread: the kernel clears it, and wakes as for several processes,
/// when the thread ends. Behind it is the list of the thread's robust mutexes, which begins and
/// ends with itself; by that it is told from whatever else is of several processes. (A thread that
/// holds such mutexes is not known, nor one of 32 bits.)
fn glibc_join(wait: &FutexWait, read: &dyn Fn(u64, &mut [u32]) -> bool) -> Option<FoundLock> {
    let mut words = [0; 6];
    if !matches!(wait.operation, WAIT | WAIT_BITSET)
        || wait.is_private
        || !read(wait.address, &mut words)
    {
        return None;
    }
    let [thread, _, last_low, last_high, first_low, first_high] = words;
    let address = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let list = wait.address.checked_add(16)?;
    let is_one = thread == wait.value
        && address(last_low, last_high) == list
        && address(first_low, first_high) == list;
    is_one.then_some(FoundLock {
        kind: LockKind::ThreadEnd,
        address: wait.address,
        owner: LockOwner::Thread(tid(thread)?),
    })
}

/// The words of a mutex: kind, futex, waiters.
fn musl_mutex(wait: &FutexWait, read: &dyn Fn(u64, &mut [u32]) -> bool) -> Option<FoundLock> {
    const TYPE: u32 = 3;
    const ROBUST: u32 = 4;
    const SHARED: u32 = 128;
    let mut words = [0; 3];
    let address = wait.address.checked_sub(4)?;
    if wait.operation != WAIT || !read(address, &mut words) {
        return None;
    }
    let [kind, lock, waiters] = words;
    let is_one = kind & !(TYPE | ROBUST | SHARED) == 0
        && (kind & SHARED == 0) == wait.is_private
        // A plain one has no owner; any other may have another one than when the wait began.
        && kind & TYPE != TYPE
        && kind & (TYPE | ROBUST) != 0
        && wait.value & WAITERS != 0
        && (1..=glibc::MOST_USERS).contains(&waiters);
    is_one.then_some(FoundLock {
        // The kernel knows only the list of those that processes share.
        kind: if kind & ROBUST != 0 && kind & SHARED != 0 {
            LockKind::RobustMutex
        } else {
            LockKind::Mutex
        },
        address,
        owner: LockOwner::Thread(tid(lock & TID)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    fn wait(operation: u64, is_private: bool, value: u32, address: u64) -> FutexWait {
        FutexWait {
            address,
            operation,
            is_private,
            value,
            has_timeout: false,
        }
    }

    /// Finds a lock where these words are at `AT`.
    fn found(wait: &FutexWait, runtime: Runtime, words: &[u32]) -> Option<FoundLock> {
        find(wait, Some(runtime), &|address, to| {
            let Some(from) = address.checked_sub(AT) else {
                return false;
            };
            let from = usize::try_from(from / 4).unwrap();
            match words.get(from..from + to.len()) {
                Some(words) => {
                    to.copy_from_slice(words);
                    true
                }
                None => false,
            }
        })
    }

    fn mutex(tid: i32, kind: LockKind) -> Option<FoundLock> {
        let (address, owner) = (AT, LockOwner::Thread(tid));
        Some(FoundLock {
            kind,
            address,
            owner,
        })
    }

    #[test]
    fn the_arguments_say_whether_a_call_waits() {
        let found = FutexWait::from_args(&[AT, 0x80, 2, 0, 0, 0]);
        assert_eq!(found, Some(wait(WAIT, true, 2, AT)));
        let timed = FutexWait::from_args(&[AT, 0x109, 7, 0x55, 0, 0]).unwrap();
        assert_eq!(timed.operation, WAIT_BITSET);
        assert!(timed.has_timeout && !timed.is_private);
        assert_eq!(FutexWait::from_args(&[AT, 0x81, 1, 0, 0, 0]), None);
    }

    #[test]
    fn a_mutex_of_glibc_has_its_owner_behind_the_word() {
        let of = |kind: u32, is_private, lock, count| {
            let words = [lock, count, 77, 1, kind];
            found(&wait(WAIT, is_private, lock, AT), Runtime::Glibc, &words)
        };
        for kind in 0..=3 {
            assert_eq!(of(kind, true, 2, 0), mutex(77, LockKind::Mutex));
            assert_eq!(of(kind | 128, false, 2, 0), mutex(77, LockKind::Mutex));
            assert_eq!(of(kind | 128, true, 2, 0), None, "of several processes");
        }
        assert_eq!(of(1, true, 2, 5), mutex(77, LockKind::Mutex));
        assert_eq!(of(0, true, 2, 5), None, "a plain one is locked once");
        assert_eq!(
            of(16, true, 77 | WAITERS, 1),
            mutex(77, LockKind::RobustMutex)
        );
        assert_eq!(
            of(16, true, 78 | WAITERS, 1),
            None,
            "another owner in the word"
        );
        let waits = wait(WAIT, true, 78 | WAITERS, AT);
        let handed_on = found(&waits, Runtime::Glibc, &[77, 1, 77, 1, 16]);
        assert_eq!(handed_on, mutex(77, LockKind::RobustMutex));
        assert_eq!(of(64, true, 2 | 3 << 19, 0), mutex(77, LockKind::Mutex));
        assert_eq!(of(4, true, 2, 0), None);
        assert_eq!(of(0, true, 1, 0), None, "it was not to have a waiter");
        let waits = wait(WAIT, true, 2, AT);
        let taken = found(&waits, Runtime::Glibc, &[1, 0, 77, 1, 0]);
        assert_eq!(taken, mutex(77, LockKind::Mutex), "taken meanwhile");
        let by_bits = wait(WAIT_BITSET, true, 2, AT);
        let words = [2, 0, 77, 1, 0];
        assert_eq!(found(&by_bits, Runtime::Glibc, &words), None);
        let timed = FutexWait {
            has_timeout: true,
            ..by_bits
        };
        let found_timed = found(&timed, Runtime::Glibc, &words);
        assert_eq!(found_timed, mutex(77, LockKind::Mutex));
        assert_eq!(
            of(16, false, 77 | WAITERS, 1),
            mutex(77, LockKind::RobustMutex),
            "the kernel wakes for it as for several processes"
        );
        assert_eq!(of(u32::MAX, true, 2, 0), None);
    }

    #[test]
    fn what_only_looks_like_a_mutex_has_no_owner() {
        let waits = wait(WAIT, true, 2, AT);
        for words in [[2, 0, 0, 1, 0], [2, 0, 77, 0, 0], [2, 0, u32::MAX, 1, 0]] {
            assert_eq!(found(&waits, Runtime::Glibc, &words), None, "{words:?}");
        }
        // The words are not all there, or the library is another one.
        assert_eq!(found(&waits, Runtime::Glibc, &[2, 0, 77]), None);
        assert_eq!(found(&waits, Runtime::Musl, &[2, 0, 77, 1, 0]), None);
        assert_eq!(find(&waits, None, &|_, _| true), None);
    }

    #[test]
    fn a_lock_of_the_kernel_has_its_owner_in_the_word() {
        for operation in [LOCK_PI, LOCK_PI2] {
            let waits = wait(operation, true, 0, AT);
            let lock = found(&waits, Runtime::Glibc, &[77 | WAITERS]);
            assert_eq!(lock, mutex(77, LockKind::Mutex));
            assert_eq!(found(&waits, Runtime::Glibc, &[WAITERS]), None);
        }
    }

    #[test]
    fn a_lock_of_readers_and_a_writer_has_the_writer_or_a_number() {
        let of = |readers, writer, offset: u64, value| {
            let phase = if value < 4 { value } else { 2 };
            let words = [readers, 1, phase, 3, 0, 0, writer, 0];
            let waits = wait(WAIT_BITSET, true, value, AT + offset);
            found(&waits, Runtime::Glibc, &words)
        };
        for (offset, value) in [(8, 2), (12, 3)] {
            assert_eq!(of(3, 77, offset, 3), mutex(77, LockKind::RwLock));
            let read = of(5 << 3 | 2, 0, offset, value).unwrap();
            assert_eq!(read.owner, LockOwner::Readers(5));
            assert_eq!(of(5 << 3, 0, offset, value), None, "no writer waits");
            assert_eq!(of(3, 77, offset, 1), None, "another value");
        }
        assert_eq!(of(3, 0, 8, 3), None);
        assert_eq!(of(3, 77, 8, 2), None, "a writer waits for readers");
        // Writers wait for each other by one value alone.
        let waits = wait(WAIT_BITSET, true, 2, AT + 12);
        let words = [3, 1, 3, 2, 0, 0, 77, 0];
        assert_eq!(found(&waits, Runtime::Glibc, &words), None);
        let reads = of(5 << 3 | 6, 0, 0, 5 << 3 | 6).unwrap();
        assert_eq!(reads.owner, LockOwner::Readers(5));
    }

    #[test]
    fn what_fits_only_one_layout_is_that() {
        let read = |words: [u32; 8]| {
            move |address: u64, to: &mut [u32]| {
                let from = address
                    .checked_sub(AT)
                    .and_then(|at| usize::try_from(at / 4).ok());
                let words = from.and_then(|from| words.get(from..from + to.len()));
                words.map(|words| to.copy_from_slice(words)).is_some()
            }
        };
        let waits = wait(WAIT, true, 77 | WAITERS, AT + 4);
        let musl = [1, 77 | WAITERS, 1, 0, 0, 0, 0, 0];
        assert_eq!(find_any(&waits, &read(musl)), mutex(77, LockKind::Mutex));
        // The kind of a robust one of glibc, and of one that counts of musl.
        let both = [1, 77 | WAITERS, 1, 77, 1, 16, 0, 0];
        assert_eq!(find_any(&waits, &read(both)), None);
        let glibc = wait(WAIT, true, 2, AT);
        let words = [2, 0, 77, 1, 0, 0, 0, 0];
        assert_eq!(find_any(&glibc, &read(words)), mutex(77, LockKind::Mutex));
    }

    #[test]
    fn the_end_of_a_thread_is_waited_for_by_its_tid() {
        // Its list of robust mutexes, which is empty.
        let list = u32::try_from(AT).unwrap() + 16;
        let words = [77, 0, list, 0, list, 0, 0, 0];
        let waits = wait(WAIT_BITSET, false, 77, AT);
        assert_eq!(
            found(&waits, Runtime::Glibc, &words),
            mutex(77, LockKind::ThreadEnd)
        );
        let private = wait(WAIT_BITSET, true, 77, AT);
        assert_eq!(found(&private, Runtime::Glibc, &words), None);
        // A mutex of several processes that is just being locked; a barrier's counter.
        for words in [[2, 0, 77, 0, 128, 0, 0, 0], [4, 0, 0, 3, 0, 0, 0, 0]] {
            let other = wait(WAIT, false, words[0], AT);
            assert_eq!(found(&other, Runtime::Glibc, &words), None);
        }
    }

    #[test]
    fn a_mutex_of_musl_has_its_owner_in_the_word() {
        let of = |kind: u32, is_private| {
            let lock = 77 | WAITERS;
            let words = [kind, lock, 1];
            found(&wait(WAIT, is_private, lock, AT + 4), Runtime::Musl, &words)
        };
        assert_eq!(of(1, true), mutex(77, LockKind::Mutex));
        assert_eq!(of(2 | 128, false), mutex(77, LockKind::Mutex));
        assert_eq!(of(1 | 4, true), mutex(77, LockKind::Mutex));
        assert_eq!(of(4 | 128, false), mutex(77, LockKind::RobustMutex));
        assert_eq!(of(0, true), None, "a plain one has no owner");
        assert_eq!(of(3, true), None);
        assert_eq!(of(1, false), None);
        // The one that waits longest has seen another owner in the word.
        let waits = wait(WAIT, true, 78 | WAITERS, AT + 4);
        let handed_on = found(&waits, Runtime::Musl, &[1, 77, 1]);
        assert_eq!(handed_on, mutex(77, LockKind::Mutex));
    }
}
