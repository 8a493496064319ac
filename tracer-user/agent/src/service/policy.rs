//! The users that the service serves, as its administrator has written it.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Most bytes of the file.
const MOST_BYTES: u64 = 64 << 10;

/// Most bytes of a group with all its members.
const MOST_GROUP_BYTES: usize = 1 << 20;

/// The group that the kernel shows for one that has no number here.
const OVERFLOW_GROUP: u32 = 65_534;

/// The users that the service serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether it serves at all.
    pub(super) allow: Allow,
    /// The group whose members see every process.
    pub(super) group: Option<u32>,
}

/// Users that are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Allow {
    /// Every user, within the rights to trace processes.
    #[default]
    Own,
    /// None.
    Off,
}

/// Why the policy is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than root may write the file.
    #[error(
        "{0} is not root's alone to write, so that it is not believed; run: chown root: {0}; \
         chmod go-w {0}",
        path.display()
    )]
    NotRoots {
        /// The file.
        path: PathBuf,
    },
    /// The file says something that is not known.
    #[error("{} is no policy", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where, and what is known.
        source: toml::de::Error,
    },
    /// The group is not known.
    #[error("{} names the group {group}, which is not known on this system", path.display())]
    NoGroup {
        /// The file.
        path: PathBuf,
        /// Its name.
        group: String,
    },
}

/// The file, of which other parts may be for other programs one day.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    serve: Section,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    allow: Allow,
    group: Option<String>,
}

impl Policy {
    /// Reads it from a file. Where there is none, each user is served within its rights.
    ///
    /// # Errors
    ///
    /// See [`PolicyError`].
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let unreadable = |source| PolicyError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            opened => opened.map_err(unreadable)?,
        };
        let found = file.metadata().map_err(unreadable)?;
        // SAFETY: the call has no preconditions and cannot fail.
        let own = unsafe { libc::geteuid() };
        if ![0, own].contains(&found.uid()) || found.mode() & 0o022 != 0 {
            let path = path.to_owned();
            return Err(PolicyError::NotRoots { path });
        }
        let mut text = String::new();
        let mut file = file.take(MOST_BYTES + 1);
        file.read_to_string(&mut text).map_err(unreadable)?;
        // What is beyond the end may be what matters.
        if text.len() as u64 > MOST_BYTES {
            return Err(unreadable(ErrorKind::FileTooLarge.into()));
        }
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, PolicyError> {
        let written: Written = toml::from_str(text).map_err(|source| PolicyError::Malformed {
            path: path.to_owned(),
            source,
        })?;
        let Section { allow, group } = written.serve;
        let number = |group: String| {
            let number = number_of(&group).filter(|number| *number != OVERFLOW_GROUP);
            number.ok_or_else(|| PolicyError::NoGroup {
                path: path.to_owned(),
                group,
            })
        };
        Ok(Self {
            allow,
            group: group.map(number).transpose()?,
        })
    }
}

/// Returns the number of a group, by its name or as it is written.
fn number_of(group: &str) -> Option<u32> {
    if let Ok(number) = group.parse() {
        return Some(number);
    }
    number_of_name(&CString::new(group).ok()?)
}

fn number_of_name(name: &CStr) -> Option<u32> {
    let mut bytes = vec![0_u8; 1024];
    loop {
        // SAFETY: all-zero bytes are valid.
        let mut group: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: the name ends with a null, and the rest is valid for writes of the given length.
        let failed = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                &raw mut group,
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                &raw mut found,
            )
        };
        if failed == libc::ERANGE && bytes.len() < MOST_GROUP_BYTES {
            bytes.resize(2 * bytes.len(), 0);
            continue;
        }
        return (failed == 0 && !found.is_null()).then_some(group.gr_gid);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn parsed(text: &str) -> Result<Policy, PolicyError> {
        Policy::parse(text, Path::new("/etc/tracer-user.toml"))
    }

    #[test]
    fn what_is_not_written_is_as_usual() {
        let missing = Policy::read(Path::new("/no/such/file")).unwrap();
        for usual in [missing, parsed("").unwrap(), parsed("[serve]\n").unwrap()] {
            assert_eq!(usual, Policy::default());
        }
        let own = parsed("[serve]\nallow = \"own\"\ngroup = \"root\"\n").unwrap();
        assert_eq!((own.allow, own.group), (Allow::Own, Some(0)));
        let number = parsed("[serve]\nallow = \"off\"\ngroup = \"4711\"\n").unwrap();
        assert_eq!((number.allow, number.group), (Allow::Off, Some(4711)));
    }

    #[test]
    fn what_is_not_understood_is_refused_and_not_ignored() {
        for wrong in [
            "[serve]\nalow = \"off\"\n",
            "[serve]\nallow = \"none\"\n",
            "[server]\n",
            "serve = 1\n",
            "[serve\n",
            "[serve]\ngroup = 7\n",
        ] {
            let refused = parsed(wrong);
            assert!(
                matches!(refused, Err(PolicyError::Malformed { .. })),
                "{wrong}"
            );
        }
        for group in ["no such group", "a\\u0000b", "65534"] {
            let refused = parsed(&format!("[serve]\ngroup = \"{group}\"\n"));
            assert!(
                matches!(refused, Err(PolicyError::NoGroup { .. })),
                "{group}"
            );
        }
    }

    #[test]
    fn a_file_that_others_may_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        fs::write(&path, "[serve]\nallow = \"off\"\n").unwrap();
        for (mode, is_believed) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match Policy::read(&path) {
                Ok(policy) => assert!(is_believed && policy.allow == Allow::Off, "{mode:o}"),
                Err(PolicyError::NotRoots { .. }) => assert!(!is_believed, "{mode:o}"),
                Err(error) => panic!("{error}"),
            }
        }
        let too_large = folder.path().join("large.toml");
        fs::write(&too_large, "# \n".repeat(30_000)).unwrap();
        for unreadable in [folder.path(), &too_large] {
            let refused = Policy::read(unreadable);
            assert!(matches!(refused, Err(PolicyError::Unreadable { .. })));
        }
    }
}
