//! Rights to see what a process does: those of `ptrace` to look into it.
//!
//! Asked when a controller comes, and anew whenever the answer can have changed. A process gains
//! rights only by an exec (set-user-ID, capabilities of a file); what it gives up by itself it does
//! not gain back.

use std::fs;
use std::os::unix::fs::MetadataExt;

use tracer_common::kernel::Sight;
use tracer_kernel::{Guard, OutermostNamespace};

use super::mounts::outermost_of;

/// `CAP_SYS_PTRACE`.
pub const MAY_TRACE_ALL: u64 = 1 << 19;

/// Rights that a controller had as it connected, as far as the kernel tells them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noted {
    /// Whether it might trace every process (`CAP_SYS_PTRACE`).
    pub might_trace_all: bool,
    /// Whether it was in the first user namespace.
    pub is_of_first_namespace: bool,
    /// User namespace right within the first one where it was, and might trace every process, by
    /// its inode.
    pub traces_within: Option<u32>,
}

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
    /// Whether it may look into whatever is in the user namespaces that its user has made in the
    /// first one: it is known to be there itself.
    owns_namespaces: bool,
    /// User namespace right within the first one in which it may look into every process, by its
    /// inode. The conversation is noted with it, so that it exists as long as the viewer.
    traces_within: Option<u32>,
}

impl Viewer {
    /// Makes the viewer of process `pid`, which connected with this user and group, and these
    /// rights.
    pub fn new(pid: i32, (user, group): (u32, u32), noted: Noted) -> Self {
        // A process may have become one of root's, or another program, since it connected: that
        // counts for nothing.
        let namespace = NamespaceOf::read(pid);
        let sees_all = namespace != NamespaceOf::Another
            && Credentials::read(pid).is_some_and(|now| {
                let is_its_user = user != 0 || now.users == [0; 4];
                noted.might_trace_all && is_its_user && now.effective & MAY_TRACE_ALL != 0
            });
        Self {
            user,
            group,
            sees_all,
            is_unmasked: sees_all && namespace == NamespaceOf::Own,
            owns_namespaces: noted.is_of_first_namespace && namespace != NamespaceOf::Another,
            traces_within: noted.traces_within.filter(|_| may_trace_all(pid)),
        }
    }

    /// Makes the viewer of a user who may see every process of the machine.
    pub fn of_whole_machine(user: u32, group: u32) -> Self {
        Self {
            user,
            group,
            sees_all: true,
            is_unmasked: true,
            owns_namespaces: true,
            traces_within: None,
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

    /// Returns how the processes that it is given are guarded, if they are.
    pub fn guard(&self) -> Option<Guard> {
        let sees_namespaces = self.owns_namespaces || self.traces_within.is_some();
        match (self.sees_all, sees_namespaces) {
            (true, _) => None,
            (false, true) => Some(Guard::OwnNamespaces),
            (false, false) => Some(Guard::FirstNamespace),
        }
    }

    /// Tells whether it may look into a process that has just run another program.
    pub fn may_see(&self, sight: &Sight) -> bool {
        self.sees_all
            || (sight.uid == self.user
                && sight.gid == self.group
                && sight.permitted == 0
                && sight.is_dumpable == 1
                && sight.namespace_level == 0)
            || (sight.namespace_level > 0
                && self.sees_namespace(OutermostNamespace {
                    owner: sight.namespace_owner,
                    id: sight.namespace_id,
                })
                && (sight.is_dumpable == 1 || sight.memory_level > 0))
    }

    /// Tells whether it may look into the processes of a user namespace right within the first one.
    fn sees_namespace(&self, namespace: OutermostNamespace) -> bool {
        let is_its_users = self.owns_namespaces && namespace.owner == self.user;
        is_its_users || namespace.id != 0 && self.traces_within == Some(namespace.id)
    }

    /// Tells whether it may look into process `pid` as that is now.
    pub fn may_see_now(&self, pid: i32) -> bool {
        if self.sees_all {
            return Credentials::read(pid).is_some();
        }
        let sees_its_namespace = || outermost_of(pid).is_some_and(|it| self.sees_namespace(it));
        self.is_plain_now(pid) || sees_its_namespace()
    }

    /// Tells whether process `pid` is now one of its user's without special rights, outside of user
    /// namespaces.
    fn is_plain_now(&self, pid: i32) -> bool {
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
        memory_level: 0,
        namespace_owner: Sight::NOBODY,
        namespace_id: 0,
        reserved: 0,
    };

    fn viewer(user: u32, group: u32) -> Viewer {
        Viewer {
            user,
            group,
            sees_all: false,
            is_unmasked: false,
            owns_namespaces: true,
            traces_within: None,
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
    fn what_is_in_a_namespace_is_seen_by_its_owner_whatever_rights_it_has_there() {
        let own = viewer(1000, 1000);
        let within = Sight {
            uid: 100_033,
            gid: Sight::NOBODY,
            permitted: u64::MAX,
            namespace_level: 3,
            namespace_owner: 1000,
            namespace_id: 7,
            memory_level: 1,
            is_dumpable: 0,
            reserved: 0,
        };
        assert!(own.may_see(&within));
        let others = [
            // Its memory counts outside.
            Sight {
                memory_level: 0,
                ..within
            },
            // Another user's, though the process has the viewer's ids.
            Sight {
                namespace_level: 1,
                namespace_owner: 1001,
                ..SIGHT
            },
            Sight {
                namespace_level: 1,
                ..SIGHT
            },
            // Not in a namespace: an owner says nothing then.
            Sight {
                namespace_level: 0,
                ..within
            },
        ];
        assert!(others.iter().all(|other| !own.may_see(other)));
        let elsewhere = Viewer {
            owns_namespaces: false,
            ..own
        };
        assert!(!elsewhere.may_see(&within) && elsewhere.may_see(&SIGHT));
        // As it may trace all there; another user has made it.
        let inside = |id| Viewer {
            traces_within: Some(id),
            ..Viewer {
                user: 1001,
                ..elsewhere
            }
        };
        assert!(inside(7).may_see(&within) && !inside(8).may_see(&within));
        assert!(!inside(7).may_see(&others[0]) && !inside(7).may_see(&others[3]));
        let unknown = Sight {
            namespace_id: 0,
            ..within
        };
        assert!(!inside(0).may_see(&unknown));
        assert_eq!(inside(7).guard(), Some(Guard::OwnNamespaces));
        assert_eq!(own.guard(), Some(Guard::OwnNamespaces));
        assert_eq!(elsewhere.guard(), Some(Guard::FirstNamespace));
    }

    #[test]
    fn this_process_is_seen_by_its_user_and_by_no_other() {
        let pid = std::process::id().cast_signed();
        // SAFETY: the call has no preconditions and cannot fail.
        let user = unsafe { libc::geteuid() };
        // SAFETY: as above.
        let group = unsafe { libc::getegid() };
        assert!(!viewer(user + 1, group).may_see_now(pid));
        let noted = Noted {
            might_trace_all: user == 0,
            is_of_first_namespace: true,
            traces_within: None,
        };
        let seen = Viewer::new(pid, (user, group), noted);
        assert!(seen.may_see_now(pid) && !seen.may_see_now(i32::MAX));
        assert_eq!(seen.sees_all(), user == 0);
        // The pid may be another's by now, who may trace all.
        assert!(!Viewer::new(pid, (user, group), Noted::default()).sees_all());
    }
}
