//! Tests that fields are read back as they were written.

use std::borrow::Cow;
use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// An error with others behind it.
#[derive(Debug)]
struct Caused(Vec<String>, Option<Box<Caused>>);

impl Caused {
    fn new(texts: &[String]) -> Self {
        let cause = texts.get(1..).filter(|rest| !rest.is_empty());
        Self(
            texts.get(..1).unwrap_or_default().to_vec(),
            cause.map(|rest| Box::new(Self::new(rest))),
        )
    }
}

impl fmt::Display for Caused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0[0])
    }
}

impl std::error::Error for Caused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.1.as_deref()?;
        Some(cause)
    }
}

fn write(writer: &mut Writer, name: &str, value: &Value<'_>) {
    match value {
        Value::Signed(value) => writer.signed(name, *value),
        Value::Unsigned(value) => writer.unsigned(name, *value),
        Value::LongSigned(value) => writer.long_signed(name, *value),
        Value::LongUnsigned(value) => writer.long_unsigned(name, *value),
        Value::Float(value) => writer.float(name, *value),
        Value::Flag(value) => writer.flag(name, *value),
        Value::Text(value) => writer.text(name, value),
        Value::Debug(value) => writer.debug(name, format_args!("{value}")),
        Value::Error(texts) => {
            let texts: Vec<String> = texts.iter().map(|text| text.clone().into_owned()).collect();
            writer.error(name, &Caused::new(&texts));
        }
        Value::Bytes(bytes) => writer.bytes(name, bytes),
    }
}

/// Returns text of any characters, those with a meaning more often than others.
fn any_text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        3 => any::<char>(),
        2 => prop::sample::select("\"\\ =\n\r\t\0\u{1b}…?!x\u{202e}u{}\u{feff}".chars().collect::<Vec<_>>()),
        3 => prop::char::range('a', 'z'),
    ];
    vec(character, 0..12).prop_map(String::from_iter)
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(RESERVED.to_vec()).prop_map(str::to_owned),
        any_text(),
        "[a-z_][a-z0-9_.]{0,8}",
    ]
}

fn any_value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        any::<i64>().prop_map(Value::Signed),
        any::<u64>().prop_map(Value::Unsigned),
        any::<i128>().prop_map(Value::LongSigned),
        any::<u128>().prop_map(Value::LongUnsigned),
        // Bits of all kinds; NaN is read back as one NaN.
        any::<u64>()
            .prop_map(f64::from_bits)
            .prop_filter("not NaN", |value| !value.is_nan())
            .prop_map(Value::Float),
        any::<bool>().prop_map(Value::Flag),
        any_text().prop_map(|text| Value::Text(Cow::Owned(text))),
        any_text().prop_map(|text| Value::Debug(Cow::Owned(text))),
        vec(any_text().prop_map(Cow::Owned), 1..4).prop_map(Value::Error),
        vec(any::<u8>(), 0..12).prop_map(Value::Bytes),
    ]
}

fn any_record() -> impl Strategy<Value = Record<'static>> {
    let head = (
        prop::option::of(any_text().prop_map(Cow::Owned)),
        prop::option::of(prop::sample::select(Level::ALL.to_vec())),
        prop::option::of(any::<u64>()),
        prop::option::of(any::<u64>()),
        vec(any::<u64>(), 0..3),
        prop::option::of(any_text().prop_map(Cow::Owned)),
    );
    let field = (any_name(), any_value()).prop_map(|(name, value)| Field {
        name: Cow::Owned(name),
        value,
    });
    (head, vec(field, 0..6)).prop_map(|((name, level, span, parent, follows, message), fields)| {
        Record {
            name,
            level,
            span,
            parent,
            follows,
            message,
            fields,
            is_truncated: false,
        }
    })
}

fn written(record: &Record<'_>) -> Writer {
    let mut writer = Writer::new();
    if let Some(name) = &record.name {
        writer.name(format_args!("{name}"));
    }
    if let Some(level) = record.level {
        writer.level(level);
    }
    if let Some(span) = record.span {
        writer.span(span);
    }
    if let Some(parent) = record.parent {
        writer.parent(parent);
    }
    for follows in &record.follows {
        writer.follows(*follows);
    }
    if let Some(message) = &record.message {
        writer.message(format_args!("{message}"));
    }
    for field in &record.fields {
        write(&mut writer, &field.name, &field.value);
    }
    writer
}

