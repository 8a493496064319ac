//! Columns that many lines have in common, made once, and the width that they have to fit into.

use tracer_common::event_type::SystemEventType;
use tracer_common::kernel::COMM_BYTES;

use tracer_text::digits::push_decimal;
use tracer_text::escape::push_name;
use tracer_text::push_short_name;

/// Widths of the columns. A longer value moves the rest of its line and is never shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Width of whole seconds.
    pub seconds: usize,
    /// Width of the thread's name.
    pub comm: usize,
    /// Width of its pid and tid.
    pub ids: usize,
    /// Width of the event's name.
    pub name: usize,
    /// Space between columns.
    pub gap: usize,
}

impl Widths {
    /// Widths in which nearly everything fits: a thread name has at most 15 bytes, ids of more than
    /// five digits are rare, and the longest short name of a system event type is
    /// `signal-generate`.
    pub const WIDE: Self = Self {
        seconds: 5,
        comm: 15,
        ids: 11,
        name: 15,
        gap: 2,
    };
    /// Widths in which most fits, with space for the data of events.
    const NARROW: Self = Self {
        seconds: 3,
        comm: 12,
        ids: 7,
        name: 13,
        gap: 1,
    };
    /// Number of characters from which on lines may be wide.
    const WIDE_FROM: usize = 100;

    /// Returns the widths for lines of at most `most` characters.
    #[must_use]
    pub fn fitting(most: Option<usize>) -> Self {
        if most.is_some_and(|most| most < Self::WIDE_FROM) {
            Self::NARROW
        } else {
            Self::WIDE
        }
    }

    /// Appends what `write` writes, padded to `width` characters, and a gap.
    pub fn column(self, out: &mut Vec<u8>, width: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        let written = out.iter().skip(start);
        // Bytes that go on a character of several have 10 as their upper bits.
        let characters = written.filter(|byte| **byte & 0xc0 != 0x80).count();
        let filled = out.len() + width.saturating_sub(characters);
        out.resize(filled + self.gap, b' ');
    }

    /// Appends a gap.
    pub fn gap(self, out: &mut Vec<u8>) {
        out.resize(out.len() + self.gap, b' ');
    }
}

/// Number of threads whose columns are held: a slot for each, by its tid.
const SLOTS: usize = 256;

/// Process and thread of the event that a line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// Id of its process; 0 for none.
    pub pid: i32,
    /// Id of the thread.
    pub tid: i32,
    /// Name of the thread, where known.
    pub comm: Option<&'a [u8]>,
}

/// Columns of a thread.
#[derive(Clone, Debug, Default)]
struct Slot {
    pid: i32,
    tid: i32,
    comm: Vec<u8>,
    /// Columns as text; empty until a thread was here.
    columns: Vec<u8>,
}

/// Columns of the threads that were shown last.
#[derive(Debug)]
pub struct ThreadColumns {
    widths: Widths,
    slots: Vec<Slot>,
}

impl ThreadColumns {
    /// Creates an empty table.
    #[must_use]
    pub fn new(widths: Widths) -> Self {
        Self {
            widths,
            slots: Vec::new(),
        }
    }

    /// Appends the columns of a thread: its name, pid and tid.
    pub fn push(&mut self, out: &mut Vec<u8>, who: Who<'_>) {
        let (Some(comm), true) = (who.comm, who.pid != 0) else {
            push_who(out, who, self.widths);
            return;
        };
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, Slot::default());
        }
        let slot = usize::try_from(who.tid).unwrap_or(0) % SLOTS;
        let slot = self.slots.get_mut(slot);
        let Some(slot) = slot.filter(|_| comm.len() <= COMM_BYTES) else {
            push_who(out, who, self.widths);
            return;
        };
        let is_same = (slot.tid, slot.pid) == (who.tid, who.pid) && slot.comm == comm;
        if !is_same || slot.columns.is_empty() {
            (slot.pid, slot.tid) = (who.pid, who.tid);
            slot.comm.clear();
            slot.comm.extend_from_slice(comm);
            slot.columns.clear();
            push_who(&mut slot.columns, who, self.widths);
        }
        out.extend_from_slice(&slot.columns);
    }
}

