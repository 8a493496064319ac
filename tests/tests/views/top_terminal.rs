//! `tracer-user top` in a real terminal, driven by keys, beside `stat` and `read` of the same log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use tests::dist;
use tests::log_reader::{Log, integer};
use tests::processes::Killed;
use tests::rights::missing_right;
use tests::terminal::Terminal;
use tests::{made_slices, processes};

const WIDE: (u16, u16) = (250, 50);

/// A log that is played, at its end, in a terminal of that size.
fn at_end(log: &Log, size: (u16, u16), variables: &[(&str, &str)]) -> Terminal {
    let terminal = Terminal::start(size, variables).unwrap();
    let path = log.path();
    let words = ["top", path.to_str().unwrap()];
    terminal
        .command(&dist::tracer_user().unwrap(), &words)
        .unwrap();
    terminal
        .wait_for("the log", |screen| screen.contains("Space .,+-"))
        .unwrap();
    terminal.keys(&["e"]).unwrap();
    terminal
        .wait_for("its end", |screen| screen.contains("end of the log"))
        .unwrap();
    terminal
}

fn ended(terminal: &Terminal) -> String {
    let is_ended = |screen: &str| screen.trim_end().ends_with('$');
    let screen = terminal.wait_for("the shell", is_ended).unwrap();
    assert!(!terminal.is_taken().unwrap(), "{screen}");
    screen
}

/// A duration with four digits that count, as people are shown them.
fn duration(ns: i64) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        if ns >= unit {
            let whole = (ns / unit).to_string();
            let part = format!("{:09}", ns % unit * (1_000_000_000 / unit));
            let digits = 4_usize.saturating_sub(whole.len());
            return format!("{whole}.{} {name}", &part[..digits]);
        }
    }
    format!("{ns} ns")
}

/// Tells whether anything on the screen has another colour than the terminal's own.
fn has_colours(screen: &str) -> bool {
    let sequences = screen.split("\x1b[").skip(1);
    let mut codes = sequences.flat_map(|rest| rest.split('m').next().unwrap().split(';'));
    codes.any(|code| {
        let code: u32 = code.parse().unwrap_or(0);
        matches!(code, 30..=38 | 40..=48 | 90..=107)
    })
}

#[test]
fn a_log_at_its_end_is_what_stat_says_of_it() {
    let log = Log::written_by(made_slices::write).unwrap();
    let terminal = at_end(&log, WIDE, &[]);
    // All of it, and how long threads ran.
    terminal
        .keys(&[
            "w", "w", "c", "Down", "Down", "Down", "Down", "Space", "Escape",
        ])
        .unwrap();
    let screen = terminal.wait_for_all("all of it", |screen| {
        screen.contains("all of it") && screen.contains(" running")
    });
    let screen = screen.unwrap();
    let headings = screen
        .lines()
        .find(|line| line.starts_with("thread "))
        .unwrap();
    let cell = |line: &str, heading: &str| {
        let end = headings.find(&format!(" {heading} ")).unwrap() + heading.len() + 1;
        let cell: String = line.chars().take(end).skip(end - 10).collect();
        cell.trim().to_owned()
    };
    let stat = log.run("stat", &["--format", "json"]).unwrap();
    let stat: Value = serde_json::from_slice(&stat.stdout).unwrap();
    let threads = stat["threads"].as_array().unwrap();
    for of in threads {
        let tid = integer(of, "tid").to_string();
        let line = screen.lines().find(|line| {
            let label: String = line.chars().take(24).collect();
            let last = label.split([' ', '/']).rfind(|word| !word.is_empty());
            last == Some(&tid) && !line.contains(" threads")
        });
        let line = line.unwrap_or_else(|| panic!("{of}: {screen}"));
        assert_eq!(
            cell(line, "running"),
            duration(integer(of, "running_ns")),
            "{screen}"
        );
        let worst = of["wakeups"]["max_ns"].as_i64();
        assert_eq!(
            cell(line, "worst"),
            worst.map_or("-".to_owned(), duration),
            "{screen}"
        );
    }
    assert!(!threads.is_empty());
    terminal.keys(&["s"]).unwrap();
    let spans = terminal
        .wait_for_all("spans", |screen| screen.contains("slowest "))
        .unwrap();
    for kind in stat["spans"].as_array().unwrap() {
        let took = &kind["took"];
        if took["count"] == 0 {
            continue;
        }
        let name = kind["name"].as_str().unwrap();
        let line = spans
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        let expected = ["p50_ns", "p99_ns", "max_ns"].map(|key| duration(integer(took, key)));
        assert_eq!(words[1], took["count"].to_string(), "{spans}");
        assert_eq!(words[3..9].join(" "), expected.join(" "), "{spans}");
    }
    terminal.keys(&["q"]).unwrap();
    ended(&terminal);
}

