//! `trace.h` against Rust: the C compiler is asked whether both say the same.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use posixtrace::{LAYOUTS, constants};
use tracer_common::event_type::{
    DataMember, EVENT_SET_WORDS, EventTypeId, SYSTEM_EVENT_TYPES, Scalar, TRACE_EVENT_NAME_MAX,
    TRACE_USER_EVENT_MAX,
};
use tracer_common::kernel::KERNEL_EVENT_TYPES;
use tracer_engine::sizes::TRACE_NAME_MAX;

/// Compiles a source; every warning is an error.
fn compile(compiler: &str, standard: &str, language: &str, source: &str) {
    let options = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    run_compiler(compiler, standard, language, &options, source);
}

/// Runs a compiler over a source that may include the header; what it wrote.
fn run_compiler(
    compiler: &str,
    standard: &str,
    language: &str,
    options: &[&str],
    source: &str,
) -> String {
    let mut child = Command::new(compiler)
        .args(options)
        .arg(format!("-std={standard}"))
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .args(["-x", language, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("cannot run {compiler}: {error}; run: cargo xtask setup --test")
        });
    let mut input = child.stdin.take().unwrap();
    input.write_all(source.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} -std={standard}: {errors}\n{source}"
    );
    String::from_utf8(output.stdout).unwrap()
}

const C: [&str; 6] = ["c99", "gnu99", "c11", "gnu11", "c17", "c2x"];
const CPP: [&str; 8] = [
    "c++98", "c++03", "c++11", "gnu++11", "c++14", "c++17", "c++20", "c++2b",
];

/// Compiles the header in each language: alone, twice, with each way to ask the C library for more,
/// and with the options.
fn compiles_with(compiler: &str, standards: &[&str], language: &str) {
    let beginnings = [
        "",
        "#define _POSIX_C_SOURCE 200809L\n#include <unistd.h>\n#include <trace.h>\n",
        "#define _GNU_SOURCE\n#include <pthread.h>\n#include <time.h>\n",
        "#define LINUX_TRACE_OPTIONS\n",
        "#define LINUX_TRACE_OPTIONS\n#include <unistd.h>\n",
    ];
    for standard in standards {
        for beginning in beginnings {
            let beginning = match language {
                // This compiler's C library asks for everything by itself in C++.
                "c++" => beginning.replace("#define _GNU_SOURCE\n", ""),
                _ => beginning.to_owned(),
            };
            let source = format!(
                "{beginning}#include <trace.h>\n\
                 int main(void) {{ return POSIX_TRACE_NO_OVERRUN; }}\n"
            );
            compile(compiler, standard, language, &source);
        }
    }
}

// clause: header.languages
#[test]
fn the_header_compiles_in_every_c_with_gcc() {
    compiles_with("gcc", &C, "c");
}

// clause: header.languages
#[test]
fn the_header_compiles_in_every_c_with_clang() {
    compiles_with("clang", &C, "c");
}

// clause: header.languages
#[test]
fn the_header_compiles_in_every_cpp_with_gcc() {
    compiles_with("g++", &CPP, "c++");
}

// clause: header.languages
#[test]
fn the_header_compiles_in_every_cpp_with_clang() {
    compiles_with("clang++", &CPP, "c++");
}

/// Returns the words of the header itself, macros included, as the preprocessor leaves them.
fn words_of_the_header(beginning: &str) -> BTreeSet<String> {
    let source = format!("{beginning}#include <trace.h>\n");
    let preprocessed = run_compiler("gcc", "c99", "c", &["-E", "-dD"], &source);
    let mut is_ours = false;
    let mut words = BTreeSet::new();
    for line in preprocessed.lines() {
        // `# 12 "/usr/include/trace.h" 2`
        if let Some(marker) = line.strip_prefix("# ") {
            is_ours = marker
                .split('"')
                .nth(1)
                .is_some_and(|file| file.ends_with("/trace.h"));
        } else if is_ours {
            let line = line.strip_prefix("#undef ").unwrap_or(line);
            let line = line.strip_prefix("#define ").unwrap_or(line);
            words.extend(self::words(line).map(str::to_owned));
        }
    }
    words
}

/// Words of the languages, and names of other headers that this one has to use.
const NOT_OURS: &[&str] = &[
    "case",
    "char",
    "const",
    "default",
    "int",
    "long",
    "return",
    "short",
    "signed",
    "static",
    "struct",
    "switch",
    "typedef",
    "unsigned",
    "void",
    "restrict",
    "extern",
    "__inline__",
    "size_t",
    "pid_t",
    "pthread_t",
    "timespec",
    "sysconf",
    "__UINT32_TYPE__",
    "__UINT64_TYPE__",
    "__restrict",
    "__INT64_TYPE__",
    "if",
    "volatile",
    "__inline",
    "__attribute__",
    "__asm__",
    "__builtin_expect",
    "__weak__",
    "__gnu_inline__",
    "__always_inline__",
    "__artificial__",
];

