//! Types of arguments and of results: their form in `--probe 'FILE:FUNCTION(str, int)'`, and the
//! registers in which a function finds such arguments as it begins.

use tracer_common::kernel::{PROBE_ARGUMENTS, ProbeArgument, probe_source, typed_data};

use super::registers;
use tracer_text::self_describing::Encoder;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// Presentation: one of [`typed_data`].
    pub kind: u8,
    /// Its bytes; of a text those of its address.
    pub size: u8,
}

impl ValueType {
    /// Returns the type as the source of C++ has it, and as the names of its functions have it.
    pub(super) fn in_source(self) -> &'static str {
        match (self.kind, self.size) {
            (typed_data::FLAG, _) => "bool",
            (typed_data::CHARACTER, _) => "char",
            (typed_data::FLOAT, 4) => "float",
            (typed_data::FLOAT, _) => "double",
            (typed_data::SIGNED, 1) => "signed char",
            (typed_data::SIGNED, 2) => "short",
            (typed_data::SIGNED, 4) => "int",
            (typed_data::SIGNED, _) => "long",
            (typed_data::UNSIGNED, 1) => "unsigned char",
            (typed_data::UNSIGNED, 2) => "unsigned short",
            (typed_data::UNSIGNED, 4) => "unsigned int",
            (typed_data::UNSIGNED, _) => "unsigned long",
            (typed_data::TEXT, _) => "char const*",
            _ => "void*",
        }
    }
}

/// Words, with what they mean.
const WORDS: &[(&str, u8, u8)] = &[
    ("str", typed_data::TEXT, 8),
    ("ptr", typed_data::ADDRESS, 8),
    ("hex", typed_data::ADDRESS, 8),
    ("bool", typed_data::FLAG, 1),
    ("char", typed_data::CHARACTER, 1),
    ("int", typed_data::SIGNED, 4),
    ("long", typed_data::SIGNED, 8),
    ("uint", typed_data::UNSIGNED, 4),
    ("ulong", typed_data::UNSIGNED, 8),
    ("s8", typed_data::SIGNED, 1),
    ("s16", typed_data::SIGNED, 2),
    ("s32", typed_data::SIGNED, 4),
    ("s64", typed_data::SIGNED, 8),
    ("u8", typed_data::UNSIGNED, 1),
    ("u16", typed_data::UNSIGNED, 2),
    ("u32", typed_data::UNSIGNED, 4),
    ("u64", typed_data::UNSIGNED, 8),
    ("float", typed_data::FLOAT, 4),
    ("double", typed_data::FLOAT, 8),
];

/// Reason why a list of types cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotATypeError {
    /// Word that is no type.
    #[error("{word:?} is no type of an argument; give {}", known())]
    Word {
        /// The word.
        word: String,
    },
    /// Number of types above the limit.
    #[error("{count} arguments are more than {PROBE_ARGUMENTS}, which is the most that are read")]
    TooMany {
        /// Number of types in the list.
        count: usize,
    },
    /// Result with other than one type.
    #[error("a result has one type, such as (int) or (str)")]
    NotOne,
    /// Type in a register that the kernel does not save for probes.
    #[error(
        "a result that is a {word} cannot be read: the kernel shows no floating-point registers"
    )]
    FloatingPoint {
        /// The word.
        word: String,
    },
}

fn known() -> String {
    let words: Vec<_> = WORDS.iter().map(|(word, ..)| *word).collect();
    words.join(", ")
}

impl ValueType {
    /// Address, of which no more is known.
    pub const POINTER: Self = Self {
        kind: typed_data::ADDRESS,
        size: 8,
    };

    /// Value in no register of its own: it is not read.
    pub const UNKNOWN: Self = Self {
        kind: typed_data::BYTES,
        size: 8,
    };

    fn parse_word(word: &str) -> Result<Self, NotATypeError> {
        let known = WORDS.iter().find(|(known, ..)| *known == word);
        let (_, kind, size) = known.ok_or_else(|| NotATypeError::Word {
            word: word.to_owned(),
        })?;
        Ok(Self {
            kind: *kind,
            size: *size,
        })
    }

    /// Tells whether it is a text, to which an address leads.
    pub fn is_text(self) -> bool {
        self.kind == typed_data::TEXT
    }

    /// Tells whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        self.kind == typed_data::SIGNED
    }

    /// Tells whether it is passed in a register for floating-point values.
    pub fn is_float(self) -> bool {
        self.kind == typed_data::FLOAT
    }
}

/// Returns the types in a list: `str, int`; none of an empty one.
///
/// # Errors
///
/// A word is none, or there are too many.
pub fn list(typed: &str) -> Result<Vec<ValueType>, NotATypeError> {
    if typed.trim().is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<_> = typed.split(',').map(str::trim).collect();
    if words.len() > PROBE_ARGUMENTS {
        return Err(NotATypeError::TooMany { count: words.len() });
    }
    words.into_iter().map(ValueType::parse_word).collect()
}

/// Returns the one type in a list.
///
/// # Errors
///
/// There is not one, or it cannot be read.
pub fn result(typed: &str) -> Result<ValueType, NotATypeError> {
    match list(typed)?[..] {
        [one] if one.is_float() => Err(NotATypeError::FloatingPoint {
            word: typed.trim().to_owned(),
        }),
        [one] => Ok(one),
        _ => Err(NotATypeError::NotOne),
    }
}

/// Names and types of the values of a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Values as they are recorded, in order.
    pub values: Vec<(String, ValueType)>,
}

