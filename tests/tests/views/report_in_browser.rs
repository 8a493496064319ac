//! The page of `tracer-user report` in a browser, driven as people drive it: beside `stat`, `why`
//! and `read` of the same log.
//!
//! The pictures stay in `target/tmp/report`, to be looked at.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use tests::log_reader::{Log, integer, text};
use tests::{made_hostile, made_stacks, made_storm, tools};

/// A log, and what the browser shows of it.
struct Shown {
    log: Log,
    page: Value,
}

fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("report")
}

/// The one log of all tests here: the browser takes some seconds.
fn shown() -> &'static Shown {
    static SHOWN: OnceLock<Shown> = OnceLock::new();
    SHOWN.get_or_init(|| {
        let log = Log::written_by(made_hostile::write).unwrap();
        let file = log.file("report.html");
        let output = log.run("report", &["-o", file.to_str().unwrap()]).unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        fs::create_dir_all(pictures()).unwrap();
        let page = tools::browser("browser.js", &file, &pictures()).unwrap();
        Shown { log, page }
    })
}

fn list<'a>(of: &'a Value, path: &str) -> &'a [Value] {
    let found = of.pointer(path).and_then(Value::as_array);
    found.unwrap_or_else(|| panic!("no {path}"))
}

fn words(of: &Value) -> Vec<&str> {
    of.as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

/// Returns what a command prints about the log.
fn said(subcommand: &str, options: &[&str]) -> String {
    let output = shown().log.run(subcommand, options).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The columns of a table of `stat` that begins with this word, and its rows.
fn table(stat: &str, first: &str) -> (Vec<String>, Vec<Vec<String>>) {
    // Headings of more than one word have one blank within, as those beside each other may have.
    const LONG: [&str; 2] = ["system call", "mostly blocked in"];
    let headings = |line: &str| -> Vec<String> {
        let joined = LONG.iter().fold(line.to_owned(), |line, words| {
            line.replace(words, &words.replace(' ', "_"))
        });
        let words = joined.split_whitespace();
        words.map(|word| word.replace('_', " ")).collect()
    };
    let cells = |line: &str| -> Vec<String> {
        let cells = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    let mut tables = stat.split("\n\n");
    let found = tables.find(|table| table.starts_with(&format!("{first} ")));
    let mut lines = found
        .unwrap_or_else(|| panic!("no {first} in\n{stat}"))
        .lines();
    (headings(lines.next().unwrap()), lines.map(cells).collect())
}

/// Holds a table of the page to the one of `stat`: the columns that both have, to the digit.
/// Returns how many cells were compared.
fn compare(id: &str, stat: &str, first: &str) -> usize {
    let page = shown().page.pointer(&format!("/tables/{id}")).unwrap();
    let (columns, rows) = table(stat, first);
    let theirs = words(page.get("columns").unwrap());
    let mut compared = 0;
    let shown_rows = list(page, "/rows");
    assert_eq!(shown_rows.len(), rows.len(), "{id}");
    for row in &rows {
        let same = shown_rows
            .iter()
            .map(words)
            .find(|shown| shown[0] == row[0]);
        let same = same.unwrap_or_else(|| panic!("no {row:?} in {page}"));
        for (column, cell) in columns.iter().zip(row) {
            // Times count from the start of the log in the page.
            if column == "until" {
                continue;
            }
            let at = theirs.iter().position(|name| name == column);
            let at = at.unwrap_or_else(|| panic!("{id} has no {column}"));
            assert_eq!(same[at], cell, "{id}: {column} of {row:?}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn the_tables_say_what_stat_says_to_the_digit() {
    let stat = said("stat", &[]);
    assert!(compare("table-threads", &stat, "thread") >= 5 * 10);
    assert!(compare("table-spans", &stat, "span") >= 20 * 10);
    assert!(compare("table-calls", &stat, "system call") >= 7);
    assert!(compare("table-cpus", &stat, "cpu") >= 1);
    let about = text(&shown().page, "about");
    assert!(about.starts_with(stat.lines().next().unwrap()), "{about}");
}

#[test]
fn a_slow_span_is_explained_in_the_words_of_why() {
    let why = said("why", &["--slowest", "10"]);
    let spans = list(&shown().page, "/spans");
    assert_eq!(spans.len(), 10);
    for (span, words) in spans.iter().zip(why.split("\n\n").skip(1)) {
        let (heading, words) = words.split_once('\n').unwrap();
        let lines = span.get("lines").unwrap();
        let took = text(lines, "took").split_once(" (").unwrap().0;
        let expected = format!(
            "{} {took} of {}",
            text(lines, "span"),
            text(lines, "thread")
        );
        assert!(heading.contains(&expected), "{heading}: {expected}");
        assert_eq!(text(span, "words").trim_end(), words.trim_end());
    }
    // The time of a span is that of its events.
    let read = said("read", &["--time", "relative", "--event", "request begin"]);
    let times: Vec<&str> = read
        .lines()
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    for span in spans
        .iter()
        .filter(|span| text(&span["lines"], "span") == "request")
    {
        let from = text(&span["lines"], "from").trim_end_matches(" s");
        assert!(times.contains(&from), "{from}");
    }
}

#[test]
fn an_event_that_was_searched_for_is_the_one_of_read() {
    let read = said(
        "read",
        &["--time", "relative", "--event", made_hostile::EVENT],
    );
    let lines = read
        .lines()
        .filter(|line| line.contains(made_hostile::EVENT));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len() as u64, made_hostile::REQUESTS);
    let hits = list(&shown().page, "/hits/found");
    assert_eq!(hits.len(), 20);
    for (hit, line) in hits.iter().zip(lines) {
        let at = text(hit, "at").trim_end_matches(" s");
        assert!(line.trim_start().starts_with(at), "{hit}: {line}");
        assert!(line.ends_with(text(hit, "carries")), "{hit}: {line}");
        assert_eq!(text(hit, "event"), made_hostile::EVENT);
    }
    let count = format!("20 of {}", made_hostile::REQUESTS);
    assert_eq!(shown().page.pointer("/hits/said").unwrap(), count.as_str());
    // It is shown from near.
    let view = shown().page.pointer("/hits/shown").unwrap();
    let [from, at, to] = ["from", "at", "to"].map(|name| integer(view, name));
    assert!(from <= at && at <= to && to - from <= 100_000, "{view}");
}

#[test]
fn the_time_that_was_selected_has_the_figures_of_stat() {
    let part = shown().page.get("part").unwrap();
    let options = text(part, "options");
    assert_eq!(options, text(&shown().page, "copied"));
    let options: Vec<&str> = options.split(' ').collect();
    let output = said(
        "read",
        &[&options[..], &["--events", "syscall-exit"], JSON].concat(),
    );
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    let lines = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    for call in lines.filter(|line| line.get("type").is_some()) {
        let count = expected
            .entry(text(&call["data"], "name").to_owned())
            .or_insert_with(|| "0".to_owned());
        *count = (count.parse::<u64>().unwrap() + 1).to_string();
    }
    let calls = part["tables"]["System calls that returned then"]
        .as_array()
        .unwrap()
        .iter();
    let found: BTreeMap<String, String> = calls
        .map(words)
        .map(|row| (row[0].to_owned(), row[1].to_owned()))
        .collect();
    assert_eq!(found, expected);
    assert!(!found.is_empty());

    let threads = list(part, "/tables/Threads then");
    assert_eq!(threads.len(), 5);
    let asked = [&options[..], JSON].concat();
    let stat: Value = serde_json::from_str(&said("stat", &asked)).unwrap();
    for row in threads.iter().map(words) {
        let tid: i64 = row[0].rsplit([' ', '/']).next().unwrap().parse().unwrap();
        let mut totals = list(&stat, "/threads").iter();
        let total = totals.find(|total| integer(total, "tid") == tid).unwrap();
        let states = ["running_ns", "runnable_ns", "blocked_ns"];
        for (state, cell) in states.iter().zip(&row[1..]) {
            let expected = match integer(total, state) {
                0 => String::new(),
                ns => duration(ns),
            };
            let found = cell.rsplitn(3, ' ').last().unwrap();
            assert_eq!(found, expected, "{state} of {row:?}: {total}");
        }
    }
}

const JSON: &[&str] = &["--format", "json"];

/// A duration as people read it: four digits that count.
fn duration(ns: i64) -> String {
    for (unit, name) in [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")] {
        let (whole, rest) = (ns / unit, ns % unit);
        if whole > 0 {
            let digits = 4_usize.saturating_sub(whole.to_string().len());
            let part = format!("{rest:0width$}", width = unit.to_string().len() - 1);
            return format!("{whole}.{} {name}", &part[..digits]).replace(". ", " ");
        }
    }
    format!("{ns} ns")
}

#[test]
fn a_wake_up_leads_to_who_woke() {
    let read = said("read", &["--time", "relative", "--events", "wakeup"]);
    let mut found = 0;
    for interval in list(&shown().page, "/intervals") {
        let Some(at) = interval.pointer("/arrow/at").and_then(Value::as_u64) else {
            continue;
        };
        let time = format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000);
        let line = read
            .lines()
            .find(|line| line.trim_start().starts_with(&time));
        let line = line.unwrap_or_else(|| panic!("no thread was woken at {time}"));
        let thread = interval.pointer("/arrow/thread").unwrap().as_str().unwrap();
        let (name, ids) = thread.rsplit_once(' ').unwrap();
        assert!(
            line.contains(name) && line.contains(ids.rsplit('/').next().unwrap()),
            "{line}"
        );
        let button = format!("Go to {thread}, who woke it");
        assert!(
            list(interval, "/buttons").contains(&button.into()),
            "{interval}"
        );
        found += 1;
    }
    assert!(found >= 20, "{found}");
}

#[test]
fn names_and_data_of_programs_are_text_and_do_nothing() {
    let page = &shown().page;
    assert_eq!(list(page, "/complaints"), [] as [Value; 0]);
    let elements = page.get("elements").unwrap().as_object().unwrap();
    // The page's own script; that of its data is gone when it has been read.
    assert_eq!(elements.get("script"), Some(&1.into()), "{elements:?}");
    for forbidden in ["img", "iframe", "object", "embed", "svg", "a[onclick]", "b"] {
        assert!(
            !elements.contains_key(forbidden),
            "{forbidden}: {elements:?}"
        );
    }
    let names = page.pointer("/tables/table-threads/rows").unwrap();
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .map(|row| words(row)[0])
        .collect();
    for expected in [
        "</script> 100",
        "<script> 100/101",
        "\\u{202e}txt.exe 100/102",
        "\"'><img src=x> 200",
        "a\\nb\\u{1b}[2J 200/201",
    ] {
        assert!(names.contains(&expected), "{expected}: {names:?}");
    }
}

#[test]
fn it_is_usable_at_every_size_by_the_keyboard_and_by_those_who_hear_it() {
    let page = &shown().page;
    assert_eq!(list(page, "/too_wide"), [] as [Value; 0]);
    assert_eq!(list(page, "/barriers"), [] as [Value; 0]);
    assert!(integer(page, "checks") > 30, "{}", integer(page, "checks"));
    for layout in list(page, "/layouts") {
        let [details, seen] = ["details", "seen"].map(|name| layout[name].as_f64().unwrap());
        assert!(seen >= details.min(150.0), "{layout}");
    }
    for name in [
        "light-1600",
        "light-1100",
        "light-420",
        "dark-1600",
        "dark-1100",
        "dark-420",
    ] {
        let picture = pictures().join(format!("{name}.png"));
        assert!(fs::metadata(picture).unwrap().len() > 10_000, "{name}");
    }
    let heard = text(page, "heard");
    for words in [
        "table \"Threads\"",
        "columnheader \"running\"",
        "rowheader \"<script> 100/101\"",
    ] {
        assert!(heard.contains(words), "{heard}");
    }
    let sorting = page.get("sorting").unwrap();
    let (up, down) = (&sorting["up"], &sorting["down"]);
    assert_eq!(
        (text(up, "order"), text(down, "order")),
        ("ascending", "descending")
    );
    let (up, mut down) = (words(&up["first"]), words(&down["first"]));
    down.reverse();
    assert!(
        up == down && up.is_sorted_by_key(|name| name.to_lowercase()),
        "{up:?}"
    );
}

#[test]
fn the_keys_do_what_the_page_says_of_them() {
    let keys = list(&shown().page, "/keys");
    let state = |at: usize| keys[at].get(1).unwrap();
    let range = |at: usize| {
        let part = |name| state(at).get(name).and_then(Value::as_f64).unwrap();
        (part("from"), part("to"))
    };
    let long = |at: usize| range(at).1 - range(at).0;
    let end = shown().page.get("end").and_then(Value::as_f64).unwrap();
    let flag = |at: usize, name: &str| state(at).get(name) == Some(&true.into());
    assert_eq!(range(0), (0.0, end));
    // W shows less, D moves to the right, A back again, S shows more.
    assert!(long(4) < long(1) && long(1) < end);
    assert!(range(5).0 > range(4).0 && (long(5) - long(4)).abs() < 1.0);
    assert!((range(6).0 - range(4).0).abs() < 1.0);
    assert!(long(7) > long(6));
    // F: the quarter that is selected, and a bit around it.
    assert!((long(8) / end - 0.3).abs() < 0.02, "{}", long(8) / end);
    assert!(flag(8, "has_selection"));
    // M marks it, which stays when nothing is selected any more, until M again.
    assert!(state(9)["mark"].is_object() && state(10)["mark"].is_object());
    assert!(!flag(10, "has_selection") && state(11)["mark"].is_null());
    assert!(flag(12, "help") && !flag(13, "help"));
    // Esc closes it.
    assert!(flag(14, "help") && !flag(15, "help"));
}

#[test]
fn what_the_pointer_is_at_is_what_a_click_selects() {
    let tips = list(&shown().page, "/tips");
    assert!(tips.len() > 2, "{tips:?}");
    for tip in tips {
        for (name, said) in tip["lines"].as_object().unwrap() {
            let line = format!("{name}: {}", said.as_str().unwrap());
            assert!(text(tip, "tip").contains(&line), "{tip}");
        }
    }
}

#[test]
fn flame_graphs_are_those_of_stat_to_the_digit() {
    let log = Log::written_by(made_stacks::write).unwrap();
    let file = log.file("report.html");
    let output = log.run("report", &["-o", file.to_str().unwrap()]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    fs::create_dir_all(pictures()).unwrap();
    let page = tools::browser("flames.js", &file, &pictures()).unwrap();
    assert_eq!(list(&page, "/complaints"), [] as [Value; 0]);
    let folded = log.run("stat", &["--flame", "on-cpu"]).unwrap();
    let folded = String::from_utf8(folded.stdout).unwrap();
    assert_eq!(tools::folded(&page["data"][0]).unwrap(), folded);

    let mut all = 0;
    let mut own: BTreeMap<&str, i64> = BTreeMap::new();
    for line in folded.lines() {
        let (path, ns) = line.rsplit_once(' ').unwrap();
        let ns: i64 = ns.parse().unwrap();
        let innermost = path.rsplit(';').next().unwrap();
        *own.entry(innermost.trim_end_matches("_[k]")).or_default() += ns;
        all += ns;
    }
    assert_eq!(own.len(), 2, "{folded}");
    // Few threads take little space.
    assert!(integer(&page, "blank") < 20, "{}", page["blank"]);
    let graphs = list(&page, "/shown");
    assert_eq!(graphs.len(), 1);
    let graph = &graphs[0];
    assert_eq!(text(graph, "title"), "On-CPU time, by samples");
    assert_eq!(
        text(graph, "said"),
        format!("all: {}, 100 %", duration(all))
    );
    assert!(integer(graph, "painted") > 10, "{graph}");
    let rows = list(graph, "/functions").iter().map(words);
    let shown: BTreeMap<&str, String> = rows.map(|row| (row[0], row[1].to_owned())).collect();
    for (function, ns) in own {
        assert_eq!(
            shown.get(function),
            Some(&duration(ns)),
            "{function}: {graph}"
        );
    }
    // One that calls others, and does nothing itself then.
    assert!(shown.contains_key("inner"), "{graph}");
    let zoomed = text(&page, "zoomed");
    assert!(
        zoomed.ends_with(&format!("{}, 100 %", duration(all))) && !zoomed.starts_with("all"),
        "{zoomed}"
    );
}

#[test]
fn threads_that_are_too_many_for_a_screen_share_rows_by_name() {
    let log = Log::written_by(made_storm::write).unwrap();
    let file = log.file("report.html");
    let output = log.run("report", &["-o", file.to_str().unwrap()]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    fs::create_dir_all(pictures()).unwrap();
    let page = tools::browser("storm.js", &file, &pictures()).unwrap();
    assert_eq!(list(&page, "/complaints"), [] as [Value; 0]);
    // Three screens, the timeline's own among them.
    let screen = integer(&page, "screen");
    for what in ["whole", "timeline"] {
        assert!(
            integer(&page["first"], what) <= 3 * screen,
            "{what}: {page}"
        );
    }
    let rows = |when: &str| words(&page[when]["rows"]);
    let (first, opened) = (rows("first"), rows("opened"));
    for (name, count) in made_storm::NAMES {
        let label = format!("{name} ({count} processes)");
        assert!(first.contains(&label.as_str()), "{label}: {first:?}");
    }
    // Each thread is in one of them.
    let threads = made_storm::NAMES.iter().map(|(_, count)| count);
    let threads = threads.sum::<usize>() + made_storm::TOOLS + made_storm::SERVER.1 + 1;
    assert_eq!(
        usize::try_from(integer(&page["first"], "threads")).unwrap(),
        threads + 1
    );
    // A click on one shows the first of them, and how many others there are.
    let more = opened.len() - first.len();
    assert!(more > 10 && more < 100, "{more}");
    assert!(opened.contains(&"961 others, that ran less"), "{opened:?}");
    assert_eq!(rows("closed"), first);
    // What all of them begin with is left out there, and seen where the pointer is.
    let labels = words(&page["opened"]["labels"]);
    assert!(labels.contains(&"…1001"), "{labels:?}");
    assert_eq!(text(&page, "whole"), "sed 1001");
    // One that was looked for has a row of its own.
    let found = rows("found");
    let last = &page["last"];
    assert!(found.contains(&last.as_str().unwrap()), "{last}: {found:?}");
    let tip = text(&page, "tip");
    assert!(tip.starts_with("sed (1000 processes)\n"), "{tip}");
    // The table of names is that of `stat`.
    let stat = log.run("stat", &["--by", "comm"]).unwrap();
    let stat = String::from_utf8(stat.stdout).unwrap();
    let line = stat.lines().find(|line| line.starts_with("sed (1000) "));
    let expected: Vec<&str> = line
        .unwrap()
        .split("  ")
        .filter(|cell| !cell.is_empty())
        .collect();
    let names = list(&page, "/names").iter().map(words);
    let sed = names.into_iter().find(|row| row[0] == "sed").unwrap();
    assert_eq!(sed[3], expected[1].trim(), "{stat}");
}
