//! Data of a probe's event: its arguments.

use tracer_common::kernel::{PROBE_ARGUMENTS, PROBE_DATA_BYTES, ProbeData, probe_kind};
use zerocopy::{FromZeros, IntoBytes};

use tracer_text::digits::push_decimal;

/// Limit beyond which values are shown to people in hexadecimal: most are addresses.
const LARGE: u64 = 1 << 32;

/// Tells whether a type of this name is that of a probe of programs.
#[must_use]
pub fn is_probe(name: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 3] = [b"probe:", b"retprobe:", b"usdt:"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentValue {
    /// Value that could not be read.
    Unread,
    /// Unsigned integer.
    Unsigned(u64),
    /// Signed integer.
    Signed(i64),
}

/// Arguments of a probe.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentValues(ProbeData);

impl ArgumentValues {
    /// Returns the arguments in `data`, where the type has the name of a probe and the data has the
    /// size and the kind of a probe's; `None` for the event of another kind.
    pub fn parse(name: &[u8], untrusted: &[u8]) -> Option<Self> {
        let kind = kind_of(name)?;
        let mut data = ProbeData::new_zeroed();
        data.as_mut_bytes()
            .get_mut(..untrusted.len())?
            .copy_from_slice(untrusted);
        let count = usize::from(data.count);
        let is_whole = count <= PROBE_ARGUMENTS
            && untrusted.len() == PROBE_DATA_BYTES + count * size_of::<u64>();
        (data.kind == kind && is_whole).then_some(Self(data))
    }

    /// Returns each argument with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, ArgumentValue)> {
        const NAMES: [&str; PROBE_ARGUMENTS] = ["arg0", "arg1", "arg2", "arg3", "arg4", "arg5"];
        let Self(data) = *self;
        let names = match data.kind {
            probe_kind::RETURN => &["ret"][..],
            _ => &NAMES[..],
        };
        let values = data.args.into_iter().take(usize::from(data.count));
        let arguments = values.enumerate().map(move |(index, value)| {
            let has = |bits: u16| bits >> index & 1 != 0;
            match (has(data.unread), has(data.signed)) {
                (true, _) => ArgumentValue::Unread,
                (false, true) => ArgumentValue::Signed(value.cast_signed()),
                (false, false) => ArgumentValue::Unsigned(value),
            }
        });
        names.iter().copied().zip(arguments)
    }

    /// Appends the arguments for people.
    pub fn push(&self, out: &mut Vec<u8>) {
        for (index, (name, argument)) in self.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            match argument {
                ArgumentValue::Unread => out.push(b'?'),
                ArgumentValue::Unsigned(value) if name == "ret" => push_result(out, value),
                ArgumentValue::Unsigned(value) => push_readable(out, value),
                ArgumentValue::Signed(value) if value < 0 && value.unsigned_abs() < LARGE => {
                    push_decimal(out, value);
                }
                ArgumentValue::Signed(value) => push_readable(out, value.cast_unsigned()),
            }
        }
    }

    /// Appends the arguments as members of a JSON object.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        for (index, (name, argument)) in self.iter().enumerate() {
            out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            match argument {
                ArgumentValue::Unread => out.extend_from_slice(b"null"),
                ArgumentValue::Unsigned(value) => push_decimal(out, value),
                ArgumentValue::Signed(value) => push_decimal(out, value),
            }
        }
    }
}

/// Appends the result of a function, whose type is unknown. Where an error is likely, it is shown
/// as one, too.
fn push_result(out: &mut Vec<u8>, value: u64) {
    const MOST_ERRORS: u64 = 4096;
    push_readable(out, value);
    let half = u32::try_from(value).map(u32::cast_signed);
    let signed = half.map_or(value.cast_signed(), i64::from);
    if signed < 0 && signed.unsigned_abs() < MOST_ERRORS {
        out.extend_from_slice(b" (");
        push_decimal(out, signed);
        out.push(b')');
    }
}

fn push_readable(out: &mut Vec<u8>, value: u64) {
    if value < LARGE {
        push_decimal(out, value);
    } else {
        out.extend_from_slice(format!("{value:#x}").as_bytes());
    }
}

/// Returns the kind of probe that a type of this name belongs to.
fn kind_of(name: &[u8]) -> Option<u16> {
    let kinds = [
        (&b"usdt:"[..], probe_kind::USDT),
        (b"probe:", probe_kind::FUNCTION),
        (b"retprobe:", probe_kind::RETURN),
    ];
    let kind = kinds.iter().find(|(prefix, _)| name.starts_with(prefix));
    kind.map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(kind: u16, args: &[u64]) -> Vec<u8> {
        let mut data = ProbeData {
            kind,
            count: u16::try_from(args.len()).unwrap(),
            signed: 0b10,
            unread: 0b100,
            args: [0; PROBE_ARGUMENTS],
        };
        data.args[..args.len()].copy_from_slice(args);
        data.as_bytes()[..PROBE_DATA_BYTES + args.len() * 8].to_vec()
    }

    fn shown(name: &[u8], data: &[u8]) -> Option<(String, String)> {
        let arguments = ArgumentValues::parse(name, data)?;
        let (mut text, mut json) = (Vec::new(), Vec::new());
        arguments.push(&mut text);
        arguments.push_json(&mut json);
        let utf8 = |bytes| String::from_utf8(bytes).unwrap();
        Some((utf8(text), utf8(json)))
    }

    #[test]
    fn arguments_are_shown_in_order_with_their_signs() {
        let minus_three = (-3_i64).cast_unsigned();
        let data = data(probe_kind::USDT, &[5, minus_three, 0, 0x7fff_1234_5678]);
        let (text, json) = shown(b"usdt:app:start", &data).unwrap();
        assert_eq!(text, "arg0=5 arg1=-3 arg2=? arg3=0x7fff12345678");
        assert_eq!(
            json,
            "\"arg0\":5,\"arg1\":-3,\"arg2\":null,\"arg3\":140733498807928"
        );
    }

    #[test]
    fn a_result_is_called_so() {
        let data = data(probe_kind::RETURN, &[7]);
        assert_eq!(shown(b"retprobe:f", &data).unwrap().0, "ret=7");
        let result = |ret| {
            let data = self::data(probe_kind::RETURN, &[ret]);
            shown(b"retprobe:f", &data).unwrap()
        };
        assert_eq!(result(0xffff_ffff).0, "ret=4294967295 (-1)");
        assert_eq!(result(u64::MAX - 1).0, "ret=0xfffffffffffffffe (-2)");
        assert_eq!(result(0x8000_0000).0, "ret=2147483648");
        assert_eq!(result(0xffff_ffff).1, "\"ret\":4294967295");
    }

    #[test]
    fn a_program_that_calls_its_own_events_so_cannot_pretend() {
        let whole = data(probe_kind::USDT, &[1, 2]);
        assert!(shown(b"usdt:a:b", &whole).is_some());
        assert!(shown(b"other", &whole).is_none());
        assert!(shown(b"probe:a", &whole).is_none());
        for length in 0..whole.len() {
            assert!(shown(b"usdt:a:b", &whole[..length]).is_none(), "{length}");
        }
        let mut many = whole;
        many[2] = 0xff;
        assert!(shown(b"usdt:a:b", &many).is_none());
        assert!(shown(b"usdt:a:b", &[0xff; 57]).is_none());
    }
}