fn push_who(out: &mut Vec<u8>, who: Who<'_>, widths: Widths) {
    widths.column(out, widths.comm, |out| {
        let unknown: &[u8] = if who.pid == 0 { b"-" } else { b"?" };
        push_name(out, who.comm.unwrap_or(unknown));
    });
    widths.column(out, widths.ids, |out| {
        if who.pid == 0 {
            out.push(b'-');
            return;
        }
        push_decimal(out, who.pid);
        if who.tid != who.pid {
            out.push(b'/');
            push_decimal(out, who.tid);
        }
    });
}

/// Columns of the system event types' names.
#[derive(Debug)]
pub struct TypeColumns {
    widths: Widths,
    columns: Vec<Vec<u8>>,
}

impl TypeColumns {
    /// Creates an empty table.
    #[must_use]
    pub fn new(widths: Widths) -> Self {
        Self {
            widths,
            columns: Vec::new(),
        }
    }

    /// Appends the short name of a type, padded.
    pub fn push(&mut self, out: &mut Vec<u8>, entry: &SystemEventType) {
        let index = usize::try_from(entry.id.0).unwrap_or(usize::MAX);
        if self.columns.len() <= index {
            // The ids of system event types are small.
            self.columns.resize(index.saturating_add(1), Vec::new());
        }
        let Some(column_of_type) = self.columns.get_mut(index) else {
            return;
        };
        if column_of_type.is_empty() {
            let widths = self.widths;
            widths.column(column_of_type, widths.name, |out| {
                push_short_name(out, entry.name);
            });
        }
        out.extend_from_slice(column_of_type);
    }
}

/// Shortens the line that begins at `begin` where it has more than `most` characters. Commands to
/// the terminal take no space.
pub fn shorten(out: &mut Vec<u8>, begin: usize, most: usize, is_coloured: bool) {
    /// Least length of a shortened line, also where less would fit: a shorter one is of no use.
    const LEAST: usize = 20;
    let most = most.max(LEAST);
    let (mut characters, mut end, mut is_command) = (0_usize, out.len(), false);
    for (index, byte) in out.iter().enumerate().skip(begin) {
        match byte {
            b'\x1b' => is_command = true,
            b'm' if is_command => is_command = false,
            _ if is_command => {}
            // It goes on a character of several bytes.
            byte if byte & 0xc0 == 0x80 => {}
            _ => {
                if characters == most - 1 {
                    end = index;
                }
                characters += 1;
            }
        }
    }
    if characters > most {
        out.truncate(end);
        out.extend_from_slice("…".as_bytes());
        if is_coloured {
            out.extend_from_slice(b"\x1b[0m");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_shown_as_it_is_now_and_not_as_the_one_before_in_its_slot() {
        let mut threads = ThreadColumns::new(Widths::WIDE);
        let mut shown = |pid, tid, comm: Option<&'static str>| {
            let who = Who {
                pid,
                tid,
                comm: comm.map(str::as_bytes),
            };
            let (mut held, mut made) = (Vec::new(), Vec::new());
            threads.push(&mut held, who);
            push_who(&mut made, who, Widths::WIDE);
            assert_eq!(held, made, "{who:?}");
        };
        let others = i32::try_from(SLOTS).unwrap();
        for _ in 0..2 {
            shown(7, 7, Some("sh"));
            shown(7, 7, Some("make"));
            shown(7, 7, None);
            shown(8, 7, Some("make"));
            shown(7, 7 + others, Some("make"));
            shown(7, 7 + others, Some("größe"));
            shown(0, 0, Some("swapper"));
            shown(0, 0, None);
            shown(7, 7, Some("a name that is longer than any"));
            shown(-1, -1, Some("sh"));
        }
    }
}
