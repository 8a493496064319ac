//! Results of system calls, in words.

use std::io;

use crate::arguments::Returned;
use crate::calls::{Role, push_found, push_ready};
use crate::descriptors::Named;
use crate::names::error_of;
use crate::pointer_data::Texts;
use crate::shape::{Filling, push_pointed};
use crate::shown::push_argument;

/// Appends the result of a call: `3`, `-1 ENOENT (No such file or directory)`, or, where the kernel
/// is about to make the call again, `? ERESTARTSYS (…)`.
pub fn push_result(out: &mut Vec<u8>, returned: Returned) {
    if let Some((name, about)) = restart(returned.value) {
        return out.extend_from_slice(format!("? {name} ({about})").as_bytes());
    }
    let Some(name) = error_of(returned.value) else {
        return push_argument(out, returned.shown());
    };
    out.extend_from_slice(b"-1 ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b" (");
    out.extend_from_slice(error_text(returned.value).as_bytes());
    out.push(b')');
}

/// Appends the result of a call, with the data that the call has found, where that is shown there.
pub fn push_result_of(out: &mut Vec<u8>, returned: Returned, filling: &Filling<'_>) {
    let result = filling.call.info().and_then(|info| info.result);
    if let Some(flags) = result.and_then(|result| result(filling.call, returned.value)) {
        return out.extend_from_slice(flags.as_bytes());
    }
    push_result(out, returned);
    push_returned_descriptor(out, returned, filling.after.unwrap_or_default());
    let kind = |index| filling.call.given(index).map(|given| given.kind.role);
    let after = |index| filling.after.and_then(|after| after.find(index));
    // How much is left of the time that the call was given.
    let left = |index: usize| {
        let text = after(index)?;
        let mut left = Vec::new();
        let call = filling.call;
        let named = Named::from_texts(filling.after.unwrap_or_default());
        push_pointed(&mut left, call, index, &text, Some(returned.value), named).map(|()| left)
    };
    let is_poll = kind(0) == Some(Role::PollList);
    let is_select = kind(1) == Some(Role::FdSet);
    match returned.value {
        1.. if kind(1) == Some(Role::ReceivedList) => {
            if let Some(left) = left(4) {
                out.extend_from_slice(b" (left ");
                out.extend_from_slice(&left);
                out.push(b')');
            }
        }
        0 if is_poll || is_select => out.extend_from_slice(b" (Timeout)"),
        1.. if is_poll => {
            if let Some(found) = after(0) {
                push_found(out, found.bytes, found.has_more, left(2));
            }
        }
        1.. if is_select => {
            let set = |index| after(index).map(|text| text.bytes);
            push_ready(out, filling.call, returned.value, set, left(4));
        }
        _ => {}
    }
}

/// Appends a description of the descriptor that a call has returned.
pub fn push_returned_descriptor(out: &mut Vec<u8>, returned: Returned, texts: Texts<'_>) {
    if let Some(what) = Named::from_texts(texts).returned(returned.value) {
        what.push(out);
    }
}

/// Returns the name of an error by which the kernel notes that a call is to be made again, and the
/// call's fate when a signal is handled.
fn restart(value: i64) -> Option<(&'static str, &'static str)> {
    Some(match value {
        -512 => ("ERESTARTSYS", "To be restarted if SA_RESTART is set"),
        -513 => ("ERESTARTNOINTR", "To be restarted"),
        -514 => ("ERESTARTNOHAND", "To be restarted if no handler"),
        -516 => ("ERESTART_RESTARTBLOCK", "Interrupted by signal"),
        _ => return None,
    })
}

/// Returns the C library's text for an error that a call has returned.
fn error_text(value: i64) -> String {
    let Ok(code) = i32::try_from(-value) else {
        return String::new();
    };
    let text = io::Error::from_raw_os_error(code).to_string();
    let suffix = format!(" (os error {code})");
    text.strip_suffix(&suffix).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Table;

    fn shown(value: i64) -> String {
        let mut out = Vec::new();
        let nr = i32::try_from(libc::SYS_openat).unwrap();
        let table = Table::Native;
        push_result(&mut out, Returned { table, nr, value });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_error_has_its_name_and_what_it_means() {
        assert_eq!(shown(3), "3");
        assert_eq!(shown(-2), "-1 ENOENT (No such file or directory)");
        assert_eq!(
            shown(-516),
            "? ERESTART_RESTARTBLOCK (Interrupted by signal)"
        );
        // Less than each error: a register that `rt_sigreturn` gives back.
        assert_eq!(shown(-5000), "18446744073709546616");
    }
}
