//! Data of events that describes itself: that of tracepoints, and of functions whose arguments have
//! types.

use tracer_syscalls::pointer_data::{Text, push_quoted};
use tracer_text::digits::{push_decimal, push_hex};
use tracer_text::escape::{push_json_bytes_beside, push_json_string};
use tracer_text::self_describing::{Integers, Typed, TypedValue};

/// Appends the fields for people; of bytes, at most `most`.
pub fn push_typed(out: &mut Vec<u8>, typed: Typed<'_>, most: Option<usize>) {
    for (index, (name, value)) in typed.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        tracer_text::escape::push_for_people(out, name.as_bytes());
        out.push(b'=');
        push_typed_value(out, value, most);
    }
}

/// Appends the data of a user event of this name: a function with its arguments, or fields.
pub fn push_typed_event(out: &mut Vec<u8>, name: &[u8], typed: Typed<'_>, most: Option<usize>) {
    if !typed.are_arguments() {
        return push_typed(out, typed, most);
    }
    let kinds = [&b"probe:"[..], b"usdt:"];
    let function = kinds.iter().find_map(|kind| name.strip_prefix(*kind));
    let function = function.unwrap_or(name);
    tracer_text::escape::push_for_people(out, function);
    out.push(b'(');
    for (index, (name, value)) in typed.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        // Without a name of its own.
        if name.strip_prefix("arg") != Some(index.to_string().as_str()) {
            tracer_text::escape::push_for_people(out, name.as_bytes());
            out.push(b'=');
        }
        match value {
            TypedValue::Address(0) => out.extend_from_slice(b"NULL"),
            value => push_typed_value(out, value, most),
        }
    }
    out.push(b')');
}

/// Appends a value for people; of bytes, at most `most`.
pub fn push_typed_value(out: &mut Vec<u8>, value: TypedValue<'_>, most: Option<usize>) {
    match value {
        TypedValue::Unread => out.push(b'?'),
        TypedValue::Signed(value) => push_decimal(out, value),
        TypedValue::Unsigned(value) => push_decimal(out, value),
        TypedValue::Address(value) => out.extend_from_slice(format!("{value:#x}").as_bytes()),
        TypedValue::Flag(truth) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
        TypedValue::Float(value) => out.extend_from_slice(value.to_string().as_bytes()),
        TypedValue::Character(byte) => {
            let mut quoted = Vec::new();
            push_quoted(&mut quoted, &text(&[byte], false));
            let inside = quoted.get(1..quoted.len().saturating_sub(1));
            out.push(b'\'');
            out.extend_from_slice(inside.unwrap_or_default());
            out.push(b'\'');
        }
        TypedValue::Text { bytes, has_more } => push_quoted(out, &text(bytes, has_more)),
        TypedValue::Bytes { bytes, has_more } => {
            out.extend_from_slice(b"0x");
            let shown = bytes.get(..most.unwrap_or(usize::MAX)).unwrap_or(bytes);
            push_hex(out, shown);
            if has_more || shown.len() < bytes.len() {
                out.extend_from_slice("…".as_bytes());
            }
        }
        TypedValue::Integers(integers) => push_integers(out, integers, b" "),
    }
}

fn text(bytes: &[u8], has_more: bool) -> Text<'_> {
    Text {
        argument: 0,
        bytes,
        is_bytes: false,
        has_more,
    }
}

/// Appends the fields as members of a JSON object.
pub fn push_typed_json(out: &mut Vec<u8>, typed: Typed<'_>) {
    for (index, (name, value)) in typed.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_json_string(out, name.as_bytes());
        out.push(b':');
        match value {
            TypedValue::Unread => out.extend_from_slice(b"null"),
            TypedValue::Signed(value) => push_decimal(out, value),
            TypedValue::Unsigned(value) | TypedValue::Address(value) => push_decimal(out, value),
            TypedValue::Flag(truth) => {
                out.extend_from_slice(if truth { b"true" } else { b"false" })
            }
            // JSON has no infinities.
            TypedValue::Float(value) if !value.is_finite() => out.extend_from_slice(b"null"),
            TypedValue::Float(value) => out.extend_from_slice(value.to_string().as_bytes()),
            TypedValue::Character(byte) => push_decimal(out, byte),
            TypedValue::Text { bytes, .. } => {
                push_json_string(out, bytes);
                push_json_bytes_beside(out, name.as_bytes(), bytes);
            }
            TypedValue::Bytes { bytes, .. } => {
                out.push(b'"');
                push_hex(out, bytes);
                out.push(b'"');
            }
            TypedValue::Integers(integers) => push_integers(out, integers, b","),
        }
    }
}

fn push_integers(out: &mut Vec<u8>, integers: Integers<'_>, between: &[u8]) {
    out.push(b'[');
    for (index, value) in integers.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(between);
        }
        push_decimal(out, value);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use tracer_common::kernel::{probe_kind, typed_data};

    use super::*;
    use tracer_text::self_describing::Encoder;

    #[test]
    fn arguments_are_shown_as_a_call() {
        let mut data = Encoder::new(probe_kind::TYPED_FUNCTION);
        data.text("arg0", b"/etc/x", false);
        data.text("mode", b"r\n", true);
        data.value("arg2", typed_data::SIGNED, &(-1_i32).to_ne_bytes());
        data.value("arg3", typed_data::ADDRESS, &0_u64.to_ne_bytes());
        let data = data.finish();
        let mut text = Vec::new();
        let typed = Typed::parse_event(b"probe:fopen", &data).unwrap();
        push_typed_event(&mut text, b"probe:fopen", typed, None);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"fopen("/etc/x", mode="r\n"..., -1, NULL)"#
        );
    }

    #[test]
    fn values_are_shown_by_their_types() {
        let mut data = Encoder::new(probe_kind::TRACEPOINT);
        data.value("port", typed_data::UNSIGNED, &80_u16.to_ne_bytes());
        data.value("err", typed_data::SIGNED, &(-5_i32).to_ne_bytes());
        data.value(
            "sk",
            typed_data::ADDRESS,
            &0xffff_8880_0000_0000_u64.to_ne_bytes(),
        );
        data.array("saddr", typed_data::UNSIGNED, 1, &[127, 0, 0, 1], false);
        data.text("name", b"a\"\xff", true);
        data.bytes("rest", &[1, 2], false);
        data.unread("gone", typed_data::TEXT);
        data.value("c", typed_data::CHARACTER, b"\n");
        data.value("is", typed_data::FLAG, &[1]);
        let data = data.finish();
        let typed = Typed::parse(&data).unwrap();
        let (mut text, mut json) = (Vec::new(), Vec::new());
        push_typed(&mut text, typed, Some(1));
        push_typed_json(&mut json, typed);

        assert_eq!(
            String::from_utf8(text).unwrap(),
            "port=80 err=-5 sk=0xffff888000000000 saddr=[127 0 0 1] name=\"a\\\"\\377\"... \
             rest=0x01… gone=? c='\\n' is=true"
        );
        let json = format!("{{{}}}", String::from_utf8(json).unwrap());
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap(),
            serde_json::json!({
                "port": 80, "err": -5, "sk": 0xffff_8880_0000_0000_u64, "saddr": [127, 0, 0, 1],
                "name": "a\"\u{fffd}", "name_bytes": "6122ff", "rest": "0102", "gone": null, "c": 10, "is": true,
            })
        );
    }
}
