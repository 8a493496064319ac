//! Thread context of OpenTelemetry (OTEP 4947): trace and span that a thread works for, as its
//! program publishes them for readers outside.
//!
//! A thread-local pointer, [`VARIABLE`], leads to a record of the thread. Only the thread itself
//! writes it, so that it may be read while the thread does not run. That a program publishes at all
//! it says in a mapping of its own (OTEP 4719).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use tracer_common::event_type::read_grown;
use tracer_common::kernel::{ROUTE_BYTES, ThreadContextData};

use crate::process_memory;
use crate::stacks::{BuildIds, MappedBy, Mapping, binary, time_now};
use crate::thread_local::{ThreadVariable, VariablePlace};

/// Name of the thread-local pointer.
pub const VARIABLE: &[u8] = b"otel_thread_ctx_v1";

/// Bytes of `maps` that are read.
const MOST_MAPS_BYTES: u64 = 32 << 20;

/// Bytes of the part of a record that is read: all but what programs add.
pub const RECORD_BYTES: usize = 28;

/// Trace and span that a thread works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadContext {
    /// Identifier of the trace.
    pub trace_id: [u8; 16],
    /// Identifier of the span.
    pub span_id: [u8; 8],
    /// Route or name of what the thread does for it.
    pub route: Route,
}

/// Route or name of what a thread does, as its program says it in an attribute, ended by a null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route(pub [u8; ROUTE_BYTES]);

impl Route {
    /// None is said.
    pub const NONE: Self = Self([0; ROUTE_BYTES]);

    /// Returns the name; `None` where none is said.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        let name = self.0.split(|byte| *byte == 0).next();
        name.filter(|name| !name.is_empty())
    }
}

impl ThreadContext {
    /// Tells whether two are of the same span.
    #[must_use]
    pub fn is_same_span(&self, other: &Self) -> bool {
        (self.trace_id, self.span_id) == (other.trace_id, other.span_id)
    }

    /// Reads a record; `None` where it is not valid at this moment, or has no trace.
    #[must_use]
    pub fn parse(untrusted: &[u8; RECORD_BYTES]) -> Option<Self> {
        /// Value of the byte that says that the record is valid: all others are reserved.
        const VALID: u8 = 1;
        let (trace_id, rest) = untrusted.split_first_chunk::<16>()?;
        let (span_id, rest) = rest.split_first_chunk::<8>()?;
        let is_set = *trace_id != [0; 16] && *span_id != [0; 8];
        (rest.first() == Some(&VALID) && is_set).then_some(Self {
            trace_id: *trace_id,
            span_id: *span_id,
            route: Route::NONE,
        })
    }

    /// Reads the data of an event that says from when on a thread has a context; `None` where it
    /// has none.
    #[must_use]
    pub fn of_event(untrusted: &[u8]) -> Option<Self> {
        let least = offset_of!(ThreadContextData, route);
        let data: ThreadContextData = read_grown(untrusted, least)?;
        let is_set = data.trace_id != [0; 16] && data.span_id != [0; 8];
        is_set.then_some(Self {
            trace_id: data.trace_id,
            span_id: data.span_id,
            route: Route(data.route),
        })
    }

