//! Hostile files: those that a process has mapped, and what is in them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tests::attacker::{ATTACKER, VICTIM, command_as, delay_limit, give, open_to_all, peak_kib};
use tests::dist;
use tests::made_elf::{Elf, notes, symbols};
use tests::rights::missing_right;
use tests::target::Target;
use tests::tracer::Tracer;

/// Memory that a command may have, in KiB: 200 MiB, and what it has without an attack.
const MOST_MEMORY_KIB: u64 = 260 * 1024;

/// Makes a folder that all users may read, and one in it that is the attacker's.
fn stage() -> anyhow::Result<(tempfile::TempDir, std::path::PathBuf)> {
    let folder = tempfile::tempdir()?;
    open_to_all(folder.path())?;
    dist::compile("attack_files", folder.path())?;
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs)?;
    give(&theirs, ATTACKER)?;
    Ok((folder, theirs))
}

/// An attack that has begun.
fn attack(folder: &Path, kind: &str, file: &Path) -> anyhow::Result<Target> {
    let mut attack = command_as(ATTACKER, folder.join("attack_files"));
    Ok(Target::start(attack.arg(kind).arg(file))?.0)
}

/// Runs the tracer and returns what it prints, how long it took, and how much memory, in KiB. It is
/// ended after 5 s of CPU time, and where it waits for something, after 30 s: other tests may have
/// the CPUs meanwhile.
fn bounded(arguments: &[&str]) -> anyhow::Result<(Output, Duration, u64)> {
    let mut command = Command::new("timeout");
    let seconds = tests::timeout(Duration::from_secs(30)).as_secs();
    command.args(["--kill-after=1", &seconds.to_string(), "prlimit"]);
    command.args([&format!("--cpu={}", delay_limit().as_secs()), "--"]);
    // The last line on the standard error.
    command.args(["sh", "-c", "\"$@\" & pid=$!; peak=0; while kill -0 $pid 2>/dev/null; do \
        now=$(sed -n 's/^VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$pid/status 2>/dev/null); \
        peak=${now:-$peak}; sleep 0.01; done; wait $pid; status=$?; echo peak ${peak:-0} >&2; exit $status", "sh"]);
    command.arg(dist::tracer_user()?).args(arguments);
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let peak = errors.lines().find_map(|line| line.strip_prefix("peak "));
    let peak = peak.and_then(|peak| peak.parse().ok()).unwrap_or(u64::MAX);
    // As `timeout` and a shell report an end by a limit.
    let ended = [124, 137, 128 + libc::SIGXCPU];
    let is_ended = output
        .status
        .code()
        .is_none_or(|code| ended.contains(&code));
    let time = if is_ended {
        delay_limit()
    } else {
        Duration::ZERO
    };
    Ok((output, time, peak))
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_mapped_file_is_never_a_trap() {
    if missing_right().is_some() {
        return;
    }
    let (folder, theirs) = stage().unwrap();
    for kind in ["low", "zero", "lease"] {
        let file = theirs.join(kind);
        // A program, so that it is looked at.
        fs::copy("/bin/true", &file).unwrap();
        give(&file, ATTACKER).unwrap();
        let target = attack(folder.path(), kind, &file).unwrap();
        let pid = target.pid().to_string();
        let (output, time, _) = bounded(&["probes", &pid]).unwrap();
        assert!(time < delay_limit(), "{kind}: {time:?}");
        assert!(output.status.success(), "{kind}: {output:?}");
        // The very file that is mapped is what is looked at.
        let errors = String::from_utf8_lossy(&output.stderr);
        let reported = format!("{} (deleted) is stripped", file.display());
        assert!(errors.contains(&reported), "{kind}: {errors}");
        target.end().unwrap();
    }
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn names_that_fill_hundreds_of_megabytes_take_neither_time_nor_memory() {
    if missing_right().is_some() {
        return;
    }
    let (folder, theirs) = stage().unwrap();
    let target = attack(folder.path(), "many", &theirs).unwrap();
    let pid = target.pid().to_string();
    let (output, time, peak) = bounded(&["probes", &pid]).unwrap();
    assert!(time < delay_limit(), "{time:?}");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("not looked at"), "{errors}");
    target.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_program_of_notes_and_symbols_alone_takes_a_moment() {
    if missing_right().is_some() {
        return;
    }
    let (folder, theirs) = stage().unwrap();
    for (count, is_listed) in [(50_000, true), (200_000, false)] {
        let file = theirs.join(count.to_string());
        let notes = notes(count).unwrap();
        let (symbols, names) = symbols(20_000).unwrap();
        let elf = Elf {
            notes: (1 << 20, notes.len() as u64),
            symbols: (64 << 20, symbols.len() as u64),
            names: (96 << 20, names.len() as u64),
        };
        elf.write(
            &file,
            &[(1 << 20, notes), (64 << 20, symbols), (96 << 20, names)],
        )
        .unwrap();
        let target = attack(folder.path(), "map", &file).unwrap();
        let pid = target.pid().to_string();
        let (output, time, peak) = bounded(&["probes", &pid]).unwrap();
        assert!(time < delay_limit(), "{count}: {time:?}");
        assert!(peak < MOST_MEMORY_KIB, "{count}: {peak} KiB");
        let listed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let lines = listed
            .lines()
            .filter(|line| line.starts_with("--usdt p"))
            .count();
        assert_eq!(lines, if is_listed { count } else { 0 }, "{errors}");
        assert_eq!(
            errors.contains("static probes, which is more than is read"),
            !is_listed,
            "{errors}"
        );
        target.end().unwrap();
    }
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn the_holes_of_a_sparse_program_are_not_read() {
    if missing_right().is_some() {
        return;
    }
    let (folder, theirs) = stage().unwrap();
    let file = theirs.join("sparse");
    let elf = Elf {
        notes: (1 << 20, 700 << 20),
        symbols: (1 << 30, 700 << 20),
        names: (2 << 30, 100 << 20),
    };
    elf.write(&file, &[((2 << 30) + (100 << 20), vec![0])])
        .unwrap();
    assert!(fs::metadata(&file).unwrap().blocks() < 64, "sparse");
    let target = attack(folder.path(), "map", &file).unwrap();
    let pid = target.pid().to_string();
    let (output, time, peak) = bounded(&["probes", &pid]).unwrap();
    assert!(time < delay_limit(), "{time:?}");
    assert!(peak < MOST_MEMORY_KIB, "{peak} KiB");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("which is more than is read"), "{errors}");
    target.end().unwrap();
}

/// Tells whether a character commands a terminal or turns the direction of writing.
fn is_harmful(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn names_of_files_and_probes_do_not_command_a_terminal() {
    if missing_right().is_some() {
        return;
    }
    const HOSTILE: &str = "a\u{1b}[31m\u{9b}2J\u{202e}b\u{7f}";
    let (folder, theirs) = stage().unwrap();
    let file = theirs.join(HOSTILE);
    let mut notes = Vec::new();
    let texts = format!("{HOSTILE}\0{HOSTILE}\0{HOSTILE}\0");
    for word in [8, u32::try_from(24 + texts.len()).unwrap(), 3] {
        notes.extend(word.to_le_bytes());
    }
    notes.extend(b"stapsdt\0");
    for address in [0x2000_u64, 0, 0] {
        notes.extend(address.to_le_bytes());
    }
    notes.extend(texts.as_bytes());
    let elf = Elf {
        notes: (4096, notes.len() as u64),
        symbols: (0, 0),
        names: (0, 0),
    };
    elf.write(&file, &[(4096, notes), (1 << 20, vec![0])])
        .unwrap();
    let target = attack(folder.path(), "map", &file).unwrap();
    let pid = target.pid().to_string();
    let path = file.to_string_lossy().into_owned();
    let missing = theirs.join(format!("{HOSTILE}missing"));
    let missing = missing.to_str().unwrap();
    let probe = format!("{path}:nothing");
    let usdt = format!("{HOSTILE}:nothing");
    for (arguments, names_it) in [
        (&["probes", &pid, "31m"][..], true),
        (&["probes", &pid, "31m", "--json"][..], true),
        (
            &["attach", &pid, "--no-system", "--probe", &probe][..],
            false,
        ),
        (&["attach", &pid, "--no-system", "--usdt", &usdt][..], false),
        (&["read", &path][..], true),
        (&["read", missing][..], true),
        (&["info", missing, "--json"][..], true),
        (&["export", "--to", "ctf", "-o", &path, missing][..], true),
        (&["run", "--", missing][..], false),
        (&["run", HOSTILE][..], false),
        (&["attach", HOSTILE][..], false),
    ] {
        let (output, time, _) = bounded(arguments).unwrap();
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        assert!(!said.contains(is_harmful), "{arguments:?}: {said:?}");
        assert!(!names_it || said.contains("31m"), "{arguments:?}: {said:?}");
        assert!(time < delay_limit(), "{arguments:?}: {time:?}");
    }
    target.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users and a mount namespace"]
fn no_user_keeps_another_from_making_a_stream() {
    if missing_right().is_some() {
        return;
    }
    let (folder, _) = stage().unwrap();
    dist::compile("kernel_events", folder.path()).unwrap();
    let everyones = dist::copy_for_everyone(folder.path()).unwrap();
    // A file for all users, as it once was; root's; and one user's.
    let names = ["", "-0", &format!("-{VICTIM}")];
    for user in [0, VICTIM] {
        for name in names {
            let script = format!(
                "mount -t tmpfs -o mode=1777 none /dev/shm; mkfifo /tmp/$$; \
                 setpriv --reuid={ATTACKER} --regid={ATTACKER} --clear-groups -- \
                 {folder}/attack_files streams /dev/shm/posix-trace-streams{name} \
                 < /tmp/$$ > /dev/shm/said & exec 9> /tmp/$$; rm /tmp/$$; \
                 until grep -q ready /dev/shm/said; do sleep 0.01; done; \
                 exec setpriv --reuid={user} --regid={user} --clear-groups -- \
                 {folder}/kernel_events off",
                folder = folder.path().display(),
            );
            let start = Instant::now();
            let mut victim = Command::new("timeout");
            victim.args(["60", "unshare", "--mount", "sh", "-c", &script]);
            victim.env("LD_LIBRARY_PATH", everyones.join("lib"));
            let output = victim.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "ok\n", "{user}, {name:?}: {output:?}");
            assert!(start.elapsed() < delay_limit(), "{user}, {name:?}");
        }
    }
}

/// Resources that a tracer takes while it is attached to a process.
struct Taken {
    /// Time from the request to end until the end.
    end: Duration,
    /// CPU time in 2.5 s.
    processors: Duration,
    /// The most memory that it had, in KiB.
    peak: u64,
}

fn taken(pid: i32) -> anyhow::Result<Taken> {
    let tracer = Tracer::attach(pid, &["--no-system"])?;
    // It looks for areas each second.
    std::thread::sleep(Duration::from_millis(2500));
    let peak = peak_kib(tracer.pid())?;
    let processors = time_on_processors(tracer.pid())?;
    let start = Instant::now();
    tracer.stop()?.summary()?;
    Ok(Taken {
        end: start.elapsed(),
        processors,
        peak,
    })
}

/// Returns the CPU time of a process, with that of its ended threads.
fn time_on_processors(pid: i32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').context("no name")?;
    // Fields 14 and 15; what follows the name begins with field 3.
    let fields = rest.split_ascii_whitespace().skip(14 - 3).take(2);
    let ticks: u64 = fields.map(str::parse::<u64>).sum::<Result<_, _>>()?;
    // SAFETY: takes an integer only.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(Duration::from_millis(
        ticks * 1000 / u64::try_from(a_second)?,
    ))
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn a_signal_is_answered_whatever_a_process_has_mapped() {
    if missing_right().is_some() {
        return;
    }
    let (folder, theirs) = stage().unwrap();
    let harmless = attack(folder.path(), "map", Path::new("/bin/true")).unwrap();
    let usual = taken(harmless.pid()).unwrap();
    let target = attack(folder.path(), "many", &theirs).unwrap();
    let taken = taken(target.pid()).unwrap();
    assert!(
        taken.end < usual.end + Duration::from_secs(1),
        "{:?} after {:?}",
        taken.end,
        usual.end
    );
    // Nor does it look through all of them behind the scenes.
    assert!(
        taken.processors < usual.processors + Duration::from_millis(500),
        "{:?} after {:?}",
        taken.processors,
        usual.processors
    );
    assert!(
        taken.peak < usual.peak + 200 * 1024,
        "{} after {} KiB",
        taken.peak,
        usual.peak
    );
    harmless.end().unwrap();
    target.end().unwrap();
}

#[test]
#[ignore = "needs root: makes processes of other users"]
fn who_keeps_the_kernel_from_a_page_of_a_program_is_reported_and_keeps_no_process_alone_from_being_probed()
 {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    open_to_all(folder.path()).unwrap();
    let program = dist::compile("probed", folder.path()).unwrap();
    dist::compile("pageless", folder.path()).unwrap();
    let probe = format!("{}:work", program.display());
    let mut pageless = command_as(ATTACKER, folder.path().join("pageless"));
    let (mut pageless, _) = Target::start(pageless.arg(&program)).unwrap();
    let mut probed = command_as(VICTIM, &program);
    let (mut probed, _) = Target::start(probed.arg("100")).unwrap();
    let pid = probed.pid();

    let everywhere = ["attach", &pid.to_string(), "--probe", &probe];
    let (output, time, _) = bounded(&everywhere).unwrap();
    assert!(time < delay_limit(), "{time:?}");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("keeps the kernel from this page"),
        "{errors}"
    );

    let alone = ["--no-inherit", "--events", "switch", "--probe", &probe];
    let mut tracer = Tracer::attach(pid, &alone).unwrap();
    tracer
        .wait_for(|event| event.is_system("switch_in"))
        .unwrap();
    probed.go().unwrap();
    probed.wait_until_done().unwrap();
    let trace = tracer.stop().unwrap();
    let events = trace.events().unwrap();
    let entered = events.iter().filter(|event| event.is_user("probe:work"));
    assert_eq!(entered.count(), 100, "{}", trace.stderr);
    assert!(pageless.is_running().unwrap());
    probed.end().unwrap();
}
