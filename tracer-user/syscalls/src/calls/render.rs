//! Words that structs of several families share.

use super::pointed::Data;

/// Appends one integer in brackets.
pub fn push_int(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let has_more = false;
    push_ints(out, Data { has_more, ..data })
}

pub fn push_ints(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let Data {
        bytes, has_more, ..
    } = data;
    let (ints, rest) = bytes.0.as_chunks::<4>();
    if !rest.is_empty() && !has_more {
        return None;
    }
    push_list(
        out,
        ints.iter().map(|int| i32::from_ne_bytes(*int).to_string()),
        has_more,
    );
    Some(())
}

/// Appends an integer of 64 bits in brackets.
pub fn push_int64(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    out.extend_from_slice(format!("[{}]", bytes.i64(0)?).as_bytes());
    Some(())
}

/// Appends two descriptors.
pub fn push_pair(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    let Data { bytes, named, .. } = data;
    let one = |nth: usize| {
        let descriptor = bytes.i32(4 * nth)?;
        let what = named.shown_listed(nth, descriptor);
        Some(format!("{descriptor}{what}"))
    };
    push_list(out, [one(0)?, one(1)?].into_iter(), false);
    Some(())
}

/// Appends bytes in quotes, each as two digits.
pub fn push_random_bytes(out: &mut Vec<u8>, data: Data<'_>) -> Option<()> {
    const MOST: usize = 64;
    let Data {
        bytes, has_more, ..
    } = data;
    out.push(b'"');
    for byte in bytes.slice().iter().take(MOST) {
        out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
    }
    out.push(b'"');
    if has_more || bytes.slice().len() > MOST {
        out.extend_from_slice(b"...");
    }
    Some(())
}

/// Appends members in brackets: those that strace shows at most, and dots for more.
pub fn push_list(out: &mut Vec<u8>, members: impl Iterator<Item = String>, has_more: bool) {
    const MOST: usize = 32;
    out.push(b'[');
    let mut members = members.peekable();
    let mut count = 0;
    while let Some(member) = members.next_if(|_| count < MOST) {
        if count > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(member.as_bytes());
        count += 1;
    }
    if has_more || members.peek().is_some() {
        out.extend_from_slice(b", ...");
    }
    out.push(b']');
}

/// Returns the names of bits, with `|` between them; `zero` for none. Those without a name are one
/// more, in hexadecimal.
#[must_use]
pub fn flags(bits: u64, names: &[(&str, u64)], zero: &str) -> String {
    let mut rest = bits;
    let mut words = Vec::new();
    for (name, flag) in names {
        if *flag != 0 && rest & flag == *flag {
            rest &= !flag;
            words.push((*name).to_owned());
        }
    }
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    if words.is_empty() {
        zero.to_owned()
    } else {
        words.join("|")
    }
}

/// Renders an address: `NULL` for none.
pub fn pointer(address: u64) -> String {
    if address == 0 {
        "NULL".to_owned()
    } else {
        format!("{address:#x}")
    }
}
