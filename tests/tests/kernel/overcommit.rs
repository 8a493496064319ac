//! Trace points where the kernel promises no more memory than it has (`vm.overcommit_memory=2`) and
//! all of it is reserved: they lose their events, and do no harm.
//!
//! That setting is the whole machine's, so the machine is a small one: a kernel in user space (User
//! Mode Linux), whose first program is the test's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::ensure;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;

/// Makes the library that lets that kernel run on processors that are younger than it.
fn whole_registers(library: &Path) -> anyhow::Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/preloaded/whole_registers.c");
    let made = Command::new("cc")
        .args([
            "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
        ])
        .arg(library)
        .arg(source)
        .arg("-ldl")
        .output()?;
    let complaints = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "cc: {complaints}");
    Ok(())
}

/// Returns what the program says of each case.
fn cases(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let root = folder.join("root");
    fs::create_dir_all(root.join("proc"))?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/overcommit.c");
    let options = ["-Wall", "-Wextra", "-Werror", "-static"];
    dist::compile_file("cc", &source, &root.join("init"), &options, Linkage::Static)?;
    let registers = folder.join("whole_registers.so");
    whole_registers(&registers)?;
    let output = Command::new("timeout")
        .args([
            "120",
            "linux.uml",
            "mem=512M",
            "rootfstype=hostfs",
            "rw",
            "init=/init",
        ])
        .arg(format!("rootflags={}", root.display()))
        .args(["con=null", "con0=fd:0,fd:1", "quiet", "panic=1"])
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env("LD_PRELOAD", &registers)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(
        said.contains("all cases ended\n"),
        "linux.uml (cargo xtask setup --test installs it): {said}{complaints}"
    );
    // Beside them the kernel says this and that.
    let is_case = |(_, what): &(&str, &str)| what.contains("exit ") || what.contains("signal ");
    let lines = said.lines().filter_map(|line| line.split_once(": "));
    let cases = lines.filter(is_case);
    Ok(cases
        .map(|(name, what)| (name.into(), what.into()))
        .collect())
}

#[test]
#[ignore = "boots a kernel"]
fn where_memory_is_refused_events_are_lost_and_no_process_is_ended() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(folder.path()).unwrap();

    assert_eq!(cases.len(), 8, "{cases:?}");
    for (name, what) in &cases {
        assert!(what.ends_with("exit 0"), "{name}: {what}");
    }
    let says = |name: &str, words: &str| assert!(cases[name].contains(words), "{cases:?}");
    // Without memory for a first chunk nothing is recorded, and that is reported; with one it is
    // used.
    for name in ["first events", "threads", "child", "types"] {
        says(name, "status 0 overrun 1 read 0 ");
    }
    says("further events", "status 0 overrun 1 read ");
    assert!(!cases["further events"].contains("read 0 "), "{cases:?}");
    // What was read leaves its memory to what comes.
    assert!(
        !cases["events after reading"].contains("read 0 "),
        "{cases:?}"
    );
    says("another stream", "create 12 ");
    says("no stream", "create 12 ");
}
