//! `--btf`: the kernel's types from a file. The kernel is made to look as if it had none: they are
//! hidden from the tracer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use tests::btf::{OWN, in_elf, shifted};
use tests::event::Event;
use tests::mount::{Mount, hidden};
use tests::processes::switches_at_rest;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Trace, Tracer};
use tests::{dist, namespace, strace, timeout};

/// A file with the kernel's types, which are found nowhere else.
struct Types {
    folder: tempfile::TempDir,
    file: PathBuf,
    _hidden: Mount,
}

impl Types {
    /// `None` where this test may not run.
    fn hide() -> Option<Self> {
        if missing_right().is_some() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("types.btf");
        fs::copy(OWN, &file).unwrap();
        let hidden = hidden(Path::new(OWN).parent().unwrap()).unwrap();
        assert!(!Path::new(OWN).exists());
        Some(Self {
            folder,
            file,
            _hidden: hidden,
        })
    }

    fn option(&self) -> [&str; 2] {
        ["--btf", self.file.to_str().unwrap()]
    }

    fn run(&self, options: &[&str], command: &[&str]) -> Trace {
        let options = [&self.option(), options, &["--"], command].concat();
        let trace = Tracer::start("run", options).unwrap().finish().unwrap();
        assert_eq!(trace.summary().unwrap().all_lost(), 0);
        trace
    }
}

fn command_line(arguments: &[&str]) -> Output {
    let mut command = Command::new(dist::tracer_user().unwrap());
    command.args(arguments).output().unwrap()
}