    /// Appends it as people read it.
    pub fn push(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("trace {} span {}", self.trace(), self.span()).as_bytes());
    }

    /// Returns the identifier of the trace in hexadecimal digits, as it is written everywhere.
    #[must_use]
    pub fn trace(&self) -> String {
        hexadecimal(&self.trace_id)
    }

    /// Returns the identifier of the span in hexadecimal digits.
    #[must_use]
    pub fn span(&self) -> String {
        hexadecimal(&self.span_id)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads an identifier of a trace; `None` where it has not 32 hexadecimal digits, or is zero.
#[must_use]
pub fn parse_trace_id(typed: &str) -> Option<[u8; 16]> {
    let is_one = typed.len() == 32 && typed.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(typed, 16).ok().filter(|_| is_one)?;
    (number != 0).then_some(number.to_be_bytes())
}

/// Tells whether a line of `/proc/PID/maps` is of a mapping in which a process may publish its
/// context. Returns where it begins.
#[must_use]
pub fn published_at(line: &[u8]) -> Option<u64> {
    const NAMES: [&[u8]; 3] = [
        b"/memfd:OTEL_CTX",
        b"[anon_shmem:OTEL_CTX]",
        b"[anon:OTEL_CTX]",
    ];
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let range = std::str::from_utf8(fields.next()?).ok()?;
    let name = fields.nth(4)?.trim_ascii_start();
    let is_it = NAMES.iter().any(|one| name.starts_with(one));
    let (start, _) = range.split_once('-').filter(|_| is_it)?;
    u64::from_str_radix(start, 16).ok()
}

/// Bytes of the header of a published context.
pub const HEADER_BYTES: usize = 32;

/// Bytes of a published context that are read.
const MOST_BYTES: u32 = 1 << 20;

/// Header of the context that a process publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessContextHeader {
    /// Bytes of what follows.
    pub bytes: usize,
    /// When it was published; where it changes, what was read is not of one moment.
    pub published_at: u64,
    /// Address of what follows.
    pub payload: u64,
}

impl ProcessContextHeader {
    /// Reads the header; `None` where it is of another version, or is being written.
    #[must_use]
    pub fn parse(untrusted: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (signature, rest) = untrusted.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let (published_at, rest) = rest.split_first_chunk()?;
        let payload = u64::from_ne_bytes(*rest.first_chunk()?);
        let bytes = u32::from_ne_bytes(*bytes);
        let published_at = u64::from_ne_bytes(*published_at);
        let is_known = signature == b"OTEL_CTX" && matches!(u32::from_ne_bytes(*version), 1 | 2);
        (is_known && published_at != 0 && bytes <= MOST_BYTES).then_some(Self {
            bytes: usize::try_from(bytes).ok()?,
            published_at,
            payload,
        })
    }
}

/// Attributes that say what a thread does: the first of these that a program has counts.
const ROUTES: [&str; 5] = ["http.route", "http_route", "span.name", "span_name", "name"];

/// Returns the index of the attribute of threads that says what they do, by the list of their names
/// in a published context.
#[must_use]
pub fn route_key(untrusted: &[u8]) -> Option<u8> {
    const KEY: &[u8] = b"threadlocal.attribute_key_map";
    /// Tags of protobuf: a value; a list in it, and its entries; a text.
    const VALUE: u8 = 0x12;
    const LIST: u8 = 0x2a;
    const ENTRY: u8 = 0x0a;
    const TEXT: u8 = 0x0a;
    let at = untrusted.windows(KEY.len()).position(|key| key == KEY)?;
    let (value, _) = field(untrusted.get(at + KEY.len()..)?, VALUE)?;
    let (mut entries, _) = field(value, LIST)?;
    let mut names = Vec::new();
    while let Some((entry, rest)) = field(entries, ENTRY) {
        // One of another kind has an index too.
        names.push(field(entry, TEXT).map(|(text, _)| text));
        entries = rest;
    }
    let index = |wanted: &&str| {
        let wanted = Some(wanted.as_bytes());
        names.iter().position(|name| *name == wanted)
    };
    u8::try_from(ROUTES.iter().find_map(index)?).ok()
}

/// Takes a field of protobuf that has bytes, if it comes first and has this tag: its bytes, and
/// what follows.
fn field(untrusted: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, mut rest) = untrusted.split_first()?;
    let mut length = 0_usize;
    for shift in [0, 7, 14] {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(length).filter(|_| *first == tag);
        }
    }
    None
}

