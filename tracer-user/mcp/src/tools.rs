//! Table of the tools: their fields, and the options of commands that these become.

use serde_json::{Map, Value, json};

/// Tool: a command of `tracer-user`.
#[derive(Debug)]
pub struct Tool {
    /// Name.
    pub name: &'static str,
    /// Description, as clients have it.
    pub about: &'static str,
    /// Words of the command.
    pub words: &'static [&'static str],
    /// Subject.
    pub subject: ToolSubject,
    /// Fields beyond those of the subject, `budget` and `format`.
    pub fields: &'static [ToolField],
    /// Budget of an answer where none is given, in bytes.
    pub budget: u64,
    /// Whether it answers in text or JSON; else in text alone.
    pub has_format: bool,
    /// Whether it needs the permission to record.
    pub records: bool,
}

/// Subject of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSubject {
    /// A log: `log`, or else the one that was named last.
    Log,
    /// Logs of two sides: `a` and `b`.
    TwoLogs,
    /// A log that is made: `log`; and a command, or processes.
    NewLog,
    /// Processes.
    Processes,
}

/// Field of a tool, which becomes an option of its command.
#[derive(Debug)]
pub struct ToolField {
    /// Name.
    pub name: &'static str,
    /// Values that may be given.
    pub kind: FieldValues,
    /// Description, as clients have it.
    pub about: &'static str,
}

/// Values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValues {
    /// A text.
    Text,
    /// A number, or a text that is one.
    Count,
    /// A truth.
    Flag,
    /// A text, or a list of texts; a number counts as one.
    List,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

const fn field(name: &'static str, kind: FieldValues, about: &'static str) -> ToolField {
    ToolField { name, kind, about }
}

/// Budgets that may be given, in bytes.
pub const LEAST_BUDGET: u64 = 512;
/// The greatest budget.
pub const MOST_BUDGET: u64 = 1 << 20;

const SPAN: ToolField = field(
    "span",
    FieldValues::List,
    "spans: NAME of a pair of user events, syscall:NAME, FILE:FUNCTION, or NAME=BEGIN..END",
);
const FROM: ToolField = field(
    "from",
    FieldValues::Text,
    "from this time since the start on: 1.5s",
);
const UNTIL: ToolField = field(
    "until",
    FieldValues::Text,
    "until this time since the start: 2s",
);
const COMM: ToolField = field(
    "comm",
    FieldValues::Text,
    "processes of this name: 'redis*'",
);
const CGROUP: ToolField = field(
    "cgroup",
    FieldValues::Text,
    "a control group: path, unit, or container",
);
const PIDS: ToolField = field("pid", FieldValues::List, "these processes alone");

/// The tools.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "open",
        about: "Opens a trace log: what it has, when, of which threads, what was lost. Later calls \
                need no `log` then. Begin with this, or with explain.",
        words: &["info"],
        subject: ToolSubject::Log,
        fields: &[],
        budget: 2048,
        has_format: true,
        records: false,
    },
    Tool {
        name: "explain",
        about: "Says why a program is slow: what it did with its time, what explains most of it \
                (who, where, how long, how sure), what does not, what could not be seen, and what to \
                ask next. The first question about a log.",
        words: &["explain"],
        subject: ToolSubject::Log,
        fields: &[field(
            "pid",
            FieldValues::Count,
            "the process whose first thread is followed; else the first one of the log",
        )],
        budget: 4096,
        has_format: true,
        records: false,
    },
    Tool {
        name: "stat",
        about: "Tables: what threads did, system calls, spans, locks, page faults, signals, \
                interrupts, requests to devices.",
        words: &["stat"],
        subject: ToolSubject::Log,
        fields: &[
            PIDS,
            FROM,
            UNTIL,
            field(
                "by",
                FieldValues::OneOf(&["thread", "process", "comm"]),
                "what has a row",
            ),
            field(
                "sort",
                FieldValues::Text,
                "which rows come first: running, runnable, blocked, waits, p99, max, name, pid",
            ),
            SPAN,
            field(
                "locks",
                FieldValues::Flag,
                "who had each lock, and who waited for it",
            ),
        ],
        budget: 6144,
        has_format: true,
        records: false,
    },
    Tool {
        name: "why",
        about: "Says why a thread or spans took that long: the critical path, by who ran and what \
                was waited for. Without span, thread and at: all that the first thread did.",
        words: &["why"],
        subject: ToolSubject::Log,
        fields: &[
            SPAN,
            field("thread", FieldValues::Count, "this thread"),
            field(
                "whole",
                FieldValues::Flag,
                "all that the command, or the first thread, did",
            ),
            field(
                "slowest",
                FieldValues::Count,
                "explain so many spans, the slowest",
            ),
            field(
                "longer_than",
                FieldValues::Text,
                "only spans that took longer: 5ms",
            ),
            field(
                "at",
                FieldValues::Text,
                "only spans that were open at this time since the start: 1.5s",
            ),
        ],
        budget: 6144,
        has_format: true,
        records: false,
    },
    Tool {
        name: "compare",
        about: "Says what became slower from logs of before (a) to logs of after (b), and which \
                causes explain it.",
        words: &["compare"],
        subject: ToolSubject::TwoLogs,
        fields: &[SPAN],
        budget: 6144,
        has_format: true,
        records: false,
    },
    Tool {
        name: "read",
        about: "Events themselves, in order of time. Give filters: a log has more than fits.",
        words: &["read"],
        subject: ToolSubject::Log,
        fields: &[
            field(
                "events",
                FieldValues::List,
                "only these families or types: fork,exec,exit,switch,wakeup,syscall,user",
            ),
            field(
                "event",
                FieldValues::List,
                "only the event type of exactly this name",
            ),
            PIDS,
            field("tid", FieldValues::List, "these threads alone"),
            field(
                "comm",
                FieldValues::Text,
                "only threads of this name: 'redis*'",
            ),
            field(
                "syscalls",
                FieldValues::List,
                "of system calls only these: openat, %file, !close",
            ),
            field(
                "failed",
                FieldValues::Flag,
                "of system calls only those that return an error",
            ),
            field(
                "filter",
                FieldValues::Text,
                "only where this is true: ret < 0 && comm == \"nginx\"",
            ),
            FROM,
            UNTIL,
            field("limit", FieldValues::Count, "at most so many events"),
        ],
        budget: 6144,
        has_format: true,
        records: false,
    },
    Tool {
        name: "report",
        about: "Makes a page of the log for people, in one file beside it (.html), which a browser \
                shows. Nothing is replaced.",
        words: &["report"],
        subject: ToolSubject::Log,
        fields: &[],
        budget: 1024,
        has_format: false,
        records: false,
    },
    Tool {
        name: "record",
        about: "Traces a command, or processes, into a new log, which is the one that later calls \
                are about; and explains it.",
        words: &["record"],
        subject: ToolSubject::NewLog,
        fields: &[
            field(
                "command",
                FieldValues::List,
                "the command and its arguments, each a text; no shell",
            ),
            PIDS,
            COMM,
            CGROUP,
            field(
                "duration",
                FieldValues::Text,
                "for how long; 10s where none is given",
            ),
            field(
                "locks",
                FieldValues::Flag,
                "record who has the locks that threads wait for",
            ),
        ],
        budget: 4096,
        has_format: true,
        records: true,
    },
    Tool {
        name: "waits",
        about: "Says what the threads of processes wait for at this moment, who has it, and which \
                wait for each other (deadlocks).",
        words: &["why", "--now"],
        subject: ToolSubject::Processes,
        fields: &[
            PIDS,
            COMM,
            CGROUP,
            field("stack", FieldValues::Flag, "what called what, too"),
        ],
        budget: 4096,
        has_format: true,
        records: true,
    },
];

