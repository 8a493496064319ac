//! Packages of systems with rpm.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::system::{self, System};
use super::{PACKAGES, Package, Release, documents};
use crate::tasks::dist::Part;
use crate::{process, workspace};

/// Makes all packages. Returns their paths.
pub fn make(release: &Release, into: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (dist, work) = (workspace::target("dist"), workspace::target("package/rpm"));
    let _ = fs::remove_dir_all(&work);
    let mut spec = preamble(release);
    for package in PACKAGES {
        let root = work.join("staged").join(package.rpm);
        let documents = documents::collect_for_rpm(package)?;
        let paths = system::lay_out(System::Rpm, package.part, &dist, &documents, &root)?;
        spec.push_str(&part(package, &paths));
    }
    let _ = write!(
        spec,
        "%install\ncp -a {}/*/. %{{buildroot}}/\n\n\
         %changelog\n* {} {} - {}\n- Version {}; CHANGELOG.md says what is new.\n",
        work.join("staged").display(),
        release.date_text[1],
        release.maintainer,
        release.full_version(),
        release.version
    );
    let file = work.join("tracer-user.spec");
    fs::write(&file, spec).with_context(|| file.display().to_string())?;
    process::output(
        Command::new("rpmbuild")
            .args(["-bb", "--quiet", "--define"])
            .arg(format!("_topdir {}", work.join("build").display()))
            .args(["--define", "_build_id_links none"])
            .args(["--define", "use_source_date_epoch_as_buildtime 1"])
            .args(["--define", "clamp_mtime_to_source_date_epoch 1"])
            .args(["--define", "_buildhost localhost"])
            .args(["--define", "_binary_payload w19.zstdio"])
            .arg(&file)
            .env("SOURCE_DATE_EPOCH", release.date.to_string()),
    )?;
    let mut made = Vec::new();
    let built = work.join("build/RPMS").join(std::env::consts::ARCH);
    for entry in fs::read_dir(&built).with_context(|| built.display().to_string())? {
        let entry = entry?;
        let to = into.join(entry.file_name());
        fs::rename(entry.path(), &to)?;
        made.push(to);
    }
    made.sort();
    Ok(made)
}

/// Formats the part that the packages have in common. They are laid out already, and stripped: rpm
/// does not change their files any more. The library for robots is preloaded, and provides no
/// package with the one that is called so.
fn preamble(release: &Release) -> String {
    format!(
        "%global debug_package %{{nil}}\n\
         %global __provides_exclude_from /posixtrace/libtracetools[.]so$\n\
         %global __os_install_post %{{nil}}\n\
         Name: tracer-user\nVersion: {}\nRelease: {}\nLicense: MIT OR Apache-2.0\n\
         Packager: {}\n",
        release.version, release.revision, release.maintainer
    )
}

/// Formats the part of one package.
fn part(package: &Package, paths: &[PathBuf]) -> String {
    // The first one is the main package, and the spec's own.
    let option = match package.part {
        Part::Tool => String::new(),
        Part::Library | Part::Robots | Part::Development | Part::Shipper => {
            format!(" -n {}", package.rpm)
        }
    };
    let mut out = String::new();
    if !option.is_empty() {
        let _ = writeln!(out, "%package{option}");
    }
    let mut summary = package.summary.to_owned();
    if let Some(first) = summary.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let _ = writeln!(out, "Summary: {summary}\nGroup: {}", group(package.part));
    if matches!(package.part, Part::Robots | Part::Development) {
        let _ = writeln!(out, "Requires: libposixtrace0 = %{{version}}-%{{release}}");
    }
    if package.part == Part::Shipper {
        let _ = writeln!(out, "Requires: tracer-user = %{{version}}-%{{release}}");
    }
    if package.part == Part::Development {
        let _ = writeln!(out, "Requires: glibc-devel");
    }
    let _ = writeln!(
        out,
        "\n%description{option}\n{}\n",
        package.description.join("\n")
    );
    out.push_str(&match package.part {
        Part::Tool => scriptlets(),
        Part::Shipper => of_shipper(&option),
        Part::Library => {
            format!("%post{option} -p /sbin/ldconfig\n%postun{option} -p /sbin/ldconfig\n\n")
        }
        Part::Robots | Part::Development => String::new(),
    });
    let _ = writeln!(out, "%files{option}\n%defattr(-,root,root,-)");
    for path in paths {
        let text = path.display().to_string();
        let kind = if text.starts_with("usr/share/licenses/") {
            "%license "
        } else if text.starts_with("usr/share/doc/") {
            "%doc "
        } else {
            ""
        };
        let _ = writeln!(out, "{kind}/{text}");
    }
    for folder in own_folders(package, paths) {
        let _ = writeln!(out, "%dir /{folder}");
    }
    out.push('\n');
    out
}

