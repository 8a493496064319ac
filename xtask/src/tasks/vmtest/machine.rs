//! Virtual machine, from its start to its end.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::console::{Console, Ended};
use crate::process;

/// Implementation of the guest's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processors {
    /// The host's own: about as fast as the host.
    Hardware,
    /// In software: some ten times slower.
    Software,
}

impl Processors {
    /// Returns the best that this machine can do. `/dev/kvm` alone is no proof: where this is a
    /// virtual machine itself it may be there and still not run a whole machine.
    pub fn detect() -> Self {
        let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let is_openable = File::options()
            .read(true)
            .write(true)
            .open("/dev/kvm")
            .is_ok();
        if is_openable && has_virtualisation(&flags) {
            Self::Hardware
        } else {
            Self::Software
        }
    }

    /// Describes the processors in words.
    pub fn for_people(self) -> &'static str {
        match self {
            Self::Hardware => "with KVM",
            Self::Software => "without KVM: some ten times slower",
        }
    }
}

fn has_virtualisation(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "vmx" || flag == "svm"))
}

/// Kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// This machine's kind.
    X86_64,
    /// Kind with processors that this machine does not have.
    Arm64,
}

impl Kind {
    fn emulator(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::X86_64 => &["-machine", "q35", "-cpu", "max"],
            // Signed pointers as real processors make them take a third of all time.
            Self::Arm64 => &[
                "-machine",
                "virt,gic-version=3",
                "-cpu",
                "max,pauth-impdef=on",
            ],
        }
    }

    fn console(self) -> &'static str {
        match self {
            Self::X86_64 => "ttyS0",
            Self::Arm64 => "ttyAMA0",
        }
    }
}

/// Virtual machine that is to boot.
pub struct Machine<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Folder of the host whose files it has, read-only.
    pub files: &'a Path,
    /// Path of the compressed kernel.
    pub kernel: &'a Path,
    /// Path of the archive with its root file system.
    pub initramfs: &'a Path,
    /// Implementation of its processors.
    pub processors: Processors,
    /// Whether emulated processors have a thread each.
    pub is_threaded: bool,
}

/// Boots the machine, lets it run to its end or until `limit`, and returns the state read from its
/// console. The whole output is appended to `log`, and `each` gets the result of each test as soon
/// as it is known.
pub fn run(
    machine: &Machine<'_>,
    log: &Path,
    limit: Duration,
    mut each: impl FnMut(Ended) -> anyhow::Result<()>,
) -> anyhow::Result<Console> {
    let mut command = command(machine);
    process::end_with_us(&mut command);
    let shown = process::shown(&command);
    let mut machine = command
        .spawn()
        .with_context(|| format!("cannot run: {shown}"))?;
    let output = machine.stdout.take().context("no console")?;
    let mut machine = EndsWithUs(machine);
    let log_file = File::options().create(true).append(true).open(log);
    let mut log = log_file.with_context(|| log.display().to_string())?;
    let lines = lines_of(output);
    let deadline = Instant::now() + limit;
    let mut console = Console::default();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                writeln!(log, "{line}")?;
                println!("    {line}");
                if let Some(time) = asked_pause(&line) {
                    machine.pause(time);
                }
                if let Some(ended) = console.line(&line) {
                    each(ended)?;
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                println!("    (ended by force after {} s)", limit.as_secs());
                return Ok(console);
            }
        }
    }
    let status = machine.0.wait()?;
    ensure!(status.success(), "failed ({status}): {shown}");
    Ok(console)
}

fn command(machine: &Machine<'_>) -> Command {
    let mut command = Command::new(machine.kind.emulator());
    command.args(machine.kind.arguments());
    command.args(["-smp", "2", "-m", "2G"]);
    command.args(match (machine.processors, machine.is_threaded) {
        (Processors::Hardware, _) => ["-accel", "kvm"],
        // Twice as fast. But a processor may run what another has just patched in the kernel's code
        // as it was before, and falls over it.
        (Processors::Software, true) => ["-accel", "tcg,thread=multi"],
        (Processors::Software, false) => ["-accel", "tcg,thread=single"],
    });
    command
        .args([
            "-nodefaults",
            "-display",
            "none",
            "-nic",
            "none",
            "-no-reboot",
        ])
        .args(["-serial", "stdio", "-kernel"])
        .arg(machine.kernel)
        .arg("-initrd")
        .arg(machine.initramfs)
        // The files, which the machine cannot change.
        .arg("-virtfs")
        .arg(format!(
            "local,path={},mount_tag=host,security_model=none,readonly=on,multidevs=remap",
            machine.files.display()
        ))
        .arg("-append")
        .arg(kernel_parameters(machine.kind, machine.processors))
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// Returns the kernel's parameters. A fault ends the machine (`-no-reboot`) instead of being one
/// line among many. A host that stops us for half a minute is no fault of the guest's.
fn kernel_parameters(kind: Kind, processors: Processors) -> String {
    let console = kind.console();
    let always = format!("console={console} quiet oops=panic panic=-1 watchdog_thresh=60");
    match processors {
        Processors::Hardware => always,
        // What guards against the tricks of real processors only takes time there, and so does a
        // clock that is a device.
        Processors::Software => format!("{always} mitigations=off tsc=reliable"),
    }
}

/// Longest time for which a guest may ask to be paused.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Returns for how long the guest asks to be paused by a line: a gap that it knows nothing of.
fn asked_pause(line: &str) -> Option<Duration> {
    let ms = line.strip_prefix("vmtest: pause ")?.parse().ok()?;
    Some(Duration::from_millis(ms).min(LONGEST_PAUSE))
}

fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if sender.send(line.trim_end().to_owned()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Machine that is ended when this value is dropped, on every way out.
struct EndsWithUs(Child);

impl EndsWithUs {
    /// Has its processors stand still for so long.
    fn pause(&self, time: Duration) {
        let Ok(pid) = libc::pid_t::try_from(self.0.id()) else {
            return;
        };
        // SAFETY: it is our child, which is not reaped yet.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        thread::sleep(time);
        // SAFETY: as above.
        unsafe { libc::kill(pid, libc::SIGCONT) };
    }
}

impl Drop for EndsWithUs {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_paused_for_as_long_as_it_asks_and_not_for_ever() {
        let of = |line| asked_pause(line).map(|time| time.as_millis());
        assert_eq!(of("vmtest: pause 300"), Some(300));
        assert_eq!(of("vmtest: pause 999999"), Some(5000));
        assert_eq!(of("vmtest: pause soon"), None);
        assert_eq!(of("vmtest: test pause 300"), None);
    }

    #[test]
    fn only_a_processor_that_virtualises_is_taken_for_one() {
        assert!(has_virtualisation("model\t: x\nflags\t\t: fpu vmx sse\n"));
        assert!(has_virtualisation("flags\t\t: fpu sse svm\n"));
        assert!(!has_virtualisation(
            "flags\t\t: fpu vmxish sse\nbugs: vmx\n"
        ));
        assert!(!has_virtualisation(""));
    }
}
