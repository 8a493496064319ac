//! Prerequisites that the system's package manager installs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::{privilege, process};

/// Prerequisite, and the Debian packages that provide it.
pub struct Need {
    /// Name for people.
    pub what: &'static str,
    /// Check whether it is installed.
    pub holds: fn() -> bool,
    /// Packages that provide it.
    pub packages: &'static [&'static str],
}

const PYTHON_ENVIRONMENTS: Need = Need {
    what: "Python with its environments",
    holds: || {
        let modules = ["-c", "import ensurepip, venv"];
        process::succeeds(Command::new("python3").args(modules))
    },
    packages: &["python3", "python3-venv"],
};

/// Prerequisites of building, the eBPF linker apart.
pub const TO_BUILD: &[Need] = &[Need {
    what: "a C compiler",
    holds: || process::find("cc").is_some() && Path::new("/usr/include/stdio.h").exists(),
    packages: &["gcc", "libc6-dev"],
}];

/// Prerequisites of compiling C programs with the library.
pub const FOR_C_PROGRAMS: &[Need] = &[Need {
    what: "pkg-config",
    holds: || process::find("pkg-config").is_some(),
    packages: &["pkg-config"],
}];

/// Prerequisites of the lint.
pub const TO_LINT: &[Need] = &[Need {
    what: "a checker of manual pages",
    holds: || process::find("mandoc").is_some(),
    packages: &["mandoc"],
}];

/// Prerequisites of Perfetto's engine and the pages of reports, and of their tests.
pub const FOR_NODE: &[Need] = &[
    Need {
        what: "Node.js",
        holds: || process::find("node").is_some(),
        packages: &["nodejs"],
    },
    Need {
        // Others than Debian's own bring it with Node.js.
        what: "the package manager of Node.js",
        holds: || process::find("npm").is_some(),
        packages: &["npm"],
    },
];

/// Tools that make packages, and check them.
pub const TO_PACKAGE: &[Need] = &[
    Need {
        what: "Debian's tools for packages",
        holds: || process::find("dpkg-shlibdeps").is_some() && process::find("dpkg-deb").is_some(),
        packages: &["dpkg-dev"],
    },
    Need {
        what: "rpmbuild",
        holds: || process::find("rpmbuild").is_some(),
        packages: &["rpm"],
    },
    Need {
        what: "lintian",
        holds: || process::find("lintian").is_some(),
        packages: &["lintian"],
    },
    Need {
        what: "rpmlint",
        holds: || process::find("rpmlint").is_some(),
        packages: &["rpmlint"],
    },
    Need {
        what: "a checker of systemd's units",
        holds: || process::find("systemd-analyze").is_some(),
        packages: &["systemd"],
    },
];

/// Prerequisites of unpacking another release of Debian.
pub const TO_UNPACK_DEBIAN: &[Need] = &[Need {
    what: "mmdebstrap",
    holds: || process::find("mmdebstrap").is_some(),
    packages: &["mmdebstrap", "debian-archive-keyring"],
}];

/// Prerequisites of testing the archive for any Linux.
pub const TO_TEST_TARBALLS: &[Need] = &[Need {
    what: "a static busybox",
    holds: || Path::new(BUSYBOX).exists(),
    packages: &["busybox-static"],
}];

/// Prerequisites of the shipper's tests.
pub const TO_TEST_SHIPPING: &[Need] = &[
    Need {
        what: "openssl, which makes certificates",
        holds: || process::find("openssl").is_some(),
        packages: &["openssl"],
    },
    Need {
        what: "mkfs.ext4",
        holds: || Path::new("/sbin/mkfs.ext4").exists(),
        packages: &["e2fsprogs"],
    },
    Need {
        what: "libfaketime",
        holds: || process::find("faketime").is_some(),
        packages: &["faketime"],
    },
];

