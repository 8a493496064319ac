//! Waking a reader that waits for signals as well: a thread sleeps on the stream's word in its
//! place, and makes a descriptor readable.
//!
//! A reader in C may be interrupted by a signal at any moment, and has to notice; only a call that
//! waits for descriptors lets signals through and sleeps in one step. A trace point can only wake a
//! thread that sleeps on a word. So there is a thread in between, for each stream whose reader ever
//! had to sleep; it ends with the stream.
//!
//! The thread in between is an ordinary one (`SCHED_OTHER`), whichever thread makes it. While a
//! real-time thread sleeps here, and no longer, the thread in between has the policy and the
//! priority of that one. So only threads that may run before the reader can delay its waking.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

use crate::emit::lock::{PiGuard, PiLock};
use crate::emit::thread::own_tid;
use crate::layout::wake;
use crate::system::descriptor::Identity;
use crate::system::pids::own_pid;
use crate::system::scheduling::Scheduling;
use crate::system::thread;
use crate::system::thread::HeldBack;
use tracer_engine::source::WaitingWord;

/// Place where the reader of one stream sleeps.
#[derive(Debug)]
pub struct Bell {
    word: Box<dyn WaitingWord>,
    pipe: Pipe,
    is_ending: AtomicBool,
    has_sleeper: AtomicBool,
    /// Tid of the bell's thread; 0 before it runs.
    thread: AtomicI32,
    /// How the bell's thread is to be scheduled ([`Scheduling::to_word`]).
    scheduling: AtomicU64,
}

/// A pipe that can be read once the bell has rung. It is never closed: another thread may be about
/// to sleep on it, and would sleep on what the program opens as the same descriptor.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    reading: RawFd,
    writing: RawFd,
    /// Pid of the process that has made it. Its forked children have it too, and it is not theirs.
    owner: i32,
    /// The program may close them, and open something else as the same descriptors.
    identity: Identity,
}

/// Pipes of bells of streams that have ended.
static FREE: PiLock<Vec<Pipe>> = PiLock::new(Vec::new());

/// Pipes of ended streams that still ring: a thread is about to sleep there, or has just been
/// woken, and then gives the pipe back.
static RINGING: PiLock<Vec<Pipe>> = PiLock::new(Vec::new());

/// Stack of the bell's thread, which needs no more.
const STACK_BYTES: usize = 64 << 10;

impl Bell {
    /// Hangs a bell up for the stream with this word.
    ///
    /// # Errors
    ///
    /// No descriptor or no thread is available.
    pub fn new(word: Box<dyn WaitingWord>) -> io::Result<Arc<Self>> {
        let bell = Arc::new(Self {
            word,
            pipe: Pipe::free_or_new()?,
            is_ending: AtomicBool::new(false),
            has_sleeper: AtomicBool::new(false),
            thread: AtomicI32::new(0),
            scheduling: AtomicU64::new(Scheduling::OTHER.to_word()),
        });
        let ringer = Arc::clone(&bell);
        // Counted before the reader sleeps: the thread begins only when it gets its turn.
        let known = wake::wakings(bell.word.word());
        // The new thread has signals held back: the program's handlers run in the program's own
        // threads.
        let held = HeldBack::new();
        let run = Box::new(move || {
            ringer.begin_as_wanted();
            ringer.ring_when_woken(known);
        });
        let started = thread::spawn(c"posix-trace", STACK_BYTES, run);
        held.let_through();
        if started.is_err() {
            keep(&FREE, bell.pipe);
        }
        started.map(|()| bell)
    }

    /// Makes the calling thread the one that sleeps here; `false` where another one does.
    pub fn take(&self) -> bool {
        let is_taken = !self.has_sleeper.swap(true, AcqRel);
        if is_taken {
            self.schedule(Scheduling::of_caller());
        }
        is_taken
    }

    /// Notes that the reader no longer sleeps here.
    pub fn leave(&self) {
        self.schedule(Scheduling::OTHER);
        self.pipe.empty();
        self.has_sleeper.store(false, Release);
    }

    /// Returns the descriptor that becomes readable when the bell rings; `None` where the program
    /// has closed it.
    pub fn file(&self) -> Option<RawFd> {
        self.pipe.is(self.pipe.reading).then_some(self.pipe.reading)
    }

    /// Wakes the thread that sleeps here.
    pub fn ring(&self) {
        self.pipe.fill();
    }

