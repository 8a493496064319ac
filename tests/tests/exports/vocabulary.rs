//! One set of names: of types and fields, in every output, and in the options that choose them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use tracer_common::event_type::{EventTypeId, SYSTEM_EVENT_TYPES, SystemEventType};

use tests::log_reader::{Log, text};
use tests::made::{self, PROG_ADDRESS, THREAD_ID};
use tests::tools;
use tests::{command, dist};

/// The names of fields by type.
type Fields = BTreeMap<String, BTreeSet<String>>;

/// Fields that are shown beside the data of an event, by the same name everywhere.
const BESIDE: [&str; 6] = ["pid", "tid", "comm", "cpu", "truncated", "prog_address"];

/// Returns the name of a type as it is shown to people, and chosen.
fn short(name: &str) -> String {
    let short = name.strip_prefix("linux_trace_");
    let short = short.or_else(|| name.strip_prefix("posix_trace_"));
    short.unwrap_or(name).replace('_', "-")
}

fn the_table(is_wanted: impl Fn(&SystemEventType) -> bool, name: fn(&str) -> String) -> Fields {
    let wanted = SYSTEM_EVENT_TYPES.iter().filter(|entry| is_wanted(entry));
    let fields = |entry: &SystemEventType| entry.fields.iter().map(|field| field.name.to_owned());
    wanted
        .map(|entry| (name(entry.name), fields(entry).collect()))
        .collect()
}

/// Tells whether a type is shown where it is not chosen: events that name stacks, and those that
/// say what others are for, are no events to most readers.
fn is_shown(entry: &SystemEventType) -> bool {
    ![
        EventTypeId::MAPPING,
        EventTypeId::SYMBOL,
        EventTypeId::THREAD_CONTEXT,
    ]
    .contains(&entry.id)
}

/// Tells whether events of a type are instants in formats that have slices.
fn is_instant(entry: &SystemEventType) -> bool {
    let family = entry.family;
    let are_slices = ["switch", "wakeup", "syscall", "irq", "softirq", "idle"].contains(&family);
    let is_alone = [EventTypeId::THREAD_STATE, EventTypeId::THROTTLE].contains(&entry.id);
    is_shown(entry) && (!are_slices || is_alone)
}

fn keys(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap().keys().cloned().collect()
}

fn collect_fields(rows: &[Value], data: impl Fn(&Value) -> Value) -> Fields {
    let fields = rows
        .iter()
        .map(|row| (text(row, "type").to_owned(), keys(&data(row))));
    fields.collect()
}

fn log() -> Log {
    Log::written_by(made::write_each_type).unwrap()
}

fn parsed(row: &Value) -> Value {
    serde_json::from_str(text(row, "data")).unwrap()
}

#[test]
fn lines_and_tables_have_the_names_of_the_one_table() {
    let log = log();
    let expected = the_table(is_shown, str::to_owned);
    let of_stacks = log.events(&["--events", "stack"]).unwrap();
    let of_stacks = collect_fields(&of_stacks, |event| event["data"].clone());
    for (name, fields) in the_table(|entry| entry.family == "stack", str::to_owned) {
        assert_eq!(of_stacks.get(&name), Some(&fields), "{name}");
    }
    let events = log.events(&[]).unwrap();
    assert_eq!(
        collect_fields(&events, |event| event["data"].clone()),
        expected
    );
    let csv = log.file("csv");
    let path = csv.to_str().unwrap();
    log.run("read", &["--format", "csv", "-o", path]).unwrap();
    let rows = tools::python(&["csv_events.py"], &csv).unwrap();
    assert_eq!(collect_fields(&rows, parsed), expected);
    for row in &rows {
        for (name, value) in [("prog_address", PROG_ADDRESS), ("thread_id", THREAD_ID)] {
            assert_eq!(text(row, name), value.to_string());
        }
    }
    let parquet = log.export("parquet", &[]).unwrap();
    let mut rows = tools::python(&["parquet_file.py", "events"], &parquet).unwrap();
    let columns = keys(&rows.pop().unwrap()["columns"]);
    assert_eq!(collect_fields(&rows, parsed), expected);
    for name in BESIDE {
        assert!(
            events.iter().all(|event| event.get(name).is_some()),
            "{name}"
        );
        assert!(columns.contains(name), "{name}");
    }
    for row in events.iter().chain(&rows) {
        assert_eq!(row["prog_address"].as_u64(), Some(PROG_ADDRESS));
        assert_eq!(row["thread_id"].as_u64(), Some(THREAD_ID));
    }
}