/// Prerequisites of the tests: tools to compare with.
pub const TO_TEST: &[Need] = &[
    Need {
        what: "a C++ compiler",
        holds: || process::find("c++").is_some() && process::find("g++").is_some(),
        packages: &["g++"],
    },
    Need {
        what: "a second C compiler",
        holds: || process::find("clang").is_some(),
        packages: &["clang"],
    },
    Need {
        what: "a compiler for musl",
        holds: || process::find("musl-gcc").is_some(),
        packages: &["musl-tools"],
    },
    Need {
        what: "valgrind",
        holds: || process::find("valgrind").is_some(),
        packages: &["valgrind"],
    },
    Need {
        what: "strace",
        holds: || process::find("strace").is_some(),
        packages: &["strace"],
    },
    Need {
        what: "babeltrace2",
        holds: || process::find("babeltrace2").is_some(),
        packages: &["babeltrace2"],
    },
    Need {
        what: "tmux",
        holds: || process::find("tmux").is_some(),
        packages: &["tmux"],
    },
    Need {
        what: "the shells that complete",
        holds: || {
            ["bash", "zsh", "fish"]
                .iter()
                .all(|shell| process::find(shell).is_some())
        },
        packages: &["bash", "zsh", "fish"],
    },
    Need {
        what: "tools that make and read data for debuggers",
        holds: || {
            ["gdb", "dwz", "debuginfod", "debuginfod-find"]
                .iter()
                .all(|tool| process::find(tool).is_some())
        },
        packages: &["gdb", "dwz", "debuginfod"],
    },
    Need {
        what: "jq",
        holds: || process::find("jq").is_some(),
        packages: &["jq"],
    },
    Need {
        what: "a browser",
        holds: || process::find("chromium").is_some(),
        packages: &["chromium", "fonts-dejavu-core"],
    },
    PYTHON_ENVIRONMENTS,
    Need {
        what: "perf",
        holds: || process::find("perf").is_some(),
        packages: &["linux-perf"],
    },
    Need {
        what: "bpftrace",
        holds: || process::find("bpftrace").is_some(),
        packages: &["bpftrace"],
    },
    Need {
        what: "make",
        holds: || process::find("make").is_some(),
        packages: &["make"],
    },
    Need {
        what: "setpriv and unshare",
        holds: || process::find("setpriv").is_some() && process::find("unshare").is_some(),
        packages: &["util-linux"],
    },
    Need {
        what: "setcap",
        holds: || process::find("setcap").is_some(),
        packages: &["libcap2-bin"],
    },
    Need {
        what: "User Mode Linux, a kernel whose settings are its own",
        holds: || process::find("linux.uml").is_some(),
        packages: &["user-mode-linux"],
    },
    Need {
        what: "programs whose system calls are compared",
        holds: || {
            let programs = [
                "git",
                "nginx",
                "redis-server",
                "redis-cli",
                "ssh-keygen",
                "ip",
                "bwrap",
                "podman",
            ];
            let has = |name: &&str| {
                process::find(name).is_some() || Path::new("/usr/sbin").join(name).exists()
            };
            programs.iter().all(has)
        },
        packages: &[
            "git",
            "nginx-light",
            "redis-server",
            "redis-tools",
            "openssh-client",
            "iproute2",
            "bubblewrap",
            "podman",
        ],
    },
    Need {
        what: "a C library of 32 bits",
        holds: || !cfg!(target_arch = "x86_64") || Path::new("/usr/lib32/Scrt1.o").exists(),
        packages: &["libc6-dev-i386"],
    },
    Need {
        what: "sys/sdt.h",
        holds: || {
            process::succeeds(Command::new("cc").args([
                "-fsyntax-only",
                "-include",
                "sys/sdt.h",
                "-xc",
                "/dev/null",
            ]))
        },
        packages: &["systemtap-sdt-dev"],
    },
];

/// Programs that the pictures of the documents show, and tools that take the pictures.
pub const FOR_PICTURES: &[Need] = &[
    Need {
        what: "redis, which is traced",
        holds: || process::find("redis-server").is_some(),
        packages: &["redis-server"],
    },
    Need {
        what: "tmux",
        holds: || process::find("tmux").is_some(),
        packages: &["tmux"],
    },
    Need {
        what: "a browser",
        holds: || process::find("chromium").is_some(),
        packages: &["chromium", "fonts-dejavu-core"],
    },
    PYTHON_ENVIRONMENTS,
];

/// Prerequisites of tests that are left out where not all are run.
pub const TO_TEST_WHOLE: &[Need] = &[
    Need {
        what: "a compiler for Go",
        holds: || process::find("go").is_some(),
        packages: &["golang-go"],
    },
    Need {
        what: "Java, with its compiler and its tools",
        holds: || process::find("javac").is_some() && process::find("jcmd").is_some(),
        packages: &["default-jdk-headless"],
    },
    Need {
        what: "Ruby and PHP with static probes",
        holds: || process::find("ruby").is_some() && process::find("php").is_some(),
        packages: &["ruby", "php-cli"],
    },
    Need {
        what: "Lua, and its compiler",
        holds: || process::find("lua5.4").is_some() && process::find("luajit").is_some(),
        packages: &["lua5.4", "luajit"],
    },
];

