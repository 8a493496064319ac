//! Annotates this library's locks for a race detector in the program.
//!
//! ThreadSanitizer sees what the C library's functions touch for this library, and knows the C
//! library's locks. It does not see the locks of this library, and would report a race between two
//! threads that use one stream in turn. A program with ThreadSanitizer has functions that announce
//! such locks.

use std::ffi::{CStr, c_void};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

/// Address of one of those functions; null in a program without them.
struct Annotation(AtomicPtr<c_void>);

/// Announces that what follows comes after all that other threads did before they released the
/// lock.
static ACQUIRE: Annotation = Annotation::missing();
static RELEASE: Annotation = Annotation::missing();

/// Looks for these functions. Before there is a stream there is no lock, and nothing to announce.
pub(super) fn look() {
    ACQUIRE.find(c"__tsan_acquire");
    RELEASE.find(c"__tsan_release");
}

/// Announces that a lock was taken.
#[inline]
pub(super) fn acquired<T>(lock: &T) {
    ACQUIRE.annotate(std::ptr::from_ref(lock).cast());
}

/// Announces that a lock is about to be released.
#[inline]
pub(super) fn releasing<T>(lock: &T) {
    RELEASE.annotate(std::ptr::from_ref(lock).cast());
}

impl Annotation {
    const fn missing() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    fn find(&self, name: &CStr) {
        // SAFETY: a string ended by a null; the default scope needs no handle.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        self.0.store(found, Relaxed);
    }

    #[inline]
    fn annotate(&self, lock: *const c_void) {
        let function = self.0.load(Relaxed);
        if !function.is_null() {
            call(function, lock);
        }
    }
}

#[cold]
fn call(function: *mut c_void, lock: *const c_void) {
    type Function = unsafe extern "C" fn(*const c_void);
    // SAFETY: both functions have this signature.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(function) };
    // SAFETY: to the function the address is a name: it does not read there.
    unsafe { function(lock) };
}
