//! Questions that small programs in the kernel answer: whether a file of another mount of `/proc`
//! is the memory of a process, whether the kernel lets a client attach to one, what who connected
//! was allowed to, and who has made the user namespace of a process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracer_kernel::{
    AttachRights, ConnectedRights, NamespaceOwners, OpenedMemory, OutermostNamespace, WatchedRight,
};
use tracer_text::say;

use super::viewer::MAY_TRACE_ALL;

/// Time after which what could not be loaded is tried again: it takes a moment, which a client
/// could ask for again and again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Comparison of files, which is loaded when it is needed first.
#[derive(Clone, Debug)]
pub struct OtherMounts(OnDemand<OpenedMemory>);

/// Rights of who connected, whose program is loaded when it is needed first.
#[derive(Clone, Debug)]
pub struct PeerRights(OnDemand<ConnectedRights>);

/// Program that is loaded when it is needed first; `None` where none is.
#[derive(Debug)]
struct OnDemand<T>(Option<Arc<Mutex<Loaded<T>>>>);

impl<T> Clone for OnDemand<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug, Default)]
enum Loaded<T> {
    #[default]
    NotYet,
    Yes(T),
    Failed(Instant),
}

impl<T> OnDemand<T> {
    fn new() -> Self {
        Self(Some(Arc::new(Mutex::new(Loaded::NotYet))))
    }

    /// Takes the program out of the kernel, until it is needed again.
    fn unload(&self) {
        if let Some(loaded) = &self.0 {
            let mut loaded = loaded.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*loaded, Loaded::Yes(_)) {
                *loaded = Loaded::NotYet;
            }
        }
    }

    /// Asks the program, which `load` loads; `unmet` is what is said where that fails.
    fn ask<A>(
        &self,
        load: impl FnOnce() -> io::Result<T>,
        unmet: &str,
        question: impl FnOnce(&T) -> io::Result<A>,
    ) -> Option<A> {
        let loaded = self.0.as_ref()?.lock();
        let mut loaded = loaded.unwrap_or_else(PoisonError::into_inner);
        let is_to_load = match &*loaded {
            Loaded::NotYet => true,
            Loaded::Yes(_) => false,
            Loaded::Failed(at) => at.elapsed() > AGAIN_AFTER,
        };
        if is_to_load {
            let made = load();
            // The kernel's types are large.
            tracer_kernel::give_back_what_is_free();
            *loaded = made.map_or_else(
                |error| {
                    say(&format!("{unmet}: {error}"));
                    Loaded::Failed(Instant::now())
                },
                Loaded::Yes,
            );
        }
        match &*loaded {
            Loaded::Yes(program) => question(program).ok(),
            Loaded::NotYet | Loaded::Failed(_) => None,
        }
    }
}

/// Watches for the calls by which clients show a right. Each slows every system call of the machine
/// down as long as it lasts.
#[derive(Clone, Debug)]
pub struct AttachWatches {
    rights: OnDemand<AttachRights>,
    free: Arc<Semaphore>,
}

/// A watch for the call of one client.
#[derive(Debug)]
pub struct AttachWatch {
    right: WatchedRight,
    _place: OwnedSemaphorePermit,
}

impl AttachWatches {
    /// Most watches at a time.
    const MOST: usize = 4;

    /// Makes it, with nothing loaded.
    pub fn new() -> Self {
        Self {
            rights: OnDemand::new(),
            free: Arc::new(Semaphore::new(Self::MOST)),
        }
    }

    /// Makes one that watches nothing.
    pub fn blind() -> Self {
        Self {
            rights: OnDemand(None),
            free: Arc::new(Semaphore::new(Self::MOST)),
        }
    }

    /// Watches for the call with this open pidfd, which stays open as long as the watch lasts.
    /// `None` where there are too many, `Some(None)` where this kernel shows nothing.
    pub fn watch(&self, process: BorrowedFd<'_>) -> Option<Option<AttachWatch>> {
        let place = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let right = self.rights.ask(
            AttachRights::find,
            "programs that may trace another user's process by a capability alone are refused, as it \
             cannot be seen whether the kernel lets them attach to it",
            |rights| rights.watch(process),
        );
        Some(right.map(|right| AttachWatch {
            right,
            _place: place,
        }))
    }
}