/// Tells whether a value is what `whole` begins with.
fn is_beginning(value: &Value<'_>, whole: &Value<'_>) -> bool {
    match (value, whole) {
        (Value::Text(part), Value::Text(whole)) | (Value::Debug(part), Value::Debug(whole)) => {
            whole.starts_with(&**part)
        }
        (Value::Error(part), Value::Error(whole)) => {
            let (last, before) = part.split_last().unwrap();
            whole.starts_with(before) && whole[before.len()].starts_with(&**last)
        }
        (Value::Bytes(part), Value::Bytes(whole)) => whole.starts_with(part),
        _ => value == whole,
    }
}

/// Checks that `found` has only what `whole` has too, in the same order.
fn assert_beginning(found: &Record<'_>, whole: &Record<'_>) {
    assert!(
        found.name.is_none()
            || whole
                .name
                .as_ref()
                .unwrap()
                .starts_with(&**found.name.as_ref().unwrap())
    );
    assert!(found.level.is_none() || found.level == whole.level);
    assert!(found.span.is_none() || found.span == whole.span);
    assert!(found.parent.is_none() || found.parent == whole.parent);
    assert!(whole.follows.starts_with(&found.follows));
    if let Some(message) = &found.message {
        assert!(whole.message.as_ref().unwrap().starts_with(&**message));
    }
    let Some((last, before)) = found.fields.split_last() else {
        return;
    };
    assert!(whole.fields.starts_with(before));
    let of_last = &whole.fields[before.len()];
    assert_eq!(last.name, of_last.name);
    assert!(
        is_beginning(&last.value, &of_last.value),
        "{last:?} {of_last:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_written_is_read_back(record in any_record()) {
        let writer = written(&record);
        prop_assume!(!writer.is_empty() && !writer.is_truncated());
        prop_assert_eq!(Record::parse(writer.as_bytes()), Some(record.clone()), "{}", writer.as_str());
        let is_found = record.follows.is_empty() && record.parent.is_none() || record.span.is_some();
        if is_found {
            prop_assert_eq!(span_id(writer.as_bytes()), record.span);
        }
    }

    #[test]
    fn text_is_one_line_that_does_a_terminal_no_harm(record in any_record()) {
        let writer = written(&record);
        let without = |character: char| !character.is_control() && character != '\u{202e}';
        prop_assert!(writer.as_str().chars().all(without), "{}", writer.as_str());
    }

    #[test]
    fn what_did_not_fit_is_left_out_from_the_end(record in any_record(), before in 950_usize..1100) {
        let mut record = record;
        record.message = Some(Cow::Owned("m".repeat(before)));
        let writer = written(&record);
        let found = Record::parse(writer.as_bytes()).unwrap();
        prop_assert!(writer.as_bytes().len() <= MOST_BYTES);
        prop_assert_eq!(found.is_truncated, writer.is_truncated());
        if !found.is_truncated {
            prop_assert_eq!(&found, &record);
        }
        assert_beginning(&found, &record);
    }

    #[test]
    fn what_a_stream_has_truncated_anywhere_is_read(record in any_record(), end in any::<prop::sample::Index>()) {
        let writer = written(&record);
        prop_assume!(!writer.is_empty() && !writer.is_truncated());
        let beginning = &writer.as_bytes()[..end.index(writer.as_bytes().len())];
        if let Some(found) = Record::parse_beginning(beginning) {
            prop_assert!(found.is_truncated);
            assert_beginning(&found, &record);
        } else {
            prop_assert!(beginning.is_empty() || std::str::from_utf8(beginning).is_err(), "{:?}", String::from_utf8_lossy(beginning));
        }
    }

    #[test]
    fn bytes_of_others_do_no_harm(untrusted in vec(any::<u8>(), 0..64), text in any_text()) {
        for bytes in [&untrusted[..], text.as_bytes()] {
            let _ = (Record::parse(bytes), Record::parse_beginning(bytes), span_id(bytes));
        }
    }
}

