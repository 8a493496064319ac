//! Calls: what a client has sent, checked by the table of tools, and the words of the command.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tracer_text::suggest;

use crate::refusal::Refusal;
use crate::tools::{FieldValues, LEAST_BUDGET, MOST_BUDGET, TOOLS, Tool, ToolSubject};

/// Checked call.
#[derive(Debug)]
pub struct ToolCall {
    /// The tool.
    pub tool: &'static Tool,
    /// Words of the command, behind the name of the program.
    pub words: Vec<OsString>,
    /// Logs that it is about.
    pub logs: Vec<PathBuf>,
    /// Log that is made.
    pub made: Option<PathBuf>,
    /// Most bytes of the answer.
    pub budget: usize,
    /// Whether the answer is JSON.
    pub is_json: bool,
}

/// Most texts of a list.
const MOST_TEXTS: usize = 1000;

/// Options by which [`ToolSubject::NewLog`] records: what the rules of `explain` look at.
const RECORDED: [&str; 8] = [
    "--syscalls=all",
    "--string-size=64",
    "--call-cost=3",
    "--sample=99",
    "--off-cpu=1ms",
    "--unwind=dwarf,4K",
    "--events=exec,exit,fork,switch,wakeup,rename,signal,syscall,fault",
    "--ring-size=8M",
];

/// Checks a call. `current` is the log that was named last.
///
/// # Errors
///
/// There is no such tool or field, a value is none of the field's, or a file is not there.
pub fn check(
    name: &str,
    given: &Map<String, Value>,
    current: Option<&Path>,
    may_record: bool,
) -> Result<ToolCall, Refusal> {
    let tool = find(name, may_record)?;
    for field in given.keys() {
        known(tool, field)?;
    }
    let fields = Fields { tool, given };
    let budget = fields.count("budget")?.unwrap_or(tool.budget);
    if !(LEAST_BUDGET..=MOST_BUDGET).contains(&budget) {
        return Err(Refusal::new(
            format!("budget is {budget}"),
            format!("give {LEAST_BUDGET} to {MOST_BUDGET} bytes"),
        ));
    }
    let is_json = fields
        .texts("format")?
        .first()
        .is_some_and(|format| format == "json");
    let mut call = ToolCall {
        tool,
        words: Vec::new(),
        logs: Vec::new(),
        made: None,
        budget: usize::try_from(budget).unwrap_or(usize::MAX),
        is_json,
    };
    let command = match tool.subject {
        ToolSubject::NewLog => recording(&fields, &mut call)?,
        _ => {
            call.words.extend(tool.words.iter().map(OsString::from));
            Vec::new()
        }
    };
    let skipped: &[&str] = match tool.subject {
        ToolSubject::NewLog => &["command", "pid", "comm", "cgroup", "duration"],
        _ => &[],
    };
    for field in tool
        .fields
        .iter()
        .filter(|field| !skipped.contains(&field.name))
    {
        push_options(&mut call.words, &fields, field.name, field.kind)?;
    }
    if tool.has_format && is_json && tool.subject != ToolSubject::NewLog {
        call.words.push("--format=json".into());
    }
    if tool.name == "why"
        && !["span", "thread", "whole", "at"]
            .iter()
            .any(|is| given.contains_key(*is))
    {
        call.words.push("--whole".into());
    }
    if tool.name == "read" {
        call.words.push(format!("--budget={budget}").into());
    }
    subject(&fields, &mut call, current)?;
    call.words.extend(command);
    Ok(call)
}

