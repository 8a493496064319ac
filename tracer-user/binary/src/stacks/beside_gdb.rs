//! Names and lines of programs whose data for debuggers is elsewhere, in each of the forms that
//! tools make: beside gdb.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::inlined::{Allowance, Inlined};
use super::modules::Module;
use crate::probes::Binary;

const COMMON: &str = "
struct common { int count; struct common *next; const char *name; };
int shared(struct common *of, int by);
int other(struct common *of);";

const ONE: &str = r#"#include "common.h"
volatile int seen;
static inline __attribute__((always_inline)) int inner(struct common *of) {
    seen = of->count;
    return seen + 1;
}
static inline __attribute__((always_inline)) int middle(struct common *of) {
    int first = inner(of);
    return first + inner(of->next);
}
__attribute__((noinline)) int outer(struct common *of) {
    int sum = middle(of);
    sum += shared(of, sum);
    return sum;
}
static __attribute__((noinline)) int hidden(struct common *of) {
    return outer(of) + seen;
}
int main(int count, char **typed) {
    struct common of = { count, &of, typed[0] };
    return hidden(&of) + other(&of);
}
"#;

const TWO: &str = r#"#include "common.h"
volatile int last;
static inline __attribute__((always_inline)) int twice(struct common *of) {
    last = of->count * 2;
    return last;
}
__attribute__((noinline)) int shared(struct common *of, int by) {
    return twice(of) + twice(of->next) + by;
}
__attribute__((noinline)) int other(struct common *of) {
    return shared(of, 3) - twice(of);
}
"#;

/// Functions of the program.
const FUNCTIONS: [&str; 5] = ["main", "hidden", "outer", "shared", "other"];

/// Program of gdb that writes what it says of addresses: one line each.
const ASK: &str = r#"
import gdb
for word in open("addresses"):
    pc = int(word)
    names = []
    block = gdb.block_for_pc(pc)
    while block is not None:
        if block.function is not None:
            names.append(block.function.print_name)
        block = block.superblock
    if not names:
        symbol = gdb.execute("info symbol %d" % pc, to_string=True)
        names = [symbol.split()[0]] if " in section " in symbol else ["?"]
    line = gdb.find_pc_line(pc)
    known = line.symtab is not None and line.line > 0
    place = "%s:%d" % (line.symtab.filename.split("/")[-1], line.line) if known else "?"
    print("said", " ".join(names), place)
"#;

/// Folder with a program, at fixed addresses.
struct Stage(tempfile::TempDir);

