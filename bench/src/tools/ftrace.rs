//! ftrace by tracefs: an instance of its own, of one process and its children.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Attached, Seen, Tool, What, joined};
use xtask::tracefs::TRACEFS;

/// ftrace, into its ring in memory.
#[derive(Clone, Copy)]
pub struct Ftrace(pub What);

impl Tool for Ftrace {
    fn name(&self) -> String {
        "ftrace".to_owned()
    }

    fn program(&self) -> &'static str {
        "sh"
    }

    fn attach(&self, pids: &[u32]) -> anyhow::Result<Box<dyn Attached>> {
        let instance = Instance::new()?;
        let set = |file: &str, value: &str| {
            let path = instance.folder.join(file);
            fs::write(&path, value).with_context(|| format!("{value:?} to {}", path.display()))
        };
        set("buffer_size_kb", "16384")?;
        set("set_event_pid", &joined(pids, " "))?;
        set("options/event-fork", "1")?;
        for name in self.0.tracepoints() {
            set(&format!("events/{}/{name}/enable", self.0.group()), "1")?;
        }
        Ok(Box::new(instance))
    }
}

/// Instance folder of tracefs, whose creation makes the kernel record a trace. Removed when
/// dropped.
struct Instance {
    folder: PathBuf,
}

impl Instance {
    fn new() -> anyhow::Result<Self> {
        let folder = Path::new(TRACEFS).join("instances/posix-trace-bench");
        let _left_by_one_that_was_killed = fs::remove_dir(&folder);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Attached for Instance {
    fn finish(self: Box<Self>) -> anyhow::Result<Seen> {
        fs::write(self.folder.join("tracing_on"), "0")?;
        let mut seen = Seen::default();
        for cpu in fs::read_dir(self.folder.join("per_cpu"))? {
            let stats = fs::read_to_string(cpu?.path().join("stats"))?;
            let count = |name: &str| {
                let value = stats
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                value
                    .and_then(|value| value.parse::<f64>().ok())
                    .unwrap_or(0.0)
            };
            // What was overwritten was recorded too; it is lost all the same.
            seen.events += count("entries") + count("overrun");
            seen.lost += count("overrun") + count("dropped events");
            seen.bytes += count("bytes");
        }
        Ok(seen)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("events/enable"), "0");
        let _ = fs::remove_dir(&self.folder);
    }
}