/// Adds the logs, or checks that processes are named.
fn subject(
    fields: &Fields<'_>,
    call: &mut ToolCall,
    current: Option<&Path>,
) -> Result<(), Refusal> {
    match call.tool.subject {
        ToolSubject::Log => {
            let log = match (fields.texts("log")?.first(), current) {
                (Some(typed), _) => there(typed)?,
                (None, Some(current)) => current.to_owned(),
                (None, None) => {
                    return Err(
                        Refusal::new("no log was opened", "give log, the path of one")
                            .with_next("open"),
                    );
                }
            };
            call.words.push(log.clone().into());
            call.logs.push(log);
        }
        ToolSubject::TwoLogs => {
            for (side, option) in [("a", "--a="), ("b", "--b=")] {
                let typed = fields.texts(side)?;
                if typed.is_empty() {
                    return Err(Refusal::new(
                        format!("compare has no {side}"),
                        "give a and b, paths of logs of before and after",
                    ));
                }
                for typed in typed {
                    let log = there(&typed)?;
                    let mut word = OsString::from(option);
                    word.push(&log);
                    call.words.push(word);
                    call.logs.push(log);
                }
            }
        }
        ToolSubject::Processes => {
            let is_named = ["pid", "comm", "cgroup"]
                .iter()
                .any(|is| fields.given.contains_key(*is));
            if !is_named {
                return Err(Refusal::new(
                    "no process is named",
                    "give pid, comm or cgroup",
                ));
            }
        }
        ToolSubject::NewLog => {}
    }
    Ok(())
}

/// Adds the words that record, and returns those that go last.
fn recording(fields: &Fields<'_>, call: &mut ToolCall) -> Result<Vec<OsString>, Refusal> {
    let typed = fields.texts("log")?;
    let Some(typed) = typed.first() else {
        return Err(Refusal::new(
            "record has no log",
            "give log, the path of the log that is made",
        ));
    };
    let log = std::path::absolute(typed)
        .map_err(|error| Refusal::new(format!("log {typed:?}: {error}"), "give a path"))?;
    if log.symlink_metadata().is_ok() {
        return Err(Refusal::new(
            format!("{} is there already", log.display()),
            "give another path",
        )
        .with_next("record"));
    }
    let command = fields.texts("command")?;
    let targets = ["pid", "comm", "cgroup"];
    let given: Vec<_> = targets
        .iter()
        .filter(|is| fields.given.contains_key(**is))
        .collect();
    let (verb, is_command) = match (command.is_empty(), given.len()) {
        (false, 0) => ("run", true),
        (true, 1) => ("attach", false),
        _ => {
            return Err(Refusal::new(
                "it is not clear what to record",
                "give one of command, pid, comm and cgroup",
            ));
        }
    };
    call.words.push(verb.into());
    let mut word = OsString::from("--log=");
    word.push(&log);
    call.words.push(word);
    call.words.extend(RECORDED.map(OsString::from));
    let duration = fields.texts("duration")?;
    let duration = duration.first().map_or("10s", |typed| typed);
    call.words.push(format!("--duration={duration}").into());
    for name in given {
        push_options(&mut call.words, fields, name, FieldValues::List)?;
    }
    call.made = Some(log);
    if !is_command {
        return Ok(Vec::new());
    }
    let command = command.into_iter().map(OsString::from);
    Ok(std::iter::once("--".into()).chain(command).collect())
}

fn find(name: &str, may_record: bool) -> Result<&'static Tool, Refusal> {
    let names = || TOOLS.iter().map(|tool| tool.name);
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        let meant = suggest(name, names());
        let remedy = match meant {
            Some(meant) => format!("is {meant} meant?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        let refusal = Refusal::new(format!("there is no tool {name:?}"), remedy);
        return Err(match meant {
            Some(meant) => refusal.with_next(meant),
            None => refusal,
        });
    };
    if tool.records && !may_record {
        return Err(Refusal::new(
            format!("{name} is off: this server records nothing and looks at no process"),
            "who starts the server may allow it",
        )
        .with_next("tracer-user mcp --allow-record"));
    }
    Ok(tool)
}

/// Makes sure that a tool has this field.
fn known(tool: &Tool, field: &str) -> Result<(), Refusal> {
    if tool.field(field).is_some() {
        return Ok(());
    }
    let names = tool.field_names();
    let remedy = match suggest(field, names.iter().copied()) {
        Some(meant) => format!("is {meant} meant?"),
        None => format!("it has {}", names.join(", ")),
    };
    let error = format!("{} has no field {field:?}", tool.name);
    Err(Refusal::new(error, remedy).with_next(tool.name))
}