#[test]
fn babeltrace2_shows_the_names_of_the_one_table() {
    let log = log();
    let folder = log.export("ctf", &[]).unwrap();
    let (printed, _) = tools::babeltrace2(&["--no-delta"], &folder).unwrap();
    let mut found = Fields::new();
    for line in printed.lines() {
        let (name, rest) = line.split_once("] ").unwrap().1.split_once(": ").unwrap();
        let (context, data) = rest.split_once(" }").unwrap();
        let names = |text: &str| -> BTreeSet<String> {
            let words = text
                .split(" = ")
                .filter_map(|part| part.split(' ').next_back());
            let is_name = |word: &&str| {
                let is_index = word.starts_with('[') || word.ends_with("_length");
                !is_index && word.starts_with(|first: char| first.is_ascii_lowercase())
            };
            words.filter(is_name).map(str::to_owned).collect()
        };
        let beside: BTreeSet<String> = BESIDE
            .iter()
            .chain(&["thread_id"])
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(names(context), beside, "{line}");
        found.insert(name.to_owned(), names(data));
    }
    assert_eq!(found, the_table(is_shown, str::to_owned));
}

#[test]
fn instants_have_the_names_of_the_one_table() {
    let log = log();
    // Samples are samples there.
    let mut expected = the_table(|entry| is_instant(entry) && entry.family != "sample", short);
    for fields in expected.values_mut() {
        fields.insert("prog_address".to_owned());
    }
    let perfetto = log.export("perfetto", &[]).unwrap();
    let query = "SELECT slice.name AS type, key FROM slice JOIN args USING (arg_set_id)
        WHERE category = 'system'";
    let rows = tools::trace_processor(&perfetto, &[query]).unwrap();
    let mut found = Fields::new();
    for row in &rows[0] {
        let key = text(row, "key").strip_prefix("debug.").unwrap();
        let key = key.split('[').next().unwrap().to_owned();
        found
            .entry(text(row, "type").to_owned())
            .or_default()
            .insert(key);
    }
    // An empty set of event types has no part that is an argument.
    for (name, fields) in &mut found {
        let of_type = &expected[name];
        fields.extend(
            of_type
                .iter()
                .filter(|field| field.contains("filter"))
                .cloned(),
        );
    }
    assert_eq!(found, expected);

    let chrome = std::fs::read(log.export("chrome", &[]).unwrap()).unwrap();
    let chrome: Value = serde_json::from_slice(&chrome).unwrap();
    let objects = chrome["traceEvents"].as_array().unwrap().iter();
    let found: Fields = objects
        .filter(|object| object["ph"] == "i" && object["cat"] == "system")
        .map(|object| (text(object, "name").to_owned(), keys(&object["args"])))
        .collect();
    // They carry what the JSON lines call data, and where it was.
    let mut expected = the_table(|_| true, short);
    for fields in expected.values_mut() {
        fields.insert("prog_address".to_owned());
    }
    for entry in SYSTEM_EVENT_TYPES.iter().filter(|entry| is_instant(entry)) {
        let name = short(entry.name);
        assert_eq!(found[&name], expected[&name], "{name}");
    }
}