/// Tells whether a published context says that threads have contexts of the kind that is read here:
/// by an attribute, a key with a value, which is a text.
#[must_use]
pub fn has_thread_contexts(untrusted: &[u8]) -> bool {
    const KEY: &[u8] = b"threadlocal.schema_version";
    const SCHEMAS: [&[u8]; 2] = [b"tlsdesc_v1_dev", b"tls_v1"];
    /// Tags of protobuf before a value, and before its text.
    const VALUE: u8 = 0x12;
    const TEXT: u8 = 0x0a;
    let mut keys = untrusted.windows(KEY.len()).enumerate();
    keys.any(|(at, key)| {
        let value = untrusted.get(at + KEY.len()..).unwrap_or_default();
        let text = match value {
            [VALUE, bytes, TEXT, length, text @ ..] if *bytes == length.wrapping_add(2) => {
                text.get(..usize::from(*length))
            }
            _ => None,
        };
        key == KEY && text.is_some_and(|text| SCHEMAS.contains(&text))
    })
}

/// Finds where a process, which has these mappings, publishes the contexts of its threads, and
/// which of their attributes says what they do; `None` where it does not, or where that is unknown.
pub fn context_place(
    pid: i32,
    mappings: &[Mapping],
    build_ids: &mut BuildIds,
) -> Option<(VariablePlace, Option<u8>)> {
    let published = published(pid)?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let mut seen: Vec<&Arc<[u8]>> = Vec::new();
    let mut places = Vec::new();
    for mapping in mappings.iter().filter(|one| one.path.starts_with(b"/")) {
        if seen.contains(&&mapping.path) {
            continue;
        }
        seen.push(&mapping.path);
        let Some((variable, bias)) = context_variable(pid, mapping, build_ids) else {
            continue;
        };
        let is_program = Path::new(OsStr::from_bytes(&mapping.path)) == program;
        places.push(variable.place(is_program, bias, process_memory::words(pid)));
    }
    // Of several, which of them is written is unknown.
    match places[..] {
        [place] => place.map(|place| (place, route_key(&published))),
        _ => None,
    }
}

/// Returns the pointer to contexts that the file of a mapping defines, and how far it lies from its
/// own address space; `None` where it defines none, or cannot be read.
pub fn context_variable(
    pid: i32,
    mapping: &Mapping,
    build_ids: &mut BuildIds,
) -> Option<(ThreadVariable, u64)> {
    let owner = MappedBy {
        pid,
        at: Some(time_now()),
    };
    let binary = binary(owner, mapping, build_ids)?;
    let variable = binary.thread_variable(VARIABLE).ok()??;
    let own = binary.code_address(mapping.file_offset).ok()??;
    Some((variable, mapping.start.wrapping_sub(own)))
}

/// Returns what a process publishes that says that its threads have contexts; `None` where it does
/// not, or where that is not told.
fn published(pid: i32) -> Option<Vec<u8>> {
    let maps = File::open(format!("/proc/{pid}/maps")).ok()?;
    let lines = BufReader::new(maps).take(MOST_MAPS_BYTES).split(b'\n');
    let published = lines.map_while(Result::ok);
    let published: Vec<u64> = published.filter_map(|line| published_at(&line)).collect();
    let mut contexts = published.into_iter();
    contexts.find_map(|at| payload(pid, at).filter(|bytes| has_thread_contexts(bytes)))
}

