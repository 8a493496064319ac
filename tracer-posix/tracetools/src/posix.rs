//! The functions of `trace.h` that this library calls.
//!
//! They are functions of the shared library, which the program may use too: so a process has one
//! trace area. Unit tests replace them by functions that keep the emitted events.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

#[cfg(not(test))]
mod real {
    use std::ffi::{c_char, c_int, c_void};
    use std::sync::atomic::AtomicU32;

    unsafe extern "C-unwind" {
        static __linux_trace_enabled: *const AtomicU32;
        pub fn posix_trace_event(id: u32, data: *const c_void, length: usize);
        pub fn posix_trace_eventid_open(name: *const c_char, id: *mut u32) -> c_int;
    }

    /// Returns the word that tells whether any stream traces this process.
    #[inline(always)]
    pub fn enabled() -> Option<&'static AtomicU32> {
        // SAFETY: the library sets the pointer before any program runs, and never changes it.
        let word = unsafe { __linux_trace_enabled };
        // SAFETY: the pointer leads to a word that stays as long as the process lives.
        unsafe { word.as_ref() }
    }
}

#[cfg(not(test))]
use real as called;
#[cfg(test)]
use tests as called;

/// Tells whether any stream traces this process; `true` also while that is not known yet.
#[inline(always)]
#[must_use]
pub fn is_traced() -> bool {
    called::enabled().is_some_and(|word| word.load(Relaxed) != 0)
}

/// Records an event in each stream that wants it.
#[inline(always)]
pub fn emit(id: u32, data: &[u8]) {
    // SAFETY: the data is readable for its length.
    unsafe { called::posix_trace_event(id, data.as_ptr().cast(), data.len()) }
}

/// Returns the identifier of the event type of this name; `None` for a name that is too long.
#[must_use]
pub fn open(name: &CStr) -> Option<u32> {
    let mut id = 0;
    // SAFETY: a name that ends with a null, and a place for the identifier.
    let error = unsafe { called::posix_trace_eventid_open(name.as_ptr(), &raw mut id) };
    (error == 0).then_some(id)
}

/// Functions that unit tests call instead of the library's. Each thread has its own events; names
/// are those of all threads.
#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    static WORD: AtomicU32 = AtomicU32::new(1);
    static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    thread_local! {
        static EMITTED: RefCell<Vec<(u32, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
    }

    pub(crate) fn enabled() -> Option<&'static AtomicU32> {
        Some(&WORD)
    }

    pub(crate) unsafe extern "C-unwind" fn posix_trace_event(
        id: u32,
        data: *const c_void,
        length: usize,
    ) {
        // SAFETY: the caller vouches for the data.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
        EMITTED.with_borrow_mut(|events| events.push((id, data.to_vec())));
    }

    pub(crate) unsafe extern "C-unwind" fn posix_trace_eventid_open(
        name: *const c_char,
        id: *mut u32,
    ) -> c_int {
        // SAFETY: the caller vouches for the name.
        let name = unsafe { CStr::from_ptr(name) };
        let mut names = NAMES.lock().unwrap();
        names.push(name.to_str().unwrap().to_owned());
        // SAFETY: the caller vouches for the place.
        unsafe { id.write(u32::try_from(names.len()).unwrap()) };
        0
    }

    /// Takes the events that this thread has emitted: their names, and their data.
    pub(crate) fn take() -> Vec<(String, Vec<u8>)> {
        let names = NAMES.lock().unwrap();
        let named = |(id, data): (u32, Vec<u8>)| {
            let name = usize::try_from(id).unwrap() - 1;
            (names[name].clone(), data)
        };
        EMITTED.take().into_iter().map(named).collect()
    }
}
