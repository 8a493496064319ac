//! Names of a stripped program by the server that elfutils has for them (`debuginfod`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::command;
use tests::dist::{self, Linkage};
use tests::rights::missing_right;

/// A server, until it is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Serves the files in a folder.
    fn start(folder: &Path, files: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut server = Command::new("debuginfod");
        server.args(["-p", &port.to_string(), "-d"]);
        server.arg(folder.join("index")).arg("-F").arg(files);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let child = server.spawn().unwrap();
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "it does not serve"
            );
            sleep(Duration::from_millis(50));
        }
        let address = format!("http://127.0.0.1:{port}");
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "loads eBPF"]
fn a_stripped_program_has_the_names_that_a_server_has() {
    if missing_right().is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Who asks for root has no rights.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("served")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/inlined.c");
    let options = [
        "-g",
        "-no-pie",
        "-Wl,--build-id=sha1",
        "-fno-omit-frame-pointer",
        "-fno-shrink-wrap",
        "-fno-optimize-sibling-calls",
    ];
    dist::compile_file("cc", &source, &at("whole"), &options, Linkage::Shared).unwrap();
    let objcopy = |options: &[&str], to: &str| {
        let mut objcopy = Command::new("objcopy");
        command::text(objcopy.args(options).arg(at("whole")).arg(at(to))).unwrap();
    };
    objcopy(&["--strip-all"], "stripped");
    objcopy(&["--only-keep-debug"], "served/whole.debug");
    let server = Server::start(folder.path(), &at("served"));
    let tool = || {
        let mut tool = Command::new(dist::tracer_user().unwrap());
        tool.env("DEBUGINFOD_CACHE_PATH", at("cache"));
        tool
    };
    let run = |options: &[&str]| {
        let mut run = tool();
        run.args(["run", "--syscalls", "getppid", "--stack", "user", "--force"]);
        run.args(options).arg("--log").arg(at("log")).arg("--");
        command::text(run.arg(at("stripped")).arg("6")).unwrap();
        command::text(tool().arg("read").arg(at("log"))).unwrap()
    };
    let without = run(&[]);
    assert!(!without.contains(" main+"), "{without}");
    // The server may not have looked at all of its files yet, and what it does not have is not
    // asked for again for a while.
    let option = format!("--debuginfod={}", server.address);
    let begin = Instant::now();
    let mut named = run(&[&option]);
    while !named.contains(" main+") {
        assert!(begin.elapsed() < Duration::from_secs(60), "{named}");
        let _ = fs::remove_dir_all(at("cache"));
        sleep(Duration::from_millis(200));
        named = run(&[&option]);
    }
    assert!(named.contains(" outer+"), "{named}");
    // Of a log without names, and with lines.
    run(&[]);
    let read = tool()
        .env("DEBUGINFOD_URLS", &server.address)
        .args(["read", "--inlined", "--debuginfod"])
        .arg(at("log"))
        .output()
        .unwrap();
    let read = String::from_utf8_lossy(&read.stdout).into_owned();
    let line = read.lines().find(|line| line.contains("asks (inlined)"));
    assert!(
        line.is_some_and(|line| line.contains(" at inlined.c:")),
        "{read}"
    );
}