/// Returns the folders that no other package has, or not in every system.
fn own_folders(package: &Package, paths: &[PathBuf]) -> Vec<String> {
    let ours = [
        format!("usr/share/doc/{}", package.rpm),
        format!("usr/share/licenses/{}", package.rpm),
        "usr/share/posixtrace".to_owned(),
        format!("usr/{}/posixtrace", System::Rpm.libraries()),
        "usr/libexec/tracer-user".to_owned(),
        "usr/share/tracer-user".to_owned(),
        "usr/share/tracer-user/ship".to_owned(),
        "usr/share/tracer-user/skills".to_owned(),
        "usr/share/tracer-user/skills/tracer-user".to_owned(),
    ];
    // Each shell has its own, which may not be installed.
    let of_shells = [
        "usr/share/bash-completion",
        "usr/share/bash-completion/completions",
        "usr/share/fish",
        "usr/share/fish/vendor_completions.d",
        "usr/share/zsh",
        "usr/share/zsh/site-functions",
    ];
    let is_used = |folder: &String| paths.iter().any(|path| path.starts_with(folder));
    let all = ours.into_iter().chain(of_shells.map(str::to_owned));
    all.filter(is_used).collect()
}

fn group(part: Part) -> &'static str {
    match part {
        Part::Tool | Part::Shipper => "Development/Tools",
        Part::Library | Part::Robots => "System/Libraries",
        Part::Development => "Development/Libraries",
    }
}

/// Formats scripts of the shipper's package: its user and its folder are made, and stay.
fn of_shipper(option: &str) -> String {
    let reload = "if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi";
    format!(
        "%post{option}\n\
         if command -v systemd-sysusers >/dev/null; then\n\
         systemd-sysusers tracer-user-ship.conf || :\n\
         systemd-tmpfiles --create tracer-user-ship.conf || :\nfi\n{reload}\n\n\
         %preun{option}\nif [ $1 -eq 0 ] && [ -d /run/systemd/system ]; then\n\
         systemctl --no-reload disable --now tracer-user-ship.service || :\nfi\n\n\
         %postun{option}\n{reload}\n\
         if [ $1 -ge 1 ] && [ -d /run/systemd/system ]; then\n\
         systemctl try-restart tracer-user-ship.service || :\nfi\n\n"
    )
}

/// Formats scripts that do the same as those of Debian's package; recorded logs stay, since rpm has
/// no purge.
fn scriptlets() -> String {
    let with_systemd = |what: &str| format!("if [ -d /run/systemd/system ]; then {what} || :; fi");
    // That works in a system that does not run, too.
    let by_links = |what: &str| format!("if command -v systemctl >/dev/null; then {what} || :; fi");
    format!(
        "%post\n{reload}\nif [ $1 -eq 1 ]; then\n{enable}\n{start}\nfi\n\n\
         %preun\nif [ $1 -eq 0 ]; then\n{disable}\n{stop}\nfi\n\n\
         %postun\n{reload}\nif [ $1 -ge 1 ]; then {restart}; else rmdir /run/tracer-user 2>/dev/null || :; fi\n\n",
        reload = with_systemd("systemctl daemon-reload"),
        enable = by_links("systemctl --quiet enable tracer-user.socket"),
        disable = by_links("systemctl --quiet --no-reload disable tracer-user.socket"),
        start = with_systemd("systemctl start tracer-user.socket"),
        stop = with_systemd(
            "systemctl stop 'tracer-user@*.service' tracer-user.socket tracer-user.service"
        ),
        restart = with_systemd("systemctl try-restart 'tracer-user@*.service' tracer-user.service"),
    )
}