/// Prerequisites of the test that traces PostgreSQL.
pub const TO_TEST_POSTGRESQL: &[Need] = &[Need {
    what: "PostgreSQL and pgbench",
    holds: || Path::new("/usr/lib/postgresql").exists() && process::find("pgbench").is_some(),
    packages: &["postgresql"],
}];

/// Prerequisites of the test of many hosts, PostgreSQL apart.
pub const TO_TEST_FLEETS: &[Need] = &[
    Need {
        what: "nginx, and tools for hosts that are namespaces",
        holds: || {
            let has =
                |name| process::find(name).is_some() || Path::new("/usr/sbin").join(name).exists();
            ["nginx", "ip", "unshare"].into_iter().all(has)
        },
        packages: &["nginx-light", "iproute2", "util-linux"],
    },
    Need {
        what: "Debian's Python with a client of PostgreSQL",
        holds: || {
            process::succeeds(Command::new("/usr/bin/python3").args(["-c", "import psycopg2"]))
        },
        packages: &["python3", "python3-psycopg2"],
    },
    Need {
        what: "a Java machine, for Spark",
        holds: || process::find("java").is_some(),
        packages: &["default-jre-headless"],
    },
    PYTHON_ENVIRONMENTS,
];

/// Prerequisites of virtual machines.
pub const FOR_VIRTUAL_MACHINES: &[Need] = &[
    Need {
        what: "qemu-system-x86_64",
        holds: || process::find("qemu-system-x86_64").is_some(),
        packages: &["qemu-system-x86"],
    },
    Need {
        what: "a static busybox",
        holds: || Path::new(BUSYBOX).exists(),
        packages: &["busybox-static"],
    },
    Need {
        what: "dpkg-deb",
        holds: || process::find("dpkg-deb").is_some(),
        packages: &["dpkg"],
    },
];

/// Prerequisites of compiling for arm64 and running its programs here.
pub const FOR_ARM64: &[Need] = &[
    Need {
        what: "a C compiler for arm64",
        holds: || {
            process::find("aarch64-linux-gnu-gcc").is_some()
                && Path::new("/usr/aarch64-linux-gnu/include/stdio.h").exists()
        },
        packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
    },
    Need {
        what: "qemu-aarch64",
        holds: || process::find("qemu-aarch64").is_some(),
        packages: &["qemu-user"],
    },
];

/// Further prerequisites of virtual machines with arm64.
pub const FOR_ARM64_MACHINES: &[Need] = &[
    Need {
        what: "qemu-system-aarch64",
        holds: || process::find("qemu-system-aarch64").is_some(),
        packages: &["qemu-system-arm"],
    },
    Need {
        what: "dpkg-deb",
        holds: || process::find("dpkg-deb").is_some(),
        packages: &["dpkg"],
    },
];

/// Path of busybox in Debian.
pub const BUSYBOX: &str = "/bin/busybox";

const LTTNG: Need = Need {
    what: "LTTng",
    holds: || process::find("lttng").is_some(),
    packages: &["lttng-tools"],
};

const LTTNG_UST: Need = Need {
    what: "LTTng-UST",
    holds: has_lttng_header,
    packages: &["liblttng-ust-dev"],
};

/// Prerequisites of the tests that trace ROS 2: what it is traced with elsewhere.
pub const TO_TEST_ROS: &[Need] = &[LTTNG, LTTNG_UST];

/// Peers that the benchmark compares with.
pub const TO_BENCHMARK: &[Need] = &[
    LTTNG,
    LTTNG_UST,
    Need {
        what: "bpftrace",
        holds: || process::find("bpftrace").is_some(),
        packages: &["bpftrace"],
    },
    Need {
        what: "perf",
        holds: || process::find("perf").is_some(),
        packages: &["linux-perf"],
    },
    Need {
        what: "strace",
        holds: || process::find("strace").is_some(),
        packages: &["strace"],
    },
    Need {
        what: "uftrace",
        holds: || process::find("uftrace").is_some(),
        packages: &["uftrace"],
    },
    Need {
        what: "babeltrace2",
        holds: || process::find("babeltrace2").is_some(),
        packages: &["babeltrace2"],
    },
    Need {
        what: "pgrep",
        holds: || process::find("pgrep").is_some(),
        packages: &["procps"],
    },
    Need {
        what: "sqlite3",
        holds: || process::find("sqlite3").is_some(),
        packages: &["sqlite3"],
    },
    Need {
        what: "redis-server",
        holds: || process::find("redis-server").is_some(),
        packages: &["redis-server"],
    },
    Need {
        what: "redis-benchmark",
        holds: || process::find("redis-benchmark").is_some(),
        packages: &["redis-tools"],
    },
];

