//! Fields of a process's line in `/proc/PID/stat`.

use std::fs;
use std::str::FromStr;

/// Returns a field of such a line by its number in proc(5), from the third on; `None` where there
/// is none.
///
/// The name, the second field, may hold any bytes, brackets and blanks too: the third field follows
/// the last bracket.
#[must_use]
pub fn field(stat: &[u8], index: usize) -> Option<&str> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(after_name + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(index.checked_sub(3)?)
}

/// Returns the parent of a process, where `/proc` shows it.
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    field_of(pid, 4)
}

/// Facts about a process that `/proc` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// When it was started, in the kernel's ticks after boot.
    pub(crate) start: u64,
    /// Where the stack of its program begins; 0 where this process may not know it.
    pub(crate) stack: u64,
    /// Whether nothing but its zombie is left. A process of which the first thread alone has ended
    /// has not.
    pub(crate) is_over: bool,
}

/// Returns what `/proc` shows of a process.
#[inline(never)]
pub(crate) fn shown_of(pid: i32) -> Option<Shown> {
    let stat = read(pid)?;
    let number = |index| field(&stat, index)?.parse::<u64>().ok();
    Some(Shown {
        start: number(22)?,
        stack: number(28)?,
        is_over: matches!(field(&stat, 3)?, "Z" | "X" | "x") && number(20)? <= 1,
    })
}

fn field_of<T: FromStr>(pid: i32, index: usize) -> Option<T> {
    field(&read(pid)?, index)?.parse().ok()
}

fn read(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/stat")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_what_looks_like_fields() {
        let stat = b"12 (a) Z 1 (b) S 7 12 12";

        assert_eq!(field(stat, 3), Some("S"));
        assert_eq!(field(stat, 4), Some("7"));
        assert_eq!(field(stat, 2), None);
        assert_eq!(field(stat, 22), None);
        assert_eq!(field(b"12 no name", 3), None);
    }

    #[test]
    fn the_parent_of_this_process_is_known() {
        let own = crate::system::pids::own_pid();
        // SAFETY: takes nothing and cannot fail.
        assert_eq!(parent_of(own), Some(unsafe { libc::getppid() }));
    }
}