    /// Has the bell's thread scheduled like this from now on, or from when it begins.
    fn schedule(&self, wanted: Scheduling) {
        let wanted_word = wanted.to_word();
        if self.scheduling.swap(wanted_word, SeqCst) != wanted_word
            && let tid @ 1.. = self.thread.load(SeqCst)
        {
            wanted.give_to(tid);
        }
    }

    /// Gives the new thread the scheduling that is wanted. Until then it has that of the thread
    /// that made it.
    fn begin_as_wanted(&self) {
        self.thread.store(own_tid(), SeqCst);
        loop {
            let wanted = self.scheduling.load(SeqCst);
            Scheduling::from_word(wanted).give_to(0);
            if self.scheduling.load(SeqCst) == wanted {
                return;
            }
        }
    }

    fn ring_when_woken(&self, mut known: u32) {
        while !self.is_ending.load(Acquire) {
            let wakings = wake::sleep_until_woken(self.word.word(), known);
            if wakings != known {
                known = wakings;
                self.ring();
            }
        }
    }

    /// Ends the bell with its stream: no thread goes to sleep here any more, a thread that sleeps
    /// here is woken, and the bell's own thread ends.
    pub fn end(&self) {
        self.is_ending.store(true, Release);
        // The bell's thread may be about to sleep: now the word has another value than it has seen.
        wake::count_waking(self.word.word());
        wake::wake_whoever_sleeps(self.word.word());
        if self.has_sleeper.load(Acquire) {
            self.ring();
            keep(&RINGING, self.pipe);
        } else {
            keep(&FREE, self.pipe);
        }
    }

    /// Gives the pipe back: the thread that slept at this descriptor has been woken, and its stream
    /// is not there any more.
    pub fn give_back(file: RawFd) {
        let pipe = locked(&RINGING).and_then(|mut ringing| {
            let index = ringing.iter().position(|pipe| pipe.reading == file)?;
            Some(ringing.swap_remove(index))
        });
        if let Some(pipe) = pipe {
            pipe.empty();
            keep(&FREE, pipe);
        }
    }
}

fn keep(list: &'static PiLock<Vec<Pipe>>, pipe: Pipe) {
    if let Some(mut list) = locked(list) {
        list.push(pipe);
    }
}

/// Locks a list; `None` in a forked child in whose parent a thread had the lock at the fork.
fn locked(list: &'static PiLock<Vec<Pipe>>) -> Option<PiGuard<'static, Vec<Pipe>>> {
    list.lock_unless_left()
}

impl Pipe {
    fn free_or_new() -> io::Result<Self> {
        let left = locked(&FREE).and_then(|mut free| free.pop());
        match left {
            Some(pipe) if pipe.is_own() && pipe.is(pipe.reading) && pipe.is(pipe.writing) => {
                pipe.empty();
                Ok(pipe)
            }
            _ => Self::new(),
        }
    }

    fn new() -> io::Result<Self> {
        let mut ends = [-1; 2];
        // SAFETY: `ends` has space for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let [reading, writing] = ends.map(out_of_the_way);
        Ok(Self {
            reading,
            writing,
            owner: own_pid(),
            identity: Identity::read(reading)?,
        })
    }

    /// Tells whether no other process sleeps there. In a child an inherited one stays open: its
    /// thread may be in a signal handler of one that was about to sleep.
    fn is_own(self) -> bool {
        self.owner == own_pid()
    }

    /// Tells whether this descriptor still is one of its ends.
    fn is(self, end: RawFd) -> bool {
        Identity::read(end).is_ok_and(|now| now == self.identity)
    }

    fn fill(self) {
        if self.is(self.writing) {
            // SAFETY: one byte; it does not wait, and a pipe that is full has been filled before.
            unsafe { libc::write(self.writing, [0_u8].as_ptr().cast(), 1) };
        }
    }

    fn empty(self) {
        let mut bytes = [0_u8; 64];
        while self.is(self.reading) {
            // SAFETY: `bytes` has space for so many bytes; it does not wait.
            let read = unsafe { libc::read(self.reading, bytes.as_mut_ptr().cast(), bytes.len()) };
            if usize::try_from(read) != Ok(bytes.len()) {
                return;
            }
        }
    }
}

/// Returns a high copy of a descriptor instead of it, where that is possible: the program counts on
/// getting the lowest ones.
fn out_of_the_way(low: RawFd) -> RawFd {
    const HIGH: RawFd = 512;
    // SAFETY: takes no pointers.
    let high = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH) };
    if high < 0 {
        return low;
    }
    // SAFETY: just opened, and no other value owns it.
    unsafe { libc::close(low) };
    high
}
