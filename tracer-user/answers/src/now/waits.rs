//! Waits of threads, and the threads that have what is waited for.

use super::threads::ThreadId;

/// Kind of what a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitKind {
    /// A mutex.
    Mutex,
    /// A lock of readers and a writer.
    RwLock,
    /// A condition variable.
    ConditionVariable,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// The end of a thread.
    ThreadEnd,
    /// A futex of which no more is known.
    Futex,
    /// A pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A lock of a file.
    FileLock,
    /// A child, or a process that is traced.
    Child,
    /// A child that has the memory of its parent (`vfork`).
    Borrowed,
    /// A time.
    Time,
    /// A signal.
    Signal,
    /// Any of several descriptors.
    Descriptors,
    /// A file that a program serves (FUSE).
    ServedFile,
    /// A page of memory.
    Page,
    /// Another descriptor.
    Descriptor,
    /// Something else in the kernel.
    Kernel,
}

impl WaitKind {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::ConditionVariable => "condition_variable",
            Self::Semaphore => "semaphore",
            Self::Barrier => "barrier",
            Self::ThreadEnd => "thread_end",
            Self::Futex => "futex",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::FileLock => "file_lock",
            Self::Child => "child",
            Self::Borrowed => "borrowed_memory",
            Self::Time => "time",
            Self::Signal => "signal",
            Self::Descriptors => "descriptors",
            Self::ServedFile => "served_file",
            Self::Page => "page",
            Self::Descriptor => "descriptor",
            Self::Kernel => "kernel",
        }
    }

    /// Returns the words for it, without its object.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::ConditionVariable => "condition variable",
            Self::Semaphore => "semaphore",
            Self::Barrier => "barrier",
            Self::ThreadEnd => "the end of a thread",
            Self::Futex => "futex",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::FileLock => "a lock of a file",
            Self::Child => "a child",
            Self::Borrowed => "the child that has its memory",
            Self::Time => "a time",
            Self::Signal => "a signal",
            Self::Descriptors => "any of its descriptors",
            Self::ServedFile => "a served file",
            Self::Page => "a page of memory",
            Self::Descriptor => "descriptor",
            Self::Kernel => "the kernel",
        }
    }

    /// Tells whether another thread has to end the wait, as far as is known.
    pub fn has_holder(self) -> bool {
        !matches!(
            self,
            Self::Time | Self::Signal | Self::Page | Self::Descriptor | Self::Kernel
        )
    }
}

/// Thread or process that has what a thread waits for, and may end the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitHolder {
    /// That thread.
    Thread(ThreadId),
    /// Any thread of that process.
    Process(i32),
}

impl WaitHolder {
    /// Returns its process.
    pub fn pid(self) -> i32 {
        match self {
            Self::Thread(thread) => thread.pid,
            Self::Process(pid) => pid,
        }
    }
}

/// Wait of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadWait {
    /// Kind of what it waits for.
    pub kind: WaitKind,
    /// Address of the word in its memory.
    pub address: Option<u64>,
    /// Variable at that address.
    pub variable: Option<String>,
    /// Descriptor that it waits at.
    pub descriptor: Option<i32>,
    /// File, pipe or socket, as `/proc` names it, or a connection's addresses.
    pub file: Option<Vec<u8>>,
    /// Whether it ends by itself.
    pub has_timeout: bool,
    /// Any of these may end it.
    pub holders: Vec<WaitHolder>,
    /// Whether others than those may end it, as far as is known.
    pub is_whole: bool,
    /// Readers that have the lock, which are not named.
    pub readers: u32,
    /// Reason why nothing more is known of the holders.
    pub unknown: Option<&'static str>,
}

impl ThreadWait {
    /// Returns a wait of which only the kind is known.
    pub fn new(kind: WaitKind) -> Self {
        Self {
            kind,
            address: None,
            variable: None,
            descriptor: None,
            file: None,
            has_timeout: false,
            holders: Vec::new(),
            is_whole: false,
            readers: 0,
            unknown: None,
        }
    }

    /// Returns the wait with these holders, all of them.
    pub fn held_by(mut self, holders: Vec<WaitHolder>) -> Self {
        self.is_whole = !holders.is_empty();
        self.holders = holders;
        self
    }

    /// Returns the wait with the reason why its holders are not known.
    pub fn unknown(mut self, why: &'static str) -> Self {
        self.unknown = Some(why);
        self
    }
}

/// Activity of a thread at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadActivity {
    /// It runs, or waits for a CPU.
    Runs,
    /// Stopped by a signal.
    Stopped,
    /// Stopped by the thread that traces it.
    Traced(WaitHolder),
    /// It waits.
    Waits(Box<ThreadWait>),
    /// Blocked, and this user may not know in what.
    Untold,
}

impl ThreadActivity {
    /// Returns the wait.
    pub fn wait(&self) -> Option<&ThreadWait> {
        match self {
            Self::Waits(wait) => Some(wait),
            Self::Runs | Self::Stopped | Self::Traced(_) | Self::Untold => None,
        }
    }

    /// Returns those that may end it.
    pub fn holders(&self) -> &[WaitHolder] {
        match self {
            Self::Waits(wait) => &wait.holders,
            Self::Traced(tracer) => std::slice::from_ref(tracer),
            Self::Runs | Self::Stopped | Self::Untold => &[],
        }
    }

    /// Returns its name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Stopped => "stopped",
            Self::Traced(_) => "traced",
            Self::Waits(_) => "waits",
            Self::Untold => "unknown",
        }
    }
}
