//! Documents in packages: licences, changes, pages to read.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

use super::system::System;
use super::{Package, Release, licences};
use crate::tasks::dist::Part;
use crate::workspace;

/// File that is made for a package.
pub struct Document {
    /// Path from the root.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// Whether it is compressed after it is written.
    pub is_compressed: bool,
}

/// Pages for users of the tool.
const PAGES: &[&str] = &["README.md", "docs/tutorial.md", "docs/packages.md"];

/// Returns the documents of a package of Debian.
pub fn collect_for_debian(package: &Package, release: &Release) -> anyhow::Result<Vec<Document>> {
    let mut documents = vec![
        document(package.deb, "copyright", copyright(package)?, false),
        document(package.deb, "changelog", read("CHANGELOG.md")?, true),
        document(package.deb, "changelog.Debian", changelog(release), true),
    ];
    documents.extend(in_common(package, package.deb, System::Debian)?);
    Ok(documents)
}

/// Returns the documents of a package of rpm.
pub fn collect_for_rpm(package: &Package) -> anyhow::Result<Vec<Document>> {
    let mut documents = vec![document(
        package.rpm,
        "CHANGELOG.md",
        read("CHANGELOG.md")?,
        false,
    )];
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        documents.push(Document {
            path: format!("usr/share/licenses/{}/{licence}", package.rpm).into(),
            text: read(licence)?,
            is_compressed: false,
        });
    }
    documents.extend(in_common(package, package.rpm, System::Rpm)?);
    Ok(documents)
}

/// Returns the documents of the archive for any Linux.
pub fn collect_for_archive() -> anyhow::Result<Vec<Document>> {
    let at = |file: &str, text: String| Document {
        path: format!("share/doc/tracer-user/{file}").into(),
        text,
        is_compressed: false,
    };
    let mut documents = vec![at("THIRD-PARTY", licences::list_static(&["tracer-user"])?)];
    let licences = ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"];
    for page in licences.iter().chain(PAGES) {
        documents.push(at(file_name(page), read(page)?));
    }
    Ok(documents)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn in_common(package: &Package, name: &str, system: System) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    if package.part == Part::Tool {
        for page in PAGES {
            documents.push(document(name, file_name(page), read(page)?, false));
        }
    }
    let linked = match package.part {
        Part::Tool => licences::list_linked(&["tracer-user"])?,
        Part::Shipper => licences::list_linked(&["tracer-ship"])?,
        Part::Robots => licences::list_linked(&["tracetools-posix"])?,
        Part::Library | Part::Development => {
            licences::list_linked(&["libposixtrace", "tracer-recorder"])?
        }
    };
    let path = match system {
        System::Debian => format!("usr/share/doc/{name}/THIRD-PARTY"),
        System::Rpm | System::Any => format!("usr/share/licenses/{name}/LICENSE-THIRD-PARTY"),
    };
    documents.push(Document {
        path: path.into(),
        text: linked,
        is_compressed: system == System::Debian,
    });
    Ok(documents)
}

fn document(package: &str, file: &str, text: String, is_compressed: bool) -> Document {
    Document {
        path: format!("usr/share/doc/{package}/{file}").into(),
        text,
        is_compressed,
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(workspace::root().join(path)).with_context(|| path.to_owned())
}

/// Formats the copyright in Debian's machine-readable form.
fn copyright(package: &Package) -> anyhow::Result<String> {
    let mit = read("LICENSE-MIT")?;
    let holder = mit
        .lines()
        .find_map(|line| line.strip_prefix("Copyright (c) "));
    let holder = holder.context("LICENSE-MIT names no holder of the copyright")?;
    let text: String = mit
        .lines()
        .map(|line| match line {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        })
        .collect();
    let name = package.deb;
    let recorder = match package.part {
        Part::Tool | Part::Robots | Part::Shipper => "",
        Part::Library | Part::Development => {
            " The library carries a small program that is linked with the C library\n \
             (GNU C Library, LGPL-2.1+; its source package is named by Built-Using).\n"
        }
    };
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: tracer-user\n\
         Comment:\n \
         The Rust crates that are linked in are listed, with their licences, in\n \
         /usr/share/doc/{name}/THIRD-PARTY.gz.\n{recorder}\n\
         Files: *\n\
         Copyright: {holder}\n\
         License: Expat or Apache-2.0\n\n\
         License: Expat\n{text}\n\
         License: Apache-2.0\n \
         The text is in /usr/share/common-licenses/Apache-2.0.\n"
    ))
}

fn changelog(release: &Release) -> String {
    format!(
        "tracer-user ({}) unstable; urgency=medium\n\n  \
         * Version {}; changelog.gz says what is new.\n\n \
         -- {}  {}\n",
        release.full_version(),
        release.version,
        release.maintainer,
        release.date_text[0]
    )
}
