//! The debugger's part of a file from a server (debuginfod), by the build identifier of the file.
//!
//! The field's own client asks: `debuginfod-find` of elfutils, which knows proxies, certificates,
//! redirections and its cache. It is a program of its own, has limits of time and of bytes, and
//! runs without rights (`nobody`) where root traces. What it brings is untrusted as any file is,
//! and counts only where it has the identifier that was asked for.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::opening::open_ordinary;
use crate::scheduling::give_way_to_none;

/// Program that asks servers.
const CLIENT: &str = "debuginfod-find";

/// Folder with files that name servers.
const SERVERS: &str = "/etc/debuginfod";

/// Folder in which root keeps what was brought.
const CACHE_OF_ROOT: &str = "/var/cache/tracer-user/debuginfod";

/// User and group without rights.
const NOBODY: u32 = 65_534;

/// Files that are asked for.
const MOST_FILES: usize = 256;

/// Bytes of what the client says.
const MOST_SAID: u64 = 4096;

/// Variables of the environment that the client goes by.
const PASSED: [&str; 16] = [
    "PATH",
    "HOME",
    "XDG_CACHE_HOME",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "DEBUGINFOD_RETRY_LIMIT",
    "DEBUGINFOD_HEADERS_FILE",
];

/// Limits of what is brought.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Time for a file, and for all.
    file: Duration,
    all: Duration,
    /// Bytes of a file, and of all.
    file_bytes: u64,
    all_bytes: u64,
}

const LIMITS: Limits = Limits {
    file: Duration::from_secs(60),
    all: Duration::from_secs(300),
    file_bytes: 1 << 30,
    all_bytes: 4 << 30,
};

/// Reason why no server can be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No server is named.
    #[error(
        "no server is named; name one (--debuginfod=https://…), or set DEBUGINFOD_URLS, \
         or have one in {SERVERS}"
    )]
    NoServer,
    /// Word that is no address of a server.
    #[error("{word:?} is no address of a server; one begins with https://, http:// or file://")]
    NoAddress {
        /// The word.
        word: String,
    },
    /// The client is not installed.
    #[error(
        "{CLIENT} is not installed, which asks servers; install it (Debian: debuginfod, \
         Fedora: elfutils-debuginfod-client)"
    )]
    NoClient,
}

/// How readers go on while a file is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerWait {
    /// They wait for it, within the limits.
    ForEach,
    /// They go on without it: names come once it is there.
    GoesOn,
}

/// State of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Asked,
    There(Arc<Path>),
    None,
}

/// Client of servers, in a thread of its own.
#[derive(Debug)]
struct Fetcher {
    servers: String,
    waiting: ServerWait,
    limits: Limits,
    cache: Option<PathBuf>,
    state: Mutex<Known>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct Known {
    files: HashMap<Vec<u8>, State>,
    /// Number of answers so far.
    answers: u64,
    queue: Option<Sender<Vec<u8>>>,
    took: Duration,
    bytes: u64,
}

static FETCHER: OnceLock<Arc<Fetcher>> = OnceLock::new();

/// Has the debugger's parts of files that are looked at from now on, and have none here, asked for.
/// `typed` are addresses of servers; without any, those of the environment count, or those that the
/// system names.
///
/// # Errors
///
/// There is no server, or no program that asks it.
pub fn ask_servers(typed: &str, waiting: ServerWait) -> Result<(), ServerError> {
    let servers = servers(typed)?;
    let found = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&found);
    if !folders.any(|folder| folder.join(CLIENT).is_file()) {
        return Err(ServerError::NoClient);
    }
    // SAFETY: takes nothing and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let typed_cache = std::env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
    let cache = typed_cache.or_else(|| is_root.then(|| CACHE_OF_ROOT.into()));
    FETCHER.get_or_init(|| Arc::new(Fetcher::new(servers, waiting, LIMITS, cache)));
    Ok(())
}

