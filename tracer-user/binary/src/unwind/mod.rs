//! Finds the functions of a thread from its registers and the copied part of its stack.
//!
//! Many distributions build programs without frame pointers. The file that has a function says, for
//! exceptions, how to find its caller (`.eh_frame`); `frame_info` reads that, with gimli. Where the
//! file does not say it, or the memory was not copied, the stack ends, with the reason: nothing is
//! guessed.
//!
//! No existing unwinder is used: it would fall back to frame pointers, and would evaluate the
//! expressions in files without a limit.

mod frame_info;
mod registers;

use std::sync::Arc;

use foldhash::HashMap;
use frame_info::{FrameInfo, Halt, UnwindRule, UnwindSource};
use gimli::UnwindContext;
use registers::{Memory, Registers};
use tracer_common::kernel::{REGISTERS, stack_ends};

use crate::probes::UnwindData;
use crate::stacks::{BuildIds, Mapped, MappedBy, TimedMappings, binary};

pub use registers::REGISTERS_BYTES;

/// Bytes of all files together that are in memory. Beyond that, all are forgotten.
const MOST_BYTES: u64 = 512 << 20;

/// Files that are known. Beyond that, all are forgotten.
const MOST_FILES: usize = 16_384;

/// Rules that are known. Beyond that, all are forgotten.
const MOST_RULES: usize = 1 << 16;

/// A file: its path and build identifier.
type FileKey = (Arc<[u8]>, Vec<u8>);

/// Process at a time.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTime {
    /// The process.
    pub pid: i32,
    /// The time, in nanoseconds.
    pub at: u64,
}

/// Copied state of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Copied<'a> {
    /// Its registers, as the kernel has saved them.
    pub registers: &'a [u64; REGISTERS],
    /// Its memory, from its stack pointer on.
    pub memory: &'a [u8],
}

/// The functions that a thread was in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwoundStack {
    /// Addresses in the functions, the innermost first.
    pub addresses: Vec<u64>,
    /// Reason why they end there: see [`stack_ends`].
    pub ends: u32,
    /// Whether the last address is in no known mapping.
    pub is_unmapped: bool,
}

/// Finds functions.
#[derive(Debug, Default)]
pub struct Unwinder {
    /// Files by path and build identifier; `None` where the file has no unwind information.
    files: HashMap<FileKey, Option<u32>>,
    infos: Vec<FrameInfo>,
    /// Bytes of all of those.
    bytes: u64,
    /// Rules by file, and address in it.
    rules: HashMap<(u32, u64), Option<Arc<UnwindRule>>>,
    context: UnwindContext<usize>,
    build_ids: BuildIds,
    /// Number of times that everything was forgotten: an index that a mapping got before the last
    /// time is no longer valid.
    generation: u32,
}

impl Unwinder {
    /// Finds the functions that a thread of a process was in at a time, `most` of them at most.
    pub fn find(
        &mut self,
        of: ProcessTime,
        space: &mut Space,
        copied: &Copied<'_>,
        most: usize,
    ) -> UnwoundStack {
        match Registers::from_kernel(copied.registers) {
            Ok(registers) => self.walk(of, space, registers, copied.memory, most),
            // A program of 32 bits: its file has the rules in another form.
            Err(ip) => UnwoundStack {
                addresses: vec![ip],
                ends: stack_ends::CODE,
                ..UnwoundStack::default()
            },
        }
    }

    /// Finds functions as [`find`](Self::find) does, where only the address at which the thread
    /// continues and its stack pointer are known: the stack ends where a caller is found by
    /// another register.
    pub fn find_by_stack_pointer(
        &mut self,
        of: ProcessTime,
        space: &mut Space,
        (ip, stack): (u64, u64),
        memory: &[u8],
        most: usize,
    ) -> UnwoundStack {
        let registers = Registers::of_thread(ip, stack);
        self.walk(of, space, registers, memory, most)
    }

    fn walk(
        &mut self,
        of: ProcessTime,
        space: &mut Space,
        mut registers: Registers,
        memory: &[u8],
        most: usize,
    ) -> UnwoundStack {
        let mut found = UnwoundStack::default();
        if registers.ip == 0 {
            return found;
        }
        let source = UnwindSource::new(Memory {
            start: registers.stack(),
            bytes: memory,
        });
        // The first address is where the thread continues. That of a caller is behind a call,
        // unless the caller was interrupted.
        let mut is_exact = true;
        loop {
            found.addresses.push(registers.ip);
            if found.addresses.len() >= most {
                found.ends = stack_ends::COUNT;
                return found;
            }
            let caller = self.step(of, space, &registers, &source, is_exact);
            let halt = match caller {
                Ok(caller) => {
                    let is_further = caller.registers.stack() > registers.stack();
                    // A caller's stack pointer is further out, but for two cases: a function that
                    // has called nothing may have its return in a register, and a signal handler
                    // may have another stack.
                    if is_further || is_exact || caller.was_interrupted {
                        is_exact = caller.was_interrupted;
                        registers = caller.registers;
                        continue;
                    }
                    Halt::Damaged
                }
                Err(Stop::Unmapped) => {
                    found.is_unmapped = true;
                    Halt::Code
                }
                Err(Stop::Halt(halt)) => halt,
            };
            found.ends = match halt {
                Halt::Beginning => stack_ends::BEGINNING,
                Halt::Memory => stack_ends::MEMORY,
                Halt::Code => stack_ends::CODE,
                Halt::Damaged => stack_ends::DAMAGED,
            };
            return found;
        }
    }

