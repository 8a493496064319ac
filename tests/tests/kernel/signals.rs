//! Signals against what the program's handlers counted.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use tests::dist;
use tests::event::Event;
use tests::rights::missing_right;
use tests::target::{Target, values_after};
use tests::tracer::{Tracer, run_to_end};

const ROUNDS: u64 = 300;

struct Run {
    pid: i32,
    said: Vec<String>,
    events: Vec<Event>,
}

/// A run of `signals`, with what it said and what was traced.
fn run() -> anyhow::Result<Run> {
    let folder = tempfile::tempdir()?;
    let program = dist::compile("signals", folder.path())?;
    let (mut target, mut said) = Target::start(Command::new(program).arg(ROUNDS.to_string()))?;
    let mut tracer = Tracer::attach(target.pid(), &["--events", "signal,switch,fork,exit"])?;
    tracer.wait_for(|event| event.is_system("switch_in"))?;
    target.go()?;
    said.extend(target.wait_until_done()?);
    let trace = tracer.stop()?;
    assert_eq!(trace.summary()?.all_lost(), 0);
    Ok(Run {
        pid: target.pid(),
        said,
        events: trace.events()?,
    })
}

impl Run {
    /// Events of a type, of the program itself.
    fn own<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Event> {
        let events = self.events.iter();
        events.filter(move |event| event.is_system(name) && event.pid == self.pid)
    }
}

fn by_signal<'a>(events: impl Iterator<Item = &'a Event>) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for event in events {
        let signal = event.integer("signal").and_then(|n| u64::try_from(n).ok());
        *counts.entry(signal.expect("a signal")).or_default() += 1;
    }
    counts
}

#[test]
#[ignore = "loads eBPF"]
fn as_many_signals_are_taken_as_the_handlers_counted_and_each_was_sent() {
    if missing_right().is_some() {
        return;
    }
    let run = run().unwrap();

    let got = values_after(&run.said, "got").unwrap();
    let mut got: BTreeMap<u64, u64> = got.iter().map(|pair| (pair[0], pair[1])).collect();
    let winch = u64::try_from(libc::SIGWINCH).unwrap();
    assert_eq!(got.remove(&winch), Some(0), "it is ignored");
    assert_eq!(by_signal(run.own("signal_deliver")), got);
    let unsigned = |signal| u64::try_from(signal).unwrap();
    assert_eq!(got[&unsigned(libc::SIGUSR1)], ROUNDS);
    assert_eq!(got[&unsigned(libc::SIGCHLD)], 20);

    let word = |event: &&Event, word| event.word("result") == Some(word);
    let sent = run.own("signal_generate");
    assert_eq!(
        by_signal(sent.filter(|event| word(event, "delivered"))),
        got
    );
    let ignored = run
        .own("signal_generate")
        .filter(|event| word(event, "ignored"));
    assert_eq!(by_signal(ignored), BTreeMap::from([(winch, 1)]));
}

#[test]
#[ignore = "loads eBPF"]
fn a_sent_signal_shows_sender_receiver_and_call() {
    if missing_right().is_some() {
        return;
    }
    let run = run().unwrap();
    let pid = i64::from(run.pid);
    let caller = &values_after(&run.said, "caller").unwrap()[0];
    let thread = values_after(&run.said, "thread").unwrap()[0][0];

    let mut of_calls = 0;
    for event in run.own("signal_generate") {
        assert_eq!(event.integer("target_pid"), Some(pid), "{}", event.line);
        let signal = i32::try_from(event.integer("signal").unwrap()).unwrap();
        let is_to_process = event.integer("group") == Some(1);
        match signal {
            libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGWINCH => {
                of_calls += 1;
                assert_eq!(event.integer("sender_pid"), Some(pid), "{}", event.line);
                assert_eq!(is_to_process, signal != libc::SIGUSR2, "{}", event.line);
                if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
                    let address = event.prog_address.unwrap();
                    assert!((caller[0]..caller[1]).contains(&address), "{}", event.line);
                }
            }
            // A child that has ended signals its parent.
            libc::SIGCHLD => {
                let sender = event.integer("sender_pid").unwrap();
                let is_child = |event: &Event| event.integer("child_pid") == Some(sender);
                assert!(run.own("fork").any(is_child), "{}", event.line);
            }
            _ => {}
        }
        if cfg!(target_arch = "x86_64") {
            assert_eq!(event.thread_id, Some(thread), "{}", event.line);
        }
    }
    assert_eq!(of_calls, 2 * ROUNDS + 1);
}

/// The data of a taken signal's event, as the program's handler prints it.
fn said_of(event: &Value) -> String {
    let data = &event["data"];
    let integer = |name: &str| data[name].to_string();
    let names = [
        "signal",
        "code",
        "address",
        "value",
        "overrun",
        "si_pid",
        "si_uid",
        "si_status",
    ];
    names.map(integer).join(" ")
}

#[test]
#[ignore = "loads eBPF"]
fn a_signal_says_what_its_handler_is_told() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = dist::compile("siginfo", folder.path()).unwrap();
    let (told, events) = run_to_end("signal-deliver", &program).unwrap();
    // Its children take signals too.
    let first = &events[0]["pid"];
    let taken = events
        .iter()
        .filter(|event| event["type"] == "linux_trace_signal_deliver" && event["pid"] == *first);
    let said: Vec<_> = taken.map(said_of).collect();
    assert_eq!(said, told.lines().collect::<Vec<_>>());
    let is_of_timer = |line: &&String| line.starts_with("14 -2 0 65261 ");
    assert!(
        said.iter()
            .find(is_of_timer)
            .is_some_and(|line| !line.ends_with(" 0 0 0 0"))
    );
    // A child of user 4711 that has ended with status 7, and one that was killed.
    for (code, status) in [(1, 7), (2, 9)] {
        let is_of_child = |line: &&String| {
            line.starts_with(&format!("17 {code} 0 0 0 "))
                && line.ends_with(&format!(" 4711 {status}"))
        };
        assert!(said.iter().any(|line| is_of_child(&line)), "{said:?}");
    }
    assert!(
        said.iter().any(|line| line.starts_with("11 1 16 ")),
        "{said:?}"
    );
}
