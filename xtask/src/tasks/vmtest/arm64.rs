//! Virtual machines for arm64: Debian's kernels and files for it, on emulated processors.
//!
//! Such a guest takes a minute or more to boot, and its tests ten times as long as here: it runs
//! those that depend on the machine (registers, counters, order, the way into the kernel), and that
//! end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::initramfs::Guest;
use super::kernels::{Image, MODULES};
use super::machine::{Kind, Processors};
use super::run::{self as boots, Order};
use super::selection::{self, Case};
use super::{Args, say};
use crate::tasks::test::binaries;
use crate::tasks::{arm64, build_ebpf};
use crate::{packages, process, workspace};

/// Kernels, under the names of their results, with the prefixes of their packages' names.
pub const KERNELS: [(&str, &str); 2] = [
    ("6.1-arm64", "linux-image-6.1."),
    ("6.12-arm64", "linux-image-6.12."),
];

/// Crates whose tests run there.
const CRATES: [&str; 2] = ["--package=tests", "--package=tracer-kernel"];

/// Files of tests of these crates that run there, beside their unit tests.
const FILES: [&str; 19] = [
    "order",
    "forks",
    "user_events",
    "switches",
    "wakers",
    "syscalls",
    "syscall_classes",
    "signals",
    "strings",
    "stacks",
    "predicates",
    "probes",
    "tracepoints",
    "faults",
    "names",
    "doctor",
    "kernel_source",
    "kernel_choices",
    "works_for",
];

/// Executables that have these files.
const EXECUTABLES: [&str; 4] = ["kernel", "probes", "tools", "views"];

/// Executables of the crates' unit tests, by the name that cargo gives them.
const UNITS: [&str; 2] = ["tests", "tracer_kernel"];

/// Tests of these files that cannot run there, in addition to those that no guest can run.
const LEFT_OUT: &[(&str, &str)] = &[
    (
        "every_first_touch_is_a_fault_and_the_kernel_counted_as_many",
        NO_FAULTS,
    ),
    (
        "perf_counts_as_many_faults_switches_and_moves_of_the_same_run",
        NO_FAULTS,
    ),
    (
        "requests_are_summed_up_by_the_routes_that_the_program_says",
        "there is no compiler",
    ),
    (
        "each_request_of_a_web_server_under_ddtrace_has_the_ids_that_it_exports",
        "there is no ddtrace",
    ),
    (
        "a_switch_that_the_kernel_does_not_report_takes_no_context_away",
        "some million switches take too long",
    ),
];

const NO_FAULTS: &str = "the kernel has tracepoints of page faults on x86-64 alone";

/// Debian's packages that tests, and the programs that they start, need there.
const PACKAGES: [&str; 18] = [
    "libc6",
    "libgcc-s1",
    "bash",
    "bpftrace",
    "busybox-static",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "linux-perf",
    "make",
    "mount",
    "procps",
    "sed",
    "strace",
    "systemtap-sdt-dev",
    "tar",
    "util-linux",
];

/// Program of a test that is compiled in several ways, as the test names and compiles them.
const VARIED: &str = "works_for";

/// Ways to compile it, with their options.
const VARIANTS: [(&str, &[&str]); 4] = [
    ("own", &["-DOWN", "-rdynamic"]),
    ("emits", &["-DOWN", "-DEMITS", "-rdynamic"]),
    ("opening", &[]),
    (
        "descriptors.so",
        &["-DLIBRARY", "-shared", "-fPIC", "-mtls-dialect=desc"],
    ),
];

/// Folder of the guest with the files under test.
const TRACER: &str = "/tracer";