/// Returns the log of this path, made absolute.
fn there(typed: &str) -> Result<PathBuf, Refusal> {
    let wrong =
        |why: String| Refusal::new(format!("log {typed:?}: {why}"), "give the path of a log");
    let path = fs::canonicalize(typed).map_err(|error| wrong(error.to_string()))?;
    if path.is_file() {
        Ok(path)
    } else {
        Err(wrong("it is no file".to_owned()))
    }
}

/// Adds a field as options.
fn push_options(
    words: &mut Vec<OsString>,
    fields: &Fields<'_>,
    name: &str,
    kind: FieldValues,
) -> Result<(), Refusal> {
    let option = name.replace('_', "-");
    if kind == FieldValues::Flag {
        if fields.flag(name)? {
            words.push(format!("--{option}").into());
        }
        return Ok(());
    }
    for text in fields.texts(name)? {
        words.push(format!("--{option}={text}").into());
    }
    Ok(())
}

/// Fields that a client has sent.
struct Fields<'a> {
    tool: &'static Tool,
    given: &'a Map<String, Value>,
}

impl Fields<'_> {
    /// Returns the texts of a field; none where it is not given.
    fn texts(&self, name: &str) -> Result<Vec<String>, Refusal> {
        let Some(value) = self.given.get(name).filter(|value| !value.is_null()) else {
            return Ok(Vec::new());
        };
        let kind = self.tool.field(name);
        let texts = match (kind, value) {
            (Some(FieldValues::List), Value::Array(values)) if values.len() <= MOST_TEXTS => {
                values.iter().map(one).collect()
            }
            (Some(FieldValues::List), value) => one(value).map(|text| vec![text]),
            (Some(FieldValues::Count), value) => {
                let text = one(value).filter(|text| text.trim().parse::<u64>().is_ok());
                text.map(|text| vec![text.trim().to_owned()])
            }
            (Some(FieldValues::Text), Value::String(text)) => Some(vec![text.clone()]),
            (Some(FieldValues::OneOf(words)), Value::String(text)) if words.contains(&&**text) => {
                Some(vec![text.clone()])
            }
            _ => None,
        };
        // No word of a command can have a null.
        let texts = texts.filter(|texts| texts.iter().all(|text| !text.contains('\0')));
        texts.ok_or_else(|| self.wrong(name, value))
    }

    fn count(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let texts = self.texts(name)?;
        Ok(texts.first().and_then(|text| text.parse().ok()))
    }

    fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.given.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(value) => Err(self.wrong(name, value)),
        }
    }

    fn wrong(&self, name: &str, value: &Value) -> Refusal {
        let wanted = match self.tool.field(name) {
            Some(FieldValues::Count) => "give a whole number".to_owned(),
            Some(FieldValues::Flag) => "give true or false".to_owned(),
            Some(FieldValues::List) => "give a text, or a list of texts".to_owned(),
            Some(FieldValues::OneOf(words)) => {
                let text = value.as_str().unwrap_or_default();
                match suggest(text, words.iter().copied()) {
                    Some(meant) => format!("is {meant} meant?"),
                    None => format!("give {}", words.join(" or ")),
                }
            }
            Some(FieldValues::Text) | None => "give a text".to_owned(),
        };
        let shown: String = value.to_string().chars().take(100).collect();
        Refusal::new(format!("{} of {} is {shown}", name, self.tool.name), wanted)
            .with_next(self.tool.name)
    }
}

