//! Makes the pictures of the documents anew, so that they match the output of the programs.

use crate::tasks::{dist, setup};
use crate::{node, privilege, process, python, workspace};

/// Selection of pictures.
#[derive(clap::Args)]
pub struct Args {
    /// Only these: ldd, true, perfetto, top, spans, report
    #[arg(value_name = "PICTURE")]
    pictures: Vec<String>,
}

/// Sets up, builds, and takes the pictures, as root: the programs in them are traced.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let why = "trace what the pictures show";
    privilege::check(why)?;
    setup::for_pictures()?;
    let python = python::for_pictures()?;
    let dist = dist::run_without_pages()?;
    let mut command = privilege::as_root("env", why)?;
    let variable = |name: &str, value: &std::path::Path| format!("{name}={}", value.display());
    command
        // Cargo sets it, and programs would look for their libraries there.
        .arg("--unset=LD_LIBRARY_PATH")
        .arg(variable("TRACER_USER", &dist.join("bin/tracer-user")))
        .arg(variable("NODE_PATH", &node::modules()))
        .arg(python)
        .arg(workspace::root().join("docs/pictures/make.py"))
        .args(&args.pictures);
    process::run(&mut command)
}
