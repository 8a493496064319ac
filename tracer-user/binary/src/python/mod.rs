//! Functions of Python: where the CPython interpreter of a process has what its frames are found
//! from (`file`, `layout`), the functions that were recorded (`code`, `lines`), and their place
//! among the functions of the program (`merge`).
//!
//! A place in a function of Python has no address. So each gets a number, which stands in stacks in
//! place of one ([`PLACES`]) and is no address of any memory; a name's event says which function,
//! file and line it is.

mod code;
mod file;
mod layout;
mod lines;
mod merge;

pub use code::{Codes, PythonCode};
pub use file::{Interpreter, PythonFile};
pub use layout::{LAYOUTS, layout_of};
pub use merge::{Frames, merged};

/// Upper 16 bits of what stands in place of an address: no address of a program has any of the
/// upper 7 bits without all of them.
pub const PLACES: u64 = 0x5079;

/// Tells whether this stands for a place in a function of Python.
#[must_use]
pub fn is_place(address: u64) -> bool {
    address >> 48 == PLACES
}

/// Returns the name and the file in the name of a place.
#[must_use]
pub fn parts_of_name(name: &str) -> (&str, Option<&str>) {
    let parts = name
        .strip_suffix(')')
        .and_then(|name| name.split_once(" ("));
    parts.map_or((name, None), |(function, file)| (function, Some(file)))
}

/// Reads any bytes as a recorded function and its frames.
#[doc(hidden)]
pub fn look_through(untrusted: &[u8]) {
    let mut codes = Codes::default();
    codes.take(untrusted);
    let (_, given) = Frames::split(untrusted);
    for frames in Frames::parse(untrusted).into_iter().chain(given) {
        let native = [1, 2, 3];
        let _ = merged(&mut codes, &frames, 1, &native, |address| address == 2);
    }
    for minor in 8..15 {
        let _ = lines::line(minor, 1, untrusted, 7);
    }
}