    fn step(
        &mut self,
        of: ProcessTime,
        space: &mut Space,
        registers: &Registers,
        source: &UnwindSource<'_>,
        is_exact: bool,
    ) -> Result<frame_info::Caller, Stop> {
        // A function may end with a call: the address behind that is in another function.
        let address = registers.ip.wrapping_sub(u64::from(!is_exact));
        let mapped = space.find_mut(address, of.at).ok_or(Stop::Unmapped)?;
        let offset = (address - mapped.mapping.start).checked_add(mapped.mapping.file_offset);
        let known = mapped
            .found
            .filter(|(generation, _)| *generation == self.generation);
        let file = match known {
            Some((_, file)) => file,
            None => {
                let file = self.file(of.pid, mapped);
                mapped.found = Some((self.generation, file));
                file
            }
        };
        let halt = Stop::Halt(Halt::Code);
        let (Some(file), Some(offset)) = (file, offset) else {
            return Err(halt);
        };
        let info = usize::try_from(file).ok().and_then(|at| self.infos.get(at));
        let info = info.ok_or(halt)?;
        let address = info.address(offset).ok_or(halt)?;
        let rule = match self.rules.get(&(file, address)) {
            Some(known) => known.clone(),
            None => {
                let rule = info.rule(address, &mut self.context).map(Arc::new);
                if self.rules.len() >= MOST_RULES {
                    self.rules.clear();
                }
                self.rules.insert((file, address), rule.clone());
                rule
            }
        };
        let rule = rule.ok_or(halt)?;
        info.caller(&rule, registers, source).map_err(Stop::Halt)
    }

    /// Returns the file of a mapping, if it has unwind information.
    fn file(&mut self, pid: i32, mapped: &Mapped<Option<(u32, Option<u32>)>>) -> Option<u32> {
        let mapping = &*mapped.mapping;
        let key = (Arc::clone(&mapping.path), mapping.build_id.clone());
        if let Some(known) = self.files.get(&key) {
            return *known;
        }
        let data = if *mapping.path == *b"[vdso]" {
            UnwindData::of_vdso()
        } else if mapping.path.starts_with(b"/") {
            let owner = MappedBy {
                pid,
                at: Some(mapped.since),
            };
            let binary = binary(owner, mapping, &mut self.build_ids);
            binary.and_then(|binary| binary.unwind_data())
        } else {
            None
        };
        let info = data.map(FrameInfo::new);
        let bytes = info.as_ref().map_or(0, FrameInfo::bytes);
        // Files without a build identifier are in `infos` alone.
        let files = self.files.len().max(self.infos.len());
        if self.bytes + bytes > MOST_BYTES || files >= MOST_FILES {
            self.forget();
        }
        self.bytes += bytes;
        let index = info.and_then(|info| {
            self.infos.push(info);
            u32::try_from(self.infos.len() - 1).ok()
        });
        // Without a build identifier, another file may have the path by now.
        if !mapping.build_id.is_empty() || !mapping.path.starts_with(b"/") {
            self.files.insert(key, index);
        }
        index
    }

    fn forget(&mut self) {
        self.files.clear();
        self.infos.clear();
        self.rules.clear();
        self.bytes = 0;
        self.generation = self.generation.wrapping_add(1);
    }
}

/// Reason for going no further.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Code in no mapping that is known.
    Unmapped,
    Halt(Halt),
}

