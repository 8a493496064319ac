//! The instructions that a program really executes between two breakpoints, one by one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

/// An instruction as `objdump` writes it, and the object that has it.
#[derive(Clone, Debug)]
pub struct Step {
    /// Index of the object among those that were given.
    pub object: usize,
    /// The instruction, as `objdump` writes it.
    pub instruction: String,
}

impl Step {
    /// The instruction's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.instruction.split_whitespace().next().unwrap_or("")
    }

    /// Tells whether it looks at memory, or calls or jumps to where memory says.
    #[must_use]
    pub fn has_memory_operand(&self) -> bool {
        !self.name().starts_with("lea")
            && !self.name().starts_with("nop")
            && (self.instruction.contains('(') || self.instruction.contains("%fs:"))
    }

    /// Tells whether it writes to memory, the stack included.
    #[must_use]
    pub fn is_store(&self) -> bool {
        let reads = ["cmp", "test", "bt", "jmp", "lea", "nop"];
        let is_read = reads.iter().any(|name| self.name().starts_with(name));
        let is_stack = ["push", "call", "enter"]
            .iter()
            .any(|name| self.name().starts_with(name));
        is_stack || !is_read && self.ends_with_memory()
    }

    /// Tells whether the last operand, which is the one that is written, is in memory.
    fn ends_with_memory(&self) -> bool {
        // The target's address is not part of an operand: "mov %eax,0x2(%rip) # 4010 <enabled>".
        let operands = self.instruction.split('#').next().unwrap_or("").trim();
        let last = operands.rsplit(',').next().unwrap_or("");
        operands.ends_with(')') || last.contains("%fs:")
    }
}

/// Lists the instructions that `command` executes between its first two breakpoints. All of them
/// have to be in `objects`.
///
/// # Errors
///
/// The program cannot be started or followed, has no two breakpoints, or runs through other code.
pub fn between_breakpoints(command: &mut Command, objects: &[&Path]) -> anyhow::Result<Vec<Step>> {
    // SAFETY: what is called is safe after a fork.
    unsafe { command.pre_exec(|| request(libc::PTRACE_TRACEME, 0, 0)) };
    let mut child = command.spawn().context("cannot start the program")?;
    let pid = i32::try_from(child.id())?;
    let followed = follow(pid).and_then(|addresses| {
        let bases = objects.iter().map(|object| base(pid, object));
        Ok((addresses, bases.collect::<anyhow::Result<Vec<_>>>()?))
    });
    // Also where it could not be followed to its end.
    let _ = child.kill();
    let _ = child.wait();
    let (addresses, bases) = followed?;
    let mut code = HashMap::new();
    for (object, (path, base)) in objects.iter().zip(bases).enumerate() {
        for (address, instruction) in disassembled(path)? {
            let step = Step {
                object,
                instruction,
            };
            code.insert(base + address, step);
        }
    }
    let step = |address: &u64| {
        let step = code.get(address).cloned();
        step.with_context(|| format!("{address:#x} is in none of the objects"))
    };
    addresses.iter().map(step).collect()
}

/// Returns the address of the program at each step.
fn follow(pid: i32) -> anyhow::Result<Vec<u64>> {
    /// More steps than any trace point takes.
    const MOST: usize = 100_000;
    /// The instruction `int3`.
    const BREAKPOINT: u8 = 0xcc;
    stopped(pid).context("the program's exec")?;
    request(libc::PTRACE_CONT, pid, 0)?;
    stopped(pid).context("the first breakpoint")?;
    let mut addresses = Vec::new();
    while addresses.len() < MOST {
        let at = instruction_pointer(pid)?;
        if byte_at(pid, at)? == BREAKPOINT {
            return Ok(addresses);
        }
        addresses.push(at);
        request(libc::PTRACE_SINGLESTEP, pid, 0)?;
        stopped(pid)?;
    }
    bail!("no second breakpoint within {MOST} steps")
}

fn request(request: libc::c_uint, pid: i32, data: usize) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take no pointers into our memory.
    match unsafe { libc::ptrace(request, pid, nothing, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until the program has stopped at a trap.
fn stopped(pid: i32) -> anyhow::Result<()> {
    let mut status = 0;
    // SAFETY: valid for writes.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    ensure!(waited == pid, "the program is gone");
    ensure!(
        libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP,
        "the program did not stop at a trap: status {status:#x}"
    );
    Ok(())
}

fn instruction_pointer(pid: i32) -> anyhow::Result<u64> {
    // SAFETY: registers are plain integers.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: `registers` is valid for what the request writes.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, nothing, &raw mut registers) };
    ensure!(result != -1, io::Error::last_os_error());
    Ok(registers.rip)
}

fn byte_at(pid: i32, address: u64) -> anyhow::Result<u8> {
    use std::os::unix::fs::FileExt as _;
    let mut byte = [0];
    let memory = fs::File::open(format!("/proc/{pid}/mem"))?;
    memory.read_exact_at(&mut byte, address)?;
    Ok(byte[0])
}

/// Returns the address of a library in the program's memory.
fn base(pid: i32, library: &Path) -> anyhow::Result<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let library = library.canonicalize()?;
    let line = maps
        .lines()
        .find(|line| line.ends_with(&*library.to_string_lossy()));
    let line = line.with_context(|| format!("{} is not loaded", library.display()))?;
    let (start, _) = line.split_once('-').context("no address")?;
    Ok(u64::from_str_radix(start, 16)?)
}

/// Returns every instruction of a library, by its address in the file.
fn disassembled(library: &Path) -> anyhow::Result<HashMap<u64, String>> {
    let output = Command::new("objdump")
        .args(["--disassemble", "--no-show-raw-insn"])
        .arg(library)
        .output()
        .context("cannot run objdump")?;
    ensure!(output.status.success(), "objdump failed");
    let text = String::from_utf8_lossy(&output.stdout);
    // "   20310:	mov    (%rsp),%rcx"
    let instruction = |line: &str| {
        let (address, instruction) = line.split_once(":\t")?;
        let address = u64::from_str_radix(address.trim(), 16).ok()?;
        Some((address, instruction.trim().to_owned()))
    };
    Ok(text.lines().filter_map(instruction).collect())
}

#[cfg(test)]
mod tests {
    use super::Step;

    fn step(instruction: &str) -> Step {
        Step {
            object: 0,
            instruction: instruction.to_owned(),
        }
    }

    #[test]
    fn what_writes_to_memory_is_a_store() {
        for store in [
            "mov    %eax,0x2f47(%rip)        # 3fc8 <enabled>",
            "movl   $0x0,(%rax,%rcx,8)",
            "incl   (%rax)",
            "mov    %rax,%fs:0x10",
            "push   %rbx",
            "lock addl $0x1,(%rsp)",
        ] {
            assert!(step(store).is_store(), "{store}");
        }
        for other in [
            "mov    0x2f47(%rip),%rdx        # 3fc8 <enabled>",
            "cmpl   $0x0,(%rax)",
            "test   %edx,%edx",
            "jmp    *0x2fe2(%rip)        # 3fd0",
            "nopw   0x0(%rax,%rax,1)",
            "mov    %fs:0x10,%rax",
            "ret",
        ] {
            assert!(!step(other).is_store(), "{other}");
        }
    }
}