/// Returns the addresses of servers, parted by spaces.
fn servers(typed: &str) -> Result<String, ServerError> {
    let mut servers = typed.to_owned();
    if servers.trim().is_empty() {
        servers = std::env::var("DEBUGINFOD_URLS").unwrap_or_default();
    }
    if servers.trim().is_empty() {
        let files = fs::read_dir(SERVERS).into_iter().flatten().flatten();
        let named = files.filter(|file| file.path().extension() == Some(OsStr::new("urls")));
        for file in named {
            servers.push_str(&fs::read_to_string(file.path()).unwrap_or_default());
            servers.push(' ');
        }
    }
    let words: Vec<&str> = servers.split_whitespace().collect();
    if words.is_empty() {
        return Err(ServerError::NoServer);
    }
    let begins = ["https://", "http://", "file://"];
    let is_address = |word: &str| begins.iter().any(|begin| word.starts_with(begin));
    if let Some(word) = words.iter().find(|word| !is_address(word)) {
        return Err(ServerError::NoAddress {
            word: (*word).to_owned(),
        });
    }
    Ok(words.join(" "))
}

/// Returns the file with this build identifier, if a server had it; asks for it.
pub(super) fn file_by_id(id: &[u8]) -> Option<File> {
    FETCHER.get()?.file(id)
}

/// Tells whether the file with this build identifier is being asked for.
pub(crate) fn is_asked(id: &[u8]) -> bool {
    let asked = |fetcher: &Arc<Fetcher>| fetcher.known().files.get(id) == Some(&State::Asked);
    FETCHER.get().is_some_and(asked)
}

/// Tells whether servers are asked.
pub(crate) fn asks_servers() -> bool {
    FETCHER.get().is_some()
}

/// Returns the number of answers so far.
pub(crate) fn answers() -> u64 {
    FETCHER.get().map_or(0, |fetcher| fetcher.known().answers)
}

/// Waits, within the limits, until nothing is asked for any more.
pub(crate) fn wait_for_all() {
    if let Some(fetcher) = FETCHER.get() {
        fetcher.wait(|known| !known.files.values().any(|state| *state == State::Asked));
    }
}

