//! Control groups of version 2: by path, or by the name of the unit or container in them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its folder.
    pub path: PathBuf,
    /// Its id, as the kernel's programs see it.
    pub id: u64,
}

impl ControlGroup {
    /// Finds the group that `typed` names: its folder; its path within the hierarchy; or the name
    /// of a systemd unit, with or without its ending, or (the first 12 digits or more of) the
    /// identifier of a container.
    ///
    /// # Errors
    ///
    /// There is none, or more than one.
    pub fn find(typed: &str) -> anyhow::Result<Self> {
        let root = root()?.context(
            "no control groups of version 2 are mounted here \
             (mount -t cgroup2 none /sys/fs/cgroup)",
        )?;
        Self::look_for(typed)?.with_context(|| {
            format!(
                "no control group, systemd unit or container is called {typed:?} below {}",
                root.display()
            )
        })
    }

    /// Finds a group as [`find`](Self::find) does; `None` where there is none.
    ///
    /// # Errors
    ///
    /// There is more than one.
    pub fn look_for(typed: &str) -> anyhow::Result<Option<Self>> {
        let Some(root) = root()? else {
            return Ok(None);
        };
        let typed_path = Path::new(typed);
        let below_root = root.join(typed.trim_start_matches('/'));
        let is_group = |path: &Path| path.starts_with(&root) && path.is_dir();
        let is_path = typed.contains('/');
        if is_path && is_group(typed_path) {
            return Self::at(typed_path.to_owned()).map(Some);
        }
        if !typed.is_empty() && !typed.contains("..") && is_group(&below_root) {
            return Self::at(below_root).map(Some);
        }
        let mut found = Vec::new();
        if !is_path {
            search(&root, &|name| is_called(name, typed), &mut found);
        }
        match &found[..] {
            [only] => Self::at(only.clone()).map(Some),
            [] => Ok(None),
            several => {
                let paths: Vec<_> = several
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                bail!(
                    "{typed:?} may be any of {}; give the path",
                    paths.join(", ")
                )
            }
        }
    }

    /// Returns the groups of this machine: the names that [`find`](Self::find) takes, and their
    /// folders. Those of units are named as the unit, others by their path.
    #[must_use]
    pub fn names() -> Vec<(String, String)> {
        let Ok(Some(root)) = root() else {
            return Vec::new();
        };
        let mut groups = Vec::new();
        search(&root, &|_| true, &mut groups);
        let named = groups.iter().filter_map(|group| {
            let name = group.file_name()?.to_str()?;
            let path = group.strip_prefix(&root).ok()?.to_str()?;
            let is_unit = [".service", ".scope", ".slice"]
                .iter()
                .any(|kind| name.ends_with(kind));
            let name = if is_unit { name } else { path };
            Some((name.to_owned(), path.to_owned()))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        named
    }

    fn at(path: PathBuf) -> anyhow::Result<Self> {
        let metadata = fs::metadata(&path);
        let metadata = metadata.with_context(|| format!("cannot read {}", path.display()))?;
        let is_group = path.join("cgroup.procs").exists();
        ensure!(is_group, "{} is no control group", path.display());
        Ok(Self {
            path,
            id: metadata.ino(),
        })
    }

    /// Returns the processes that are in it now, or in a group within it.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let mut groups = vec![self.path.clone()];
        search(&self.path, &|_| true, &mut groups);
        let mut pids = Vec::new();
        for group in groups {
            match fs::read_to_string(group.join("cgroup.procs")) {
                Ok(text) => {
                    let pids_here = text.lines().filter_map(|pid| pid.parse::<i32>().ok());
                    // One that is not of our pid namespace is shown as 0.
                    pids.extend(pids_here.filter(|pid| *pid != 0));
                }
                // It has ended meanwhile, or it is one of threads and its processes are listed
                // above.
                Err(error) => tracing::debug!(group = %group.display(), %error, "not listed"),
            }
        }
        pids
    }
}

/// Returns the folder where the hierarchy is mounted here, if it is.
fn root() -> anyhow::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string("/proc/mounts").context("cannot read /proc/mounts")?;
    Ok(root_in(&mounts))
}

/// Returns the folder where the hierarchy is mounted.
fn root_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, path, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })
}

/// Adds the folders below `folder` whose names fulfil `is_wanted`.
fn search(folder: &Path, is_wanted: &impl Fn(&str) -> bool, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for entry in entries.filter_map(io::Result::ok).filter(is_folder) {
        if is_wanted(&entry.file_name().to_string_lossy()) {
            found.push(entry.path());
        }
        search(&entry.path(), is_wanted, found);
    }
}

/// Tells whether `typed` means a group of this name.
fn is_called(name: &str, typed: &str) -> bool {
    /// Least digits of a container's identifier: as few as its own tools show.
    const DIGITS: usize = 12;
    let stem = name
        .strip_suffix(".service")
        .or_else(|| name.strip_suffix(".scope"));
    let stem = stem.unwrap_or(name);
    if name == typed || stem == typed {
        return true;
    }
    // "docker-<id>.scope", "cri-containerd-<id>.scope", "libpod-<id>.scope", or "<id>".
    let id = stem.rsplit('-').next().unwrap_or(stem);
    let is_id = |id: &str| id.len() >= DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id(typed) && is_id(id) && id.starts_with(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_where_it_is_mounted() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            root_in(mounts),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(root_in("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn units_and_containers_are_called_by_their_names() {
        let id = "3f4b7c2a9d1e".to_owned() + &"0".repeat(52);
        assert!(is_called("ssh.service", "ssh"));
        assert!(is_called("ssh.service", "ssh.service"));
        assert!(!is_called("ssh.service", "ss"));
        for name in [
            format!("docker-{id}.scope"),
            format!("cri-containerd-{id}.scope"),
            id.clone(),
        ] {
            assert!(is_called(&name, "3f4b7c2a9d1e"), "{name}");
            assert!(is_called(&name, &id), "{name}");
            assert!(!is_called(&name, "3f4b7c2a9d1f"), "{name}");
            assert!(!is_called(&name, "3f4b"), "too short to be sure");
        }
    }
}
