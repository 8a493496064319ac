//! Description of a tracepoint by the kernel: the file `format`.

/// Most fields of a tracepoint that are read. The kernel's own have some twenty.
const MOST_FIELDS: usize = 128;

/// Description of a tracepoint by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointFormat {
    /// Number by which the kernel knows it.
    pub id: u64,
    /// Its own fields, without those that all tracepoints have.
    pub fields: Vec<TracepointField>,
}

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracepointField {
    /// Name of the field.
    pub name: String,
    /// Its type, as the kernel writes it.
    pub c_type: String,
    /// Offset in bytes.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// Storage of the value.
    pub kind: FieldType,
}

/// Storage of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// An integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// An address.
    Address,
    /// A truth value.
    Flag,
    /// Text, ended by a null unless full.
    Text,
    /// Integers of this size each.
    Integers {
        /// Bytes of each.
        element: usize,
        /// Signedness of the integers.
        is_signed: bool,
    },
    /// Bytes of which nothing is known.
    Bytes,
    /// Text behind all fields; the field says where.
    LocatedText(From),
    /// Bytes behind all fields, or integers of this size each.
    Located(From, usize),
}

/// Point from which a distance counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The front (`__data_loc`).
    Front,
    /// The end of the field (`__rel_loc`).
    Field,
}

impl TracepointFormat {
    /// Reads the content of a file `format`; `None` where it has another form.
    #[must_use]
    pub fn parse(untrusted: &str) -> Option<Self> {
        let mut id = None;
        let mut fields = Vec::new();
        for line in untrusted.lines() {
            if let Some(typed) = line.strip_prefix("ID: ") {
                id = typed.trim().parse().ok();
            } else if let Some(described) = line.trim_start().strip_prefix("field:") {
                if fields.len() == MOST_FIELDS {
                    break;
                }
                fields.push(TracepointField::parse(described)?);
            } else if line.starts_with("print fmt:") {
                break;
            }
        }
        fields.retain(|field| !field.name.starts_with("common_"));
        Some(Self { id: id?, fields })
    }

    /// Returns the end of the last field of fixed size.
    #[must_use]
    pub fn fixed_bytes(&self) -> usize {
        let ends = self.fields.iter();
        let ends = ends.map(|field| field.offset.saturating_add(field.size));
        ends.max().unwrap_or(0)
    }
}

impl TracepointField {
    /// Reads what follows `field:` in a line.
    fn parse(described: &str) -> Option<Self> {
        let mut parts = described.split(';').map(str::trim);
        let declared = parts.next()?;
        let mut of = |name: &str| -> Option<usize> {
            let value = parts.next()?.strip_prefix(name)?;
            value.strip_prefix(':')?.parse().ok()
        };
        let (offset, size) = (of("offset")?, of("size")?);
        let is_signed = of("signed").is_some_and(|signed| signed != 0);
        let (c_type, name, array) = declaration(declared)?;
        let kind = kind(c_type, array, size, is_signed);
        Some(Self {
            name: name.to_owned(),
            c_type: match array {
                Some(inside) => format!("{c_type}[{inside}]"),
                None => c_type.to_owned(),
            },
            offset,
            size,
            kind,
        })
    }
}

/// Splits a declaration into type, name and the text between the brackets: `char comm[16]`,
/// `__data_loc char[] name`.
fn declaration(declared: &str) -> Option<(&str, &str, Option<&str>)> {
    let (front, array) = match declared.strip_suffix(']') {
        Some(rest) => {
            let (front, inside) = rest.rsplit_once('[')?;
            (front, Some(inside))
        }
        None => (declared, None),
    };
    let start = front.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
    let (c_type, name) = front.split_at_checked(start + 1)?;
    let c_type = c_type.trim_end();
    if name.is_empty() || c_type.is_empty() {
        return None;
    }
    Some((c_type, name, array))
}

fn kind(c_type: &str, array: Option<&str>, size: usize, is_signed: bool) -> FieldType {
    let located = [("__data_loc ", From::Front), ("__rel_loc ", From::Field)];
    for (prefix, from) in located {
        if let Some(element) = c_type.strip_prefix(prefix) {
            let element = element.trim_end_matches("[]").trim();
            return match element {
                "char" | "const char" => FieldType::LocatedText(from),
                _ => FieldType::Located(from, bytes_of(element).unwrap_or(1)),
            };
        }
    }
    if let Some(inside) = array {
        if matches!(c_type, "char" | "const char") {
            return FieldType::Text;
        }
        // The count may be the name of a constant. Then the size of an element is that of its type,
        // where this is known.
        let count: Option<usize> = inside.trim().parse().ok();
        let element = match count {
            Some(count) if count > 0 => size / count,
            _ => bytes_of(c_type).unwrap_or(1),
        };
        let is_whole = matches!(element, 1 | 2 | 4 | 8) && size.is_multiple_of(element);
        return if is_whole {
            FieldType::Integers { element, is_signed }
        } else {
            FieldType::Bytes
        };
    }
    match (c_type, size) {
        (pointer, 4 | 8) if pointer.contains('*') => FieldType::Address,
        ("bool", 1) => FieldType::Flag,
        (_, 1 | 2 | 4 | 8) if is_signed => FieldType::Signed,
        (_, 1 | 2 | 4 | 8) => FieldType::Unsigned,
        _ => FieldType::Bytes,
    }
}

/// Returns the bytes of an integer type of the kernel.
fn bytes_of(c_type: &str) -> Option<usize> {
    Some(match c_type.trim_start_matches("unsigned ").trim() {
        "char" | "u8" | "__u8" | "s8" | "bool" | "uint8_t" => 1,
        "short" | "u16" | "__u16" | "s16" | "__le16" | "__be16" | "uint16_t" => 2,
        "int" | "unsigned" | "u32" | "__u32" | "s32" | "__le32" | "__be32" | "uint32_t" => 4,
        "long" | "u64" | "__u64" | "s64" | "__le64" | "__be64" | "size_t" | "uint64_t" => 8,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXEC: &str = "name: sched_process_exec
ID: 365
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;
\tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;
\tfield:const void * at;\toffset:16;\tsize:8;\tsigned:0;
\tfield:__u8 saddr[4];\toffset:24;\tsize:4;\tsigned:0;
\tfield:char comm[TASK_COMM_LEN];\toffset:28;\tsize:16;\tsigned:0;

print fmt: \"field:x y;\toffset:0;\tsize:4;\"
";

    #[test]
    fn fields_are_those_of_the_tracepoint_with_their_types() {
        let format = TracepointFormat::parse(EXEC).unwrap();
        assert_eq!(format.id, 365);
        let found: Vec<_> = format
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field.offset, field.kind))
            .collect();
        let bytes = FieldType::Integers {
            element: 1,
            is_signed: false,
        };
        assert_eq!(
            found,
            [
                ("filename", 8, FieldType::LocatedText(From::Front)),
                ("pid", 12, FieldType::Signed),
                ("at", 16, FieldType::Address),
                ("saddr", 24, bytes),
                ("comm", 28, FieldType::Text),
            ]
        );
        assert_eq!(format.fixed_bytes(), 44);
        assert_eq!(format.fields[3].c_type, "__u8[4]");
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for text in [
            "",
            "ID: 1x",
            "ID: 3\n\tfield:x;",
            "ID: 3\n field:int ;\toffset:1;\tsize:4;",
        ] {
            assert_eq!(TracepointFormat::parse(text), None, "{text}");
        }
        for end in 0..EXEC.len() {
            let _ = TracepointFormat::parse(&EXEC[..end]);
        }
    }
}
