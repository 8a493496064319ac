//! Makes typed data of the records of a tracepoint.

use tracer_common::kernel::{
    TRACEPOINT_COMMON_BYTES, TRACEPOINT_LOCATED, TracepointSite, probe_kind, typed_data,
};

use super::Tracepoint;
use super::format::{FieldType, From, TracepointField, TracepointFormat};
use tracer_text::self_describing::{Encoder, unit};

/// Category of the tracepoints at which the kernel gives programs the fixed fields alone.
const CALLS: &str = "syscalls";

/// Most bytes of the fields of such a tracepoint: a word, the call, and six arguments.
const CALL_BYTES: usize = 64;

/// Layout of the fields of a tracepoint.
#[derive(Clone, Debug, Default)]
pub struct TracepointLayout {
    fields: Vec<TracepointField>,
    fixed_bytes: usize,
}

impl TracepointLayout {
    /// Returns the layout of a tracepoint of `category` with this format.
    #[must_use]
    pub fn from_format(category: &str, format: &TracepointFormat) -> Self {
        let is_call = category == CALLS;
        let reaches = |field: &&TracepointField| {
            let is_located = matches!(
                field.kind,
                FieldType::Located(..) | FieldType::LocatedText(_)
            );
            let end = field.offset.saturating_add(field.size);
            // The kernel replaces the bytes at the front by an address of its own.
            field.offset >= TRACEPOINT_COMMON_BYTES
                && !(is_call && (is_located || end > CALL_BYTES))
        };
        let fields: Vec<TracepointField> = format.fields.iter().filter(reaches).cloned().collect();
        let fixed = TracepointFormat {
            id: format.id,
            fields,
        };
        Self {
            fixed_bytes: fixed.fixed_bytes(),
            fields: fixed.fields,
        }
    }

    /// Returns the part of the layout that the eBPF program needs.
    #[must_use]
    pub fn site(&self) -> TracepointSite {
        let mut site = TracepointSite {
            // The kernel gives 8192 bytes at most.
            fixed_bytes: u32::try_from(self.fixed_bytes).unwrap_or(0),
            located: 0,
            at: [0; TRACEPOINT_LOCATED],
            relative: 0,
        };
        let located = self.fields.iter().filter_map(|field| match field.kind {
            FieldType::LocatedText(from) | FieldType::Located(from, _) => {
                Some((from, u16::try_from(field.offset).ok()?))
            }
            _ => None,
        });
        for ((from, offset), (index, at)) in located.zip((0_u32..).zip(&mut site.at)) {
            *at = offset;
            site.relative |= u32::from(from == From::Field) << index;
            site.located = index + 1;
        }
        site
    }

    /// Returns a record as typed data. `untrusted` begins behind the bytes at the front.
    #[must_use]
    pub fn data(&self, untrusted: &[u8]) -> Vec<u8> {
        let mut out = Encoder::new(probe_kind::TRACEPOINT);
        for field in &self.fields {
            let start = field.offset.saturating_sub(TRACEPOINT_COMMON_BYTES);
            let fixed = untrusted
                .get(start..)
                .and_then(|rest| rest.get(..field.size));
            let Some(fixed) = fixed else {
                out.unread(&field.name, typed_data::BYTES);
                continue;
            };
            match field.kind {
                FieldType::Signed => out.value(&field.name, typed_data::SIGNED, fixed),
                FieldType::Unsigned => out.value(&field.name, typed_data::UNSIGNED, fixed),
                FieldType::Address => out.value(&field.name, typed_data::ADDRESS, fixed),
                FieldType::Flag => out.value(&field.name, typed_data::FLAG, fixed),
                FieldType::Text => out.text(&field.name, until_null(fixed), false),
                FieldType::Bytes => out.bytes(&field.name, fixed, false),
                FieldType::Integers { element, is_signed } => {
                    let kind = if is_signed {
                        typed_data::SIGNED
                    } else {
                        typed_data::UNSIGNED
                    };
                    out.array(&field.name, kind, unit(element), fixed, false);
                }
                FieldType::LocatedText(from) => match located(untrusted, fixed, start, from) {
                    Some(found) => {
                        let text = until_null(found.bytes);
                        out.text(&field.name, text, found.is_truncated);
                    }
                    None => out.unread(&field.name, typed_data::TEXT),
                },
                FieldType::Located(from, element) => match located(untrusted, fixed, start, from) {
                    Some(found) if element == 1 => {
                        out.bytes(&field.name, found.bytes, found.is_truncated);
                    }
                    Some(found) => out.array(
                        &field.name,
                        typed_data::UNSIGNED,
                        unit(element),
                        found.bytes,
                        found.is_truncated,
                    ),
                    None => out.unread(&field.name, typed_data::BYTES),
                },
            }
        }
        out.finish()
    }
}

