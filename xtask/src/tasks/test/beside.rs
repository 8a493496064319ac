//! Tests without rights beside those that run as root.

use std::ffi::OsString;

use super::binaries::Setting;
use crate::privilege;

/// Returns the setting in which they leave the others what these need.
///
/// They get a small part of the processors, and what the others leave: those wait most of the time,
/// and some of them look at when threads get a processor. Where both are root's, their streams
/// would count for one user, whose limit some tests reach: so these have a `/dev/shm` of their own.
pub fn setting() -> Setting {
    let mut words = vec!["nice", "-n", "10"];
    if privilege::is_root() {
        words.extend(["unshare", "--mount", "--propagation", "unchanged", "--"]);
        words.extend(["sh", "-ec", ENTER, "sh"]);
    }
    Setting {
        words: words.into_iter().map(OsString::from).collect(),
        ..Setting::default()
    }
}

const ENTER: &str = "\
mount --make-rprivate / 2>/dev/null || mount --make-private /dev/shm
mount -t tmpfs -o mode=1777 none /dev/shm
exec \"$@\"";
