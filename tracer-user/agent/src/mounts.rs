//! Comparison of files of `/proc` that were opened in another mount of it than the agent's.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracer_kernel::OpenedMemory;
use tracer_text::say;

/// Time after which what could not be loaded is tried again: it takes a moment, which a client
/// could ask for again and again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Comparison of files, which is loaded when it is needed first.
#[derive(Clone, Debug)]
pub struct OtherMounts(Option<Arc<Mutex<Loaded>>>);

#[derive(Debug, Default)]
enum Loaded {
    #[default]
    NotYet,
    Yes(OpenedMemory),
    Failed(Instant),
}

impl OtherMounts {
    /// Makes it, with nothing loaded.
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Makes one that compares nothing.
    pub fn uncompared() -> Self {
        Self(None)
    }

    /// Tells whether an open file is the memory of the process that has this pid here; `None` where
    /// that cannot be known. The process lives before and after, so that the pid is its own.
    pub fn is_memory_of(&self, file: BorrowedFd<'_>, pid: i32) -> Option<bool> {
        let loaded = self.0.as_ref()?.lock();
        let mut loaded = loaded.unwrap_or_else(PoisonError::into_inner);
        let is_to_load = match &*loaded {
            Loaded::NotYet => true,
            Loaded::Yes(_) => false,
            Loaded::Failed(at) => at.elapsed() > AGAIN_AFTER,
        };
        if is_to_load {
            *loaded = load();
        }
        match &*loaded {
            Loaded::Yes(program) => program.is_of(file, pid).ok(),
            Loaded::NotYet | Loaded::Failed(_) => None,
        }
    }
}

fn load() -> Loaded {
    let opened = OpenedMemory::load();
    // The kernel's types are large.
    tracer_kernel::give_back_what_is_free();
    opened.map_or_else(
        |error| {
            say(&format!(
                "programs with a /proc of their own are refused, as their files cannot be compared: \
                 {error}"
            ));
            Loaded::Failed(Instant::now())
        },
        Loaded::Yes,
    )
}