impl Fetcher {
    fn new(servers: String, waiting: ServerWait, limits: Limits, cache: Option<PathBuf>) -> Self {
        Self {
            servers,
            waiting,
            limits,
            cache,
            state: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(self: &Arc<Self>, id: &[u8]) -> Option<File> {
        self.ask(id)?;
        if self.waiting == ServerWait::ForEach {
            self.wait(|known| known.files.get(id) != Some(&State::Asked));
        }
        let state = self.known().files.get(id).cloned();
        match state {
            Some(State::There(path)) => open_ordinary(&path).ok(),
            _ => None,
        }
    }

    /// Asks for a file, unless it was asked for.
    fn ask(self: &Arc<Self>, id: &[u8]) -> Option<()> {
        let mut known = self.known();
        let is_new = !known.files.contains_key(id);
        if !is_new || id.is_empty() || known.files.len() >= MOST_FILES {
            return (!is_new).then_some(());
        }
        if known.queue.is_none() {
            let (queue, asked) = mpsc::channel::<Vec<u8>>();
            let own = Arc::clone(self);
            let thread = thread::Builder::new().name("debuginfod".to_owned());
            let ask_each = move || {
                give_way_to_none();
                asked.into_iter().for_each(|id| own.answer(id));
            };
            thread.spawn(ask_each).ok()?;
            known.queue = Some(queue);
        }
        known.queue.as_ref()?.send(id.to_vec()).ok()?;
        known.files.insert(id.to_vec(), State::Asked);
        Some(())
    }

    fn wait(&self, is_over: impl Fn(&Known) -> bool) {
        let until = Instant::now() + self.limits.all;
        let mut known = self.known();
        while !is_over(&known) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.answered.wait_timeout(known, left);
            known = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Brings a file, and notes the answer.
    fn answer(&self, id: Vec<u8>) {
        let (took, bytes) = {
            let known = self.known();
            (known.took, known.bytes)
        };
        let time = self.limits.all.saturating_sub(took).min(self.limits.file);
        let left = self.limits.all_bytes.saturating_sub(bytes);
        let begin = Instant::now();
        let brought = if time.is_zero() || left == 0 {
            Err(io::ErrorKind::QuotaExceeded.into())
        } else {
            self.bring(&id, time, left.min(self.limits.file_bytes))
        };
        if let Err(error) = &brought {
            tracing::debug!(?id, %error, "no server has the debugger's part of a file");
        }
        let mut known = self.known();
        known.took += begin.elapsed();
        known.answers += 1;
        let state = match brought {
            Ok(path) => {
                known.bytes += fs::metadata(&path).map_or(0, |file| file.len());
                State::There(path.into())
            }
            Err(_) => State::None,
        };
        known.files.insert(id, state);
        self.answered.notify_all();
    }

    /// Runs the client; returns the path of the file that it has brought.
    fn bring(&self, id: &[u8], time: Duration, bytes: u64) -> io::Result<PathBuf> {
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut client = Command::new(CLIENT);
        client
            .arg("debuginfo")
            .arg(hex)
            .current_dir("/")
            .env_clear();
        client.envs(
            PASSED
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        client.env("DEBUGINFOD_URLS", &self.servers);
        let seconds = time.as_secs().max(1).to_string();
        client.env("DEBUGINFOD_MAXTIME", &seconds);
        client.env("DEBUGINFOD_TIMEOUT", &seconds);
        client.env("DEBUGINFOD_MAXSIZE", bytes.to_string());
        // SAFETY: takes nothing and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        if let Some(cache) = &self.cache {
            let mut folder = fs::DirBuilder::new();
            folder.recursive(true).mode(0o755).create(cache)?;
            if is_root {
                chown(cache, Some(NOBODY), Some(NOBODY))?;
            }
            client.env("DEBUGINFOD_CACHE_PATH", cache);
        }
        if is_root {
            // Without the other groups of root, too.
            client.uid(NOBODY).gid(NOBODY).env_remove("HOME");
        }
        client.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = client.stdout(Stdio::piped()).process_group(0).spawn()?;
        limit_files(&child, bytes);
        let status = end_in_time(&mut child, Instant::now() + time)?;
        let mut said = Vec::new();
        if let Some(output) = child.stdout.take() {
            output.take(MOST_SAID).read_to_end(&mut said)?;
        }
        let path = Path::new(OsStr::from_bytes(said.trim_ascii()));
        if status && path.is_absolute() {
            return Ok(path.to_owned());
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Lets a process write no more than so many bytes into a file: a server need not say how many it
/// sends.
fn limit_files(child: &Child, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    let pid = child.id().cast_signed();
    // SAFETY: the limit is valid for the call; the process is a child that was not waited for.
    unsafe {
        libc::prlimit(
            pid,
            libc::RLIMIT_FSIZE,
            &raw const limit,
            std::ptr::null_mut(),
        );
    }
}

/// Waits for a process, and kills it where it has not ended by then. Returns whether it succeeded.
fn end_in_time(child: &mut Child, until: Instant) -> io::Result<bool> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;

    use super::super::Binary;
    use super::*;

    const ID: [u8; 20] = [7; 20];

    /// Serves each request by `answer`; returns the address.
    fn serve(answer: impl Fn(TcpStream) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut head = [0; 4096];
                let _ = (&stream).read(&mut head);
                answer(stream);
            }
        });
        address
    }

    fn fetcher(folder: &Path, server: &str) -> Option<Arc<Fetcher>> {
        let is_there = Command::new(CLIENT).arg("--version").output().is_ok();
        assert!(is_there || std::env::var_os("CI").is_none(), "no {CLIENT}");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let limits = Limits {
            file: Duration::from_secs(2),
            all: Duration::from_secs(60),
            file_bytes: 1 << 20,
            all_bytes: 4 << 20,
        };
        let cache = Some(folder.join("cache"));
        let fetcher = Fetcher::new(server.to_owned(), ServerWait::ForEach, limits, cache);
        is_there.then(|| Arc::new(fetcher))
    }

    #[test]
    fn a_file_is_brought_once_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let body = b"the debugger's part".to_vec();
        let sent = body.clone();
        let (count, counted) = mpsc::channel();
        let server = serve(move |mut to| {
            let _ = count.send(());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len());
            let _ = to.write_all(&[head.as_bytes(), &sent].concat());
        });
        for _ in 0..2 {
            let Some(fetcher) = fetcher(folder.path(), &server) else {
                return;
            };
            let mut file = fetcher.file(&ID).unwrap();
            let mut read = Vec::new();
            file.read_to_end(&mut read).unwrap();
            assert_eq!(read, body);
            assert_eq!(fetcher.known().answers, 1);
            assert!(fetcher.file(&ID).is_some());
        }
        assert_eq!(counted.try_iter().count(), 1, "the second time it is here");
    }