/// Builds, boots one kernel after the other, and prints the result of each.
pub fn run(args: &Args) -> anyhow::Result<()> {
    arm64::set_up()?;
    packages::install_missing(packages::FOR_ARM64_MACHINES)?;
    let apt = Apt::open()?;
    let root = userland(&apt)?;
    let built = if args.as_built {
        read_last_build()?
    } else {
        lay_out(&root)?
    };
    let cases = selection::chosen(&built, args.filter.as_deref(), args.tests.as_deref())?;
    let tracer = Path::new(TRACER);
    let guest = Guest {
        kind: Kind::Arm64,
        busybox: root.join("bin/busybox"),
        files: root,
        dist: tracer.join("dist"),
        programs: tracer.join("programs"),
        tests: tracer.join("tests"),
    };
    let mut outcomes = Vec::new();
    for (name, prefix) in KERNELS {
        let is_chosen =
            |typed: &String| typed == "all" || name.strip_suffix("-arm64") == Some(typed);
        if !args.kernel.iter().any(is_chosen) {
            continue;
        }
        let outcome = kernel(&apt, prefix).and_then(|image| {
            boots::all(&Order {
                name,
                image,
                guest: &guest,
                cases: &cases,
                built: &built,
                resume: args.resume,
                processors: Processors::Software,
                limit: Duration::from_secs(args.limit),
            })
        });
        outcomes.push((name, outcome));
    }
    for (test, why) in LEFT_OUT {
        println!("left out: {test}: {why}");
    }
    say(&outcomes, Processors::Software)
}

fn folder() -> PathBuf {
    workspace::target("vm/arm64")
}

/// Instance of apt for Debian's packages for arm64: with lists and a state of its own, so that this
/// machine's stay as they are.
struct Apt {
    folder: PathBuf,
}

/// Configuration with which apt uses this machine's sources and keys, and nothing else of it.
const CONFIGURATION: &str = r#"APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::State "FOLDER/state";
Dir::State::status "FOLDER/status";
Dir::Cache "FOLDER/cache";
"#;

impl Apt {
    fn open() -> anyhow::Result<Self> {
        let folder = folder().join("apt");
        for inner in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(inner))?;
        }
        let configuration = CONFIGURATION.replace("FOLDER", &folder.display().to_string());
        fs::write(folder.join("apt.conf"), configuration)?;
        // Nothing is installed there.
        fs::write(folder.join("status"), "")?;
        let apt = Self { folder };
        process::run(apt.command("apt-get").args(["update", "--quiet"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", self.folder.join("apt.conf"));
        command
    }

    /// Fetches packages and their dependencies, and unpacks all of them into `root`.
    fn unpack(&self, names: &[&str], root: &Path) -> anyhow::Result<()> {
        let install = ["install", "--yes", "--quiet", "--no-install-recommends"];
        process::run(
            self.command("apt-get")
                .args(install)
                .arg("--download-only")
                .args(names),
        )?;
        for entry in fs::read_dir(self.folder.join("cache/archives"))? {
            let package = entry?.path();
            if package.extension().is_some_and(|kind| kind == "deb") {
                let mut unpack = Command::new("dpkg-deb");
                process::run(unpack.arg("-x").arg(&package).arg(root))?;
                fs::remove_file(&package)?;
            }
        }
        Ok(())
    }
}

/// Unpacks Debian's files for the guest: packages side by side, without running their installation
/// scripts. Returns the folder.
fn userland(apt: &Apt) -> anyhow::Result<PathBuf> {
    let root = folder().join("root");
    let (sign, all) = (folder().join("root.packages"), PACKAGES.join("\n"));
    if fs::read_to_string(&sign).is_ok_and(|there| there == all) {
        return Ok(root);
    }
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root)?;
    apt.unpack(&PACKAGES, &root)?;
    let etc = root.join("etc");
    fs::write(
        etc.join("passwd"),
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    )?;
    fs::write(etc.join("group"), "root:x:0:\nnogroup:x:65534:\n")?;
    if !root.join("bin/sh").exists() {
        std::os::unix::fs::symlink("dash", root.join("bin/sh"))?;
    }
    fs::write(&sign, all)?;
    Ok(root)
}