/// Bytes behind the fields.
struct Found<'a> {
    bytes: &'a [u8],
    /// Truncated: there were more bytes than these.
    is_truncated: bool,
}

/// Returns the bytes whose position the field says; `None` where they were not recorded.
fn located<'a>(all: &'a [u8], field: &[u8], at: usize, from: From) -> Option<Found<'a>> {
    let word = u32::from_ne_bytes(field.try_into().ok()?);
    let offset = usize::try_from(word & 0xffff).ok()?;
    let bytes = usize::try_from(word >> 16).ok()?;
    let start = match from {
        From::Front => offset.checked_sub(TRACEPOINT_COMMON_BYTES)?,
        From::Field => at.checked_add(field.len())?.checked_add(offset)?,
    };
    let rest = all.get(start..)?;
    Some(Found {
        bytes: rest.get(..bytes).unwrap_or(rest),
        is_truncated: rest.len() < bytes,
    })
}

fn until_null(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl Tracepoint {
    /// Returns the layout of its fields.
    #[must_use]
    pub fn layout(&self) -> TracepointLayout {
        TracepointLayout::from_format(&self.category, &self.format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracer_text::self_describing::{Typed, TypedValue};

    fn field(name: &str, offset: usize, size: usize, kind: FieldType) -> TracepointField {
        TracepointField {
            name: name.to_owned(),
            c_type: "any".to_owned(),
            offset,
            size,
            kind,
        }
    }

    fn layout(category: &str) -> TracepointLayout {
        let fields = vec![
            field("text", 8, 4, FieldType::LocatedText(From::Front)),
            field("pid", 12, 4, FieldType::Signed),
            field("near", 16, 4, FieldType::LocatedText(From::Field)),
        ];
        TracepointLayout::from_format(category, &TracepointFormat { id: 1, fields })
    }

    #[test]
    fn text_behind_the_fields_is_found_from_either_end() {
        let layout = layout("sched");
        let site = layout.site();
        assert_eq!((site.fixed_bytes, site.located, site.relative), (20, 2, 2));
        assert_eq!(site.at[..2], [8, 16]);
        let words = [20 | 3 << 16, (-5_i32).cast_unsigned(), 3 | 4 << 16];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        record.extend_from_slice(b"ab\0xyz\0");

        let shown = |record: &[u8]| -> Vec<String> {
            let data = layout.data(record);
            let typed = Typed::parse(&data).unwrap();
            typed
                .iter()
                .map(|(name, value)| format!("{name} {value:?}"))
                .collect()
        };
        let text = |bytes: &'static [u8]| TypedValue::Text {
            bytes,
            has_more: false,
        };
        let expected = [
            format!("text {:?}", text(b"ab")),
            format!("pid {:?}", TypedValue::Signed(-5)),
            format!("near {:?}", text(b"xyz")),
        ];
        assert_eq!(shown(&record), expected);
        for length in 0..record.len() {
            assert_eq!(shown(&record[..length]).len(), 3, "{length}");
        }
        record.fill(0xff);
        assert_eq!(shown(&record)[0], format!("text {:?}", TypedValue::Unread));
    }

    #[test]
    fn of_a_system_call_only_its_fixed_fields_are_there() {
        assert_eq!(layout("syscalls").site().located, 0);
        assert_eq!(layout("syscalls").fields.len(), 1);
    }
}
