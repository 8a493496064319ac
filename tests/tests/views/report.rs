//! The page of `tracer-user report`, read by its own modules, beside `stat` and `read` of the same
//! log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::log_reader::{Log, integer, run, text};
use tests::{made_ends, made_log, made_many, made_slices, tools};

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).unwrap()
}

fn object(log: &Path, command: &str) -> Value {
    let output = run(command, log, &["--format", "json"]).unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the content of a log's page, and what `stat` says of the log.
fn page_and_stat(log: &Log) -> (Value, Value) {
    let page = log.file("report.html");
    let output = log.run("report", &["-o", page.to_str().unwrap()]).unwrap();
    assert_ne!(output.status.code(), Some(2), "{output:?}");
    let mut stat = object(&log.path(), "stat");
    // The page says by itself how it is to be read.
    let schema = stat.as_object_mut().unwrap().remove("schema");
    assert_eq!(schema, Some(Value::from(1)));
    (tools::report(&page).unwrap(), stat)
}

/// Every made-up log: hostile names and losses, slices, threads that end.
fn logs() -> Vec<Log> {
    vec![
        Log::make(7).unwrap(),
        Log::written_by(made_slices::write).unwrap(),
        Log::written_by(made_ends::write).unwrap(),
    ]
}

#[test]
fn what_threads_did_adds_up_to_what_stat_says() {
    let mut intervals = 0;
    for log in logs() {
        let (page, stat) = page_and_stat(&log);
        let threads: BTreeMap<(i64, i64), &Value> = list(&page, "threads")
            .iter()
            .map(|of| ((integer(of, "pid"), integer(of, "tid")), of))
            .collect();
        // The page has one row for threads that had the same ids one after the other.
        let keys = ["running", "runnable", "blocked", "stopped", "unknown"];
        let mut by_ids: BTreeMap<(i64, i64), [i64; 5]> = BTreeMap::new();
        for of in list(&stat, "threads") {
            let sums = by_ids.entry((integer(of, "pid"), integer(of, "tid")));
            let ns = keys.map(|key| integer(of, &format!("{key}_ns")));
            for (sum, ns) in sums.or_default().iter_mut().zip(ns) {
                *sum += ns;
            }
        }
        for (of, expected) in by_ids {
            let shown = threads[&of];
            let totals = shown.get("totals").unwrap();
            let ns = |name| integer(totals, name);
            let shown_totals = [
                ns("running"),
                ns("runnable"),
                ns("blocked") + ns("device"),
                ns("stopped"),
                ns("unknown"),
            ];
            assert_eq!(shown_totals, expected, "{of:?}");
            let parts = list(shown, "parts").iter().filter_map(Value::as_i64);
            assert_eq!(parts.sum::<i64>(), expected.iter().sum::<i64>(), "{of:?}");
            intervals += list(shown, "intervals").len();
        }
        assert_eq!(page.get("cpus"), stat.get("cpus"));
        assert_eq!(page.pointer("/header/stat"), Some(&stat));
    }
    assert!(intervals > 1000, "{intervals}");
}

#[test]
fn calls_spans_and_interrupts_add_up_to_what_stat_says() {
    let mut rows = 0;
    for log in logs() {
        let (page, stat) = page_and_stat(&log);
        let mut calls: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for call in list(&page, "threads")
            .iter()
            .flat_map(|of| list(of, "calls"))
        {
            let [name, ns, _] = call.as_array().unwrap().as_slice() else {
                panic!("{call}");
            };
            let of = calls.entry(name.as_str().unwrap()).or_default();
            (of.0, of.1) = (of.0 + 1, of.1 + ns.as_i64().unwrap());
        }
        for call in list(&stat, "syscalls") {
            let took = call.get("took").unwrap();
            let expected = (integer(took, "count"), integer(took, "total_ns"));
            let found = calls.remove(text(call, "name")).unwrap_or_default();
            assert_eq!(found, expected, "{call}");
            rows += found.0;
        }
        assert!(calls.is_empty(), "{calls:?}");
        let took = |kind: &Value| integer(kind.get("took").unwrap(), "total_ns");
        let expected: i64 = list(&stat, "spans").iter().map(took).sum();
        let spans = list(&page, "spans").iter();
        let found: i64 = spans.map(|span| integer(span, "ns")).sum();
        assert_eq!(found, expected);
        rows += i64::try_from(list(&page, "spans").len()).unwrap();
        let ended = |one: &Value| integer(one.get("took").unwrap(), "count");
        let expected: i64 = list(&stat, "interrupts").iter().map(ended).sum();
        let interrupts = list(&page, "interrupts").iter();
        let found: i64 = interrupts.map(|of| integer(of, "count")).sum();
        assert_eq!(found, expected);
        rows += found;
    }
    assert!(rows >= 10, "{rows}");
}

#[test]
fn every_interval_of_many_threads_has_its_cpu_and_the_thread_it_names() {
    let mut expected = made_many::Expected::default();
    let log = Log::written_by(|path| {
        expected = made_many::write(path)?;
        Ok(())
    });
    let (page, _) = page_and_stat(&log.unwrap());
    // The first event ends no interval: nothing is known of what was before.
    expected.woken.remove(0);
    let first_ns = page.pointer("/header/first_ns").and_then(Value::as_u64);
    let mut found = made_many::Expected::default();
    for of in list(&page, "threads") {
        let tid = i32::try_from(integer(of, "tid")).unwrap();
        for interval in list(of, "intervals") {
            let [_, to, state, end, cpu, task] = interval.as_array().unwrap().as_slice() else {
                panic!("{interval}");
            };
            let at = to.as_u64().unwrap() + first_ns.unwrap();
            let happened = |of: &Value| (tid, at, of.as_i64().unwrap());
            match (state.as_str().unwrap(), end.as_str().unwrap()) {
                (_, "thread") => found.woken.push(happened(task)),
                (_, "got_cpu") => found.got.push(happened(task)),
                ("running", "unsaid") => found.left.push(happened(cpu)),
                // The state before the first event, and the one after the last.
                _ => {}
            }
        }
    }
    for (found, mut expected) in [
        (&mut found.woken, expected.woken),
        (&mut found.got, expected.got),
        (&mut found.left, expected.left),
    ] {
        found.sort_unstable();
        expected.sort_unstable();
        assert!(expected.len() > 10_000, "{}", expected.len());
        let other = found
            .iter()
            .zip(&expected)
            .find(|(one, other)| one != other);
        assert_eq!((found.len(), other), (expected.len(), None));
    }
}

#[test]
fn user_events_are_marks_at_the_times_and_with_the_words_of_read() {
    let log = Log::make(0).unwrap();
    let (page, _) = page_and_stat(&log);
    let output = log.run("read", &["--time", "relative"]).unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let mut expected: Vec<String> = Vec::new();
    for line in lines.lines() {
        for (_, name) in made_log::NAMES {
            if line.contains(&format!(" {name} ")) || line.ends_with(&format!(" {name}")) {
                let time = line.split_whitespace().next().unwrap();
                let words = line.rsplit_once(name).unwrap().1.trim();
                expected.push(format!("{time} {name} {words}"));
                break;
            }
        }
    }
    let mut found: Vec<String> = Vec::new();
    for mark in list(&page, "threads")
        .iter()
        .flat_map(|of| list(of, "marks"))
    {
        let [at, name, words] = mark.as_array().unwrap().as_slice() else {
            panic!("{mark}");
        };
        let (name, words) = (name.as_str().unwrap(), words.as_str().unwrap());
        if made_log::NAMES.iter().any(|(_, shown)| *shown == name) {
            let at = at.as_u64().unwrap();
            let time = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
            found.push(format!("{time} {name} {words}").trim().to_owned());
        }
    }
    expected
        .iter_mut()
        .for_each(|line| *line = line.trim().to_owned());
    expected.sort();
    found.sort();
    assert!(expected.len() > 1000, "{}", expected.len());
    assert_eq!(found, expected);
}

#[test]
fn where_events_are_missing_is_in_the_page() {
    let log = Log::make(7).unwrap();
    let (page, stat) = page_and_stat(&log);
    assert_eq!(integer(&stat, "lost"), 7);
    assert!(!list(&page, "gaps").is_empty());
    let (page, _) = page_and_stat(&Log::make(0).unwrap());
    assert!(list(&page, "gaps").is_empty());
}

#[test]
fn names_and_data_of_programs_are_no_part_of_the_markup() {
    let log = Log::make(0).unwrap();
    let page = log.file("report.html");
    log.run("report", &["-o", page.to_str().unwrap()]).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    let (before, rest) = html.split_once("id=\"data\">").unwrap();
    let (data, after) = rest.split_once("</script>").unwrap();
    let is_letter = |letter: char| letter.is_ascii_graphic() && letter != '<';
    assert!(data.len() > 1000 && data.chars().all(is_letter));
    for (name, shown) in made_log::NAMES {
        let name = String::from_utf8_lossy(name).into_owned();
        for name in [name.as_str(), shown]
            .iter()
            .filter(|name| !name.is_ascii())
        {
            assert!(!before.contains(name) && !after.contains(name), "{name}");
        }
    }
    assert!(before.contains("default-src 'none'"));
}

#[test]
fn the_modules_of_the_page_pass_their_own_tests() {
    let folder = tools::page_modules().join("test");
    let tests = std::fs::read_dir(folder).unwrap();
    let tests = tests.map(|test| test.unwrap().path());
    let output = Command::new("node").arg("--test").args(tests).output();
    let output = output.expect("node is missing; run: cargo xtask setup --test");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("# pass 0\n"), "{said}");
}
