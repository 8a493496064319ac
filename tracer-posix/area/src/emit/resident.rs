//! Staying loaded.
//!
//! Threads and the C library keep pointers to functions of this library for as long as they live,
//! so the library must not be unloaded. The shared library is marked so. A plug-in that contains
//! the static library has no such mark, so it asks the loader to keep it when it is loaded. A
//! plug-in that is loaded again is still there, with the area that it had.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// How an ELF file begins (`Elf64_Ehdr`).
#[repr(C)]
struct FileHeader {
    ident: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    segments: u64,
    sections: u64,
    flags: u32,
    header_size: u16,
    segment_size: u16,
    segment_count: u16,
    section_size: u16,
    section_count: u16,
    section_names: u16,
}

/// A program header (`Elf64_Phdr`).
#[repr(C)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    alignment: u64,
}

/// An entry of the dynamic section (`Elf64_Dyn`).
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

unsafe extern "C" {
    /// Where the program or library that this is part of begins in memory. The linker defines it.
    #[link_name = "__ehdr_start"]
    static START: FileHeader;
}

/// Keeps the program or library that this is part of loaded.
#[unsafe(link_section = "linux_trace_start")]
pub(super) fn stay_loaded() {
    // SAFETY: a file that is loaded begins so, and stays while its code runs.
    let start = unsafe { &START };
    if cfg!(target_pointer_width = "64") && !is_main_program(start) && !is_marked(start) {
        mark(start);
    }
}

fn segments(start: &FileHeader) -> &[Segment] {
    let first = std::ptr::from_ref(start)
        .cast::<u8>()
        .wrapping_add(usize::try_from(start.segments).unwrap_or(0))
        .cast::<Segment>();
    // SAFETY: the header is that of a loaded file: its program headers are in memory as well,
    // aligned.
    unsafe { std::slice::from_raw_parts(first, usize::from(start.segment_count)) }
}

/// Tells whether the file is the main program, which is never unloaded.
fn is_main_program(start: &FileHeader) -> bool {
    // SAFETY: takes an integer only.
    let main = unsafe { libc::getauxval(libc::AT_PHDR) };
    u64::try_from(segments(start).as_ptr().addr()) == Ok(main)
}

/// Tells whether the loader knows already that the file must not be unloaded.
fn is_marked(start: &FileHeader) -> bool {
    const FLAGS_1: i64 = 0x6fff_fffb;
    const NO_DELETE: u64 = 8;
    let Some(dynamic) = segments(start)
        .iter()
        .find(|segment| segment.kind == libc::PT_DYNAMIC)
    else {
        return true;
    };
    // A library's addresses count from its beginning.
    let address = usize::try_from(dynamic.address).unwrap_or(0);
    let bytes = usize::try_from(dynamic.memory_bytes).unwrap_or(0);
    let first = std::ptr::from_ref(start)
        .cast::<u8>()
        .wrapping_add(address)
        .cast::<Dynamic>();
    // SAFETY: the loaded file has its dynamic section there.
    let entries = unsafe { std::slice::from_raw_parts(first, bytes / size_of::<Dynamic>()) };
    entries
        .iter()
        .take_while(|entry| entry.tag != 0)
        .any(|entry| entry.tag == FLAGS_1 && entry.value & NO_DELETE != 0)
}

/// Asks the loader to keep the file. `dlopen` is looked up and not linked to, since a static
/// program has none. Such a program never calls this function.
fn mark(start: &FileHeader) {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    // SAFETY: a string ended by a null; the default scope needs no handle.
    let open = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlopen".as_ptr()) };
    let Some(open) = NonNull::new(open) else {
        return;
    };
    // SAFETY: all of it is pointers, for which null is valid.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address of a loaded file; `found` may be written to.
    let is_found = unsafe { libc::dladdr(std::ptr::from_ref(start).cast(), &raw mut found) };
    if is_found == 0 || found.dli_fname.is_null() {
        return;
    }
    // SAFETY: the loader's own string, which stays as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    // SAFETY: the C library defines it with this signature.
    let open = unsafe { std::mem::transmute::<*mut c_void, Open>(open.as_ptr()) };
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: a string ended by a null. It is loaded already: nothing runs.
    unsafe { open(name.as_ptr(), flags) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no loader")]
    fn a_program_knows_that_it_is_the_main_program() {
        // SAFETY: a file that is loaded begins so.
        let start = unsafe { &START };

        assert_eq!(start.ident[..4], *b"\x7fELF");
        assert!(is_main_program(start));
    }
}