#[test]
fn events_of_a_thread_are_those_of_read() {
    let log = Log::make(0).unwrap();
    let terminal = at_end(&log, WIDE, &[]);
    // The thread itself, and not its process.
    terminal.keys(&["o", "/"]).unwrap();
    terminal.text("main").unwrap();
    terminal.keys(&["Enter", "Down"]).unwrap();
    terminal
        .wait_for_all("one thread", |screen| screen.contains("only \"main\""))
        .unwrap();
    terminal.keys(&["Enter"]).unwrap();
    let opened = |screen: &str| screen.contains("events: 5000") && screen.contains("Esc:back");
    let screen = terminal.wait_for_all("its events", opened).unwrap();
    let read = log.run("read", &["--tid", "7"]).unwrap();
    let read = String::from_utf8(read.stdout).unwrap();
    let mut read: Vec<&str> = read.lines().filter(|line| !line.starts_with('#')).collect();
    let mut shown: Vec<&str> = screen.lines().collect();
    // The last line has the keys.
    let foot = shown
        .iter()
        .position(|line| line.contains("Esc:back"))
        .unwrap();
    shown.truncate(foot);
    let first = shown
        .iter()
        .position(|line| line.starts_with("events: "))
        .unwrap()
        + 1;
    let shown = shown.split_off(first);
    let expected = read.split_off(read.len() - shown.len());
    assert!(shown.len() > 30, "{screen}");
    for (shown, expected) in shown.iter().zip(expected) {
        // No line names the thread, which is that of all of them.
        let time: String = expected.chars().take(15).collect();
        let (_, rest) = expected.split_once('[').unwrap();
        let expected = format!("{time}  [{rest}");
        let expected: String = expected.chars().take(WIDE.0.into()).collect();
        assert_eq!(shown.trim_end(), expected.trim_end());
    }

    // What is searched for is found above, and stays.
    terminal.text("/worker=1").unwrap();
    terminal.keys(&["Enter"]).unwrap();
    let paused = terminal.wait_for_all("what was found", |screen| {
        let last = screen.lines().rev().find(|line| line.contains("worker=1"));
        screen.contains("paused") && last.is_some()
    });
    let paused = paused.unwrap();
    let lines: Vec<&str> = paused.lines().filter(|line| !line.is_empty()).collect();
    assert!(lines[lines.len() - 2].contains("worker=1"), "{paused}");
    terminal.text("&request").unwrap();
    terminal.keys(&["Enter"]).unwrap();
    let filtered = terminal.wait_for_all("what was asked for", |screen| {
        screen.contains("with \"request\"")
    });
    let filtered = filtered.unwrap();
    let first = filtered
        .lines()
        .position(|line| line.starts_with("events: "))
        .unwrap();
    let lines = filtered.lines().skip(first + 1).take(20);
    assert!(
        lines.into_iter().all(|line| line.contains("request")),
        "{filtered}"
    );
    terminal.keys(&["Escape"]).unwrap();
    terminal
        .wait_for_all("all threads", |screen| screen.contains("Enter:open"))
        .unwrap();
    terminal.keys(&["C-c"]).unwrap();
    ended(&terminal);
}

