//! Control groups that tests make.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::mount::{Mount, mounted};

/// A control group of version 2, or one that limits memory in either version. Removed when
/// dropped; what runs in it must have ended.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    /// The hierarchy, where it had to be mounted.
    _mount: Option<Mount>,
}

/// Makes a name that no other test has, in any pid namespace: groups are the whole machine's.
fn unique_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    format!("tracer-test-{namespace}-{}-{count}", std::process::id())
}

/// The root of version 2, which is mounted where it is not.
fn hierarchy() -> anyhow::Result<(PathBuf, Option<Mount>)> {
    if let Some(root) = mounted(|kind, _| kind == "cgroup2")? {
        return Ok((root, None));
    }
    let mount = Mount::new("cgroup2", "")?;
    Ok((mount.path().to_owned(), Some(mount)))
}

/// The root of the hierarchy of version 1 with a controller, on a machine where version 2 does not
/// have it.
fn old_hierarchy(controller: &str) -> anyhow::Result<Option<(PathBuf, Option<Mount>)>> {
    let is_old = |kind: &str, options: &str| {
        kind == "cgroup" && options.split(',').any(|option| option == controller)
    };
    if let Some(root) = mounted(is_old)? {
        return Ok(Some((root, None)));
    }
    let (root, _mount) = hierarchy()?;
    let controllers = fs::read_to_string(root.join("cgroup.controllers"))?;
    if controllers.split_whitespace().any(|has| has == controller) {
        return Ok(None);
    }
    let mount = Mount::new("cgroup", controller)
        .with_context(|| format!("no controller for {controller}"))?;
    Ok(Some((mount.path().to_owned(), Some(mount))))
}

impl Cgroup {
    /// A new group of version 2, whose hierarchy is mounted where it is not.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new() -> anyhow::Result<Self> {
        let (root, mount) = hierarchy()?;
        let path = root.join(unique_name());
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self {
            path,
            _mount: mount,
        })
    }

    /// A new group within this one.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn child(&self, name: &str) -> anyhow::Result<Self> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        Ok(Self { path, _mount: None })
    }

    /// A new group whose processes are killed when they take more than `bytes` of memory.
    ///
    /// # Errors
    ///
    /// The machine has no such groups.
    pub fn with_memory(bytes: u64) -> anyhow::Result<Self> {
        let group = Self::with("memory")?;
        let old = group.path.join("memory.limit_in_bytes");
        if old.exists() {
            fs::write(old, bytes.to_string())?;
            return Ok(group);
        }
        fs::write(group.path.join("memory.max"), bytes.to_string())?;
        // Else it would swap instead, where there is any.
        let _ = fs::write(group.path.join("memory.swap.max"), "0");
        Ok(group)
    }

    /// A new group of either version for which a controller can be set.
    ///
    /// # Errors
    ///
    /// The machine has no such groups.
    pub fn with(controller: &str) -> anyhow::Result<Self> {
        let (root, mount) = match old_hierarchy(controller)? {
            Some(found) => found,
            None => {
                let (root, mount) = hierarchy()?;
                fs::write(
                    root.join("cgroup.subtree_control"),
                    format!("+{controller}"),
                )
                .with_context(|| format!("no controller for {controller}"))?;
                (root, mount)
            }
        };
        let path = root.join(unique_name());
        fs::create_dir(&path)?;
        Ok(Self {
            path,
            _mount: mount,
        })
    }

    /// Returns how often its threads were throttled, and for how many nanoseconds in all.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub fn throttled(&self) -> anyhow::Result<(u64, u64)> {
        let text = fs::read_to_string(self.path.join("cpu.stat"))?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
        };
        let times = value("nr_throttled ").context("no nr_throttled")?;
        let ns = value("throttled_time ").or_else(|| Some(value("throttled_usec ")? * 1000));
        Ok((times, ns.context("no time")?))
    }

    /// Returns its folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns how often a process in it was killed for lack of memory.
    ///
    /// # Errors
    ///
    /// The kernel does not say.
    pub fn kills(&self) -> anyhow::Result<u64> {
        let old = fs::read_to_string(self.path.join("memory.oom_control"));
        let text = old.or_else(|_| fs::read_to_string(self.path.join("memory.events")))?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(line.context("no oom_kill")?.trim().parse()?)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel lets go of what has ended a little later.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
