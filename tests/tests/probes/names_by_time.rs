//! Names of code that comes and goes, beside the program's own words: whatever was at an address
//! before or after, a frame has the name of what was there then, or none.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::comes_and_goes::{NAMED, Play, callers_of_point};
use tests::command::{self, perf_record};
use tests::rights::missing_right;
use tests::{dist, is_whole};

pub fn run(options: &[&str]) -> Command {
    let mut run = Command::new(dist::tracer_user().unwrap());
    run.args(["run", "--ring-size", "64M", "--format", "json"]);
    run.args(["--syscalls", "getppid", "--stack", "user"]);
    run.args(["--stack-for", "syscall-enter"]).args(options);
    run
}

pub fn unwinding(by: &'static str) -> &'static [&'static str] {
    if by.is_empty() {
        &[]
    } else {
        &["--unwind", "dwarf"]
    }
}

pub fn read(log: &Path) -> String {
    let mut read = Command::new(dist::tracer_user().unwrap());
    command::text(read.args(["read", "--format", "json"]).arg(log)).unwrap()
}

#[test]
#[ignore = "loads eBPF"]
fn code_that_comes_and_goes_has_the_name_that_it_had_then() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let play = Play::compile(folder.path()).unwrap();
    let (shown, log) = (play.file("shown"), play.file("log"));
    for (unwind, pause_us) in [
        ("frame-pointers", 0),
        ("frame-pointers", 3000),
        ("dwarf", 0),
    ] {
        for (libraries, is_copied) in [
            ("with", false),
            ("without", false),
            ("with", true),
            ("without", true),
        ] {
            // Each way once, in its own company.
            let is_pair = (libraries == "with") == is_copied;
            if !is_whole() && is_pair != (pause_us == 0) {
                continue;
            }
            let what = format!("{unwind} {pause_us} {libraries} {is_copied}");
            let mut live = run(unwinding(unwind));
            live.arg("-o").arg(&shown);
            play.add_to(&mut live, pause_us, libraries, is_copied);
            command::text(&mut live).unwrap();
            let lines = fs::read_to_string(&shown).unwrap();
            let live = play.compare(&lines).expect(&what);

            let mut logged = run(unwinding(unwind));
            logged.arg("--force");
            logged.arg("--log").arg(&log);
            play.add_to(&mut logged, pause_us, libraries, is_copied);
            command::text(&mut logged).unwrap();
            let logged = play.compare(&read(&log)).expect(&what);
            // A file that others replace at once may be gone before it is read.
            if !is_copied {
                assert_eq!((live, logged), (NAMED, NAMED), "{what}");
            }
        }
    }
}

