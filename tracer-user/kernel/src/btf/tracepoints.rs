//! The tracepoints of a kernel, as its BTF describes them: their names, and the fields of those
//! whose record has the name of the tracepoint. Of tracepoints that share a record, BTF has only
//! the names.

use std::collections::HashMap;

use super::raw::{kind, read_type, read_u32};
use super::reader::{Btf, TypeId};

/// Depth to which types that refer to others are followed.
const DEPTH_LIMIT: u32 = 16;

/// Most bytes of a name.
const MOST_NAME_BYTES: usize = 256;

/// Member before the fields of a record.
const COMMON: &str = "ent";
/// Member behind the fields of a record.
const BEHIND: &str = "__data";

/// Tracepoint, as BTF has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Name and type of each field, where they are known.
    pub fields: Option<Vec<(String, String)>>,
}

impl Btf<'_> {
    /// Lists every tracepoint, in order of its name.
    #[must_use]
    pub fn tracepoints(&self) -> Vec<Described> {
        let mut names = Vec::new();
        let mut records = HashMap::new();
        for (id, start) in (1..).zip(&self.starts) {
            let Some(found) = read_type(self.types, *start) else {
                continue;
            };
            let Some(name) = self.name(found.name) else {
                continue;
            };
            match found.kind {
                kind::TYPEDEF => names.extend(name.strip_prefix("btf_trace_")),
                kind::STRUCT => {
                    if let Some(name) = name.strip_prefix("trace_event_raw_") {
                        records.insert(name, TypeId(id));
                    }
                }
                _ => {}
            }
        }
        names.sort_unstable();
        names.dedup();
        let described = names.into_iter().map(|name| Described {
            name: name.to_owned(),
            fields: records.get(name).and_then(|record| self.fields(*record)),
        });
        described.collect()
    }

    /// Returns the fields of a tracepoint's record.
    fn fields(&self, record: TypeId) -> Option<Vec<(String, String)>> {
        let record = self.get(record)?;
        let mut fields = Vec::new();
        for i in 0..record.length {
            let at = record.rest.checked_add(i.checked_mul(12)?)?;
            let name = self.name(read_u32(self.types, at)?)?;
            let of = TypeId(read_u32(self.types, at.checked_add(4)?)?);
            if name == COMMON || name == BEHIND {
                continue;
            }
            let (name, c_type) = match name.strip_prefix("__data_loc_") {
                Some(name) => (name, "__data_loc".to_owned()),
                None => (name, self.describe(of, 0)),
            };
            fields.push((name.to_owned(), c_type));
        }
        Some(fields)
    }

    /// Describes a type, nearly as C writes it.
    fn describe(&self, id: TypeId, depth: u32) -> String {
        if id.0 == 0 {
            return "void".to_owned();
        }
        let found = self.get(id).filter(|_| depth < DEPTH_LIMIT);
        let Some(found) = found else {
            return "?".to_owned();
        };
        let name = self.name(found.name).unwrap_or("?");
        let inner = || self.describe(TypeId(found.size_or_type), depth + 1);
        match found.kind {
            kind::PTR => format!("{} *", inner()),
            kind::CONST => format!("const {}", inner()),
            kind::VOLATILE | kind::RESTRICT | kind::TYPE_TAG => inner(),
            kind::STRUCT => format!("struct {name}"),
            kind::UNION => format!("union {name}"),
            kind::ENUM | kind::ENUM64 => format!("enum {name}"),
            kind::FUNC_PROTO => "function".to_owned(),
            kind::ARRAY => {
                let word = |offset: usize| read_u32(self.types, found.rest.checked_add(offset)?);
                let (of, count) = (word(0).unwrap_or(0), word(8).unwrap_or(0));
                format!("{}[{count}]", self.describe(TypeId(of), depth + 1))
            }
            _ => name.to_owned(),
        }
    }

    fn name(&self, offset: u32) -> Option<&str> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        let rest = rest.get(..MOST_NAME_BYTES).unwrap_or(rest);
        let end = rest.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(rest.get(..end)?).ok()
    }
}