impl AttachWatch {
    /// Tells whether the kernel has allowed the call.
    pub fn is_proven(&self) -> bool {
        self.right.is_proven()
    }
}

impl PeerRights {
    /// Makes it, with nothing loaded.
    pub fn new() -> Self {
        Self(OnDemand::new())
    }

    /// Makes one that knows of no rights.
    pub fn unknown() -> Self {
        Self(OnDemand(None))
    }

    /// Takes the program out of the kernel, until it is needed again.
    pub fn unload(&self) {
        self.0.unload();
    }

    /// Returns the capabilities that the kernel has noted, as another process made this connection,
    /// in the agent's user namespace; `None` where that cannot be known.
    pub fn capabilities(&self, connection: BorrowedFd<'_>) -> Option<u64> {
        self.ask(|program| program.capabilities(connection))
    }

    /// Tells whether the kernel has noted that it might trace every process (`CAP_SYS_PTRACE`, in
    /// the agent's user namespace); `None` where that cannot be known.
    pub fn might_trace_all(&self, connection: BorrowedFd<'_>) -> Option<bool> {
        let capabilities = self.capabilities(connection);
        capabilities.map(|noted| noted & MAY_TRACE_ALL != 0)
    }

    /// Tells whether the kernel has noted that it was in the first user namespace; `None` where
    /// that cannot be known.
    pub fn is_of_first_namespace(&self, connection: BorrowedFd<'_>) -> Option<bool> {
        self.ask(|program| program.is_of_first_namespace(connection))
    }

    /// Returns the user namespace, right within the first one, in which the kernel has noted that
    /// it might trace every process there, by its inode; `None` where there is none, or that cannot
    /// be known.
    pub fn traces_within(&self, connection: BorrowedFd<'_>) -> Option<u32> {
        self.ask(|program| program.traces_within(connection))?
    }

    fn ask<A>(&self, question: impl FnOnce(&ConnectedRights) -> io::Result<A>) -> Option<A> {
        self.0.ask(
            ConnectedRights::load,
            "programs with CAP_SYS_PTRACE that are not root's are given what is their user's alone, \
             and no program is given what is in user namespaces, as it is not known with which \
             rights they have connected",
            question,
        )
    }
}

/// Owners of user namespaces, whose program is loaded when it is needed first.
static OWNERS: LazyLock<OnDemand<NamespaceOwners>> = LazyLock::new(OnDemand::new);

/// Returns the user namespace, right within the first one, for which process `pid` may be looked
/// into now; `None` where there is none, or that cannot be known.
pub fn outermost_of(pid: i32) -> Option<OutermostNamespace> {
    let folder = File::open(format!("/proc/{pid}")).ok()?;
    OWNERS.ask(
        NamespaceOwners::load,
        "no program is given what is in user namespaces, as it is not known who has made them",
        |program| program.outermost(folder.as_fd()),
    )?
}

/// Takes the program for owners of user namespaces out of the kernel, until it is needed again.
pub fn unload_owners() {
    OWNERS.unload();
}

impl OtherMounts {
    /// Makes it, with nothing loaded.
    pub fn new() -> Self {
        Self(OnDemand::new())
    }

    /// Makes one that compares nothing.
    pub fn uncompared() -> Self {
        Self(OnDemand(None))
    }

    /// Takes the program out of the kernel, until it is needed again.
    pub fn unload(&self) {
        self.0.unload();
    }

    /// Tells whether an open file is the memory of the process that has this pid here; `None` where
    /// that cannot be known. The process lives before and after, so that the pid is its own.
    pub fn is_memory_of(&self, file: BorrowedFd<'_>, pid: i32) -> Option<bool> {
        self.0.ask(
            OpenedMemory::load,
            "programs with a /proc of their own are refused, as their files cannot be compared",
            |program| program.is_of(file, pid),
        )
    }
}