#[test]
fn each_name_of_a_type_chooses_it_and_text_shows_the_short_one() {
    let log = log();
    for entry in SYSTEM_EVENT_TYPES {
        let short = short(entry.name);
        // Both ends of a system call are one line.
        let is_call = entry.family == "syscall";
        let word = if is_call { "syscall" } else { &short };
        let of_text = ("--events", short.as_str());
        let of_json = ("--event", entry.name);
        let of_header = ("--events", entry.constant);
        let asked = format!("type == \"{}\"", entry.constant);
        // What names stacks is chosen by itself alone.
        let of_filter = is_shown(entry).then_some(("--filter", asked.as_str()));
        for (option, name) in [of_text, of_json, of_header].into_iter().chain(of_filter) {
            let output = log.run("read", &[option, name]).unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            let lines: Vec<_> = said.lines().filter(|line| !line.starts_with('#')).collect();
            let is_shown = |line: &&str| line.split_whitespace().any(|found| found == word);
            assert!(lines.iter().any(is_shown), "{name}: {said}");
        }
    }
}

/// Every name that outputs and the header have of a type is a word of `--events`, and chooses
/// events of that type.
#[test]
fn whatever_is_shown_as_a_name_is_taken_as_one() {
    let log = log();
    let tool = dist::tracer_user().unwrap();
    let said = |options: &[&str]| command::text(Command::new(&tool).args(options)).unwrap();
    let listed = said(&["events", "--format", "json"]);
    let listed: Vec<Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_text = said(&["events"]);
    // Of each type the first line begins with a star or a space, and its name.
    let of_text: BTreeSet<&str> = of_text
        .lines()
        .skip(1)
        .filter(|line| line.starts_with(['*', ' ']) && !line.starts_with("   "))
        .filter_map(|line| line.get(2..)?.split_whitespace().next())
        .filter(|word| !word.starts_with("--"))
        .collect();
    let header = dist::folder().unwrap().join("include/trace.h");
    let header = std::fs::read_to_string(header).unwrap();
    let constants: BTreeSet<&str> = header
        .lines()
        .filter(|line| line.contains("((trace_event_id_t)"))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    let shown = log.events(&[]).unwrap();
    let shown: BTreeSet<&str> = shown.iter().map(|event| text(event, "type")).collect();
    for entry in &listed {
        let (name, short) = (text(entry, "name"), text(entry, "short"));
        assert!(of_text.contains(short), "{short}: {of_text:?}");
        let constant = name.to_uppercase();
        assert!(constants.contains(constant.as_str()), "{constant}");
        if !shown.contains(name) {
            continue;
        }
        for typed in [name, short, &constant] {
            let chosen = log.events(&["--events", typed]).unwrap();
            let is_it = |event: &Value| text(event, "type") == name;
            assert!(chosen.iter().any(is_it), "{typed}: {chosen:?}");
            let exactly = log.events(&["--event", typed]).unwrap();
            let is_it_or_a_mark = |event: &Value| is_it(event) || is_loss(text(event, "type"));
            assert!(exactly.iter().any(is_it), "{typed}: {exactly:?}");
            assert!(exactly.iter().all(is_it_or_a_mark), "{typed}: {exactly:?}");
        }
    }
    assert_eq!(of_text.len(), listed.len());
    assert!(shown.is_subset(&listed.iter().map(|entry| text(entry, "name")).collect()));
}

/// Marks of lost events, which are always shown.
fn is_loss(name: &str) -> bool {
    [
        "posix_trace_error",
        "posix_trace_overflow",
        "posix_trace_resume",
    ]
    .contains(&name)
}

#[test]
fn the_list_of_types_is_the_one_table() {
    let output = Command::new(dist::tracer_user().unwrap())
        .args(["events", "--format", "json"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let listed: Fields = said
        .lines()
        .map(|line| {
            let listed: Value = serde_json::from_str(line).unwrap();
            let fields = listed["fields"].as_array().unwrap().iter();
            let fields = fields.map(|field| text(field, "name").to_owned());
            (text(&listed, "name").to_owned(), fields.collect())
        })
        .collect();
    assert_eq!(listed, the_table(|_| true, str::to_owned));
}
