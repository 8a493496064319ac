//! A program that loads libraries at the same addresses one after the other, makes code there
//! itself, and writes down what it was in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::command;

/// Rounds of the program.
pub const ROUNDS: usize = 100;

/// A library with one function, which calls what it is given.
const LIBRARY: &str = "
    #define TEXT_OF(name) #name
    #define TEXT(name) TEXT_OF(name)
    const char called[] = TEXT(NAME);
    __attribute__((noinline)) void NAME(void (*of)(void)) { of(); __asm__ volatile(\"\"); }";

/// The program, its libraries, and what it does.
#[derive(Debug)]
pub struct Play {
    folder: PathBuf,
    program: PathBuf,
}

impl Play {
    /// Compiles the program and its libraries into a folder.
    ///
    /// # Errors
    ///
    /// They cannot be compiled.
    pub fn compile(folder: &Path) -> anyhow::Result<Self> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/comes_and_goes.c");
        let program = folder.join("comes_and_goes");
        compile(&source, &program, &["-O0", "-ldl"])?;
        let text = folder.join("library.c");
        fs::write(&text, LIBRARY)?;
        for (id, word) in [("sha1", "with"), ("none", "without")] {
            for name in ["a", "b"] {
                let library = folder.join(format!("{word}_{name}.so"));
                let (id, name) = (format!("-Wl,--build-id={id}"), format!("-DNAME=in_{name}"));
                compile(&text, &library, &["-O1", "-shared", "-fPIC", &id, &name])?;
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            program,
        })
    }

    /// Returns a file of the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Adds the program to a command that traces it: each library is with or without an identifier
    /// of its file, and loaded under its own name or, where it `is_copied`, always under one.
    pub fn add_to(&self, tool: &mut Command, pause_us: u32, libraries: &str, is_copied: bool) {
        tool.arg("--").arg(&self.program).arg(self.file("notes"));
        tool.args([ROUNDS.to_string(), pause_us.to_string()]);
        for name in ["a", "b"] {
            let library = self.file(&format!("{libraries}_{name}.so"));
            let mark = if is_copied { "=" } else { "" };
            tool.arg(format!("{mark}{}", library.display()));
        }
    }

    /// Names of the functions that the program says it was in.
    fn said(&self) -> anyhow::Result<Vec<String>> {
        let notes = fs::read_to_string(self.file("notes"))?;
        Ok(notes.lines().map(str::to_owned).collect())
    }

    /// Compares what lines of JSON say with what the program says; returns how many names there
    /// are.
    ///
    /// # Errors
    ///
    /// A name is a wrong one, or a stack is missing.
    pub fn compare(&self, lines: &str) -> anyhow::Result<usize> {
        let said = self.said()?;
        let found = callers_of_point(lines)?;
        let counts = (said.len(), found.len());
        ensure!(counts == (ROUNDS, ROUNDS), "said and found: {counts:?}");
        let is_wrong = |found: &Option<String>, said: &str| {
            found.as_deref().is_some_and(|found| found != said)
        };
        let mut pairs = said.iter().zip(&found);
        let wrong = pairs.find(|(said, found)| is_wrong(found, said));
        ensure!(wrong.is_none(), "said and found: {wrong:?}");
        Ok(found.iter().flatten().count())
    }
}

fn compile(source: &Path, program: &Path, options: &[&str]) -> anyhow::Result<()> {
    let mut compiler = Command::new("cc");
    compiler.args(["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]);
    compiler.arg(source).arg("-o").arg(program).args(options);
    command::text(&mut compiler)?;
    Ok(())
}

/// Returns the names of what called `point` in the stack of each call of the kernel; `None` where
/// it has none.
///
/// # Errors
///
/// One has no stack.
pub fn callers_of_point(lines: &str) -> anyhow::Result<Vec<Option<String>>> {
    let events = lines.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "linux_trace_syscall_enter").then_some(event)
    });
    let callers = events.map(|event| {
        let frames = event["stack"].as_array().context("no stack")?;
        let caller = frames.get(1).and_then(|caller| caller["symbol"].as_str());
        Ok(caller.map(str::to_owned))
    });
    callers.collect()
}

/// Names that there can be: in three rounds of four the code is of a library.
pub const NAMED: usize = ROUNDS * 3 / 4;