/// Builds the command line, the library, the tests and their programs, lays them out for the guest,
/// and returns the tests.
fn lay_out(root: &Path) -> anyhow::Result<Vec<Case>> {
    build_ebpf::run()?;
    let dist = arm64::library()?;
    process::run(arm64::cargo("build").args(["--quiet", "--package=tracer-user"]))?;
    let tracer = root.join(TRACER.trim_start_matches('/'));
    let _ = fs::remove_dir_all(&tracer);
    for inner in ["programs", "tests"] {
        fs::create_dir_all(tracer.join(inner))?;
    }
    process::run(
        Command::new("cp")
            .arg("-r")
            .arg(&dist)
            .arg(tracer.join("dist")),
    )?;
    let command_line = workspace::target(arm64::TARGET).join("debug/tracer-user");
    let guests_own = tracer.join("dist/bin/tracer-user");
    fs::copy(&command_line, &guests_own).with_context(|| command_line.display().to_string())?;
    has_the_same_object(&guests_own)?;
    programs(root, &dist, &tracer.join("programs"))?;

    let mut test = arm64::cargo("test");
    test.args(CRATES).arg("--lib");
    test.args(EXECUTABLES.iter().flat_map(|name| ["--test", name]));
    let impossible: Vec<_> = selection::impossible(Processors::Software).collect();
    let is_left_out = |test: &str| {
        let mut left_out = impossible.iter().chain(LEFT_OUT);
        left_out.any(|(left_out, _)| selection::is_called(test, left_out))
    };
    let mut cases = Vec::new();
    for binary in binaries::build_by(&mut test)? {
        let name = selection::name(binary.folder(), binary.executable())?;
        let listed = process::output(
            Command::new(arm64::RUNNER[0])
                .args(&arm64::RUNNER[1..])
                .arg(binary.executable())
                .args(["--ignored", "--list", "--format=terse"]),
        )?;
        let tests = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        let runs = |test: &&str| {
            let file = binary.file_of(test);
            (UNITS.contains(&file) || FILES.contains(&file)) && !is_left_out(test)
        };
        let tests: Vec<_> = tests.filter(runs).collect();
        if !tests.is_empty() {
            fs::copy(binary.executable(), tracer.join("tests").join(&name))?;
        }
        cases.extend(tests.into_iter().map(|test| Case {
            file: name.clone(),
            test: test.to_owned(),
        }));
    }
    ensure!(!cases.is_empty(), "no test for arm64 loads eBPF");
    fs::write(folder().join("cases"), selection::listed(&cases))?;
    Ok(cases)
}

/// Fails unless the command line contains exactly the bytes of this machine's eBPF object: one
/// object serves both.
fn has_the_same_object(command_line: &Path) -> anyhow::Result<()> {
    let object = fs::read(build_ebpf::object())?;
    let program = fs::read(command_line)?;
    ensure!(
        program.windows(object.len()).any(|bytes| bytes == object),
        "{} has not the eBPF object of this machine inside",
        command_line.display()
    );
    println!("The eBPF object is the same: {} bytes", object.len());
    Ok(())
}

fn read_last_build() -> anyhow::Result<Vec<Case>> {
    let path = folder().join("cases");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("{}: nothing is built yet", path.display()))?;
    Ok(text.lines().filter_map(Case::parse).collect())
}

/// Compiles the programs of the tests, as far as that is possible for arm64.
fn programs(root: &Path, dist: &Path, into: &Path) -> anyhow::Result<()> {
    let sources = workspace::root().join("tests/programs");
    for entry in fs::read_dir(&sources)? {
        let source = entry?.path();
        if source.extension().is_none_or(|kind| kind != "c") {
            continue;
        }
        let text = fs::read_to_string(&source)?;
        // As `tests::dist` finds programs: a source may have several.
        let several = text
            .lines()
            .filter_map(|line| line.strip_prefix("#ifdef PROGRAM_"));
        let mut named: Vec<_> = several
            .map(|name| (name, format!("-DPROGRAM_{name}")))
            .collect();
        if named.is_empty() {
            let name = source.file_stem().and_then(|name| name.to_str());
            named.push((name.context("no name")?, "-DPROGRAM".to_owned()));
        }
        for (name, selects) in named {
            compile_program(root, dist, &source, &[&selects], &into.join(name));
        }
    }
    let source = sources.join(VARIED).with_extension("c");
    for (name, options) in VARIANTS {
        let program = into.join(format!("{VARIED}-{name}"));
        compile_program(root, dist, &source, options, &program);
    }
    Ok(())
}

