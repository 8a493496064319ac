//! Output of the command line with `--format json`.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// `CLOCK_MONOTONIC`.
    pub ns: u64,
    /// Name of the event type, without the prefix that all kernel types have.
    pub event_type: String,
    /// `system` or `user`.
    pub class: String,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// The CPU, where it is shown.
    pub cpu: Option<u64>,
    /// The thread's `pthread_t`, where it is shown.
    pub thread_id: Option<u64>,
    /// User address of what caused it, where it is shown.
    pub prog_address: Option<u64>,
    /// Data of the event.
    pub data: Value,
    /// The whole line.
    pub line: String,
}

/// The last line.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Duration of the trace.
    pub seconds: f64,
    /// Events by type.
    pub events: BTreeMap<String, u64>,
    /// Events lost, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Events among `lost` that found a ring of the kernel's full, by CPU.
    pub ring_full_by_cpu: BTreeMap<String, u64>,
    /// Events that could not be written to a log.
    pub unwritten: u64,
}

/// A line of the output.
#[derive(Clone, Debug)]
pub enum Line {
    /// Any but the last.
    Event(Event),
    /// The last.
    Summary(Summary),
}

const KERNEL_PREFIX: &str = "linux_trace_";

impl Line {
    /// Reads one line.
    ///
    /// # Errors
    ///
    /// A field is missing or of another kind than documented.
    pub fn parse(line: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let parsed = match value.get("summary") {
            Some(summary) => summary_from(summary).map(Self::Summary),
            None => event_from(line, &value).map(Self::Event),
        };
        parsed.with_context(|| line.to_owned())
    }
}

fn event_from(line: &str, value: &Value) -> anyhow::Result<Event> {
    let text = |name| {
        let field = value.get(name).and_then(Value::as_str);
        field.with_context(|| format!("no text {name}"))
    };
    let id = |name| {
        let field = value.get(name).and_then(Value::as_i64);
        let id = field.with_context(|| format!("no integer {name}"))?;
        i32::try_from(id).with_context(|| format!("no identifier: {id}"))
    };
    let event_type = text("type")?;
    let class = text("class")?;
    if class != "system" && class != "user" {
        bail!("unknown class {class}");
    }
    text("time")?;
    text("comm")?;
    Ok(Event {
        ns: value.get("ns").and_then(Value::as_u64).context("no ns")?,
        event_type: event_type
            .strip_prefix(KERNEL_PREFIX)
            .unwrap_or(event_type)
            .to_owned(),
        class: class.to_owned(),
        pid: id("pid")?,
        tid: id("tid")?,
        cpu: value.get("cpu").and_then(Value::as_u64),
        thread_id: value.get("thread_id").and_then(Value::as_u64),
        prog_address: value.get("prog_address").and_then(Value::as_u64),
        data: value.get("data").cloned().context("no data")?,
        line: line.to_owned(),
    })
}

fn summary_from(value: &Value) -> anyhow::Result<Summary> {
    let counts = |name: &str| -> anyhow::Result<BTreeMap<String, u64>> {
        let counts = value.get(name).and_then(Value::as_object);
        let counts = counts.with_context(|| format!("no {name}"))?;
        let integer = |(key, count): (&String, &Value)| {
            let count = count
                .as_u64()
                .with_context(|| format!("no integer {key}"))?;
            Ok((key.clone(), count))
        };
        counts.iter().map(integer).collect()
    };
    let seconds = value.get("seconds").and_then(Value::as_f64);
    Ok(Summary {
        seconds: seconds.context("no seconds")?,
        events: counts("events")?,
        lost: counts("lost")?,
        ring_full_by_cpu: counts("ring_full_by_cpu").unwrap_or_default(),
        unwritten: value.get("unwritten").and_then(Value::as_u64).unwrap_or(0),
    })
}

impl Event {
    /// Tells whether it is a user event of this name.
    #[must_use]
    pub fn is_user(&self, name: &str) -> bool {
        self.class == "user" && self.event_type == name
    }

    /// Tells whether it is a kernel event of this name (without the common prefix).
    #[must_use]
    pub fn is_system(&self, name: &str) -> bool {
        self.class == "system" && self.event_type == name
    }

    /// Returns an integer of its data.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        let field = self.data.get(name)?;
        let truth = field.as_bool().map(i64::from);
        field.as_i64().or(truth)
    }

    /// Returns a text of its data.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<&str> {
        self.data.get(name)?.as_str()
    }

    /// Returns its data as text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.data.get("text").and_then(Value::as_str)
    }
}

impl Summary {
    /// Counts the lost events of all causes, but for those that the kernel itself did not report.
    #[must_use]
    pub fn all_lost(&self) -> u64 {
        let unreported = self.lost.get("kernel_not_told");
        let all: u64 = self.lost.values().sum();
        all - unreported.copied().unwrap_or(0)
    }
}

/// Reads the bytes of a user event's data as two integers, off the line without parsing all of it:
/// tests look at millions of them.
#[must_use]
pub fn two_integers(line: &str) -> Option<(u64, u64)> {
    let (_, after) = line.split_once("\"hex\":\"")?;
    let (hex, _) = after.split_once('"')?;
    let integer = |digits: &str| {
        // Hex shows the first byte first; the program wrote the integer in the machine's order.
        let shown = u64::from_str_radix(digits, 16).ok()?;
        Some(u64::from_ne_bytes(shown.to_be_bytes()))
    };
    Some((integer(hex.get(..16)?)?, integer(hex.get(16..32)?)?))
}
