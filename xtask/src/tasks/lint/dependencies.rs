//! Licences and sources of the dependencies: those that `deny.toml` allows.
//!
//! `cargo deny` reads the same file, and checks more; installing it takes longer than the whole
//! lint.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use spdx::{Expression, ParseMode};

use crate::{process, workspace};

const RULES: &str = "deny.toml";

/// Part of [`RULES`] that is checked here.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
}

#[derive(Deserialize)]
struct Licenses {
    /// Allowed licences, as SPDX identifiers.
    allow: BTreeSet<String>,
    /// Packages that may have other licences.
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    package: String,
    allow: BTreeSet<String>,
}

/// Fails on a dependency under another licence, or from elsewhere than crates.io.
pub fn check() -> anyhow::Result<()> {
    let text = fs::read_to_string(workspace::root().join(RULES)).context(RULES)?;
    let rules: Rules = toml::from_str(&text).context(RULES)?;
    let tree = process::output(workspace::cargo("tree").args([
        "--workspace",
        "--all-features",
        "--target=all",
        "--edges=normal,build,dev",
        "--prefix=none",
        "--format={p}|{l}|",
    ]))?;
    let refused: BTreeSet<String> = tree
        .lines()
        .filter_map(|line| refusal(line, &rules.licenses))
        .collect();
    let refused: Vec<_> = refused.into_iter().collect();
    ensure!(refused.is_empty(), "{}", refused.join("\n"));
    Ok(())
}

/// Returns the reason why the dependency of a line (`name version (source)|licence|`) must not be
/// used.
fn refusal(line: &str, rules: &Licenses) -> Option<String> {
    let (package, rest) = line.split_once('|')?;
    let (license, _) = rest.split_once('|')?;
    // A source is shown of what is not from crates.io; `proc-macro` is none.
    let source = package.replace(" (proc-macro)", "");
    if let Some((_, source)) = source.split_once(" (") {
        let is_ours = source.starts_with(&*workspace::root().to_string_lossy());
        return (!is_ours).then(|| format!("{package}: only crates.io is allowed as a source"));
    }
    let name = package.split(' ').next().unwrap_or_default();
    let of_this = rules.exceptions.iter().filter(|one| one.package == name);
    let exceptions: Vec<_> = of_this.flat_map(|one| &one.allow).collect();
    let is_allowed = Expression::parse_mode(license, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|asked| {
            let asked = asked.license.to_string();
            rules.allow.contains(&asked) || exceptions.contains(&&asked)
        })
    });
    (!is_allowed).then(|| format!("{package}: its licence is {license:?}; {RULES} allows others"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_allowed_licence_of_several_is_enough_and_both_of_two_are_needed() {
        let rules = Licenses {
            allow: BTreeSet::from(["MIT".to_owned(), "Zlib".to_owned()]),
            exceptions: vec![Exception {
                package: "own".to_owned(),
                allow: BTreeSet::from(["CDDL-1.0".to_owned()]),
            }],
        };
        let is_refused = |line| refusal(line, &rules).is_some();

        assert!(!is_refused("a v1.0.0|MIT|"));
        assert!(!is_refused("a v1.0.0 (proc-macro)|GPL-3.0/MIT| (*)"));
        assert!(!is_refused("a v1.0.0|(MIT OR Apache-2.0) AND Zlib|"));
        assert!(!is_refused("own v1.0.0|CDDL-1.0|"));
        assert!(is_refused("a v1.0.0|CDDL-1.0|"));
        assert!(is_refused("own v1.0.0|GPL-3.0|"));
        assert!(is_refused("a v1.0.0|MIT AND GPL-3.0|"));
        assert!(is_refused("a v1.0.0||"));
        assert!(is_refused("a v1.0.0|no licence|"));
        assert!(is_refused("a v1.0.0 (https://example.org/a.git)|MIT|"));
    }
}