#[test]
fn a_value_never_becomes_fields_or_a_line() {
    let mut writer = Writer::new();
    writer.level(Level::Info);
    writer.text("user", "bob admin=true\nlevel=ERROR");
    writer.text("admin\" level", "\"");
    assert_eq!(
        writer.as_str(),
        r#"level=INFO user="bob admin=true\nlevel=ERROR" @"admin\" level"="\"""#
    );
}

#[test]
fn a_message_is_no_field_and_a_field_no_head() {
    let mut writer = Writer::new();
    writer.level(Level::Warn);
    writer.span(3);
    writer.message(format_args!("a=1"));
    writer.signed("span", 9);
    writer.signed("message", 9);
    assert_eq!(
        writer.as_str(),
        r#"level=WARN span=3 "a=1" @"span"=9 message=9"#
    );
    let record = Record::parse(writer.as_bytes()).unwrap();
    assert_eq!(record.span, Some(3));
    assert_eq!(record.field("span"), Some(&Value::Signed(9)));
}

#[test]
fn other_text_is_no_record() {
    let others = [
        "",
        " ",
        "worker",
        "worker=1 ",
        "it works code=3",
        "level=INFO it works",
        "level=info",
        "span=x",
        "span=+3",
        "a=\"b",
        "a=b",
        "a=0x7",
        "a=\"b\"c",
        "a=1  b=2",
        "a=\"\\q\"",
        "1=2",
        "a=\"\n\"",
        "a=x\"0\"",
        "a=x\"0g\"",
        "level=INFO …x",
        "a=\"b\"… c=1",
        "a=1u8",
        "a=--1",
        "a=1.",
        "a=1e3",
    ];
    for other in others {
        assert_eq!(Record::parse(other.as_bytes()), None, "{other:?}");
    }
    assert_eq!(Record::parse(b"a=\"\xff\""), None);
}

#[test]
fn what_does_not_fit_is_short_between_characters_and_marked() {
    let mut writer = Writer::new();
    writer.text("a", &"ä".repeat(MOST_BYTES));
    writer.flag("b", true);
    let held = (MOST_BYTES - "a=\"\"…".len()) / 2;
    assert_eq!(writer.as_str(), format!("a=\"{}\"…", "ä".repeat(held)));

    let mut writer = Writer::new();
    writer.text("a", &"x".repeat(MOST_BYTES - "a=\"\"".len()));
    assert!(!writer.is_truncated());
    assert_eq!(writer.as_bytes().len(), MOST_BYTES);

    let mut writer = Writer::new();
    writer.text("a", &"x".repeat(MOST_BYTES - "a=\"\" b=".len()));
    writer.flag("b", true);
    assert!(writer.is_truncated());
    let record = Record::parse(writer.as_bytes()).unwrap();
    assert!(record.is_truncated);
    assert_eq!(record.fields.len(), 1);
}

#[test]
fn a_field_that_is_recorded_again_has_its_new_value() {
    let write = |fields: &[(&str, i64)]| {
        let mut writer = Writer::new();
        for (name, value) in fields {
            writer.signed(name, *value);
        }
        writer
    };
    let (old, new) = (
        write(&[("a", 1), ("span", 2), ("c", 3)]),
        write(&[("span", 4), ("d", 5)]),
    );
    let mut both = Writer::new();
    both.replaced(old.as_str(), new.as_str());
    assert_eq!(both.as_str(), r#"a=1 c=3 @"span"=4 d=5"#);
}

#[test]
fn what_is_truncated_stays_marked_as_such_whatever_comes_behind_it() {
    let mut old = Writer::within(32);
    old.text("a", &"x".repeat(40));
    let mut new = Writer::new();
    new.signed("b", 1);
    for most in 10..60 {
        let mut both = Writer::within(most);
        both.replaced(old.as_str(), new.as_str());
        let record = Record::parse(both.as_bytes()).unwrap();
        assert!(record.is_truncated, "{}", both.as_str());

        let mut within = Writer::within(most);
        within.level(Level::Info);
        within.words(old.as_str());
        let record = Record::parse(within.as_bytes()).unwrap();
        assert!(record.is_truncated, "{}", within.as_str());
    }
}
