//! A program that only reads logs carries neither the C functions nor a trace area. This one does
//! nothing else.

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use tracer_log::{LogReader, OpenError};

/// Where the library that emits sets itself up when it is loaded.
const SET_UP: &str = "linux_trace_start";

#[test]
fn a_program_that_reads_logs_has_no_function_of_the_c_library_and_no_area() {
    let nothing: &[u8] = b"no log";
    assert!(matches!(LogReader::open(nothing), Err(OpenError::NotALog)));

    let program = std::fs::read("/proc/self/exe").unwrap();
    let program = object::File::parse(program.as_slice()).unwrap();
    let symbols: Vec<_> = program
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    assert!(symbols.iter().any(|name| name.contains("tracer_log")));
    let of_c: Vec<_> = symbols
        .iter()
        .filter(|name| name.starts_with("posix_trace_") || name.starts_with("__linux_trace_"))
        .collect();
    assert!(of_c.is_empty(), "{of_c:?}");
    assert!(
        program
            .sections()
            .all(|section| section.name() != Ok(SET_UP))
    );
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!mapped.contains("posix_trace_area"), "{mapped}");
}
