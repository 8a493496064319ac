//! The files that a process has mapped, and those that a command will.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::binary::{Binary, BinaryError};
use super::opening::open_ordinary;
use crate::bounded_proc;

/// Interpreters that are followed: scripts may be interpreted by scripts, and the kernel follows
/// this many.
const MAX_INTERPRETERS: usize = 4;

/// Bytes of `maps` that are read: of 65,530 mappings, which is the kernel's usual limit, with long
/// names of files.
const MOST_MAPS_BYTES: u64 = 32 << 20;

/// Files of a process that are looked at.
const MOST_FILES: usize = 2048;

/// Program or library that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// Path by which the process knows it.
    pub path: PathBuf,
    /// Path by which we reach this very file, in whatever mount namespace.
    location: PathBuf,
    root: PathBuf,
}

impl Used {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is no program or library.
    pub fn open(&self) -> Result<Binary, BinaryError> {
        match Binary::open(&self.location, &self.path, &self.root) {
            // The links to mapped files need a capability that the name does not.
            Err(BinaryError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Binary::open_below(&self.root, &self.path)
            }
            opened => opened,
        }
    }
}

/// Returns the folder at which absolute paths of a process start.
pub fn root_of(pid: i32) -> PathBuf {
    format!("/proc/{pid}/root").into()
}

/// Threads of a process that are asked whether they live.
const MOST_THREADS: usize = 4096;

/// Returns a thread of process `pid` that lives, by whose folder of `/proc` the memory and the root
/// of the process are to be had: the first one may have ended before the others.
#[must_use]
pub fn living_thread(pid: i32) -> i32 {
    if !has_ended(Path::new(&format!("/proc/{pid}"))) {
        return pid;
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten().take(MOST_THREADS);
    let mut living = threads.filter(|thread| !has_ended(&thread.path()));
    let living = living.find_map(|thread| thread.file_name().to_str()?.parse().ok());
    living.unwrap_or(pid)
}

/// Tells whether a process that has ended, or its first thread has, lives on in other threads.
#[must_use]
pub fn lives_on(pid: i32) -> bool {
    living_thread(pid) != pid
}

/// Tells whether a thread has no program any more.
fn has_ended(thread: &Path) -> bool {
    let program = fs::read_link(thread.join("exe"));
    program.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Tells whether the process exists.
#[must_use]
pub fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Returns the files of which process `pid` has code mapped. Appends to `warnings` which files are
/// left out.
///
/// # Errors
///
/// There is no such process, it may not be looked at, or keeps the kernel from answering.
pub fn find_in_process(pid: i32, warnings: &mut Vec<String>) -> io::Result<Vec<Used>> {
    let (used, is_whole) = bounded_proc::before_tracing(pid, move || -> io::Result<_> {
        let pid = living_thread(pid);
        let maps = fs::File::open(format!("/proc/{pid}/maps"))?;
        let mut maps = BufReader::new(maps).take(MOST_MAPS_BYTES);
        Ok((used_in(&mut maps, pid)?, maps.limit() > 0))
    })??;
    if !is_whole {
        warnings.push(format!(
            "the maps of process {pid} are longer than {} MiB: the files of the rest are not looked at",
            MOST_MAPS_BYTES >> 20
        ));
    }
    if used.len() == MOST_FILES {
        warnings.push(format!(
            "process {pid} runs code of more than {MOST_FILES} files: only the first are looked at"
        ));
    }
    Ok(used)
}

/// Returns the files in lines of `maps`: a process may have millions of them.
fn used_in(maps: impl BufRead, pid: i32) -> io::Result<Vec<Used>> {
    let mut used = Vec::new();
    let mut known = HashSet::new();
    for line in maps.split(b'\n') {
        let line = line?;
        let Some((range, path)) = code_mapping(&line) else {
            continue;
        };
        if !known.contains(path) && used.len() < MOST_FILES {
            known.insert(path.to_owned());
            used.push(Used {
                path: path.to_owned(),
                location: format!("/proc/{pid}/map_files/{range}").into(),
                root: root_of(pid),
            });
        }
    }
    Ok(used)
}

/// Reads the range, as the kernel names it in `map_files`, and path in a line of `maps`, where it
/// is of a file's code.
fn code_mapping(line: &[u8]) -> Option<(String, &Path)> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let (start, end) = std::str::from_utf8(fields.next()?).ok()?.split_once('-')?;
    // There they have no zeros at the front, which they have here up to eight digits.
    let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).ok());
    let range = format!("{:x}-{:x}", start?, end?);
    let is_code = fields.next()?.contains(&b'x');
    // Offset, device, inode.
    let path = fields.nth(3)?.trim_ascii_start();
    // Others are in brackets, or have no name.
    (is_code && path.starts_with(b"/")).then(|| (range, Path::new(OsStr::from_bytes(path))))
}

