//! The C++ functions of the interface: `tracetools::detail::demangle_symbol()` and
//! `get_symbol_funcptr()`. Templates of its header call them to find the names of callbacks.
//!
//! Both return memory that the caller frees, or null.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// `abi::__cxa_demangle()`.
type Demangle =
    unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;

/// Returns the name that a mangled one stands for; null where it is none.
///
/// # Safety
///
/// `mangled` is null or ends with a null.
// SAFETY: no other symbol of this name is linked; `utils.hpp` declares this signature.
#[unsafe(export_name = "_ZN10tracetools6detail15demangle_symbolEPKc")]
pub unsafe extern "C" fn demangle_symbol(mangled: *const c_char) -> *mut c_char {
    let Some(demangle) = (!mangled.is_null()).then(demangler).flatten() else {
        return ptr::null_mut();
    };
    let mut status = 1;
    // SAFETY: a text that ends with a null; the result is memory of its own.
    let name = unsafe { demangle(mangled, ptr::null_mut(), ptr::null_mut(), &raw mut status) };
    if status == 0 { name } else { ptr::null_mut() }
}

/// Returns the name of the function at an address; null where none is known.
///
/// # Safety
///
/// Any address may be asked for.
// SAFETY: no other symbol of this name is linked; `utils.hpp` declares this signature.
#[unsafe(export_name = "_ZN10tracetools6detail18get_symbol_funcptrEPKv")]
pub unsafe extern "C" fn get_symbol_funcptr(function: *const c_void) -> *mut c_char {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the loader looks the address up, and fills in the structure.
    if unsafe { libc::dladdr(function, info.as_mut_ptr()) } == 0 {
        return ptr::null_mut();
    }
    // SAFETY: null pointers where it was not filled in.
    let info = unsafe { info.assume_init() };
    // SAFETY: null, or a name of the object that has the function.
    unsafe { demangle_symbol(info.dli_sname) }
}

/// Finds the demangler of the C++ library, which every program that calls these functions has. This
/// library does not bring it along: it may be preloaded into programs in C too.
fn demangler() -> Option<Demangle> {
    const NAME: &CStr = c"__cxa_demangle";
    // SAFETY: a name that ends with a null.
    let mut found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if found.is_null() {
        // It was loaded where this library does not look, as the interpreters of languages do.
        // SAFETY: as above.
        let library = unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_LAZY) };
        if library.is_null() {
            return None;
        }
        // SAFETY: as above; the library stays loaded.
        found = unsafe { libc::dlsym(library, NAME.as_ptr()) };
    }
    if found.is_null() {
        return None;
    }
    // SAFETY: the ABI of C++ gives the function of this name this signature.
    Some(unsafe { std::mem::transmute::<*mut c_void, Demangle>(found) })
}