impl Stage {
    /// Compiles the program with these options; `None` where tools are missing.
    fn build(compiler: &str, options: &str) -> Option<Self> {
        for tool in ["gdb", "dwz", "dwp", "xz"] {
            let is_there = Command::new(tool).arg("--version").output().is_ok();
            assert!(is_there || std::env::var_os("CI").is_none(), "no {tool}");
            if !is_there {
                return None;
            }
        }
        let stage = Self(tempfile::tempdir().unwrap());
        for (name, text) in [
            ("common.h", COMMON),
            ("one.c", ONE),
            ("two.c", TWO),
            ("ask.py", ASK),
        ] {
            fs::write(stage.at(name), text).unwrap();
        }
        for unit in ["one", "two"] {
            stage.run(&format!("{compiler} -g -O2 -fno-pie {options} -c {unit}.c"));
        }
        stage.run("gcc -no-pie -Wl,--build-id=sha1 -o whole one.o two.o");
        Some(stage)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &str) -> String {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        let output = command.args(words).current_dir(self.0.path()).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Moves a file to where debuggers look for it by the build identifier of the program.
    fn install(&self, debug: &str) {
        let notes = self.run("readelf -n whole");
        let id = notes.split("Build ID: ").nth(1).unwrap().trim();
        let (first, rest) = id.split_at(2);
        let folder = self.at("usr/lib/debug/.build-id").join(first);
        fs::create_dir_all(&folder).unwrap();
        let rest = rest.split_whitespace().next().unwrap();
        fs::rename(self.at(debug), folder.join(format!("{rest}.debug"))).unwrap();
    }

    /// Offsets in the file, and addresses, of all code of the program's own functions.
    fn code(&self) -> Vec<(u64, u64)> {
        let whole = self.open("whole");
        let functions = whole.functions().unwrap();
        let own = functions
            .iter()
            .filter(|one| FUNCTIONS.contains(&&*one.name));
        let offsets: Vec<u64> = own
            .flat_map(|one| one.offset..one.offset + one.size)
            .collect();
        assert!(offsets.len() > 100);
        let address = |offset| whole.code_address(offset).unwrap().unwrap();
        offsets
            .into_iter()
            .map(|offset| (offset, address(offset)))
            .collect()
    }

    fn open(&self, program: &str) -> Binary {
        let path = self.at(program);
        Binary::open(&path, &path, self.0.path()).unwrap()
    }

    /// Returns what we say of the program.
    fn ours(&self, program: &str, code: &[(u64, u64)]) -> Vec<String> {
        let binary = self.open(program);
        let module = Module::from_functions(binary.functions().unwrap());
        let mut allowance = Allowance::default();
        let data = binary.debug_data();
        let mut inlined = data.map(|data| Inlined::from_debug_data(data, &mut allowance).unwrap());
        let mut says = |offset| {
            let described = inlined.as_mut().map(|file| file.at(offset, &mut allowance));
            let mut said = String::new();
            let mut line = None;
            if let Some(described) = described {
                for (name, _) in &described.inlined {
                    said.push_str(&format!("{name} "));
                }
                line.clone_from(&described.line);
                if let Some((_, inner)) = described.inlined.first() {
                    line.clone_from(inner);
                }
            }
            let name = module.find(offset).map_or("?".into(), |(name, _)| name);
            let place = line.map_or("?".to_owned(), |(file, line)| {
                format!("{}:{line}", file.rsplit('/').next().unwrap())
            });
            format!("{said}{name} {place}")
        };
        code.iter().map(|(offset, _)| says(*offset)).collect()
    }

    /// Returns what gdb says of the program.
    fn theirs(&self, program: &str, code: &[(u64, u64)]) -> Vec<String> {
        let addresses: String = code.iter().map(|(_, at)| format!("{at}\n")).collect();
        fs::write(self.at("addresses"), addresses).unwrap();
        let folder = self.at("usr/lib/debug");
        let mut gdb = Command::new("gdb");
        gdb.args(["-batch", "-nx", "-iex", "set auto-load no", "-iex"]);
        gdb.arg(format!("set debug-file-directory {}", folder.display()));
        gdb.args(["-iex", "set debuginfod enabled off"]);
        gdb.args(["-x", "ask.py"]).arg(self.at(program));
        let output = gdb.current_dir(self.0.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = said.lines().filter_map(|line| line.strip_prefix("said "));
        lines.map(str::to_owned).collect()
    }

    /// Asserts that both say the same of a program; returns that.
    fn compare(&self, program: &str, what: &str) -> Vec<String> {
        let code = self.code();
        let (ours, theirs) = (self.ours(program, &code), self.theirs(program, &code));
        assert_eq!(ours.len(), theirs.len(), "{what}");
        for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "{what}: {:#x}", code[at].1);
        }
        ours
    }

    /// Asserts that all is known of a program, as gdb says it.
    fn compare_all(&self, program: &str, what: &str) -> Vec<String> {
        let said = self.compare(program, what);
        for known in [
            "inner middle outer one.c:4",
            "hidden one.c:",
            "twice other two.c:",
        ] {
            let is_said = said.iter().any(|one| one.starts_with(known));
            assert!(is_said, "{what}: {known}: {said:#?}");
        }
        said
    }
}

#[test]
fn data_for_debuggers_in_other_files_says_what_gdb_says() {
    let Some(stage) = Stage::build("gcc", "") else {
        return;
    };
    stage.compare_all("whole", "whole");
    stage.run("objcopy --only-keep-debug whole whole.debug");
    stage.run("objcopy --strip-all --add-gnu-debuglink=whole.debug whole linked");
    stage.compare_all("linked", "link");
    fs::create_dir(stage.at(".debug")).unwrap();
    stage.run("mv whole.debug .debug/");
    stage.compare_all("linked", "link in a folder");
    stage.run("objcopy --strip-all whole stripped");
    let said = stage.compare("stripped", "stripped");
    assert!(said.iter().all(|one| one == "? ?"), "{said:?}");
    // Symbols that are packed.
    stage.run("objcopy -S --keep-symbol=hidden --keep-symbol=outer --keep-symbol=main whole small");
    stage.run("xz small");
    stage.run("objcopy --add-section=.gnu_debugdata=small.xz stripped packed");
    let said = stage.compare("packed", "packed");
    assert!(said.iter().any(|one| one == "hidden ?"), "{said:?}");
    stage.run("objcopy --compress-debug-sections=zlib .debug/whole.debug by_id");
    stage.install("by_id");
    stage.compare_all("stripped", "by identifier");
}