/// Returns the files that `command` will have mapped when it has been started: itself, or what
/// interprets it, and its libraries. Libraries that it loads later are unknown.
///
/// # Errors
///
/// There is no such command, or it is no program.
pub fn find_for_command(command: &OsStr) -> Result<Vec<Used>, BinaryError> {
    let mut path = on_path(command).unwrap_or_else(|| command.into());
    for _ in 0..MAX_INTERPRETERS {
        match interpreter_of_script(&path) {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    let program = here(path);
    let mut used = libraries_of(&program.path);
    // An unreadable program is an error; it comes first.
    program.open()?;
    used.insert(0, program);
    Ok(used)
}

/// Returns a file of our own mount namespace.
pub fn here(path: PathBuf) -> Used {
    Used {
        location: path.clone(),
        path,
        root: "/".into(),
    }
}

/// Returns the command as the kernel is asked to run it.
fn on_path(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return None;
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(command))
        .find(|path| path.is_file())
}

/// Returns the program that a name in the folders of `PATH` leads to.
pub fn open_linked(name: &OsStr) -> Option<Binary> {
    here(on_path(name)?).open().ok()
}

/// Returns the interpreter that the first line of a script names.
fn interpreter_of_script(path: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let length = open_ordinary(path).ok()?.read(&mut start).ok()?;
    let line = start.get(..length)?.split(|byte| *byte == b'\n').next()?;
    let words = line.strip_prefix(b"#!")?.trim_ascii_start();
    let word = words.split(u8::is_ascii_whitespace).next()?;
    (!word.is_empty()).then(|| OsStr::from_bytes(word).into())
}

/// Returns the libraries that the dynamic linker of a program says it will load.
fn libraries_of(program: &Path) -> Vec<Used> {
    let Some(linker) = linker_of(program) else {
        return Vec::new();
    };
    let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    let listed = Command::new(&linker)
        .arg("--list")
        .arg(&program)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let lines = listed.split(|byte| *byte == b'\n');
    lines.filter_map(listed_library).map(here).collect()
}

/// Returns the program that loads a program's libraries.
fn linker_of(program: &Path) -> Option<PathBuf> {
    use object::read::elf::{ElfFile64, ProgramHeader};

    let cache = object::read::ReadCache::new(open_ordinary(program).ok()?);
    let parsed = ElfFile64::<object::NativeEndian, _>::parse(&cache).ok()?;
    let endian = parsed.endian();
    let mut headers = parsed.elf_program_headers().iter();
    let path = headers.find_map(|header| header.interpreter(endian, &cache).ok()?)?;
    Some(OsStr::from_bytes(path).into())
}

/// Reads the path in `libc.so.6 => /lib/libc.so.6 (0x7f…)`.
fn listed_library(line: &[u8]) -> Option<PathBuf> {
    let line = String::from_utf8_lossy(line);
    let location = line
        .split_once(" => ")
        .map_or(&*line, |(_, location)| location);
    let path = location.trim().split(" (").next()?;
    path.starts_with('/').then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_code_from_files_count() {
        let of = |line: &str| {
            code_mapping(line.as_bytes()).map(|(range, path)| format!("{range} {}", path.display()))
        };
        assert_eq!(
            of("55d0-55d1 r-xp 00001000 08:01 42                         /usr/bin/a b").as_deref(),
            Some("55d0-55d1 /usr/bin/a b")
        );
        // As low as programs without a relocation lie.
        assert_eq!(
            of("00400000-00401000 r-xp 00000000 08:01 42   /usr/bin/static").as_deref(),
            Some("400000-401000 /usr/bin/static")
        );
        assert_eq!(of("55d0-55d1 r--p 00001000 08:01 42   /usr/bin/cat"), None);
        assert_eq!(of("7ff0-7ff1 r-xp 00000000 00:00 0    [vdso]"), None);
        assert_eq!(of("7ff0-7ff1 rwxp 00000000 00:00 0"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_process_uses_its_program() {
        let own = std::env::current_exe().unwrap();
        let used =
            find_in_process(i32::try_from(std::process::id()).unwrap(), &mut Vec::new()).unwrap();
        let program = used.iter().find(|used| used.path == own).unwrap();
        assert_eq!(program.open().unwrap().path(), own);
    }

    #[test]
    fn a_process_is_looked_at_by_a_thread_that_lives() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!((living_thread(own), lives_on(own)), (own, false));
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
        let text = "#include <pthread.h>\n#include <unistd.h>\n
            static void *on(void *of) { write(1, \"x\", 1); pause(); return of; }
            int main(void) { pthread_t thread; pthread_create(&thread, 0, on, 0);
                pthread_exit(0); }";
        fs::write(&source, text).unwrap();
        let mut compiler = Command::new("cc");
        let made = compiler
            .arg("-pthread")
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status();
        assert!(made.unwrap().success());
        let mut child = Command::new(&program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let ended = std::time::Instant::now();
        while !lives_on(pid) && ended.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        let used = find_in_process(pid, &mut Vec::new());
        child.kill().unwrap();
        child.wait().unwrap();
        let used = used.unwrap();
        assert!(used.iter().any(|used| used.path == program), "{used:?}");
    }

    #[test]
    fn a_command_will_use_its_program_and_its_libraries() {
        let used = find_for_command(OsStr::new("sh")).unwrap();
        let named = |word: &str| {
            used.iter()
                .any(|used| used.path.to_string_lossy().contains(word))
        };
        assert!(named("/sh"), "{used:?}");
        assert!(named("libc"), "{used:?}");
        assert!(find_for_command(OsStr::new("no such command")).is_err());
    }

    #[test]
    fn a_script_uses_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#! /bin/sh -e\nexit\n").unwrap();
        let used = find_for_command(script.as_os_str()).unwrap();
        assert_eq!(used[0].path, Path::new("/bin/sh"));
    }
}