/// A library with two functions, each in pages of its own, which call what they are given.
const TWO_PLACES: &str = "
    #define OWN_PAGES __attribute__((noinline, aligned(65536)))
    OWN_PAGES void in_a(void (*of)(void)) { of(); __asm__ volatile(\"\"); }
    OWN_PAGES void in_b(void (*of)(void)) { of(); __asm__ volatile(\"\"); }";

/// Compiles a program of the tests, and the library with two functions as `library.so` beside it.
pub fn compile_with_two_places(program: &str, folder: &Path) {
    let file = |name: &str| folder.join(name);
    fs::write(file("library.c"), TWO_PLACES).unwrap();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    for (source, made, options) in [
        (
            programs.join(program).with_extension("c"),
            program,
            &["-O0"][..],
        ),
        (
            file("library.c"),
            "library.so",
            &["-O1", "-shared", "-fPIC", "-Wl,--build-id=sha1"],
        ),
    ] {
        let mut compiler = Command::new("cc");
        compiler.arg("-fno-omit-frame-pointer").args(options);
        command::text(compiler.arg(source).arg("-o").arg(file(made))).unwrap();
    }
}

#[test]
#[ignore = "loads eBPF"]
fn code_that_is_moved_has_its_name_where_it_is_then() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    compile_with_two_places("moves_code", folder.path());
    let seeds = if is_whole() { 10 } else { 2 };
    for seed in 0..seeds {
        for (has_log, unwind) in [(false, ""), (true, ""), (true, "dwarf")] {
            let mut tool = run(unwinding(unwind));
            tool.args(if has_log {
                &["--force", "--log"][..]
            } else {
                &["-o"]
            });
            tool.arg(file("made")).arg("--").arg(file("moves_code"));
            tool.arg(file("notes")).args(["100", &seed.to_string()]);
            command::text(tool.arg(file("library.so"))).unwrap();
            let lines = if has_log {
                read(&file("made"))
            } else {
                fs::read_to_string(file("made")).unwrap()
            };
            let said = fs::read_to_string(file("notes")).unwrap();
            let found = callers_of_point(&lines).unwrap();
            let found: Vec<_> = found
                .iter()
                .map(|name| name.as_deref().unwrap_or("?"))
                .collect();
            let said: Vec<_> = said.lines().collect();
            assert_eq!(said.len(), found.len());
            let mut pairs = said.iter().zip(&found);
            let wrong = pairs.position(|(said, found)| *found != "?" && said != found);
            assert_eq!(wrong, None, "{seed} {has_log} {unwind}: {said:?} {found:?}");
            // Where a call has failed, or has left what it moved, that is not known at once.
            let named = |all: &[&str]| all.iter().filter(|name| **name != "?").count();
            let (said, found) = (named(&said), named(&found));
            let is_named = said > 100 && found * 10 >= said * 3;
            assert!(is_named, "{seed} {has_log} {unwind}: {said} {found}");
        }
    }
}

/// A program with a thread that is blocked in a function of a library, while another one comes to
/// where that is.
const BLOCKED: &str = "
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <pthread.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static int pipes[2];
    static char *a;
    __attribute__((noinline)) void point(void) {
        char byte; if (read(pipes[0], &byte, 1) != 1) _exit(2); }
    static void *blocks(void *of) { ((void (*)(void (*)(void)))a)(point); return of; }
    int main(int count, char **typed) {
        void *library = dlopen(typed[1], RTLD_NOW);
        a = dlsym(library, \"in_a\");
        pthread_t thread;
        if (pipe(pipes) != 0 || pthread_create(&thread, 0, blocks, 0) != 0) return 3;
        usleep(200000);
        long page = sysconf(_SC_PAGESIZE);
        if (mremap(dlsym(library, \"in_b\"), page, page, MREMAP_MAYMOVE | MREMAP_FIXED, a) != a)
            return count;
        usleep(100000);
        if (write(pipes[1], \"x\", 1) != 1) return 4;
        pthread_join(thread, 0);
        _exit(0); }";

#[test]
#[ignore = "loads eBPF"]
fn a_thread_that_was_blocked_is_in_what_was_there_before() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for (text, made, options) in [
        (BLOCKED, "blocked", &["-O0", "-pthread"][..]),
        (TWO_PLACES, "library.so", &["-O1", "-shared", "-fPIC"]),
    ] {
        fs::write(file("a.c"), text).unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-fno-omit-frame-pointer").args(options);
        command::text(compiler.arg(file("a.c")).arg("-o").arg(file(made))).unwrap();
    }
    for (has_log, unwind) in [(false, "dwarf"), (true, ""), (true, "dwarf")] {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        tool.args(["run", "--format", "json", "--stack", "user"]);
        // Where system calls are recorded, each kernel says what is moved.
        tool.args(["--syscalls", "getppid", "--off-cpu", "50ms"]);
        tool.args(unwinding(unwind));
        tool.args(if has_log {
            &["--force", "--log"][..]
        } else {
            &["-o"]
        });
        tool.arg(file("made")).arg("--").arg(file("blocked"));
        command::text(tool.arg(file("library.so"))).unwrap();
        let lines = if has_log {
            read(&file("made"))
        } else {
            fs::read_to_string(file("made")).unwrap()
        };
        let named = |name: &str| lines.contains(&format!("\"symbol\":\"{name}\""));
        let named = ["in_a", "in_b"].map(named);
        assert_eq!(named, [true, false], "{has_log} {unwind}: {lines}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn where_the_kernel_reports_no_mappings_no_name_is_wrong_either() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let play = Play::compile(folder.path()).unwrap();
    let wrapper = dist::compile("without_perf", folder.path()).unwrap();
    let log = play.file("log");
    let pauses = [0, 3000, 1000, 10_000];
    let pauses = if is_whole() {
        &pauses[..]
    } else {
        &pauses[..2]
    };
    for &pause_us in pauses {
        let inner = run(&["--force"]);
        let mut logged = Command::new(&wrapper);
        logged.arg(inner.get_program()).args(inner.get_args());
        logged.arg("--log").arg(&log);
        play.add_to(&mut logged, pause_us, "with", false);
        command::text(&mut logged).unwrap();
        play.compare(&read(&log)).unwrap();
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_program_that_ends_at_once_has_the_names_of_its_debug_file_each_time() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let source = "#include <unistd.h>
        __attribute__((noinline)) static int asks(int of) { return getppid() + of; }
        int main(int count, char **typed) { return asks(count) + (typed == 0) == 0; }";
    fs::write(at("a.c"), source).unwrap();
    let run_here = |words: &str| {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command::text(command.args(words).current_dir(folder.path())).unwrap();
    };
    run_here("cc -O1 -fno-omit-frame-pointer -Wl,--build-id=sha1 -o whole a.c");
    run_here("objcopy --only-keep-debug whole whole.debug");
    run_here("objcopy --strip-all --add-gnu-debuglink=whole.debug whole stripped");
    let rounds = if is_whole() { 40 } else { 5 };
    for round in 0..rounds {
        let mut live = run(&["--unwind", "dwarf"]);
        live.arg("-o")
            .arg(at("shown"))
            .arg("--")
            .arg(at("stripped"));
        command::text(&mut live).unwrap();
        let shown = fs::read_to_string(at("shown")).unwrap();
        for name in ["asks", "main"] {
            let named = format!("\"symbol\":\"{name}\"");
            assert!(shown.contains(&named), "{round}: {shown}");
        }
    }
}

/// A program that removes its own file, or puts another one in its place, and then makes calls.
const REMOVED: &str = "
    #include <stdio.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    __attribute__((noinline)) void NAME(void) { long call = SYS_getppid;
        __asm__ volatile(\"syscall\" : \"+a\"(call) :: \"rcx\", \"r11\", \"memory\"); }
    __attribute__((noinline)) void around(void) { NAME(); __asm__ volatile(\"\"); }
    int main(int count, char **typed) {
        if (count > 1) rename(typed[1], typed[0]); else unlink(typed[0]);
        for (int i = 0; i < 20; i++) { around(); usleep(20000); }
        return 0; }";

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "loads eBPF"]
fn a_program_whose_file_is_gone_or_replaced_has_its_own_names() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("a.c"), REMOVED).unwrap();
    let compiled = |name: &str, id: &str| file(&format!("{name}.{id}"));
    for (name, id) in [
        ("one", "none"),
        ("one", "sha1"),
        ("other", "none"),
        ("other", "sha1"),
    ] {
        let mut compiler = Command::new("cc");
        compiler.args(["-O0", "-fno-omit-frame-pointer", &format!("-DNAME={name}")]);
        compiler
            .arg(format!("-Wl,--build-id={id}"))
            .arg(file("a.c"));
        command::text(compiler.arg("-o").arg(compiled(name, id))).unwrap();
    }
    for id in ["none", "sha1"] {
        for (is_replaced, has_log) in [(false, true), (true, true), (false, false), (true, false)] {
            // Each two of the three at least once.
            if !is_whole() && (is_replaced == has_log) != (id == "sha1") {
                continue;
            }
            for name in ["one", "other"] {
                fs::copy(compiled(name, id), file(name)).unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            let mut tool = run(if has_log { &["--force"] } else { &[] });
            tool.arg(if has_log { "--log" } else { "-o" })
                .arg(file("made"));
            tool.arg("--").arg(file("one"));
            if is_replaced {
                tool.arg(file("other"));
            }
            command::text(&mut tool).unwrap();
            let lines = if has_log {
                read(&file("made"))
            } else {
                fs::read_to_string(file("made")).unwrap()
            };
            let calls = lines.lines().filter_map(|line| {
                let event: serde_json::Value = serde_json::from_str(line).ok()?;
                (event["type"] == "linux_trace_syscall_enter").then_some(event)
            });
            let mut count = 0;
            for call in calls {
                let names = [0, 1, 2].map(|at| call["stack"][at]["symbol"].as_str());
                let expected = [Some("one"), Some("around"), Some("main")];
                assert_eq!(names, expected, "{id} {is_replaced} {has_log}: {call}");
                count += 1;
            }
            assert_eq!(count, 20);
        }
    }
}

/// A program whose first thread ends, and that makes calls for a while.
const LIVES_ON: &str = "
    #include <pthread.h>
    #include <stdio.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    __attribute__((noinline)) void late(void) { long call = SYS_getppid;
        __asm__ volatile(\"syscall\" : \"+a\"(call) :: \"rcx\", \"r11\", \"memory\"); }
    static void *on(void *of) {
        for (int i = 0; of || i < 50; i++) { late(); usleep(20000); }
        return of; }
    int main(int argc, char **argv) {
        pthread_t thread; pthread_create(&thread, 0, on, argv[1]); pthread_exit(0); }";

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "loads eBPF"]
fn a_process_whose_first_thread_has_ended_has_names_and_probes() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    fs::write(file("a.c"), LIVES_ON).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O0", "-fno-omit-frame-pointer", "-pthread"])
        .arg(file("a.c"));
    command::text(compiler.arg("-o").arg(file("a"))).unwrap();
    let names = |lines: &str| -> Vec<String> {
        let calls = lines.lines().filter_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            (event["type"] == "linux_trace_syscall_enter").then_some(event)
        });
        calls
            .map(|call| {
                let names = [0, 1].map(|at| call["stack"][at]["symbol"].as_str().unwrap_or("?"));
                names.join(" ")
            })
            .collect()
    };
    let mut tool = run(&[]);
    tool.arg("-o").arg(file("shown")).arg("--").arg(file("a"));
    command::text(&mut tool).unwrap();
    let found = names(&fs::read_to_string(file("shown")).unwrap());
    assert_eq!(found, vec!["late on"; 50]);

    let mut child = Command::new(file("a")).arg("on").spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut attach = Command::new(dist::tracer_user().unwrap());
    attach.args([
        "attach",
        "--format",
        "json",
        "--duration",
        "1s",
        "--syscalls",
        "getppid",
    ]);
    attach.args(["--stack", "user", "--stack-for", "syscall-enter"]);
    attach
        .arg("--probe")
        .arg(format!("{}:late", file("a").display()));
    attach
        .arg("-o")
        .arg(file("shown"))
        .arg("-p")
        .arg(child.id().to_string());
    let attached = command::text(&mut attach);
    child.kill().unwrap();
    child.wait().unwrap();
    attached.unwrap();
    let shown = fs::read_to_string(file("shown")).unwrap();
    let found = names(&shown);
    assert!(found.len() > 10, "{found:?}");
    assert!(found.iter().all(|names| names == "late on"), "{found:?}");
    assert!(shown.matches("\"probe:late\"").count() > 10, "{shown}");
}

#[cfg(target_arch = "x86_64")]
#[test]
#[ignore = "loads eBPF"]
fn functions_of_the_vdso_are_those_that_perf_names() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let text = "#include <time.h>
        int main(void) { struct timespec now; for (int i = 0; i < 20000000; i++)
            clock_gettime(CLOCK_MONOTONIC, &now); return 0; }";
    fs::write(file("a.c"), text).unwrap();
    let mut compiler = Command::new("cc");
    command::text(compiler.arg("-o").arg(file("a")).arg(file("a.c"))).unwrap();
    let mut tool = Command::new(dist::tracer_user().unwrap());
    tool.args([
        "run",
        "--sample",
        "999",
        "--stack",
        "user",
        "--stack-for",
        "none",
        "--log",
    ]);
    command::text(tool.arg(file("log")).arg("--").arg(file("a"))).unwrap();
    let mut ours = std::collections::BTreeSet::new();
    for line in read(&file("log")).lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let frames = event["stack"].as_array().cloned().unwrap_or_default();
        let of_vdso = frames.iter().filter(|frame| frame["module"] == "[vdso]");
        ours.extend(of_vdso.filter_map(|frame| Some(frame["symbol"].as_str()?.to_owned())));
    }
    // Its copies of files go where no other perf looks.
    let mut perf = perf_record();
    perf.env("HOME", folder.path())
        .args(["-e", "cpu-clock", "-o"])
        .arg(file("data"));
    command::text(perf.arg("--").arg(file("a"))).unwrap();
    let mut script = Command::new("perf");
    script
        .env("HOME", folder.path())
        .args(["script", "-F", "ip,sym,dso", "-i"])
        .arg(file("data"));
    let script = command::text(&mut script).unwrap();
    let of_vdso = script.lines().filter(|line| line.contains("[vdso]"));
    // Each has two names, of which perf takes the one that begins so.
    let theirs = of_vdso.filter_map(|line| line.split_whitespace().nth(1)?.strip_prefix("__vdso_"));
    let theirs: std::collections::BTreeSet<String> = theirs.map(str::to_owned).collect();
    // It takes nearly all of the time; samples find others by chance, in one run or in both.
    for names in [&ours, &theirs] {
        assert!(names.contains("clock_gettime"), "{ours:?} {theirs:?}");
    }
    let others = ours.iter().filter(|name| !theirs.contains(*name)).count();
    assert!(others <= 1, "{ours:?} {theirs:?}");
}