/// Returns a text, or a number as one.
fn one(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_u64() => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(name: &str, given: Value, may_record: bool) -> Result<Vec<String>, Refusal> {
        let call = check(
            name,
            given.as_object().unwrap(),
            Some(Path::new("/l")),
            may_record,
        )?;
        Ok(call
            .words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn fields_become_options_each_a_word_of_its_own() {
        let words = checked(
            "stat",
            json!({"pid": [1, "2"], "by": "comm", "locks": true, "from": "-x; reboot"}),
            false,
        );
        assert_eq!(
            words.unwrap(),
            [
                "stat",
                "--pid=1",
                "--pid=2",
                "--from=-x; reboot",
                "--by=comm",
                "--locks",
                "/l"
            ]
        );
        assert_eq!(
            checked("why", json!({}), false).unwrap(),
            ["why", "--whole", "/l"]
        );
        let words = checked("why", json!({"thread": "7", "format": "json"}), false);
        assert_eq!(words.unwrap(), ["why", "--thread=7", "--format=json", "/l"]);
    }

    #[test]
    fn a_log_is_never_taken_for_an_option_or_a_process() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["--all", "4711", "a,b"] {
            let path = folder.path().join(name);
            fs::write(&path, b"").unwrap();
            let words = checked("explain", json!({"log": path.to_str().unwrap()}), false).unwrap();
            assert!(words[1].starts_with('/'), "{words:?}");
        }
        let refusal = checked("explain", json!({"log": "4711"}), false).unwrap_err();
        assert!(refusal.error.contains("No such file"), "{refusal:?}");
        let log = folder.path().to_str().unwrap();
        let refusal = checked("explain", json!({ "log": log }), false).unwrap_err();
        assert!(refusal.error.contains("it is no file"), "{refusal:?}");
    }

    #[test]
    fn what_is_unknown_is_refused_by_name_with_the_nearest() {
        for (tool, given, error, remedy) in [
            (
                "explan",
                json!({}),
                "no tool \"explan\"",
                "is explain meant?",
            ),
            (
                "stat",
                json!({"budgt": 1}),
                "stat has no field \"budgt\"",
                "is budget meant?",
            ),
            (
                "stat",
                json!({"xyzzy": 1}),
                "no field \"xyzzy\"",
                "it has log, budget, format, pid",
            ),
            (
                "stat",
                json!({"by": "com"}),
                "by of stat is \"com\"",
                "is comm meant?",
            ),
            (
                "stat",
                json!({"budget": "x"}),
                "budget of stat",
                "give a whole number",
            ),
            ("stat", json!({"budget": 1}), "budget is 1", "512"),
            (
                "stat",
                json!({"locks": "yes"}),
                "locks of stat",
                "true or false",
            ),
            (
                "stat",
                json!({"pid": [[1]]}),
                "pid of stat",
                "list of texts",
            ),
            (
                "stat",
                json!({"from": "a\0b"}),
                "from of stat",
                "give a text",
            ),
            ("compare", json!({}), "compare has no a", "give a and b"),
            (
                "record",
                json!({"log": "x"}),
                "record is off",
                "may allow it",
            ),
            ("waits", json!({"pid": 1}), "waits is off", "may allow it"),
        ] {
            let refusal = checked(tool, given, false).unwrap_err();
            assert!(refusal.error.contains(error), "{refusal:?}");
            assert!(
                refusal.remedy.as_ref().unwrap().contains(remedy),
                "{refusal:?}"
            );
        }
        let nothing = check("stat", &Map::new(), None, false).unwrap_err();
        assert_eq!(nothing.next.as_deref(), Some("open"));
    }

    #[test]
    fn numbers_are_taken_as_numbers_and_as_text() {
        for budget in [json!(600), json!("600")] {
            let given = json!({"budget": budget});
            let call = check(
                "stat",
                given.as_object().unwrap(),
                Some(Path::new("/l")),
                false,
            );
            assert_eq!(call.unwrap().budget, 600);
        }
    }

    #[test]
    fn a_recording_is_of_one_thing_and_its_command_has_its_own_words() {
        let words = checked(
            "record",
            json!({"log": "/nowhere/new", "command": ["sh", "-c", "exit"], "locks": true}),
            true,
        )
        .unwrap();
        assert_eq!(words[..2], ["run", "--log=/nowhere/new"]);
        assert_eq!(
            words[words.len() - 5..],
            ["--locks", "--", "sh", "-c", "exit"]
        );
        let words = checked("record", json!({"log": "/nowhere/new", "pid": 7}), true).unwrap();
        assert_eq!(words[0], "attach");
        assert_eq!(words.last().unwrap(), "--pid=7");
        for given in [
            json!({"log": "x", "pid": 1, "comm": "x"}),
            json!({"log": "x"}),
            json!({"pid": 1}),
        ] {
            assert!(checked("record", given, true).is_err());
        }
    }
}