impl Tool {
    /// Returns the fields of its subject, and those that all tools have.
    #[must_use]
    pub fn common(&self) -> Vec<ToolField> {
        let mut fields = match self.subject {
            ToolSubject::Log => vec![field(
                "log",
                FieldValues::Text,
                "path of the log; else the one that was named last",
            )],
            ToolSubject::TwoLogs => vec![
                field("a", FieldValues::List, "paths of the logs of before"),
                field("b", FieldValues::List, "paths of the logs of after"),
            ],
            ToolSubject::NewLog => vec![field(
                "log",
                FieldValues::Text,
                "path of the log that is made",
            )],
            ToolSubject::Processes => Vec::new(),
        };
        fields.push(field(
            "budget",
            FieldValues::Count,
            "most bytes of the answer, 512 to 1048576; what is left out is counted",
        ));
        if self.has_format {
            fields.push(field(
                "format",
                FieldValues::OneOf(&["text", "json"]),
                "text, which is shorter, or json",
            ));
        }
        fields
    }

    /// Returns the field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<FieldValues> {
        let own = self.fields.iter().find(|field| field.name == name);
        let own = own.map(|field| field.kind);
        own.or_else(|| {
            let common = self.common().into_iter();
            common
                .filter(|field| field.name == name)
                .map(|field| field.kind)
                .next()
        })
    }

    /// Returns the names of its fields.
    #[must_use]
    pub fn field_names(&self) -> Vec<&'static str> {
        let common = self.common().into_iter().map(|field| field.name);
        common
            .chain(self.fields.iter().map(|field| field.name))
            .collect()
    }

    /// Returns the JSON Schema of its fields.
    #[must_use]
    pub fn input_schema(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in self.common().iter().chain(self.fields) {
            properties.insert(field.name.to_owned(), schema_of(field));
        }
        let required: &[&str] = match self.subject {
            ToolSubject::TwoLogs => &["a", "b"],
            ToolSubject::NewLog => &["log"],
            ToolSubject::Log | ToolSubject::Processes => &[],
        };
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

fn schema_of(field: &ToolField) -> Value {
    let mut schema = match field.kind {
        FieldValues::Text => json!({ "type": "string" }),
        FieldValues::Count => json!({ "type": ["integer", "string"] }),
        FieldValues::Flag => json!({ "type": "boolean" }),
        FieldValues::List => json!({
            "type": ["array", "string", "integer"],
            "items": { "type": ["string", "integer"] },
        }),
        FieldValues::OneOf(words) => json!({ "enum": words }),
    };
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".to_owned(), field.about.into());
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_tool_and_each_field_of_it_has_a_name_of_its_own() {
        let names: BTreeSet<_> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), TOOLS.len());
        for tool in TOOLS {
            let fields = tool.field_names();
            let names: BTreeSet<_> = fields.iter().collect();
            assert_eq!(names.len(), fields.len(), "{}", tool.name);
            let schema = tool.input_schema();
            assert_eq!(schema["additionalProperties"], false);
            assert_eq!(
                schema["properties"].as_object().unwrap().len(),
                fields.len()
            );
            assert!((LEAST_BUDGET..=MOST_BUDGET).contains(&tool.budget));
        }
    }
}
