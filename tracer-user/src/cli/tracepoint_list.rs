//! `tracer-user events --tracepoints`: the tracepoints of this kernel.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use tracer_event::document::object_line;
use tracer_kernel::named_tracepoints::{FindTracepointError, Pattern, list};
use tracer_kernel::{LoadError, Unmet, tracepoints_of_btf};
use tracer_text::say;

/// Tracepoint as a JSON object.
#[derive(Serialize)]
struct Object {
    name: String,
    /// Category; null when it was read from BTF: only the kernel's tracing files have it.
    category: Option<String>,
    /// Fields; null when they are unknown.
    fields: Option<Vec<ObjectField>>,
}

#[derive(Serialize)]
struct ObjectField {
    name: String,
    /// Type as the kernel writes it.
    #[serde(rename = "type")]
    c_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
}

/// Prints the tracepoints that match.
///
/// # Errors
///
/// Neither tracefs nor BTF lists them, or the list cannot be printed.
pub fn run(pattern: &Pattern, btf: Option<&Path>, is_json: bool) -> anyhow::Result<ExitCode> {
    let objects = match list(pattern) {
        Ok(found) => found.into_iter().map(Object::from).collect(),
        Err(FindTracepointError::NoTracefs { source }) => {
            let found = match find_in_btf(pattern, btf) {
                Ok(found) => found,
                Err(unmet) if btf.is_some() => return Err(LoadError::from(unmet).into()),
                Err(_no_btf) => return Err(FindTracepointError::NoTracefs { source }.into()),
            };
            say(
                "the kernel's tracing files are for root alone: these are the tracepoints that its BTF has, \
                 without categories, and with the fields of those that have a record of their own",
            );
            found
        }
        Err(error) => return Err(error.into()),
    };
    if objects.is_empty() {
        say(&format!(
            "no tracepoint of this kernel fits {pattern}; without a pattern all are listed"
        ));
    }
    let mut out = Vec::new();
    for object in &objects {
        if is_json {
            out.extend_from_slice(object_line(object).as_bytes());
        } else {
            out.extend_from_slice(lines(object).as_bytes());
        }
    }
    io::stdout().lock().write_all(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// Finds the tracepoints that BTF has.
fn find_in_btf(pattern: &Pattern, btf: Option<&Path>) -> Result<Vec<Object>, Unmet> {
    let all = tracepoints_of_btf(btf)?.into_iter();
    let fitting = all.filter(|described| pattern.has_name(&described.name));
    let objects = fitting.map(|described| Object {
        name: described.name,
        category: None,
        fields: described.fields.map(|fields| {
            let fields = fields.into_iter().map(|(name, c_type)| ObjectField {
                name,
                c_type,
                offset: None,
                size: None,
            });
            fields.collect()
        }),
    });
    Ok(objects.collect())
}

impl From<tracer_kernel::named_tracepoints::Tracepoint> for Object {
    fn from(tracepoint: tracer_kernel::named_tracepoints::Tracepoint) -> Self {
        let fields = tracepoint.format.fields.into_iter();
        let fields = fields.map(|field| ObjectField {
            name: field.name,
            c_type: field.c_type,
            offset: Some(field.offset),
            size: Some(field.size),
        });
        Self {
            name: tracepoint.name,
            category: Some(tracepoint.category),
            fields: Some(fields.collect()),
        }
    }
}

/// Formats a tracepoint as lines for people.
fn lines(object: &Object) -> String {
    let name = match &object.category {
        Some(category) => format!("{category}:{}", object.name),
        None => object.name.clone(),
    };
    let Some(fields) = &object.fields else {
        return format!("{name}\n");
    };
    let fields = fields.iter();
    let fields = fields.map(|field| format!("{} {}", field.c_type, field.name));
    format!("{name}\n    {}\n", fields.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_is_shown_as_it_is_asked_for() {
        let field = ObjectField {
            name: "sport".into(),
            c_type: "__u16".into(),
            offset: Some(28),
            size: Some(2),
        };
        let mut object = Object {
            name: "tcp_probe".into(),
            category: Some("tcp".into()),
            fields: Some(vec![field]),
        };
        assert_eq!(lines(&object), "tcp:tcp_probe\n    __u16 sport\n");
        (object.category, object.fields) = (None, None);
        assert_eq!(lines(&object), "tcp_probe\n");
    }
}