/// Returns the message about a file that is not accepted.
fn refused(file: &Path) -> String {
    let start = Instant::now();
    let file = file.to_str().unwrap();
    let output = command_line(&["run", "--btf", file, "--", "/bin/true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{file}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(file) && said.contains("; "), "{said}");
    assert!(start.elapsed() < timeout(Duration::from_secs(30)), "{said}");
    // `doctor` says the same.
    let output = command_line(&["doctor", "--btf", file]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{table}");
    let mut lines = table.lines();
    let line = lines.find(|line| line.starts_with("MISSING  kernel types"));
    assert!(line.is_some_and(|line| line.contains(file)), "{table}");
    assert!(lines.next().unwrap().contains(" → "), "{table}");
    said
}

#[test]
#[ignore = "loads eBPF"]
fn without_types_of_its_own_it_says_so_and_how_to_give_some() {
    let Some(types) = Types::hide() else { return };
    for arguments in [
        &["run", "--", "/bin/true"][..],
        &["stat", "--", "/bin/true"],
        &["top", "--once", "--all"],
    ] {
        let output = command_line(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("there is no {OWN}")), "{said}");
        assert!(said.contains("--btf FILE"), "{said}");
    }
    let table = command_line(&["doctor"]).stdout;
    assert!(String::from_utf8(table).unwrap().contains("--btf FILE"));

    let output = command_line(&["doctor", types.option()[0], types.option()[1]]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{table}");
    for words in ["types.btf", "of this kernel", "not recorded"] {
        assert!(table.contains(words), "{table}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn forks_and_execs_are_those_that_strace_counts() {
    let Some(types) = Types::hide() else { return };
    let script = "for i in 1 2 3 4 5; do /bin/true; (exit 0); echo $i | cat >/dev/null; done";
    let command = ["/bin/sh", "-c", script];
    let expected = strace::count(&command).unwrap();
    assert!(expected.forks >= 15 && expected.execs >= 11, "{expected:?}");

    let trace = types.run(&[], &command);
    let mut counts = strace::Counts::default();
    for event in trace.events().unwrap() {
        counts.forks += u64::from(event.is_system("fork"));
        counts.execs += u64::from(event.is_system("exec"));
        // The waker is known all the same.
        let context = event.word("waker_context");
        assert_ne!(context, Some("unknown"), "{}", event.line);
    }
    assert_eq!(counts, expected);
    assert!(trace.stderr.contains("not recorded"), "{}", trace.stderr);
}

#[test]
#[ignore = "loads eBPF"]
fn calls_and_failures_are_those_that_strace_counts() {
    let Some(types) = Types::hide() else { return };
    let program = dist::compile("calls", types.folder.path()).unwrap();
    let command = [program.to_str().unwrap(), "200"];
    let owned: Vec<String> = command.iter().map(ToString::to_string).collect();
    let expected = strace::table(&owned).unwrap();

    let options = ["--events", "syscall", "--ring-size", "16M"];
    let events = types.run(&options, &command).events().unwrap();
    strace::assert_as_counted(&events, expected);
}

#[test]
#[ignore = "loads eBPF"]
fn switches_are_as_many_as_the_kernel_counts() {
    let Some(types) = Types::hide() else { return };
    let program = dist::compile("switches", types.folder.path()).unwrap();
    let (mut target, said) = Target::start(Command::new(program).args(["100", "200"])).unwrap();
    let threads = values_after(&said, "thread").unwrap().concat();
    let threads: Vec<i32> = threads
        .into_iter()
        .map(|tid| i32::try_from(tid).unwrap())
        .collect();
    let mut tracer = Tracer::attach(target.pid(), &types.option()).unwrap();
    let is_switch = |e: &Event| e.is_system("switch_out") || e.is_system("switch_in");
    tracer.wait_for(is_switch).unwrap();

    let before = switches_at_rest(target.pid(), &threads).unwrap();
    target.go().unwrap();
    target.wait_until_done().unwrap();
    let after = switches_at_rest(target.pid(), &threads).unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let mut seen: BTreeMap<i32, u64> = threads.iter().map(|tid| (*tid, 0)).collect();
    for event in trace.events().unwrap() {
        if event.is_system("switch_out")
            && let Some(count) = seen.get_mut(&event.tid)
        {
            *count += 1;
        }
    }
    let growth = |(tid, count): (&i32, &u64)| (*tid, count - before[tid]);
    assert_eq!(seen, after.iter().map(growth).collect());
    assert!(seen.values().all(|count| *count > 100), "{seen:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn signals_are_as_many_as_the_handlers_count() {
    let Some(types) = Types::hide() else { return };
    let program = dist::compile("signals", types.folder.path()).unwrap();
    let (mut target, _) = Target::start(Command::new(program).arg("100")).unwrap();
    let pid = target.pid();
    let options = [&types.option()[..], &["--events", "signal,switch"]].concat();
    let mut tracer = Tracer::attach(pid, &options).unwrap();
    tracer.wait_for(|e| e.is_system("switch_in")).unwrap();
    target.go().unwrap();
    let said = target.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();

    assert_eq!(trace.summary().unwrap().all_lost(), 0);
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for event in trace.events().unwrap() {
        if event.is_system("signal_deliver") && event.pid == pid {
            let signal = u64::try_from(event.integer("signal").unwrap()).unwrap();
            *taken.entry(signal).or_default() += 1;
        }
    }
    let got = values_after(&said, "got").unwrap();
    let got = got.iter().map(|pair| (pair[0], pair[1]));
    let got: BTreeMap<u64, u64> = got.filter(|(_, count)| *count > 0).collect();
    assert_eq!(taken, got);
    assert!(got.len() >= 3, "{got:?}");
}

#[test]
#[ignore = "loads eBPF"]
fn an_elf_file_serves_and_so_does_each_command() {
    let Some(types) = Types::hide() else { return };
    let elf = in_elf(&types.file, types.folder.path(), false).unwrap();
    let elf = elf.to_str().unwrap();
    for arguments in [
        &["run", "--btf", elf, "--", "/bin/true"][..],
        &["stat", "--btf", elf, "--", "/bin/true"],
        &["why", "--whole", "--btf", elf, "--", "/bin/true"],
        &["top", "--once", "--btf", elf],
        &["events", "--btf", elf],
        &["events", "--tracepoints", "sched_switch", "--btf", elf],
    ] {
        let output = command_line(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    }
    let listed = command_line(&["events", "--btf", elf]).stdout;
    let listed = String::from_utf8(listed).unwrap();
    assert!(!listed.contains("unknown"), "{listed}");
    // That of another build is not looked into any further.
    let other = in_elf(&types.file, types.folder.path(), true).unwrap();
    let said = refused(&other);
    assert!(said.contains("is not of this kernel"), "{said}");
    assert!(said.contains("build ID"), "{said}");
}

#[test]
#[ignore = "loads eBPF"]
fn the_file_of_another_kernel_is_refused() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = [
        ("task_struct", "pid", 8),
        ("task_struct", "comm", 8),
        // Those right behind these two have the same value.
        ("task_struct", "real_cred", 16),
        ("signal_struct", "live", 16),
        ("fdtable", "max_fds", 8),
        ("inode", "i_ino", 8),
    ]
    .into_iter()
    .map(|(of, member, by)| {
        let file = folder.path().join(format!("{of}.{member}.btf"));
        fs::write(&file, shifted(of, member, by).unwrap()).unwrap();
        file
    })
    .collect();
    let of_another = folder.path().join("request.btf");
    fs::write(&of_another, shifted("request", "__sector", 8).unwrap()).unwrap();

    // Where it has its own, nothing is overlooked.
    for file in files.iter().chain([&of_another]) {
        let said = refused(file);
        assert!(said.contains("is not of this kernel"), "{said}");
        assert!(said.contains(" here and at "), "{said}");
    }
    let _hidden = hidden(Path::new(OWN).parent().unwrap()).unwrap();
    for file in files {
        let said = refused(&file);
        assert!(said.contains("is not of this kernel"), "{said}");
        assert!(said.contains("is not where it says"), "{said}");
        assert!(said.contains("BTFHub"), "{said}");
    }
}

#[test]
#[ignore = "loads eBPF"]
fn what_is_no_types_of_a_kernel_is_refused_in_words() {
    let Some(types) = Types::hide() else { return };
    let whole = fs::read(&types.file).unwrap();
    let path = |name: &str| types.folder.path().join(name);
    for (name, bytes, words) in [
        ("empty", &b""[..], "neither BTF nor an ELF file"),
        ("text", b"text", "neither BTF nor an ELF file"),
        ("truncated", &whole[..whole.len() / 2], "damaged"),
        ("header", &whole[..10], "damaged"),
    ] {
        fs::write(path(name), bytes).unwrap();
        let said = refused(&path(name));
        assert!(said.contains(words), "{said}");
    }
    // A type of an unknown kind.
    let mut odd = whole.clone();
    odd[24 + 7] = 0x1e;
    fs::write(path("odd"), &odd).unwrap();
    assert!(refused(&path("odd")).contains("unknown kind 30"));
    // Types, but of no whole kernel.
    let mut nameless = whole.clone();
    let strings = nameless.len() - 1000..;
    nameless[strings].fill(0);
    let at = nameless
        .windows(13)
        .position(|found| found == b"\0task_struct\0");
    nameless[at.unwrap() + 1] = b'x';
    fs::write(path("module"), &nameless).unwrap();
    assert!(refused(&path("module")).contains("none of a kernel's"));

    assert!(refused(Path::new("/bin/true")).contains("without a section .BTF"));
    let huge = File::create(path("huge")).unwrap();
    std::io::Write::write_all(&mut &huge, &whole).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert!(refused(&path("huge")).contains("more than is read"));
    let fifo = path("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    for special in [&*fifo, types.folder.path(), Path::new("/dev/zero")] {
        assert!(refused(special).contains("no ordinary file"));
    }
    assert!(refused(Path::new("/nowhere")).contains("No such file"));
}

#[test]
#[ignore = "loads eBPF"]
fn what_needs_the_kernels_own_types_is_refused_and_not_guessed() {
    let Some(types) = Types::hide() else { return };
    let [option, file] = types.option();
    let dwarf = ["--stack", "user", "--unwind", "dwarf", "--", "/bin/true"];
    let output = command_line(&[&["run", option, file], &dwarf[..]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("needs the kernel's own types"), "{said}");

    let script = "\"$0\" run --btf \"$1\" -- /bin/true";
    let tracer = dist::tracer_user().unwrap();
    let output = namespace::shell(1, script, &[&tracer, &types.file]).output();
    let output = output.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--pid=host"), "{said}");
}
