//! `tracer-user ship`: runs the shipper, a program of its own: nothing of a network is linked into
//! this one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

pub use super::ship_options::ShipArgs;
use super::time;
use tracer_text::quantity::size;

/// Name of the program.
const PROGRAM: &str = "tracer-ship";

/// Checks the options, and becomes the shipper.
///
/// # Errors
///
/// An option makes no sense, or the shipper is not installed.
pub fn run(args: &ShipArgs) -> anyhow::Result<ExitCode> {
    time("--retry-most", &args.retry_most)?;
    time("--timeout", &args.timeout)?;
    size("--queue-bytes", &args.queue_bytes, 1, u64::MAX)?;
    let typed: Vec<OsString> = std::env::args_os()
        .skip_while(|word| word != "ship")
        .skip(1)
        // Of this program: it is not said what the shipper does.
        .filter(|word| word != "-v" && word != "--verbose")
        .collect();
    let places = places();
    for place in &places {
        let error = Command::new(place).args(&typed).exec();
        if error.kind() != io::ErrorKind::NotFound {
            anyhow::bail!("cannot run {}: {error}", place.display());
        }
    }
    let places: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    anyhow::bail!(
        "there is no {PROGRAM}, which ships: it is a program of its own, and neither {} is there; \
         install it beside tracer-user, in the repository: `cargo install --path tracer-user/ship`",
        places.join(" nor ")
    )
}

/// Returns where the shipper may be: beside this program, and where packages have it.
fn places() -> Vec<PathBuf> {
    let this = std::env::current_exe().unwrap_or_default();
    let folder = this.parent().unwrap_or(&this);
    let beside = folder.join(PROGRAM);
    let of_packages = folder.join("../libexec/tracer-user").join(PROGRAM);
    vec![beside, of_packages]
}
