//! `trace.h` against Rust: the C compiler is asked whether both say the same.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use tracer_common::event_type::{
    EVENT_SET_WORDS, EventTypeId, SYSTEM_EVENT_TYPES, TRACE_EVENT_NAME_MAX, TRACE_USER_EVENT_MAX,
};
use tracer_posix::capi::{LAYOUTS, constants};
use tracer_posix::engine::sizes::TRACE_NAME_MAX;

/// Hands a source to a compiler, every warning being an error.
fn compile(compiler: &str, standard: &str, language: &str, source: &str) {
    let folder = tempfile();
    let file = folder.join(format!("header.{language}"));
    std::fs::write(&file, source).unwrap();
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"])
        .arg(format!("-std={standard}"))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(&file)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} -std={standard}: {errors}"
    );
}

fn tempfile() -> std::path::PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("tracer-header-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn the_header_compiles_in_every_c_and_in_cpp() {
    let program = "#include <trace.h>\nint main(void) { return POSIX_TRACE_NO_OVERRUN; }\n";
    for standard in ["c99", "gnu99", "c11", "c17", "c2x"] {
        compile("cc", standard, "c", program);
    }
    for standard in ["c++11", "c++20"] {
        compile("c++", standard, "cc", program);
    }
}

#[test]
fn the_header_has_the_layouts_of_the_rust_types() {
    let mut c = String::from("#include <stddef.h>\n#include <trace.h>\n");
    for layout in LAYOUTS {
        let c_type = layout.c_type;
        writeln!(
            c,
            "_Static_assert(sizeof({c_type}) == {}, \"{c_type}\");",
            layout.size
        )
        .unwrap();
        for (member, offset) in layout.members {
            writeln!(
                c,
                "_Static_assert(offsetof({c_type}, {member}) == {offset}, \"{c_type}.{member}\");"
            )
            .unwrap();
        }
    }
    c.push_str("int unused;\n");
    compile("cc", "c11", "c", &c);
}

#[test]
fn the_header_has_the_numbers_of_the_rust_side() {
    let mut numbers: Vec<(&str, i64)> = constants::ALL
        .iter()
        .map(|(name, number)| (*name, i64::from(*number)))
        .collect();
    numbers.extend(
        SYSTEM_EVENT_TYPES
            .iter()
            .map(|entry| (entry.constant, i64::from(entry.id.0))),
    );
    let unnamed = i64::from(EventTypeId::UNNAMED_USEREVENT.0);
    numbers.extend([
        ("POSIX_TRACE_UNNAMED_USEREVENT", unnamed),
        ("POSIX_TRACE_UNNAMED_USER_EVENT", unnamed),
        ("TRACE_USER_EVENT_MAX", i64::from(TRACE_USER_EVENT_MAX)),
        (
            "TRACE_EVENT_NAME_MAX",
            i64::try_from(TRACE_EVENT_NAME_MAX).unwrap(),
        ),
        ("TRACE_NAME_MAX", i64::try_from(TRACE_NAME_MAX).unwrap()),
        (
            "sizeof(trace_event_set_t)",
            i64::try_from(EVENT_SET_WORDS * 8).unwrap(),
        ),
    ]);
    let mut c = String::from("#include <trace.h>\n");
    for (name, number) in numbers {
        writeln!(c, "_Static_assert({name} == {number}, \"{name}\");").unwrap();
    }
    c.push_str("int unused;\n");
    compile("cc", "c11", "c", &c);
}
