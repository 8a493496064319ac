//! Code that an untraced trace point executes, instruction by instruction.

#![cfg(target_arch = "x86_64")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use tests::dist::{self, Linkage};
use tests::steps::{self, Step};

/// The steps in the program and those in the library.
fn executed(options: &[&str], linkage: Linkage) -> (Vec<Step>, Vec<Step>) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("disabled");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/disabled.c");
    dist::compile_file("cc", &source, &program, options, linkage).unwrap();
    let library = dist::folder().unwrap().join("lib/libposixtrace.so.0");
    let objects: &[&Path] = match linkage {
        Linkage::Shared => &[&program, &library],
        Linkage::Static => &[&program],
    };
    let mut command = Command::new(&program);
    // Otherwise the first call of the function goes through the dynamic linker.
    command.env("LD_BIND_NOW", "1");
    let steps = steps::between_breakpoints(&mut command, objects).unwrap();
    steps.into_iter().partition(|step| step.object == 0)
}

/// Checks that there are at most `most` instructions and `most_loads` loads; no store, no call,
/// nothing that waits.
fn assert_cheap(steps: &[Step], most: usize, most_loads: usize) {
    let shown: Vec<_> = steps.iter().map(|step| &step.instruction[..]).collect();
    let shown = shown.join("\n");
    assert!(steps.len() >= 3, "too few to be true:\n{shown}");
    assert!(steps.len() <= most, "{} of {most}:\n{shown}", steps.len());
    let loads = steps
        .iter()
        .filter(|step| step.has_memory_operand() && step.name() != "ret");
    assert!(loads.count() <= most_loads, "looks at memory:\n{shown}");
    let costly = ["call", "lock", "xchg", "syscall", "fence", "rdtsc", "cpuid"];
    for step in steps {
        let is_costly = costly.iter().any(|word| step.instruction.contains(word));
        // A two-byte no-operation is an exchange of a register with itself.
        assert!(
            !is_costly || step.instruction == "xchg   %ax,%ax",
            "{}:\n{shown}",
            step.instruction
        );
        assert!(!step.is_store(), "a store: {}:\n{shown}", step.instruction);
    }
}

#[test]
fn an_inline_trace_point_that_is_not_traced_is_a_few_loads_and_branches() {
    // Three loads: the address of the pointer, the pointer, and the word.
    for linkage in [Linkage::Shared, Linkage::Static] {
        let (program, library) = executed(&[], linkage);
        assert!(library.is_empty(), "nothing is called: {library:?}");
        assert_cheap(&program, 8, 3);
    }
}

#[test]
fn the_function_that_is_not_traced_is_a_load_a_comparison_and_a_branch() {
    let (program, library) = executed(&["-DLINUX_TRACE_NO_INLINE"], Linkage::Shared);
    assert!(program.iter().any(|step| step.name().starts_with("call")));
    assert_cheap(&library, 5, 2);
    assert_eq!(library.last().map(Step::name), Some("ret"));
}