/// Compiles a program of a source: that which `options` select in it.
fn compile_program(root: &Path, dist: &Path, source: &Path, options: &[&str], program: &Path) {
    let mut compile = Command::new(format!("{}gcc", arm64::TOOLS));
    compile
        .args(["-O2", "-pthread", "-w"])
        .args(options)
        .arg("-o")
        .args([program, source])
        .arg("-I")
        .arg(dist.join("include"))
        // What the cross compiler's own headers lack.
        .arg("-isystem")
        .arg(root.join("usr/include/aarch64-linux-gnu"))
        .arg("-L")
        .arg(dist.join("lib"))
        .args(["-Wl,--as-needed", "-lposixtrace"])
        .arg(format!("-Wl,-rpath,{TRACER}/dist/lib"));
    if let Err(error) = process::output(&mut compile) {
        eprintln!("not for arm64: {error:#}");
    }
}

/// Returns the newest kernel whose package's name begins with `prefix`; fetches it if necessary.
fn kernel(apt: &Apt, prefix: &str) -> anyhow::Result<Image> {
    let search = ["search", "--names-only", "^linux-image-.*-arm64$"];
    let listed = process::output(apt.command("apt-cache").args(search))?;
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    let package = newest(names, prefix).with_context(|| {
        format!("apt knows no package {prefix}*-arm64; it has this machine's sources")
    })?;
    let unpacked = folder().join("kernels").join(&package);
    let path = unpacked.join("vmlinuz");
    let modules = unpacked.join("modules");
    if !path.exists() {
        let _ = fs::remove_dir_all(&unpacked);
        fs::create_dir_all(&modules)?;
        process::run(
            apt.command("apt-get")
                .current_dir(&unpacked)
                .args(["download", "--quiet", &package]),
        )?;
        let mut unpack = Command::new("sh");
        unpack.current_dir(&unpacked).args(["-ec", UNPACK, "sh"]);
        process::run(unpack.args(MODULES))?;
    }
    let modules = MODULES.map(|name| modules.join(name).with_extension("ko"));
    Ok(Image {
        package,
        path,
        modules: modules.into_iter().filter(|path| path.exists()).collect(),
    })
}

/// Script that extracts the image and the named modules from the one package here. The image is
/// moved last: when it is there, everything is.
const UNPACK: &str = r#"
dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards './boot/vmlinuz-*' './lib/modules/*.ko*'
for name; do
    find lib -name "$name.ko*" -exec cp {} modules/ ';'
done
find modules -name '*.xz' -exec xz -d {} +
rm -r lib ./*.deb
mv boot/vmlinuz-* vmlinuz
"#;

/// Finds the newest of the packages whose names begin with `prefix`. Others are of a flavour
/// (`cloud`, `rt`), or not signed.
fn newest<'a>(names: impl Iterator<Item = &'a str>, prefix: &str) -> Option<String> {
    let is_plain = |name: &&str| {
        let rest = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix("-arm64"));
        rest.is_some_and(|rest| {
            rest.contains(|c: char| c.is_ascii_digit())
                && !rest
                    .split('-')
                    .any(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
        })
    };
    let version = |name: &&str| -> Vec<u64> {
        let parts = name.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|digits| digits.parse().ok()).collect()
    };
    names
        .filter(is_plain)
        .max_by_key(version)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_plain_kernel_of_a_series_is_taken() {
        let names = [
            "linux-image-6.1.0-9-arm64",
            "linux-image-6.1.0-56-arm64",
            "linux-image-6.1.0-57-cloud-arm64",
            "linux-image-6.1.0-58-rt-arm64",
            "linux-image-6.12.117+deb12-arm64",
            "linux-image-6.12.118+deb12-arm64-unsigned",
        ];
        let found = |prefix| newest(names.into_iter(), prefix);
        assert_eq!(
            found("linux-image-6.1.").as_deref(),
            Some("linux-image-6.1.0-56-arm64")
        );
        assert_eq!(
            found("linux-image-6.12.").as_deref(),
            Some("linux-image-6.12.117+deb12-arm64")
        );
        assert_eq!(found("linux-image-7.0."), None);
    }
}
