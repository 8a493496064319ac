//! Functions in others, and lines, of all files that stacks have addresses in.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::inlined::{Allowance, Inlined};
use super::modules::ModuleKey;
use super::names::Frame;
use crate::probes::{Binary, GoLines};

/// Functions in others as files describe them.
#[derive(Debug)]
pub struct InlinedFiles {
    files: HashMap<ModuleKey, Inlined>,
    /// Lines of programs in Go that say nothing to debuggers.
    of_go: HashMap<ModuleKey, GoLines>,
    allowance: Allowance,
    /// Files whose missing functions were reported.
    said: HashSet<ModuleKey>,
    /// Takes such reports.
    warn: fn(&str),
}

impl InlinedFiles {
    /// Returns what tells `warn` of files of which not all is shown.
    pub fn new(warn: fn(&str)) -> Self {
        Self {
            files: HashMap::new(),
            of_go: HashMap::new(),
            allowance: Allowance::default(),
            said: HashSet::new(),
            warn,
        }
    }

    /// Reads what a file says to debuggers, if it says something.
    pub fn read(&mut self, key: &ModuleKey, binary: &Binary) {
        let Some(data) = binary.debug_data() else {
            if let Some(lines) = binary.go_lines() {
                match self.allowance.take(lines.bytes()) {
                    Some(()) => drop(self.of_go.insert(key.clone(), lines)),
                    None => self.say_missing(key, "they would take too much memory"),
                }
            }
            return;
        };
        match Inlined::from_debug_data(data, &mut self.allowance) {
            Some(file) => drop(self.files.insert(key.clone(), file)),
            None => self.say_missing(key, "they would take too much memory"),
        }
    }

    /// Adds the functions that were put into that of `frame`, at an offset in a file, and the line
    /// of each.
    pub fn push(
        &mut self,
        frames: &mut Vec<Frame>,
        frame: &mut Frame,
        (key, offset): (&ModuleKey, u64),
    ) {
        let Some(file) = self.files.get_mut(key) else {
            if let Some(lines) = self.of_go.get(key) {
                frame.line = lines.line(offset);
            }
            return;
        };
        let described = file.at(offset, &mut self.allowance);
        if file.is_given_up(&self.allowance) {
            self.say_missing(key, "it would take too long to find them");
        }
        frame.line.clone_from(&described.line);
        let functions = described.inlined.iter();
        frames.extend(functions.map(|(name, line)| Frame {
            function: Some((Arc::clone(name), 0)),
            is_inlined: true,
            line: line.clone(),
            ..frame.clone()
        }));
    }

    /// Reports, once for a file, that not all of its functions in others are shown.
    fn say_missing(&mut self, key: &ModuleKey, why: &str) {
        if self.said.insert(key.clone()) {
            let file = String::from_utf8_lossy(&key.0);
            (self.warn)(&format!(
                "not all inlined functions of {file} are shown: {why}"
            ));
        }
    }
}
