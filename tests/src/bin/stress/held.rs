//! Resources that a process holds, which must not grow from round to round.

use std::fs;

use anyhow::Context as _;

/// Resources of a process that could grow.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    shared_kib: u64,
    own_kib: u64,
    descriptors: usize,
    mappings: usize,
}

impl Held {
    pub fn now() -> anyhow::Result<Self> {
        // Free memory that the C library keeps between what is in use says nothing of a round.
        // SAFETY: takes an integer only.
        unsafe { libc::malloc_trim(0) };
        let status = fs::read_to_string("/proc/self/status")?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
            kib.with_context(|| format!("no {name} in /proc/self/status"))
        };
        Ok(Self {
            shared_kib: kib("RssShmem:")?,
            own_kib: kib("RssAnon:")?,
            descriptors: fs::read_dir("/proc/self/fd")?.count(),
            mappings: fs::read_to_string("/proc/self/maps")?.lines().count(),
        })
    }

    /// Tells whether no round has left anything behind since `before`.
    pub fn has_not_grown_since(self, before: Self) -> bool {
        self.shared_kib < before.shared_kib + 4096
            && self.own_kib < before.own_kib + (8 << 10)
            && self.descriptors <= before.descriptors + 2
            && self.mappings < before.mappings + 200
    }
}