#[test]
fn every_size_is_drawn_and_time_goes_back_and_forth() {
    let log = Log::make(3).unwrap();
    let terminal = at_end(&log, (80, 24), &[("NO_COLOR", "1")]);
    let screen = terminal.screen().unwrap();
    assert!(screen.starts_with("3 events lost"), "{screen}");
    assert!(!has_colours(&terminal.coloured().unwrap()));
    for size in [(20, 6), (5, 3), (400, 120), (80, 24)] {
        terminal.resize(size).unwrap();
        let lines = usize::from(size.1);
        let is_drawn = |screen: &str| {
            let drawn: Vec<&str> = screen.lines().collect();
            let is_full = drawn.last().is_some_and(|last| last.contains("end o"));
            drawn.len() == lines && (is_full || screen.starts_with("too s"))
        };
        terminal
            .wait_for_all("a screen of that size", is_drawn)
            .unwrap();
    }
    terminal.keys(&[","]).unwrap();
    let is_back = |screen: &str| screen.contains("1.899 s") && screen.contains("paused");
    terminal.wait_for_all("a step back", is_back).unwrap();
    terminal.keys(&[","]).unwrap();
    terminal
        .wait_for_all("another one", |screen| screen.contains("1.799 s"))
        .unwrap();
    terminal.keys(&["."]).unwrap();
    terminal
        .wait_for_all("a step forth", |screen| screen.contains("1.899 s"))
        .unwrap();
    terminal.keys(&["0", "+", "+", "Space"]).unwrap();
    terminal
        .wait_for_all("the end again", |screen| {
            screen.contains("end of the log 4x")
        })
        .unwrap();
    // A click on a heading sorts by it, the first click on a line selects it, the second opens it.
    let headings = terminal.screen().unwrap();
    let headings = headings.lines().nth(1).unwrap().to_owned();
    let worst = headings.find("worst").unwrap() + 1;
    terminal
        .text(&format!("\x1b[<0;{worst};2M\x1b[<0;{worst};2m"))
        .unwrap();
    terminal.text("\x1b[<0;3;5M\x1b[<0;3;5m").unwrap();
    terminal.text("\x1b[<0;3;5M\x1b[<0;3;5m").unwrap();
    terminal
        .wait_for_all("a thread", |screen| screen.contains("Esc:back"))
        .unwrap();
    terminal.keys(&["?"]).unwrap();
    terminal
        .wait_for_all("the keys", |screen| screen.contains("twice as fast"))
        .unwrap();
    terminal.keys(&["x", "q"]).unwrap();
    ended(&terminal);
}

#[test]
fn the_terminal_is_given_back_whatever_signal_comes() {
    let log = Log::written_by(made_slices::write).unwrap();
    let terminal = at_end(&log, (80, 24), &[]);
    let top = || {
        let path = log.path();
        let found = Command::new("pgrep")
            .args(["-f", path.to_str().unwrap()])
            .output();
        let found = String::from_utf8(found.unwrap().stdout).unwrap();
        let mut pids = found.lines().map(|pid| pid.parse::<i32>().unwrap());
        pids.next_back().unwrap()
    };
    assert!(has_colours(&terminal.coloured().unwrap()));
    let pid = top();
    let is_shown = |screen: &str| screen.contains("end of the log");
    // Stopped from outside, the terminal is the shell's; continued, all is drawn again.
    processes::signal(pid, libc::SIGTSTP).unwrap();
    terminal
        .wait_for("the shell", |screen| screen.contains("Stopped"))
        .unwrap();
    assert!(!terminal.is_taken().unwrap());
    terminal.text("fg").unwrap();
    terminal.keys(&["Enter"]).unwrap();
    terminal.wait_for("the log again", is_shown).unwrap();
    terminal.keys(&["C-z"]).unwrap();
    let stopped_again = |screen: &str| screen.matches("Stopped").count() == 2;
    terminal.wait_for("the shell", stopped_again).unwrap();
    terminal.text("fg").unwrap();
    terminal.keys(&["Enter"]).unwrap();
    terminal.wait_for("the log again", is_shown).unwrap();
    assert!(terminal.is_taken().unwrap());
    processes::signal(pid, libc::SIGTERM).unwrap();
    ended(&terminal);
}

