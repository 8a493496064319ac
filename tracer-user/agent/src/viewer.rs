//! Rights to see what a process does: those of `ptrace` to look into it.
//!
//! Asked when a controller comes, and anew whenever the answer can have changed. A process gains
//! rights only by an exec (set-user-ID, capabilities of a file); what it gives up by itself it does
//! not gain back.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tracer_common::kernel::Sight;

/// `CAP_SYS_PTRACE`.
const MAY_TRACE_ALL: u64 = 1 << 19;

/// A controller, as the kernel noted it when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Viewer {
    /// Its user.
    pub user: u32,
    group: u32,
    /// Whether it may look into every process.
    sees_all: bool,
    /// Whether that is so of every process there is, and not only of those that it asks for: its
    /// user namespace is known to be this one.
    is_unmasked: bool,
}

impl Viewer {
    /// Makes the viewer of process `pid`, which connected with this user and group, and then might
    /// trace every process (`CAP_SYS_PTRACE`), or not.
    pub fn new(pid: i32, (user, group): (u32, u32), might_trace_all: bool) -> Self {
        // A process may have become one of root's, or another program, since it connected: that
        // counts for nothing.
        let namespace = NamespaceOf::read(pid);
        let sees_all = namespace != NamespaceOf::Another
            && Credentials::read(pid).is_some_and(|now| {
                let is_its_user = user != 0 || now.users == [0; 4];
                might_trace_all && is_its_user && now.effective & MAY_TRACE_ALL != 0
            });
        Self {
            user,
            group,
            sees_all,
            is_unmasked: sees_all && namespace == NamespaceOf::Own,
        }
    }

    /// Makes the viewer of a user who may see every process of the machine.
    pub fn of_whole_machine(user: u32, group: u32) -> Self {
        Self {
            user,
            group,
            sees_all: true,
            is_unmasked: true,
        }
    }

    /// Tells whether nothing is masked that events say of other processes.
    pub fn is_unmasked(&self) -> bool {
        self.is_unmasked
    }

    /// Tells whether it may look into every process, so that nothing has to be asked.
    pub fn sees_all(&self) -> bool {
        self.sees_all
    }

    /// Tells whether it may look into a process that has just run another program.
    pub fn may_see(&self, sight: &Sight) -> bool {
        self.sees_all
            || (sight.uid == self.user
                && sight.gid == self.group
                && sight.permitted == 0
                && sight.is_dumpable == 1
                && sight.namespace_level == 0)
    }

    /// Tells whether it may look into process `pid` as that is now.
    pub fn may_see_now(&self, pid: i32) -> bool {
        if self.sees_all {
            return Credentials::read(pid).is_some();
        }
        // A file that only its user may read is root's where the memory may not be dumped.
        let is_dumpable = fs::metadata(format!("/proc/{pid}/environ"))
            .is_ok_and(|file| (file.uid(), file.gid()) == (self.user, self.group));
        is_dumpable
            && NamespaceOf::read(pid) != NamespaceOf::Another
            && Credentials::read(pid).is_some_and(|now| {
                now.users == [self.user; 4] && now.groups == [self.group; 4] && now.permitted == 0
            })
    }
}

/// Tells whether a process may trace every process of its user namespace now.
pub fn may_trace_all(pid: i32) -> bool {
    Credentials::read(pid).is_some_and(|now| now.effective & MAY_TRACE_ALL != 0)
}

/// User namespace of a process, seen from the agent's: in another one the same ids mean something
/// else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamespaceOf {
    /// The agent's own.
    Own,
    /// One with the same ids as the agent's. Which one it is the kernel tells only those that may
    /// trace the process.
    WithSameIds,
    /// Another one, or not known.
    Another,
}

impl NamespaceOf {
    fn read(pid: i32) -> Self {
        let namespace = |of: &str| {
            let found = fs::metadata(format!("/proc/{of}/ns/user"));
            found.map(|found| (found.dev(), found.ino())).ok()
        };
        let ids = |of: &str, map: &str| fs::read(format!("/proc/{of}/{map}")).ok();
        let process = pid.to_string();
        match (namespace(&process), namespace("self")) {
            (Some(theirs), Some(own)) if theirs == own => Self::Own,
            (Some(_), _) => Self::Another,
            (None, _) => {
                let is_same = ["uid_map", "gid_map"].iter().all(|map| {
                    let theirs = ids(&process, map);
                    theirs.is_some() && theirs == ids("self", map)
                });
                if is_same {
                    Self::WithSameIds
                } else {
                    Self::Another
                }
            }
        }
    }
}

/// Credentials of a process, as `/proc` states them.
struct Credentials {
    /// Users: real, effective, saved, and that for files.
    users: [u32; 4],
    groups: [u32; 4],
    permitted: u64,
    effective: u64,
}

impl Credentials {
    fn read(pid: i32) -> Option<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let four = |name| {
            let mut ids = line(name)?.split_ascii_whitespace().map(str::parse);
            let mut next = || ids.next()?.ok();
            Some([next()?, next()?, next()?, next()?])
        };
        let set = |name| u64::from_str_radix(line(name)?.trim(), 16).ok();
        Some(Self {
            users: four("Uid:")?,
            groups: four("Gid:")?,
            permitted: set("CapPrm:")?,
            effective: set("CapEff:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGHT: Sight = Sight {
        permitted: 0,
        uid: 1000,
        gid: 1000,
        is_dumpable: 1,
        namespace_level: 0,
    };

    fn viewer(user: u32, group: u32) -> Viewer {
        Viewer {
            user,
            group,
            sees_all: false,
            is_unmasked: false,
        }
    }

    #[test]
    fn only_what_is_wholly_the_users_own_is_seen() {
        let own = viewer(1000, 1000);
        assert!(own.may_see(&SIGHT));
        assert!(!viewer(1001, 1000).may_see(&SIGHT) && !viewer(1000, 1001).may_see(&SIGHT));
        let others = [
            Sight {
                permitted: 1,
                ..SIGHT
            },
            Sight { uid: 0, ..SIGHT },
            Sight {
                uid: Sight::NOBODY,
                ..SIGHT
            },
            Sight {
                gid: Sight::NOBODY,
                ..SIGHT
            },
            Sight {
                is_dumpable: 0,
                ..SIGHT
            },
            Sight {
                namespace_level: 1,
                ..SIGHT
            },
        ];
        assert!(others.iter().all(|other| !own.may_see(other)));
        let all = Viewer {
            sees_all: true,
            ..own
        };
        assert!(others.iter().all(|other| all.may_see(other)));
    }

    #[test]
    fn this_process_is_seen_by_its_user_and_by_no_other() {
        let pid = std::process::id().cast_signed();
        // SAFETY: the call has no preconditions and cannot fail.
        let user = unsafe { libc::geteuid() };
        // SAFETY: as above.
        let group = unsafe { libc::getegid() };
        assert!(!viewer(user + 1, group).may_see_now(pid));
        let seen = Viewer::new(pid, (user, group), user == 0);
        assert!(seen.may_see_now(pid) && !seen.may_see_now(i32::MAX));
        assert_eq!(seen.sees_all(), user == 0);
        // The pid may be another's by now, who may trace all.
        assert!(!Viewer::new(pid, (user, group), false).sees_all());
    }
}
