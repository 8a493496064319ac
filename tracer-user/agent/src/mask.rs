//! Masks over what events say of processes that their reader does not see.
//!
//! An event of a process says of others too: which had the CPU before, which woke it. Where the
//! reader does not see that other process, its pid and its thread become 0, and its name
//! [`ANOTHER_PROCESS`]. (The idle task has the pid 0 too, but another name.) Times, counts and
//! everything else stay.
//!
//! Which fields these are is told by the one table of event types: those that are called
//! `ROLE_pid`, `ROLE_tid` and `ROLE_comm` are of one process.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use tracer_common::event_type::{FieldKind, SYSTEM_EVENT_TYPES, SystemEventType};
use tracer_common::kernel::COMM_BYTES;
use tracer_engine::event::{ANOTHER_PROCESS, EventHeader};

/// Roles of processes that the process itself has made just then.
const OWN_ROLES: &[&str] = &["child", "child_ns"];

/// Place of one other process in an event.
#[derive(Debug)]
struct Role {
    /// Offset of its pid.
    pid: usize,
    /// Its pid, its thread, its name.
    fields: Vec<Range<usize>>,
}

/// Returns what a field of so many bytes has instead of what names a process.
fn mask_for(bytes: usize) -> [u8; COMM_BYTES] {
    if bytes == COMM_BYTES {
        ANOTHER_PROCESS
    } else {
        [0; COMM_BYTES]
    }
}

/// The roles, by event type.
static ROLES: LazyLock<Vec<Vec<Role>>> = LazyLock::new(|| {
    let ids = SYSTEM_EVENT_TYPES.iter().map(|entry| entry.id.0);
    let count = ids.max().map_or(0, |last| last + 1);
    (0..count)
        .map(|id| {
            let mut all = SYSTEM_EVENT_TYPES.iter();
            all.find(|entry| entry.id.0 == id)
                .map_or_else(Vec::new, roles)
        })
        .collect()
});

fn roles(entry: &SystemEventType) -> Vec<Role> {
    let pids = entry.fields.iter();
    let pids = pids.filter(|field| field.kind == FieldKind::Pid);
    pids.filter_map(|pid| {
        let role = pid.name.strip_suffix("_pid")?;
        if OWN_ROLES.contains(&role) {
            return None;
        }
        let fields = entry.fields.iter().filter_map(|field| {
            let bytes = bytes_of(field.kind)?;
            let of = field.name.rsplit_once('_')?.0;
            (of == role).then_some(field.offset..field.offset + bytes)
        });
        Some(Role {
            pid: pid.offset,
            fields: fields.collect(),
        })
    })
    .collect()
}

/// Returns the bytes of a field that names a process or a thread.
fn bytes_of(kind: FieldKind) -> Option<usize> {
    match kind {
        FieldKind::Pid => Some(size_of::<u32>()),
        FieldKind::Comm => Some(COMM_BYTES),
        _ => None,
    }
}

/// Returns the data of an event, without what it says of processes that are not seen.
pub fn masked<'d>(
    header: &EventHeader,
    data: &'d [u8],
    is_seen: impl Fn(i32) -> bool,
) -> Cow<'d, [u8]> {
    let mut data = Cow::Borrowed(data);
    let index = usize::try_from(header.event_type.0).unwrap_or(usize::MAX);
    for role in ROLES.get(index).into_iter().flatten() {
        let pid = data.get(role.pid..).and_then(|rest| rest.first_chunk());
        // What is cut off here names no process as a whole, and is cut off whole.
        let pid = pid.map(|pid| i32::from_ne_bytes(*pid));
        let is_shown = pid.is_some_and(|pid| pid == 0 || pid == header.pid || is_seen(pid));
        if is_shown {
            continue;
        }
        let bytes = data.to_mut();
        for field in &role.fields {
            let mask = mask_for(field.len());
            let there = bytes.get_mut(field.start..).into_iter().flatten();
            there
                .zip(mask.iter().take(field.len()))
                .for_each(|(byte, mask)| *byte = *mask);
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use tracer_common::event_type::EventTypeId;
    use tracer_common::kernel::{SwitchInData, WakeupData};
    use tracer_engine::event::{MonotonicNs, Truncation};
    use zerocopy::{FromZeros as _, IntoBytes as _};

    use super::*;

    fn header(event_type: EventTypeId) -> EventHeader {
        EventHeader {
            time: MonotonicNs(1),
            event_type,
            pid: 100,
            tid: 101,
            cpu: None,
            thread_id: 0,
            program_address: 0,
            truncation: Truncation::None,
        }
    }

    #[test]
    fn another_users_process_has_neither_pid_nor_name() {
        let mut data = WakeupData::new_zeroed();
        (data.waker_pid, data.waker_tid) = (200, 201);
        data.waker_comm = *b"secret of others";
        (data.target_cpu, data.waker_context) = (3, 1);
        let header = header(EventTypeId::WAKEUP);
        let seen = masked(&header, data.as_bytes(), |pid| pid == 200);
        assert_eq!(&*seen, data.as_bytes());
        let unseen = masked(&header, data.as_bytes(), |_| false).into_owned();
        (data.waker_pid, data.waker_tid) = (0, 0);
        data.waker_comm = ANOTHER_PROCESS;
        assert_eq!(unseen, data.as_bytes());
        assert_eq!((data.target_cpu, data.waker_context), (3, 1));
    }

    #[test]
    fn its_own_threads_and_the_idle_task_are_seen() {
        let mut data = SwitchInData::new_zeroed();
        for pid in [0, 100] {
            (data.prev_pid, data.prev_tid) = (pid, pid);
            data.prev_comm = *b"a name of theirs";
            let shown = masked(&header(EventTypeId::SWITCH_IN), data.as_bytes(), |_| false);
            assert_eq!(&*shown, data.as_bytes());
        }
    }

    #[test]
    fn of_data_that_is_cut_off_nothing_is_shown_of_others() {
        let mut data = WakeupData::new_zeroed();
        data.waker_pid = 200;
        data.waker_comm = *b"secret of others";
        let mut expected = WakeupData::new_zeroed();
        expected.waker_comm = ANOTHER_PROCESS;
        let header = header(EventTypeId::WAKEUP);
        for length in 0..size_of::<WakeupData>() {
            let cut = data.as_bytes().get(..length).unwrap();
            let shown = masked(&header, cut, |_| false);
            assert_eq!(Some(&*shown), expected.as_bytes().get(..length), "{length}");
        }
    }

    /// Fields that name the process itself of which the event is, or one that it makes.
    const OWN: &[&str] = &[
        "comm",
        "old_tid",
        "woken_tid",
        "child_pid",
        "child_tid",
        "child_comm",
        "child_ns_pid",
        "child_ns_tid",
    ];

    #[test]
    fn every_field_that_names_a_process_has_a_role_or_names_its_own() {
        for entry in SYSTEM_EVENT_TYPES {
            let all: Vec<_> = roles(entry)
                .into_iter()
                .flat_map(|role| role.fields)
                .collect();
            for field in entry.fields {
                if let Some(bytes) = bytes_of(field.kind) {
                    let is_masked = all.contains(&(field.offset..field.offset + bytes));
                    let is_own = OWN.contains(&field.name);
                    assert!(is_masked != is_own, "{} of {}", field.name, entry.name);
                }
            }
        }
    }
}