/// The code that a process has mapped, by address and time. Once the [`Unwinder`] has looked up the
/// file of a mapping, the mapping keeps the index of the file, and the generation of the look-up.
pub type Space = TimedMappings<Option<(u32, Option<u32>)>>;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::stacks::Mapping;

    const SOURCE: &str = "
        volatile int seen;
        __attribute__((noinline)) int inner(int of) { seen = of; return seen + 1; }
        __attribute__((noinline)) int outer(int of) {
            volatile char space[100]; space[of & 63] = 1; return inner(of) + space[1]; }
        int main(int count, char **typed) { return outer(count) + (typed == 0); }";

    /// Builds a program without frame pointers; returns its file and its functions.
    fn program(folder: &Path) -> (std::path::PathBuf, Vec<crate::probes::Function>) {
        let (source, made) = (folder.join("a.c"), folder.join("a"));
        std::fs::write(&source, SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-fomit-frame-pointer", "-o"])
            .arg(&made);
        assert!(compiler.arg(&source).status().unwrap().success());
        let binary = crate::probes::Binary::open(&made, &made, Path::new("/")).unwrap();
        let functions = binary.functions().unwrap();
        (made, functions)
    }

    /// Returns a space with that file alone, mapped from this address on as one piece.
    fn space(file: &Path, start: u64) -> Space {
        use std::os::unix::ffi::OsStrExt;
        let mut space = Space::default();
        let mapping = Mapping {
            start,
            end: start + (1 << 20),
            file_offset: 0,
            build_id: Vec::new(),
            path: file.as_os_str().as_bytes().into(),
            inode: 0,
        };
        assert!(space.map(1, &mapping));
        space
    }

    fn found(file: &Path, registers: &[u64; REGISTERS], memory: &[u8]) -> UnwoundStack {
        let mut unwinder = Unwinder::default();
        let copied = Copied { registers, memory };
        let pid = i32::try_from(std::process::id()).unwrap();
        unwinder.find(
            ProcessTime { pid, at: 1 },
            &mut space(file, START),
            &copied,
            127,
        )
    }

    const START: u64 = 0x10_0000;
    const STACK: u64 = 0x7fff_0000;

    #[cfg(target_arch = "x86_64")]
    fn registers(ip: u64) -> [u64; REGISTERS] {
        let mut registers = [0; REGISTERS];
        registers[16] = ip;
        registers[19] = STACK;
        registers
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_is_missing_ends_a_stack_and_is_not_guessed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, functions) = program(folder.path());
        let at = |name: &str| {
            let found = functions.iter().find(|one| one.name == name);
            START + found.unwrap().offset
        };
        let words = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        // Where a function begins, its return is on top.
        let memory = words(&[at("outer") + 1]);
        let of = found(&file, &registers(at("inner")), &memory);
        assert_eq!(of.addresses, [at("inner"), at("outer") + 1]);
        assert_eq!(of.ends, stack_ends::MEMORY);
        let of = found(&file, &registers(at("inner")), &[]);
        assert_eq!((of.addresses.len(), of.ends), (1, stack_ends::MEMORY));
        // A return to an address in no mapping, and no return.
        let of = found(&file, &registers(at("inner")), &words(&[5]));
        assert_eq!((of.addresses.len(), of.ends), (2, stack_ends::CODE));
        assert!(of.is_unmapped);
        let of = found(&file, &registers(at("inner")), &words(&[0]));
        assert_eq!((of.addresses.len(), of.ends), (1, stack_ends::BEGINNING));
        // A stack that leads to itself has an end.
        let circle: Vec<u64> = (0..4096).map(|_| at("inner") + 1).collect();
        let of = found(&file, &registers(at("inner")), &words(&circle));
        assert_eq!((of.addresses.len(), of.ends), (127, stack_ends::COUNT));
        // A thread of the kernel, and a program of 32 bits.
        assert_eq!(found(&file, &registers(0), &[]), UnwoundStack::default());
        let mut narrow = registers(at("inner"));
        narrow[17] = 0x23;
        let of = found(&file, &narrow, &memory);
        assert_eq!((of.addresses.len(), of.ends), (1, stack_ends::CODE));
        let mut wild = registers(u64::MAX);
        wild[19] = u64::MAX;
        assert_eq!(found(&file, &wild, &memory).ends, stack_ends::CODE);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn an_expression_without_an_end_is_given_up() {
        // An expression computes the frame, and only jumps to itself.
        let source = ".globl main\n.type main,%function\nmain:\n.cfi_startproc\n\
                      .cfi_escape 0x0f,0x03,0x2f,0xfd,0xff\nnop\nret\n.cfi_endproc\n\
                      .size main,.-main\n.section .note.GNU-stack,\"\",%progbits\n";
        let folder = tempfile::tempdir().unwrap();
        let (path, made) = (folder.path().join("a.s"), folder.path().join("a"));
        std::fs::write(&path, source).unwrap();
        let mut compiler = Command::new("cc");
        let made_it = compiler.arg("-o").arg(&made).arg(&path).status().unwrap();
        assert!(made_it.success());
        let binary = crate::probes::Binary::open(&made, &made, Path::new("/")).unwrap();
        let functions = binary.functions().unwrap();
        let main = functions.iter().find(|one| one.name == "main").unwrap();
        let of = found(&made, &registers(START + main.offset), &[0; 64]);
        assert_eq!((of.addresses.len(), of.ends), (1, stack_ends::DAMAGED));
    }

    /// Builds a file without an index, whose entries are of one byte of code each and have a long
    /// text in common.
    fn slow_to_read(folder: &Path) -> std::path::PathBuf {
        let common = 16_u32 << 20;
        let mut frames: Vec<u8> = Vec::new();
        frames.extend((common - 4).to_ne_bytes());
        frames.extend([0, 0, 0, 0, 1]);
        let common = usize::try_from(common).unwrap();
        frames.resize(common - 8, b'S');
        frames.resize(common, 0);
        for nth in 0..400_000_u32 {
            frames.extend(20_u32.to_ne_bytes());
            let back = u32::try_from(frames.len()).unwrap();
            frames.extend(back.to_ne_bytes());
            frames.extend([nth, 0, 1, 0].map(u32::to_ne_bytes).concat());
        }
        std::fs::write(folder.join("frames"), frames).unwrap();
        let source = ".globl main\nmain: ret\n.section .eh_frame,\"a\",%progbits\n\
                      .incbin \"frames\"\n.section .note.GNU-stack,\"\",%progbits\n";
        std::fs::write(folder.join("a.s"), source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args([
            "-nostdlib",
            "-Wl,--no-eh-frame-hdr",
            "-Wl,--no-ld-generated-unwind-info",
        ]);
        compiler.args(["-Wl,-emain", "-o", "a", "a.s"]);
        assert!(compiler.current_dir(folder).status().unwrap().success());
        folder.join("a")
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn entries_with_much_in_common_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = slow_to_read(folder.path());
        let binary = crate::probes::Binary::open(&file, &file, Path::new("/")).unwrap();
        let info = FrameInfo::new(binary.unwind_data().unwrap());
        // 16 MiB for each of them would take minutes.
        assert_eq!(info.entries(), Some(0));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_stack_has_so_many_expressions_and_no_more() {
        // Each frame is 8 bytes further out. Expressions compute it, and three registers.
        let source = ".globl main\n.type main,%function\nmain:\n.cfi_startproc\n\
                      .cfi_escape 0x0f,0x02,0x77,0x08\n.cfi_escape 0x10,0x03,0x02,0x77,0x00\n\
                      .cfi_escape 0x10,0x06,0x02,0x77,0x00\n.cfi_escape 0x10,0x0c,0x02,0x77,0x00\n\
                      nop\nret\n.cfi_endproc\n\
                      .size main,.-main\n.section .note.GNU-stack,\"\",%progbits\n";
        let folder = tempfile::tempdir().unwrap();
        let (path, made) = (folder.path().join("a.s"), folder.path().join("a"));
        std::fs::write(&path, source).unwrap();
        let mut compiler = Command::new("cc");
        assert!(
            compiler
                .arg("-o")
                .arg(&made)
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let binary = crate::probes::Binary::open(&made, &made, Path::new("/")).unwrap();
        let functions = binary.functions().unwrap();
        let main = functions.iter().find(|one| one.name == "main").unwrap();
        let at = START + main.offset;
        let memory: Vec<u8> = (0..4096).flat_map(|_| (at + 1).to_ne_bytes()).collect();
        let of = found(&made, &registers(at), &memory);
        // Each function takes four expressions.
        assert_eq!(
            (of.addresses.len(), of.ends),
            (256 / 4 + 1, stack_ends::DAMAGED)
        );
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn damage_does_no_harm() {
        use object::{Object, ObjectSection};

        let folder = tempfile::tempdir().unwrap();
        let (file, functions) = program(folder.path());
        let whole = std::fs::read(&file).unwrap();
        let parsed = object::File::parse(&*whole).unwrap();
        let names = [".eh_frame", ".eh_frame_hdr"].iter();
        let ranges: Vec<_> = names
            .filter_map(|name| parsed.section_by_name(name)?.file_range())
            .collect();
        assert_eq!(ranges.len(), 2);
        let damaged_file = folder.path().join("damaged");
        let memory: Vec<u8> = functions
            .iter()
            .cycle()
            .take(500)
            .flat_map(|one| (START + one.offset + 3).to_ne_bytes())
            .collect();
        let mut seed = 1_u64;
        for round in 0..600 {
            let mut damaged = whole.clone();
            for _ in 0..=round % 8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (start, bytes) = ranges[(seed >> 33) as usize % ranges.len()];
                let at = start + (seed >> 20) % bytes;
                damaged[usize::try_from(at).unwrap()] = (seed >> 56) as u8;
            }
            std::fs::write(&damaged_file, damaged).unwrap();
            for function in &functions {
                let of = found(&damaged_file, &registers(START + function.offset), &memory);
                assert!(of.addresses.len() <= 127);
            }
        }
    }
}
