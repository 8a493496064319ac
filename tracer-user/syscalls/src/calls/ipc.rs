//! Shared memory, semaphores and queues of messages.

use std::borrow::Cow;

use super::bytes::{Bytes, int};
use super::files::permissions;
use super::pointed::Data;
use super::render::flags;
use crate::arguments::Call;
use crate::shape::Shape;

/// Names the key of shared memory, of messages and of semaphores.
pub fn name_ipc_key(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    Some(match int(call, index)? {
        libc::IPC_PRIVATE => "IPC_PRIVATE".into(),
        key => format!("{key:#x}").into(),
    })
}

/// Names the flags of `shmget`, among which are permissions.
pub fn name_shared_flags(call: &Call, index: usize) -> Option<Cow<'static, str>> {
    let bits = int(call, index)?.cast_unsigned();
    let mut named = flags(
        (bits & !0o777).into(),
        &[
            ("IPC_CREAT", 0o1000),
            ("IPC_EXCL", 0o2000),
            ("SHM_HUGETLB", 0o4000),
            ("SHM_NORESERVE", 0o10000),
        ],
        "",
    );
    if !named.is_empty() {
        named.push('|');
    }
    Some((named + &permissions(bits & 0o777)).into())
}

/// Appends the attributes of a queue of messages.
pub fn push_mq_attr(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    const FLAGS: &[(&str, u64)] = &[("O_NONBLOCK", libc::O_NONBLOCK as u64)];
    push_queue(out, bytes, &flags(bytes.u64(0)?, FLAGS, "0"))
}

/// Appends the attributes of a queue that is made; the kernel does not look at their flags.
pub fn push_new_mq_attr(out: &mut Vec<u8>, Data { bytes, .. }: Data<'_>) -> Option<()> {
    push_queue(out, bytes, &flags(bytes.u64(0)?, &[], "0"))
}

fn push_queue(out: &mut Vec<u8>, bytes: Bytes<'_>, flags: &str) -> Option<()> {
    let word = |nth: usize| bytes.i64(nth * 8);
    let shown = format!(
        "{{mq_flags={flags}, mq_maxmsg={}, mq_msgsize={}, mq_curmsgs={}}}",
        word(1)?,
        word(2)?,
        word(3)?
    );
    out.extend_from_slice(shown.as_bytes());
    Some(())
}

/// Chooses the arguments of `mq_open`: permissions and attributes where it makes a queue.
pub fn show_mq_open(call: &Call) -> Shape {
    const MAKES_QUEUE: u64 = libc::O_CREAT as u64;
    if call.registers[1] & MAKES_QUEUE == 0 {
        Shape::unnamed(&[0, 1])
    } else {
        Shape::all(call)
    }
}