impl Signature {
    /// Returns the signature of arguments whose names are not known.
    pub fn unnamed(types: &[ValueType]) -> Self {
        let named = (0..)
            .zip(types)
            .map(|(nth, kind): (u32, _)| (format!("arg{nth}"), *kind));
        Self {
            values: named.collect(),
        }
    }

    /// Returns the signature of a result.
    pub fn result(kind: ValueType) -> Self {
        Self {
            values: vec![("ret".to_owned(), kind)],
        }
    }

    /// Returns the location of each argument as the function begins. Those of floating-point types
    /// are in registers that the kernel does not save for probes; they take none of the others.
    pub fn arguments(&self) -> Vec<ProbeArgument> {
        let mut registers = registers::arguments().into_iter();
        let located = self.values.iter().map(|(_, kind)| {
            let register = if kind.is_float() || *kind == ValueType::UNKNOWN {
                None
            } else {
                registers.next()
            };
            in_register(*kind, register.map(|register| register.offset))
        });
        located.collect()
    }

    /// Returns the location of each argument, where a static probe says where they are: nowhere for
    /// those that it does not have.
    pub fn located(&self, said: impl Iterator<Item = ProbeArgument>) -> Vec<ProbeArgument> {
        let mut said = said.fuse();
        let located = self.values.iter().map(|(_, kind)| ProbeArgument {
            is_text: u8::from(kind.is_text()),
            ..said.next().unwrap_or_else(|| in_register(*kind, None))
        });
        located.collect()
    }

    /// Returns the location of a result.
    pub fn results(&self) -> Vec<ProbeArgument> {
        let register = registers::result().offset;
        let located = self.values.iter();
        located
            .map(|(_, kind)| in_register(*kind, Some(register)))
            .collect()
    }

    /// Returns the event's data: values as the programs have recorded them, and for each text what
    /// was read, or nothing.
    pub fn data<'a>(
        &self,
        kind: u16,
        values: &[Option<u64>],
        text: impl Fn(usize) -> Option<(&'a [u8], bool)>,
    ) -> Vec<u8> {
        let mut out = Encoder::new(kind);
        for (nth, (name, of)) in self.values.iter().enumerate() {
            let value = values.get(nth).copied().flatten();
            match (value, text(nth)) {
                (Some(_), Some((bytes, has_more))) if of.is_text() => {
                    out.text(name, bytes, has_more);
                }
                // A null is no text, and an address is all that is known where none could be read.
                (Some(address), None) if of.is_text() => {
                    out.value(name, typed_data::ADDRESS, &address.to_ne_bytes());
                }
                (Some(value), _) if !of.is_text() => {
                    let size = usize::from(of.size);
                    let bytes = value.to_le_bytes();
                    let bytes = bytes.get(..size).unwrap_or_default();
                    out.value(name, of.kind, bytes);
                }
                _ => out.unread(name, of.kind),
            }
        }
        out.finish()
    }
}

fn in_register(kind: ValueType, register: Option<u16>) -> ProbeArgument {
    ProbeArgument {
        value: 0,
        register: register.unwrap_or(0),
        index: 0,
        source: match register {
            Some(_) => probe_source::REGISTER,
            None => probe_source::NONE,
        },
        size: kind.size,
        shift: 0,
        is_text: u8::from(kind.is_text()),
    }
}

#[cfg(test)]
mod tests {
    use tracer_common::kernel::probe_kind;

    use super::*;
    use tracer_text::self_describing::{Typed, TypedValue};

    #[test]
    fn words_are_types() {
        let types = list("str, u8,int").unwrap();
        let shown: Vec<_> = types.iter().map(|one| (one.kind, one.size)).collect();
        let expected = [
            (typed_data::TEXT, 8),
            (typed_data::UNSIGNED, 1),
            (typed_data::SIGNED, 4),
        ];
        assert_eq!(shown, expected);
        assert!(list(" ").unwrap().is_empty());
        let error = list("str, strr").unwrap_err().to_string();
        assert!(error.starts_with("\"strr\" is no type of an argument; give str, ptr"));
        assert_eq!(
            list("int,int,int,int,int,int,int").unwrap_err().to_string(),
            "7 arguments are more than 6, which is the most that are read"
        );
        assert!(list("int,,int").is_err());
        assert!(result("int").is_ok());
        assert_eq!(result("int, int"), Err(NotATypeError::NotOne));
        assert!(
            result("double")
                .unwrap_err()
                .to_string()
                .contains("floating-point")
        );
    }

    #[test]
    fn floating_point_values_take_no_register_of_the_others() {
        let signature = Signature::unnamed(&list("double, int").unwrap());
        let [float, int] = signature.arguments()[..] else {
            panic!("two");
        };
        assert_eq!(float.source, probe_source::NONE);
        assert_eq!(int.register, registers::arguments()[0].offset);
    }

    #[test]
    fn values_become_data_by_their_types() {
        let signature = Signature::unnamed(&list("str, str, int, bool, str, double").unwrap());
        let values = [Some(8), Some(0), Some(u64::MAX), Some(1), None, None];
        let data = signature.data(probe_kind::TYPED_FUNCTION, &values, |nth| {
            (nth == 0).then_some((&b"/etc"[..], true))
        });
        let typed = Typed::parse(&data).unwrap();
        let shown: Vec<_> = typed.iter().map(|(_, value)| value).collect();
        let text = TypedValue::Text {
            bytes: b"/etc",
            has_more: true,
        };
        let expected = [
            text,
            TypedValue::Address(0),
            TypedValue::Signed(-1),
            TypedValue::Flag(true),
            TypedValue::Unread,
            TypedValue::Unread,
        ];
        assert_eq!(shown, expected);
    }
}
