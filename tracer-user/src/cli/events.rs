//! `tracer-user events`: every type of event, and whether this kernel has it.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use tracer_common::event_type::{EventOrigin, SYSTEM_EVENT_TYPES, SystemEventType};

use super::output_options::FormatArgs;
use super::tracepoint_list;
use tracer_event::document::object_line;
use tracer_kernel::named_tracepoints::Pattern;
use tracer_kernel::{Availability, LoadError, availability};
use tracer_text::short_name;

/// List the types of system events: fields, cost, and whether this kernel has them
///
/// A type is chosen by its name, in each form that is shown (thread-exit, linux_trace_thread_exit,
/// LINUX_TRACE_THREAD_EXIT), or by its family (`--events switch,syscall`). Those that are marked
/// with a star are shown without being chosen. User event types are those that programs define.
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// List the tracepoints of this kernel instead, which `--tracepoint` takes by name, with their
    /// fields: all, or those that fit NAME, CATEGORY:NAME or a pattern ('tcp:*'). Without root,
    /// what the kernel's BTF has of them: no categories, and fields of some
    #[arg(long, value_name = "PATTERN", num_args = 0..=1, default_missing_value = "*")]
    tracepoints: Option<String>,
    /// Where the kernel does not describe its types (/sys/kernel/btf/vmlinux): take them from this
    /// file, BTF or an ELF file with a section .BTF, such as vmlinux. It must be of the very kernel
    /// that runs
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

/// Checked configuration of `events`.
#[derive(Clone, Debug)]
pub struct EventsConfig {
    tracepoints: Option<Pattern>,
    btf: Option<PathBuf>,
    is_json: bool,
}

impl TryFrom<EventsArgs> for EventsConfig {
    type Error = anyhow::Error;

    fn try_from(args: EventsArgs) -> anyhow::Result<Self> {
        let pattern = args.tracepoints.as_deref().map(Pattern::new).transpose();
        Ok(Self {
            tracepoints: pattern.context("--tracepoints")?,
            btf: args.btf,
            is_json: args.format.is_json(),
        })
    }
}

/// Prints the list.
///
/// # Errors
///
/// It cannot be printed.
pub fn run(config: &EventsConfig) -> anyhow::Result<ExitCode> {
    if let Some(pattern) = &config.tracepoints {
        return tracepoint_list::run(pattern, config.btf.as_deref(), config.is_json);
    }
    let kernel = availability(config.btf.as_deref()).map_err(LoadError::from)?;
    let mut out = Vec::new();
    if !config.is_json {
        writeln!(
            out,
            "  {:<16} {:<9} {:<9} {:<8} CARRIES",
            "TYPE", "FAMILY", "COST", "HERE"
        )?;
    }
    for entry in SYSTEM_EVENT_TYPES {
        let is_here = match entry.origin {
            // The trace system needs no kernel for them.
            EventOrigin::Stream => Availability::There,
            EventOrigin::Kernel => kernel(entry.id),
        };
        if config.is_json {
            out.extend_from_slice(object_line(&object(entry, is_here)).as_bytes());
        } else {
            out.extend_from_slice(line(entry, is_here).as_bytes());
        }
    }
    if !config.is_json {
        out.extend_from_slice(ADDED.as_bytes());
    }
    io::stdout().lock().write_all(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Costs that options add to the events they apply to. The figures are the kernel's own count of
/// our programs' time, on a machine that has other work.
const ADDED: &str = "\
WITH IT            COST      FOR EACH EVENT THAT HAS ONE
  --stack user     heavy     1.4 µs, and 0.06 µs for each function beyond the first five; of a
                             system call 0.3 µs; of a user event (--stack-for user) 2 µs
  --unwind dwarf   heavy     0.5 to 3 µs instead, of a system call; dwarf,2K: 0.4 µs
  --stack kernel   heavy     1.7 µs
  --stack python   heavy     0.6 µs, and 0.07 µs for each function of Python 3.12 and later, so
                             2 µs for 20 of them; before 3.12 0.12 µs for each, so 3 µs
  --string-size    heavy     0.2 µs for a text that a call is given; 0 reads none
";

/// Event type as a JSON object.
#[derive(Serialize)]
struct Object {
    name: &'static str,
    /// Name as in text output.
    short: String,
    family: &'static str,
    about: &'static str,
    cost: &'static str,
    /// Whether it is shown by default.
    default: bool,
    /// Whether its events belong to a process.
    process: bool,
    /// Whether this kernel has it; null when that is unknown.
    available: Option<bool>,
    /// Tracepoint that this kernel lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<&'static str>,
    fields: Vec<ObjectField>,
}

#[derive(Serialize)]
struct ObjectField {
    name: &'static str,
    kind: &'static str,
}

fn object(entry: &SystemEventType, is_here: Availability) -> Object {
    let (available, missing) = match is_here {
        Availability::There => (Some(true), None),
        Availability::Lacks(tracepoint) => (Some(false), Some(tracepoint)),
        Availability::Unknown => (None, None),
    };
    let fields = entry.fields.iter().map(|field| ObjectField {
        name: field.name,
        kind: field.kind.name(),
    });
    Object {
        name: entry.name,
        short: short_name(entry),
        family: entry.family,
        about: entry.about,
        cost: entry.cost.name(),
        default: entry.is_default,
        process: entry.has_process,
        available,
        missing,
        fields: fields.collect(),
    }
}

/// Formats an event type as two lines for people: the second one describes it.
fn line(entry: &SystemEventType, is_here: Availability) -> String {
    let here = match is_here {
        Availability::There => "yes".to_owned(),
        Availability::Lacks(tracepoint) => format!("no: the kernel has no {tracepoint}"),
        Availability::Unknown => "unknown".to_owned(),
    };
    let fields: Vec<&str> = entry.fields.iter().map(|field| field.name).collect();
    let short = short_name(entry);
    let star = if entry.is_default { '*' } else { ' ' };
    let first = format!(
        "{star} {short:<16} {:<9} {:<9} {here:<8} {}",
        entry.family,
        entry.cost.name(),
        fields.join(" ")
    );
    format!("{}\n{:>4}{}\n", first.trim_end(), "", entry.about)
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::{EventTypeId, system_event_type};

    use super::*;

    #[test]
    fn a_line_has_name_cost_fields_and_what_is_lacking() {
        let entry = system_event_type(EventTypeId::FAULT_USER).unwrap();
        let there = line(entry, Availability::There);
        let lacking = line(entry, Availability::Lacks("page_fault_user"));

        assert!(there.starts_with("  fault-user "), "{there}");
        for word in ["heavy", "yes", "address write fetch", "a page fault of"] {
            assert!(there.contains(word), "{there}");
        }
        assert!(lacking.contains("has no page_fault_user"), "{lacking}");
    }

    #[test]
    fn an_object_shows_what_is_not_known_by_null() {
        let entry = system_event_type(EventTypeId::EXIT).unwrap();
        let object = serde_json::to_value(object(entry, Availability::Unknown)).unwrap();

        assert_eq!(object["available"], serde_json::Value::Null);
        assert_eq!(object["default"], true);
        assert_eq!(
            object["fields"],
            serde_json::json!([
                {"name": "status", "kind": "i32"}, {"name": "signal", "kind": "signal"}
            ])
        );
    }
}