// clause: header.namespace
#[test]
fn the_header_uses_no_names_but_the_standards_and_those_with_our_prefixes() {
    let reserved = [
        "posix_",
        "POSIX_TRACE_",
        "_POSIX_TRACE",
        "trace_",
        "TRACE_",
        "_TRACE_H",
        "_SC_TRACE",
        "LINUX_TRACE_",
        "linux_",
        "__linux_",
    ];
    for beginning in ["", "#define LINUX_TRACE_OPTIONS\n"] {
        let strangers: Vec<_> = words_of_the_header(beginning)
            .into_iter()
            .filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()))
            .filter(|word| !NOT_OURS.contains(&word.as_str()))
            .filter(|word| !reserved.iter().any(|prefix| word.starts_with(prefix)))
            .collect();
        assert!(strangers.is_empty(), "{strangers:?}");
    }
}

// clause: header.functions
#[test]
fn the_header_declares_what_the_library_exports() {
    let structs = ["posix_trace_event_info", "posix_trace_status_info"];
    let declared: BTreeSet<_> = words_of_the_header("")
        .into_iter()
        .filter(|word| word.starts_with("posix_trace_") && !structs.contains(&word.as_str()))
        .collect();
    let exported: BTreeSet<_> = include_str!("../exports.txt")
        .lines()
        .filter(|name| name.starts_with("posix_trace_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(declared, exported);
}

// clause: header.types
#[test]
fn the_header_alone_brings_the_types_of_its_functions() {
    let source = "#include <trace.h>\n\
        size_t size; pid_t pid; pthread_t thread; struct timespec time;\n\
        trace_attr_t attr; trace_id_t trid; trace_event_id_t event; trace_event_set_t set;\n\
        struct posix_trace_event_info info; struct posix_trace_status_info status;\n";
    for compiler in ["gcc", "clang"] {
        compile(compiler, "c99", "c", source);
    }
}

// clause: header.slips
#[test]
fn the_slips_of_the_standards_text_are_no_names_of_the_header() {
    let words = words_of_the_header("");
    for slip in [
        "posix_trace_attr_t",
        "posix_trace_eventset_emptyset",
        "posix_trace_eventset_add_event",
        "POSIX_TRACE_USER_EVENT_MAX",
    ] {
        assert!(!words.contains(slip), "{slip}");
    }
}

/// Returns the output of a program that was compiled with the header.
fn printed_by(body: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    let name = format!("header-{}-{count}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let options = ["-Wall", "-Werror", "-o", program.to_str().unwrap()];
    run_compiler("gcc", "c99", "c", &options, body);
    let output = Command::new(&program).output().unwrap();
    std::fs::remove_file(&program).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Prints the option macros and what `sysconf()` says of each, and of two others.
const PRINTER: &str = "
    #include <stdio.h>
    #include <unistd.h>
    #include <trace.h>
    int main(void)
    {
        long (*other)(int) = sysconf;
        printf(\"%ld %ld %ld %ld\\n\", (long)_POSIX_TRACE, (long)_POSIX_TRACE_EVENT_FILTER, (long)_POSIX_TRACE_INHERIT,
            (long)_POSIX_TRACE_LOG);
        printf(\"%ld %ld %ld %ld\\n\", sysconf(_SC_TRACE), sysconf(_SC_TRACE_EVENT_FILTER), sysconf(_SC_TRACE_INHERIT),
            sysconf(_SC_TRACE_LOG));
        printf(\"%d\\n\", sysconf(_SC_TRACE_NAME_MAX) == TRACE_NAME_MAX
            && sysconf(_SC_TRACE_EVENT_NAME_MAX) == TRACE_EVENT_NAME_MAX
            && sysconf(_SC_TRACE_SYS_MAX) == TRACE_SYS_MAX
            && sysconf(_SC_TRACE_USER_EVENT_MAX) == TRACE_USER_EVENT_MAX);
        printf(\"%d\\n\", sysconf(_SC_PAGESIZE) > 0 && sysconf(_SC_PAGESIZE) == other(_SC_PAGESIZE));
        return 0;
    }
";

// clause: options.default
#[test]
fn by_default_the_options_are_what_the_c_library_says() {
    let printed = printed_by(&format!("#define _POSIX_C_SOURCE 200809L\n{PRINTER}"));

    assert_eq!(printed, "-1 -1 -1 -1\n-1 -1 -1 -1\n0\n1\n");
}

// clause: options.asked
#[test]
fn a_program_that_asks_for_it_gets_the_true_options() {
    let defines = "#define _POSIX_C_SOURCE 200809L\n#define LINUX_TRACE_OPTIONS\n";
    let printed = printed_by(&format!("{defines}{PRINTER}"));

    assert_eq!(
        printed,
        "200809 200809 200809 200809\n200809 200809 200809 200809\n1\n1\n"
    );
}

/// Constants that one member or argument can have.
const KINDS: [&[&str]; 11] = [
    &["RUNNING", "SUSPENDED"],
    &["FULL", "NOT_FULL"],
    &["OVERRUN", "NO_OVERRUN"],
    &["FLUSHING", "NOT_FLUSHING"],
    &["NOT_TRUNCATED", "TRUNCATED_RECORD", "TRUNCATED_READ"],
    &["LOOP", "UNTIL_FULL", "FLUSH"],
    &["LOOP", "UNTIL_FULL", "APPEND"],
    &["CLOSE_FOR_CHILD", "INHERITED"],
    &["WOPID_EVENTS", "SYSTEM_EVENTS", "ALL_EVENTS"],
    &["SET_EVENTSET", "ADD_EVENTSET", "SUB_EVENTSET"],
    &[
        "START",
        "STOP",
        "OVERFLOW",
        "RESUME",
        "ERROR",
        "FILTER",
        "FLUSH_START",
        "FLUSH_STOP",
        "UNNAMED_USEREVENT",
    ],
];

// clause: constants.defined
#[test]
fn the_constants_of_one_kind_differ_and_can_be_cases_of_a_switch() {
    for kind in KINDS {
        let mut c = String::from("#include <trace.h>\nint f(int value) { switch (value) {\n");
        for name in kind {
            // The compiler refuses two cases that are equal.
            writeln!(c, "case POSIX_TRACE_{name}: return 1;").unwrap();
        }
        c.push_str("default: return 0; } }\n");
        compile("gcc", "c99", "c", &c);
    }
}

// clause: structs.members
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
    for layout in KERNEL_EVENT_TYPES.iter().filter_map(|known| known.layout) {
        let c_type = c_name(layout.rust_name);
        writeln!(
            c,
            "_Static_assert(sizeof({c_type}) == {}, \"size\");",
            layout.size
        )
        .unwrap();
        for DataMember {
            name,
            offset,
            c_type: of,
            ..
        } in layout.members
        {
            let member = format!("(({c_type} *)0)->linux_{name}");
            let element = of.length.map_or("", |_| "[0]");
            let (scalar, length) = (c_scalar(of.scalar), of.length.unwrap_or(1));
            writeln!(
                c,
                "_Static_assert(offsetof({c_type}, linux_{name}) == {offset}, \"{c_type}.{name}\");\n\
                 _Static_assert(_Generic({member}{element}, {scalar}: 1, default: 0), \"{c_type}.{name}\");\n\
                 _Static_assert(sizeof({member}) == {length} * sizeof({scalar}), \"{c_type}.{name}\");"
            )
            .unwrap();
        }
    }
    c.push_str("int unused;\n");
    compile("gcc", "c11", "c", &c);
}

/// As C names the data that is `SwitchInData` here.
fn c_name(rust_name: &str) -> String {
    let words =
        rust_name
            .split_inclusive(|_: char| true)
            .fold(String::new(), |mut name, letter| {
                if letter.chars().all(char::is_uppercase) {
                    name.push('_');
                }
                name + &letter.to_lowercase()
            });
    format!("struct linux_trace{}", words.strip_suffix("_data").unwrap())
}

fn c_scalar(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Char => "char",
        Scalar::U8 => "unsigned char",
        Scalar::U16 => "unsigned short",
        Scalar::I32 => "int",
        Scalar::U32 => "unsigned",
        Scalar::I64 => "__INT64_TYPE__",
        Scalar::U64 => "__UINT64_TYPE__",
    }
}

// clause: constants.defined limits.minima
#[test]
fn the_header_has_the_constants_of_the_rust_side() {
    let mut values: Vec<(&str, i64)> = constants::ALL
        .iter()
        .map(|(name, value)| (*name, i64::from(*value)))
        .collect();
    values.extend(
        SYSTEM_EVENT_TYPES
            .iter()
            .map(|entry| (entry.constant, i64::from(entry.id.0))),
    );
    let unnamed = i64::from(EventTypeId::UNNAMED_USEREVENT.0);
    values.extend([
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
    values.extend([
        ("_POSIX_TRACE_NAME_MAX", 8),
        ("_POSIX_TRACE_EVENT_NAME_MAX", 30),
        ("_POSIX_TRACE_SYS_MAX", 8),
        ("_POSIX_TRACE_USER_EVENT_MAX", 32),
        ("TRACE_NAME_MAX >= _POSIX_TRACE_NAME_MAX", 1),
        ("TRACE_EVENT_NAME_MAX >= _POSIX_TRACE_EVENT_NAME_MAX", 1),
        ("TRACE_SYS_MAX >= _POSIX_TRACE_SYS_MAX", 1),
        ("TRACE_USER_EVENT_MAX >= _POSIX_TRACE_USER_EVENT_MAX", 1),
    ]);
    let mut c = String::from("#include <trace.h>\n");
    for (name, value) in values {
        writeln!(c, "_Static_assert(({name}) == {value}, \"{name}\");").unwrap();
    }
    c.push_str("int unused;\n");
    compile("gcc", "c11", "c", &c);
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}
