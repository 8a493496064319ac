//! Frames of Python: those that `says.py` says it has, and those that a trace has recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

/// Returns the path of a script of Python.
#[must_use]
pub fn source(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/python");
    programs.join(name)
}

/// Returns what the programs said in this file, by the number of the call.
///
/// # Errors
///
/// The file cannot be read, or has a line without a number.
pub fn said(truth: &Path) -> anyhow::Result<BTreeMap<i64, Vec<String>>> {
    let text = fs::read_to_string(truth)?;
    let lines = text.lines().map(|line| {
        let (number, frames) = line.split_once('\t').context("no number")?;
        let frames = frames.split('\t').map(str::to_owned);
        Ok((number.parse()?, frames.collect()))
    });
    lines.collect()
}

/// Returns the Python frames of the stacks, by the number of the call, and why each ends.
#[must_use]
pub fn recorded(lines: &str) -> BTreeMap<i64, (Vec<String>, String)> {
    let calls = lines.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "linux_trace_syscall_enter").then_some(event)
    });
    let stacks = calls.map(|call| {
        let frames = call["stack"].as_array().cloned().unwrap_or_default();
        let of_python = frames.iter().filter(|frame| frame["module"] == "[python]");
        let frames = of_python.map(|frame| {
            let word = |name: &str| frame[name].as_str().unwrap_or("?").to_owned();
            format!("{} ({}:{})", word("symbol"), word("file"), frame["line"])
        });
        let ends = call["stack_ends"].as_str().unwrap_or_default();
        let number = call["data"]["args"][1].as_i64().unwrap_or(0);
        (number, (frames.collect(), ends.to_owned()))
    });
    stacks.collect()
}