#[test]
fn what_files_have_in_common_says_what_gdb_says() {
    let Some(stage) = Stage::build("gcc", "-gdwarf-5") else {
        return;
    };
    // Two programs with the same types and functions.
    stage.run("gcc -no-pie -Wl,--build-id=sha1 -o another one.o two.o -Wl,--defsym=x=1");
    let folder = stage.0.path().display().to_string();
    for (round, name) in [String::new(), format!("{folder}/")].iter().enumerate() {
        for name in ["whole", "another"] {
            stage.run(&format!("cp {name} {name}_{round}"));
        }
        stage.run(&format!(
            "dwz -m common_{round} -M {name}common_{round} whole_{round} another_{round}"
        ));
        let sections = stage.run(&format!("readelf -SW whole_{round}"));
        assert!(sections.contains(".gnu_debugaltlink"), "{sections}");
    }
    stage.compare_all("whole_0", "a name");
    stage.compare_all("whole_1", "a path");
    // In the debugger's part beside it.
    stage.run("objcopy --only-keep-debug whole_1 whole.debug");
    stage.run("objcopy --strip-all --add-gnu-debuglink=whole.debug whole_1 linked");
    stage.compare_all("linked", "link");
    // Another file of that name is not the one.
    stage.run("cp common_0 saved");
    let code = stage.code();
    for wrong in ["whole", "one.c"] {
        stage.run(&format!("cp {wrong} common_1"));
        let said = stage.ours("whole_1", &code);
        assert!(!said.iter().any(|one| one.starts_with("inner")), "{wrong}");
        assert!(said.iter().any(|one| one.contains("outer one.c:")));
    }
}

#[test]
fn units_in_files_of_their_own_say_what_gdb_says() {
    // Of newer units by gcc the tools make no package: they crash (binutils 2.40), or do not end
    // (LLVM 14 and 22).
    for (compiler, version, package) in [
        ("gcc", "-gdwarf-4", "dwp"),
        ("gcc", "-gdwarf-5", ""),
        ("clang", "-gdwarf-5", "llvm-dwp"),
    ] {
        let Some(stage) = Stage::build(compiler, &format!("-gsplit-dwarf {version}")) else {
            return;
        };
        let said = stage.compare_all("whole", version);
        let code = stage.code();
        let is_there = Command::new(package).arg("--version").output().is_ok();
        if is_there {
            stage.run(&format!("timeout 60 {package} -e whole -o whole.dwp"));
        }
        for unit in ["one", "two"] {
            fs::rename(stage.at(unit).with_extension("dwo"), stage.at(unit)).unwrap();
        }
        if is_there {
            assert_eq!(stage.ours("whole", &code), said, "{package}");
            // On the other one gdb 13 ends with a signal.
            if package == "dwp" {
                stage.compare_all("whole", package);
            }
            // Cut: lines are in the program itself.
            let package = fs::read(stage.at("whole.dwp")).unwrap();
            for length in [0, 64, package.len() / 2, package.len() - 100] {
                fs::write(stage.at("whole.dwp"), &package[..length]).unwrap();
                let said = stage.ours("whole", &code);
                assert!(said.iter().any(|one| one.contains("outer one.c:")));
            }
        }
        // Each has the name of the other one.
        fs::rename(stage.at("one"), stage.at("two.dwo")).unwrap();
        fs::rename(stage.at("two"), stage.at("one.dwo")).unwrap();
        let said = stage.ours("whole", &code);
        assert!(said.iter().any(|one| one.contains("outer one.c:")));
        assert!(!said.iter().any(|one| one.starts_with("inner")));
    }
}
