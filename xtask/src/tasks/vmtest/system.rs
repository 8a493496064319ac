//! Whole system in a virtual machine: with its own first program, as it would boot anywhere.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::console::Console;
use super::initramfs;
use super::kernels::KERNELS;
use super::machine::{self, Kind, Machine, Processors};
use crate::{packages, workspace};

/// Boots the system whose files are below `root` on this machine, with the kernel of today's
/// systems. Its changes are in its memory alone. Its console is in `target/vm/NAME.log`.
///
/// It has to print `vmtest: done` and end by itself, and its kernel must not have a fault.
pub fn boot(name: &str, root: &Path, first: &str, limit: Duration) -> anyhow::Result<()> {
    packages::install_missing(packages::FOR_VIRTUAL_MACHINES)?;
    fs::create_dir_all(workspace::target("vm"))?;
    let newest = KERNELS.iter().find(|(kernel, _)| *kernel == NEWEST);
    let (_, kernel) = newest.context("no such kernel")?;
    let image = kernel.fetch()?;
    let processors = Processors::detect();
    println!("Booting {}, {}", image.package, processors.for_people());
    let path = workspace::target("vm").join(format!("{name}.initramfs.cpio"));
    let bytes = initramfs::make_for_system(&image, first)?;
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    let log = workspace::target("vm").join(format!("{name}.log"));
    fs::write(&log, "").with_context(|| log.display().to_string())?;
    let machine = Machine {
        kind: Kind::X86_64,
        files: root,
        kernel: &image.path,
        initramfs: &path,
        processors,
        is_threaded: true,
    };
    let console: Console = machine::run(&machine, &log, limit, |_| Ok(()))?;
    match console.fault() {
        None => Ok(()),
        Some(fault) => bail!("{fault}"),
    }
}

/// Kernel that systems of today have.
const NEWEST: &str = "6.12";
