//! Spans, as people type them.

use anyhow::{Context, bail, ensure};
use tracer_analysis::KeyBytes;

use super::relatives::relatives;
use tracer_binary::probes::ProbeSpec;
use tracer_syscalls::names::{Table, names, syscall_number};
use tracer_text::suggest;

/// Spans that are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanSpec {
    /// Spans of this name, by the names of their event types.
    Named(Vec<u8>),
    /// A function, from its entry to its return: as it was typed, and the name of the span.
    Function(String, Vec<u8>),
    /// A system call, by its name and its index in the machine's table.
    Call(String, i32),
    /// Time between two event types.
    Between {
        /// Name of the spans.
        name: Vec<u8>,
        /// Beginning of the spans.
        begin: BorderSpec,
        /// End of the spans.
        end: BorderSpec,
    },
}

/// A border of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BorderSpec {
    /// The name of its event type.
    pub event: Vec<u8>,
    /// Bytes of its data that are the key.
    pub key: Option<KeyBytes>,
}

impl SpanSpec {
    /// Tells whether spans of this name may be meant.
    #[must_use]
    pub fn may_be(&self, name: &[u8]) -> bool {
        match self {
            Self::Named(wanted) => is_called(name, wanted),
            Self::Function(_, wanted) => *wanted == name,
            Self::Call(wanted, _) => wanted.as_bytes() == name,
            Self::Between { name: wanted, .. } => *wanted == name,
        }
    }

    /// Reads `NAME`, `syscall:NAME`, `FILE:FUNCTION` or `NAME=BEGIN..END`, where both may have a
    /// key: `BEGIN[0:8]`.
    ///
    /// # Errors
    ///
    /// It is none of these.
    pub fn parse(typed: &str) -> anyhow::Result<Self> {
        ensure!(
            !typed.is_empty(),
            "--span needs a name, or NAME=BEGIN..END with two event types"
        );
        if let Some(call) = typed.strip_prefix("syscall:") {
            let nr = syscall_number(Table::Native, call);
            let nr = nr.with_context(|| no_call(typed, call))?;
            return Ok(Self::Call(call.to_owned(), i32::try_from(nr)?));
        }
        if let Some(called) = function(typed) {
            return Ok(Self::Function(typed.to_owned(), called));
        }
        let Some((name, borders)) = typed.split_once('=') else {
            return Ok(Self::Named(typed.as_bytes().to_vec()));
        };
        let Some((begin, end)) = borders.split_once("..") else {
            bail!("--span {typed:?} has no end; give NAME=BEGIN..END with two event types");
        };
        let (begin, end) = (border(typed, begin)?, border(typed, end)?);
        ensure!(
            begin.key.is_some() == end.key.is_some(),
            "--span {typed:?}: both event types have a key, or none has"
        );
        let bytes = |key: Option<KeyBytes>| key.map(|(first, end)| end - first);
        ensure!(
            bytes(begin.key) == bytes(end.key),
            "--span {typed:?}: both keys have as many bytes"
        );
        ensure!(
            begin.event != end.event || begin.key != end.key,
            "--span {typed:?} begins with what it ends with"
        );
        Ok(Self::Between {
            name: name.as_bytes().to_vec(),
            begin,
            end,
        })
    }
}

/// Reports that there is no such call, and which there is instead.
fn no_call(typed: &str, call: &str) -> String {
    let instead = match (relatives(call).first(), suggest(call, names())) {
        (Some(other), _) => format!("; on this machine try --span syscall:{other}"),
        (None, Some(near)) => format!("; is syscall:{near} meant?"),
        (None, None) => String::new(),
    };
    format!("--span {typed:?}: this machine has no system call {call:?}{instead}")
}

/// Tells whether a span may be asked for by `name`: its own, or the part of it behind the last
/// colon.
fn is_called(stem: &[u8], name: &[u8]) -> bool {
    stem == name
        || stem
            .strip_suffix(name)
            .is_some_and(|rest| rest.ends_with(b":"))
}

/// Returns the name of the spans of a function, where `typed` is one of a file: a path, or a
/// library.
fn function(typed: &str) -> Option<Vec<u8>> {
    let (file, _) = typed.split_once(':')?;
    let is_file = !file.contains('=') && (file.contains('/') || file.contains(".so"));
    let probe = ProbeSpec::function(typed).ok().filter(|_| is_file)?;
    let name = probe.event_name();
    Some(name.strip_prefix("probe:")?.as_bytes().to_vec())
}

fn border(typed: &str, border: &str) -> anyhow::Result<BorderSpec> {
    let keyed = border
        .strip_suffix(']')
        .and_then(|border| border.rsplit_once('['));
    let (event, key) = match keyed {
        None => (border, None),
        Some((event, typed_key)) => {
            let bounds = typed_key.split_once(':').and_then(|(first, end)| {
                Some((first.parse::<usize>().ok()?, end.parse::<usize>().ok()?))
            });
            let key = bounds.filter(|(first, end)| first < end && end - first <= 64);
            let key = key.with_context(|| {
                format!(
                    "--span {typed:?}: [{typed_key}] is no key; give the bytes of the data, from and up \
                     to: [0:8], 64 at most"
                )
            })?;
            (event, Some(key))
        }
    };
    ensure!(
        !event.is_empty(),
        "--span {typed:?} needs an event type on both sides of the dots"
    );
    Ok(BorderSpec {
        event: event.as_bytes().to_vec(),
        key,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_calls_and_borders_are_read() {
        let border = |event: &[u8], key| BorderSpec {
            event: event.to_vec(),
            key,
        };
        let named = SpanSpec::Named(b"query".to_vec());
        assert_eq!(SpanSpec::parse("query").unwrap(), named);
        assert_eq!(
            SpanSpec::parse("libc.so.6:malloc").unwrap(),
            SpanSpec::Function("libc.so.6:malloc".to_owned(), b"malloc".to_vec())
        );
        let colon = SpanSpec::Named(b"db:query".to_vec());
        assert_eq!(SpanSpec::parse("db:query").unwrap(), colon);
        let read = i32::try_from(libc::SYS_read).unwrap();
        assert_eq!(
            SpanSpec::parse("syscall:read").unwrap(),
            SpanSpec::Call("read".to_owned(), read)
        );
        assert_eq!(
            SpanSpec::parse("req=a b[0:8]..c[4:12]").unwrap(),
            SpanSpec::Between {
                name: b"req".to_vec(),
                begin: border(b"a b", Some((0, 8))),
                end: border(b"c", Some((4, 12))),
            }
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for typed in [
            "",
            "x=a",
            "x=a..",
            "x=..b",
            "x=a..a",
            "x=a[0:8]..b",
            "x=a[0:8]..b[0:4]",
            "x=a[8:0]..b[0:8]",
            "x=a[0:99]..b[0:99]",
            "x=a[]..b[]",
            "syscall:nothing",
        ] {
            assert!(SpanSpec::parse(typed).is_err(), "{typed}");
        }
    }
}