    #[test]
    fn hostile_servers_bring_nothing_and_hold_no_one_up() {
        let truncated = |mut to: TcpStream| {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nELF");
        };
        let endless = |mut to: TcpStream| {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
            while to.write_all(&[7; 65_536]).is_ok() {}
        };
        let slow = |mut to: TcpStream| {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
            while to.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        };
        let silent = |to: TcpStream| {
            thread::sleep(Duration::from_secs(30));
            drop(to);
        };
        let circle = |mut to: TcpStream| {
            let _ = to.write_all(
                b"HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n",
            );
        };
        let missing = |mut to: TcpStream| {
            let _ = to.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
        };
        let servers: [(&str, String); 7] = [
            ("truncated", serve(truncated)),
            ("endless", serve(endless)),
            ("slow", serve(slow)),
            ("silent", serve(silent)),
            ("circle", serve(circle)),
            ("missing", serve(missing)),
            ("none", "http://127.0.0.1:1".to_owned()),
        ];
        let asked: Vec<_> = servers
            .into_iter()
            .map(|(what, server)| {
                thread::spawn(move || {
                    let folder = tempfile::tempdir().unwrap();
                    let Some(fetcher) = fetcher(folder.path(), &server) else {
                        return;
                    };
                    assert!(fetcher.file(&ID).is_none(), "{what}");
                    assert_eq!(fetcher.known().files[&ID.to_vec()], State::None, "{what}");
                })
            })
            .collect();
        for one in asked {
            one.join().unwrap();
        }
    }

    #[test]
    fn limits_of_all_files_hold() {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(|mut to| {
            let body = vec![1; 1000];
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
            let _ = to.write_all(&body);
        });
        let Some(mut fetcher) = fetcher(folder.path(), &server) else {
            return;
        };
        Arc::get_mut(&mut fetcher).unwrap().limits.all_bytes = 1500;
        assert!(fetcher.file(&[1; 20]).is_some());
        assert!(fetcher.file(&[2; 20]).is_none(), "it has more than is left");
        assert_eq!(fetcher.known().bytes, 1000);
    }

    #[test]
    fn a_file_of_another_program_names_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a.c"), "int main(void) { return 0; }").unwrap();
        let run = |words: &str| {
            let mut words = words.split_whitespace();
            let mut command = Command::new(words.next().unwrap());
            assert!(
                command
                    .args(words)
                    .current_dir(folder.path())
                    .status()
                    .unwrap()
                    .success()
            );
        };
        run("cc -g -Wl,--build-id=0x0102030405060708 -o a a.c");
        run("cc -g -Wl,--build-id=0x0102030405060709 -o b a.c");
        run("strip -o stripped a");
        let stripped = Binary::open(&at("stripped"), &at("stripped"), folder.path()).unwrap();
        let names_main = |file: &Path| {
            let found = stripped.in_file_for_debuggers(File::open(file).unwrap());
            found.is_some_and(|functions| functions.iter().any(|one| one.name == "main"))
        };
        assert!(names_main(&at("a")));
        assert!(!names_main(&at("b")));
        assert!(!names_main(&at("a.c")));
    }

    #[test]
    fn words_that_are_no_addresses_are_refused() {
        assert_eq!(
            servers(" https://a/  http://b ").unwrap(),
            "https://a/ http://b"
        );
        let error = servers("https://a ftp://b").unwrap_err().to_string();
        assert!(
            error.contains("\"ftp://b\"") && error.contains("https://"),
            "{error}"
        );
    }
}
