//! Rights of a process, and of other processes over it, which change when it starts another
//! program.
//!
//! Exec keeps users and groups, except those of the file system. A program that is not root's loses
//! its capabilities. A program of root gets all of them, even if the one before had given some up.
//! And the user of a program may look into it again. The recorder has to have the rights of its
//! controller, no more and no less.

use std::ffi::{c_int, c_long, c_ulong};

use serde::{Deserialize, Serialize};

/// The version of the kernel's structures that has two words for each set.
const CAPABILITIES_VERSION: u32 = 0x2008_0522;

/// Capabilities that there may be.
const CAPABILITIES: u32 = 64;

/// Rights of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rights {
    /// Real, effective, and of the file system.
    users: [u32; 3],
    groups: [u32; 3],
    pub capabilities: Capabilities,
    /// Whether other processes of its user may look into it.
    pub is_dumpable: bool,
}

/// Sets of capabilities, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Capabilities {
    effective: u64,
    permitted: u64,
    inheritable: u64,
}

#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

/// The words of 32 capabilities.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Rights {
    /// Returns the rights of the calling thread.
    pub fn read_own() -> Self {
        // SAFETY: takes nothing and cannot fail.
        let real_user = unsafe { libc::getuid() };
        // SAFETY: as above.
        let effective_user = unsafe { libc::geteuid() };
        // SAFETY: as above.
        let real_group = unsafe { libc::getgid() };
        // SAFETY: as above.
        let effective_group = unsafe { libc::getegid() };
        // SAFETY: takes no pointers.
        let is_dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 1;
        // Setting an id that no user or group has changes nothing, and returns the present one.
        Self {
            users: [real_user, effective_user, set_file_user(u32::MAX)],
            groups: [real_group, effective_group, set_file_group(u32::MAX)],
            capabilities: Capabilities::read_own(),
            is_dumpable,
        }
    }

    /// Reduces the rights of this process to these. Returns whether it has exactly these then.
    pub fn take_on(&self) -> bool {
        // SAFETY: takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, c_ulong::from(self.is_dumpable)) };
        let [_, _, file_group] = self.groups;
        let [_, _, file_user] = self.users;
        set_file_group(file_group);
        set_file_user(file_user);
        // SAFETY: takes no pointers. Kernels on which it fails have no such capabilities.
        unsafe {
            libc::prctl(
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_CLEAR_ALL,
                0,
                0,
                0,
            )
        };
        self.capabilities.set();
        Self::read_own() == *self
    }
}

impl Capabilities {
    fn read_own() -> Self {
        let mut words = [Words::default(); 2];
        call(libc::SYS_capget, &mut words);
        let both = |word: fn(&Words) -> u32| {
            let [low, high] = &words;
            u64::from(word(low)) | u64::from(word(high)) << 32
        };
        Self {
            effective: both(|words| words.effective),
            permitted: both(|words| words.permitted),
            inheritable: both(|words| words.inheritable),
        }
    }

    /// Sets the capabilities of the calling thread to these, if it may have them.
    /// Async-signal-safe.
    fn set(self) {
        #[expect(clippy::cast_possible_truncation, reason = "half after half")]
        let half = |set: u64, high: u32| (set >> (32 * high)) as u32;
        let words = |high| Words {
            effective: half(self.effective, high),
            permitted: half(self.permitted, high),
            inheritable: half(self.inheritable, high),
        };
        call(libc::SYS_capset, &mut [words(0), words(1)]);
    }

    /// Makes the calling thread keep them over exec, as far as it may. Async-signal-safe.
    pub fn keep_over_exec(self) {
        if self.permitted == 0 {
            return;
        }
        let inheritable = self.inheritable | self.permitted;
        Self {
            inheritable,
            ..self
        }
        .set();
        let held = (0..CAPABILITIES).filter(|bit| self.permitted >> bit & 1 == 1);
        for capability in held {
            // SAFETY: takes no pointers.
            unsafe {
                libc::syscall(
                    libc::SYS_prctl,
                    libc::PR_CAP_AMBIENT,
                    libc::PR_CAP_AMBIENT_RAISE,
                    c_ulong::from(capability),
                    0,
                    0,
                )
            };
        }
    }
}

fn call(nr: c_long, words: &mut [Words; 2]) {
    let mut header = Header {
        version: CAPABILITIES_VERSION,
        pid: 0,
    };
    // SAFETY: a header of this version goes with two sets of words; an error leaves them as they
    // are.
    unsafe { libc::syscall(nr, &raw mut header, words.as_mut_ptr()) };
}

/// Sets the user by which the calling thread opens files; returns the one before.
fn set_file_user(user: u32) -> u32 {
    // SAFETY: takes no pointers.
    id_of(unsafe { libc::syscall(libc::SYS_setfsuid, user) })
}

fn set_file_group(group: u32) -> u32 {
    // SAFETY: takes no pointers.
    id_of(unsafe { libc::syscall(libc::SYS_setfsgid, group) })
}

fn id_of(result: c_long) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the kernel returns a uid or a gid"
    )]
    let id = result as u32;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line of this thread's `/proc` status that begins with a name, without the name.
    fn line_of(name: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no capabilities")]
    fn the_rights_are_those_that_the_kernel_shows() {
        let rights = Rights::read_own();
        let set = |name| u64::from_str_radix(&line_of(name), 16).unwrap();
        let expected = Capabilities {
            effective: set("CapEff:"),
            permitted: set("CapPrm:"),
            inheritable: set("CapInh:"),
        };
        assert_eq!(rights.capabilities, expected);
        let uids: Vec<u32> = line_of("Uid:")
            .split_whitespace()
            .map(|uid| uid.parse().unwrap())
            .collect();
        let [real, effective, _saved, file] = uids[..] else {
            panic!("{uids:?}");
        };
        assert_eq!(rights.users, [real, effective, file]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no capabilities")]
    fn rights_that_a_thread_has_it_keeps() {
        let rights = Rights::read_own();
        std::thread::spawn(move || assert!(rights.take_on()))
            .join()
            .unwrap();
    }
}