#[test]
fn it_ends_when_the_terminal_is_gone() {
    let log = Log::written_by(made_slices::write).unwrap();
    let terminal = at_end(&log, (80, 24), &[]);
    let path = log.path();
    let is_there = || {
        let mut pgrep = Command::new("pgrep");
        pgrep.args(["-f", path.to_str().unwrap()]);
        pgrep.output().unwrap().status.success()
    };
    assert!(is_there());
    drop(terminal);
    let start = std::time::Instant::now();
    while is_there() {
        assert!(start.elapsed() < std::time::Duration::from_secs(60));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_running_program_is_watched() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("spans", folder.path()).unwrap();
    let spans = Killed(Command::new(program).arg("1000000").spawn().unwrap());
    let terminal = Terminal::start(WIDE, &[]).unwrap();
    let pid = spans.0.id().to_string();
    terminal
        .command(&dist::tracer_user().unwrap(), &["top", &pid])
        .unwrap();
    let has_thread =
        |screen: &str| screen.contains(&format!("spans {pid} ")) && screen.contains("last 1.000 s");
    let screen = terminal.wait_for("its thread", has_thread).unwrap();
    assert!(
        screen.contains("clock_nanosleep") || screen.contains("run"),
        "{screen}"
    );
    terminal.keys(&["s"]).unwrap();
    // Of two spans that are as frequent, the one or the other has begun once more.
    let why = |screen: &str| {
        screen.contains("blocked in clock_nanosleep, woken by a timer")
            && screen.contains("slowest request: ")
    };
    terminal.wait_for("why", why).unwrap();
    terminal.keys(&["Enter"]).unwrap();
    let path = |screen: &str| {
        screen
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with("slowest"))
    };
    terminal.wait_for("the path", path).unwrap();
    // Frozen, nothing changes.
    terminal.keys(&["t", "f"]).unwrap();
    terminal
        .wait_for("that it is frozen", |screen| screen.contains("frozen"))
        .unwrap();
    let first = terminal.screen().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(terminal.screen().unwrap(), first);
    terminal.keys(&["f"]).unwrap();
    terminal
        .wait_for("that it goes on", |screen| {
            screen.lines().next() != first.lines().next()
        })
        .unwrap();
    // When the program has ended, what was is still there.
    drop(spans);
    terminal
        .wait_for("the end", |screen| screen.contains("the trace has ended"))
        .unwrap();
    terminal.keys(&["q"]).unwrap();
    // The terminal has broken the lines.
    let said = ended(&terminal).replace('\n', "");
    assert!(
        said.contains("events in") && said.contains("request begin"),
        "{said}"
    );
}

#[test]
#[ignore = "loads eBPF"]
fn a_process_has_its_own_name_and_what_it_calls_itself() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("titled", folder.path()).unwrap();
    let mut server = Command::new(program)
        .arg("with space for a longer title than the one that it has")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut begun = [0];
    let output = server.stdout.as_mut().unwrap();
    output.read_exact(&mut begun).unwrap();
    let pid = server.id().to_string();
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let words = words.split(|byte| *byte == 0).next().unwrap();
    let title = String::from_utf8_lossy(words).replace('\x1b', "\\u{1b}");
    let terminal = Terminal::start(WIDE, &[]).unwrap();
    terminal
        .command(&dist::tracer_user().unwrap(), &["top", &pid])
        .unwrap();
    let line = |screen: &str, start: &str| {
        let mut lines = screen.lines();
        let line = lines.find(|line| line.trim_start().starts_with(start));
        line.map(str::to_owned)
    };
    let screen = terminal.wait_for("a process and its thread", |screen| {
        line(screen, "worker ").is_some() && screen.contains("shop: ")
    });
    let screen = screen.unwrap();
    let process = screen
        .lines()
        .skip(1)
        .find(|line| line.contains("2 threads"));
    let process = process.unwrap_or_else(|| panic!("{screen}"));
    assert!(process.starts_with(&format!("titled {pid} ")), "{screen}");
    assert!(process.contains(&title), "{title}: {screen}");
    terminal.keys(&["q"]).unwrap();
    ended(&terminal);
    drop(server.stdin.take());
    server.wait().unwrap();
}