/// Installs the packages of the prerequisites that are missing.
///
/// Only where that can be done without asking: as root, or by a `sudo` that needs no password.
/// Other users are shown the command to run.
pub fn install_missing<'a>(needs: impl IntoIterator<Item = &'a Need>) -> anyhow::Result<()> {
    let missing: Vec<&Need> = needs.into_iter().filter(|need| !(need.holds)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what: Vec<_> = missing.iter().map(|need| need.what).collect();
    let packages: Vec<_> = missing
        .iter()
        .flat_map(|need| need.packages.iter().copied())
        .collect();
    let what = what.join(", ");
    if process::find("apt-get").is_none() {
        bail!(
            "missing: {what}; this is no Debian-like system, so please install what its packages \
             {} are called here",
            packages.join(", ")
        );
    }
    if !privilege::is_root() && !privilege::has_silent_sudo() {
        bail!(
            "missing: {what}; please run: sudo apt-get install {}",
            packages.join(" ")
        );
    }
    eprintln!("Installing {} for {what}", packages.join(" "));
    if !packages.iter().all(|package| is_known(package)) {
        process::run(apt_get()?.args(["update", "--quiet"]))?;
    }
    install(&packages).or_else(|_| {
        // The lists may be older than the archive, which no longer has what they name.
        process::run(apt_get()?.args(["update", "--quiet"]))?;
        install(&packages)
    })?;
    if let Some(need) = missing.iter().find(|need| !(need.holds)()) {
        bail!(
            "{} is still missing although {} is installed",
            need.what,
            need.packages.join(" ")
        );
    }
    Ok(())
}

/// Tells whether programs can be compiled with LTTng-UST. The compiler looks for its header in the
/// folder of this machine's architecture and in that of all.
pub fn has_lttng_header() -> bool {
    let machine = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    [machine.as_str(), "/usr/include"]
        .iter()
        .any(|folder| Path::new(folder).join("lttng/tracepoint.h").exists())
}

/// Returns the line by which apt knows a release of Debian, from where this machine has its
/// packages.
pub fn source(suite: &str) -> anyhow::Result<String> {
    let said = process::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(ORIGIN)|$(COMPONENT)|$(RELEASE)|$(REPO_URI)|$(SIGNED_BY)",
        "Created-By: Packages",
    ]))?;
    let found = said.lines().find_map(|line| {
        let fields: Vec<&str> = line.split('|').collect();
        let [origin, component, release, uri, keys] = fields[..] else {
            return None;
        };
        // Updates and others have a dash in their names.
        let is_it = origin == "Debian" && component == "main" && !release.contains('-');
        is_it.then(|| (uri.to_owned(), keys.to_owned()))
    });
    let (mirror, keys) = found.context(
        "apt knows no archive of Debian here (apt-get update, or Debian's entry in its sources)",
    )?;
    let usual = "/usr/share/keyrings/debian-archive-keyring.gpg";
    // Older ones of apt do not say.
    let is_said = keys.starts_with('/');
    let keys = if is_said { keys } else { usual.to_owned() };
    ensure!(
        Path::new(&keys).exists(),
        "the keys of Debian's archive are missing: {keys} (package debian-archive-keyring)"
    );
    Ok(format!("deb [signed-by={keys}] {mirror} {suite} main"))
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    process::run(
        apt_get()?
            .args(["install", "--yes", "--quiet", "--no-install-recommends"])
            .args(packages),
    )
    .with_context(|| format!("the packages {} cannot be installed", packages.join(", ")))
}

fn apt_get() -> anyhow::Result<Command> {
    // `env` and not the environment of the command: sudo would drop it.
    let mut command = privilege::as_root("env", "install packages")?;
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    command.stdin(std::process::Stdio::null());
    Ok(command)
}

/// Tells whether the package lists on this machine name the package.
fn is_known(package: &str) -> bool {
    process::succeeds(Command::new("apt-cache").args(["show", "--no-all-versions", package]))
}