/// Reads what a process has published, where it is of one moment.
fn payload(pid: i32, at: u64) -> Option<Vec<u8>> {
    let header = || {
        let mut header = [0; HEADER_BYTES];
        let read = process_memory::read(pid, at, &mut header);
        ProcessContextHeader::parse(&header).filter(|_| read == header.len())
    };
    let before = header()?;
    let mut bytes = vec![0; before.bytes];
    let read = process_memory::read(pid, before.payload, &mut bytes);
    (read == bytes.len() && header()? == before).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attribute_that_says_what_a_thread_does_is_found_by_its_name() {
        let field = |tag: u8, bytes: &[u8]| {
            let length = u8::try_from(bytes.len()).unwrap();
            [&[tag, length][..], bytes].concat()
        };
        let map = |names: &[&str]| {
            let entry = |name: &&str| field(0x0a, &field(0x0a, name.as_bytes()));
            let entries: Vec<u8> = names.iter().flat_map(entry).collect();
            let key = field(0x0a, b"threadlocal.attribute_key_map");
            [key, field(0x12, &field(0x2a, &entries))].concat()
        };
        assert_eq!(route_key(&map(&["user", "http_route"])), Some(1));
        // By what it says, and not by its place.
        assert_eq!(route_key(&map(&["name", "", "http.route"])), Some(2));
        assert_eq!(route_key(&map(&["datadog.local_root_span_id"])), None);
        assert_eq!(route_key(&map(&[])), None);
        let whole = map(&["user", "http.route"]);
        for length in 0..whole.len() {
            assert_eq!(route_key(&whole[..length]), None);
        }
        let long = [&whole[..32], &[0xff; 9]].concat();
        assert_eq!(route_key(&long), None);
    }

    fn record(valid: u8) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[..16].copy_from_slice(&[0x4b; 16]);
        record[16..24].copy_from_slice(&[0x0f; 8]);
        record[24] = valid;
        record
    }

    #[test]
    fn a_record_counts_where_it_is_valid_and_has_a_trace() {
        let context = ThreadContext::parse(&record(1)).unwrap();
        assert_eq!(context.trace(), "4b".repeat(16));
        assert_eq!(context.span(), "0f".repeat(8));
        assert_eq!(parse_trace_id(&context.trace()), Some(context.trace_id));
        for valid in [0, 2, 255] {
            assert_eq!(ThreadContext::parse(&record(valid)), None);
        }
        let mut none = record(1);
        none[..16].fill(0);
        assert_eq!(ThreadContext::parse(&none), None);
    }

    #[test]
    fn a_trace_has_thirty_two_digits() {
        for typed in [
            "",
            "4b",
            "+b4b4b4b4b4b4b4b4b4b4b4b4b4b4b4b",
            &"0".repeat(32),
            &"g".repeat(32),
        ] {
            assert_eq!(parse_trace_id(typed), None, "{typed}");
        }
    }

    #[test]
    fn a_mapping_is_found_by_its_name() {
        let line = |name: &str| format!("7f12a000-7f12b000 rw-s 00000000 00:01 1031 {name}");
        let at = |name: &str| published_at(line(name).as_bytes());
        assert_eq!(at("  /memfd:OTEL_CTX (deleted)"), Some(0x7f12_a000));
        assert_eq!(at("[anon_shmem:OTEL_CTX]"), Some(0x7f12_a000));
        assert_eq!(at("[anon:OTEL_CTX]"), Some(0x7f12_a000));
        assert_eq!(at("/tmp/OTEL_CTX"), None);
        assert_eq!(published_at(b""), None);
    }

    #[test]
    fn a_header_that_is_being_written_is_none() {
        let header = |version: u32, published: u64| {
            let mut header = Vec::from(b"OTEL_CTX");
            header.extend(version.to_ne_bytes());
            header.extend(17_u32.to_ne_bytes());
            header.extend(published.to_ne_bytes());
            header.extend(0x7000_u64.to_ne_bytes());
            ProcessContextHeader::parse(header.as_slice().try_into().unwrap())
        };
        let read = header(2, 5).unwrap();
        assert_eq!((read.bytes, read.payload), (17, 0x7000));
        assert_eq!(header(2, 0), None);
        assert_eq!(header(3, 5), None);
    }

    #[test]
    fn only_contexts_of_this_kind_are_read() {
        let attribute = |schema: &str| {
            let length = u8::try_from(schema.len()).unwrap();
            let mut bytes = b"\x0a\x1athreadlocal.schema_version\x12".to_vec();
            bytes.extend([length + 2, 0x0a, length]);
            bytes.extend(schema.as_bytes());
            bytes
        };
        assert!(has_thread_contexts(&attribute("tlsdesc_v1_dev")));
        assert!(has_thread_contexts(&attribute("tls_v1")));
        assert!(!has_thread_contexts(&attribute("go_pprof_labels_v1")));
        let mut cut = attribute("tls_v1");
        cut.pop();
        assert!(!has_thread_contexts(&cut));
        assert!(!has_thread_contexts(b""));
    }
}
