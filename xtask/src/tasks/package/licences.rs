//! Licences of the code that is linked in: they have to be passed on together with a program.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use super::tarball;
use crate::{process, workspace};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Crate {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    /// Source; `None` for a crate of this project.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// Kind; `None` for a dependency that is linked.
    kind: Option<String>,
}

/// Licences of the code that comes with Rust for musl, and is linked in.
const OF_MUSL: &str = include_str!("licences/musl.txt");

/// Lists the foreign crates that these crates of the workspace are linked with, and the texts of
/// their licences.
pub fn list_linked(ours: &[&str]) -> anyhow::Result<String> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    list_linked_for(&platform, ours)
}

/// Lists the crates of a program that is linked with musl, and the licences of these and of musl.
pub fn list_static(ours: &[&str]) -> anyhow::Result<String> {
    let crates = list_linked_for(tarball::TARGET, ours)?;
    let line = "-".repeat(78);
    Ok(format!("{crates}\n{line}\n{OF_MUSL}"))
}

fn list_linked_for(platform: &str, ours: &[&str]) -> anyhow::Result<String> {
    let said = process::output(workspace::cargo("metadata").args([
        "--format-version=1",
        "--filter-platform",
        platform,
    ]))?;
    let metadata: Metadata = serde_json::from_str(&said).context("cargo metadata")?;
    let linked = linked_with(&metadata, ours);
    let mut crates: Vec<&Crate> = metadata
        .packages
        .iter()
        .filter(|one| one.source.is_some() && linked.contains(one.id.as_str()))
        .collect();
    crates.sort_by_key(|one| (&one.name, &one.version));
    let mut text =
        "The following Rust crates are linked in, beside the standard library of Rust (MIT or \
                    Apache-2.0).\n\n"
            .to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in &crates {
        let licence = one.license.as_deref().unwrap_or("see below");
        let called = format!("{} {}", one.name, one.version);
        let _ = writeln!(text, "{called}: {licence}");
        for found in texts_in(one.manifest_path.parent().unwrap_or(Path::new(".")))? {
            texts.entry(found).or_default().push(called.clone());
        }
    }
    for (found, of) in texts {
        let line = "-".repeat(78);
        let _ = write!(
            text,
            "\n{line}\nOf {}:\n\n{}\n",
            of.join(", "),
            found.trim_end()
        );
    }
    Ok(text)
}

/// Returns the identifiers of all crates that are linked in, directly or not.
fn linked_with<'a>(metadata: &'a Metadata, ours: &[&str]) -> BTreeSet<&'a str> {
    let nodes: HashMap<&str, &Node> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node))
        .collect();
    let named = metadata.packages.iter();
    let named = named.filter(|one| one.source.is_none() && ours.contains(&one.name.as_str()));
    let mut waiting: Vec<&str> = named.map(|one| one.id.as_str()).collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !linked.insert(id) {
            continue;
        }
        let deps = nodes.get(id).into_iter().flat_map(|node| &node.deps);
        let deps = deps.filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        waiting.extend(deps.map(|dep| dep.pkg.as_str()));
    }
    linked
}

/// Reads the texts of licences, and notices, that a crate brings.
fn texts_in(folder: &Path) -> anyhow::Result<Vec<String>> {
    const BEGINS: &[&str] = &["licen", "copying", "copyright", "notice", "unlicense"];
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && BEGINS.iter().any(|begin| name.starts_with(begin)) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let texts = paths.iter().map(|path| {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
    });
    texts.collect()
}
