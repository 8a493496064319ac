//! Stacks, each of whose parts is written once and named by an id from then on.

use std::collections::HashMap;
use std::hash::Hash;

use super::schema::{Callstack, Frame, InternedData, InternedString, Mapping};
use super::tracks::text;
use tracer_binary::stacks::{self, Stack};

/// Limit of parts that are known by id. Beyond it, all are forgotten and written again under other
/// ids.
const MOST_PARTS: usize = 1 << 18;

/// Process, number of what its addresses mean, and data of a stack.
type StackKey = (i32, u64, Vec<u8>);

/// Parts written so far.
#[derive(Debug, Default)]
pub struct WrittenStacks {
    /// Stacks by process, what its addresses mean, and data.
    known: HashMap<StackKey, u64>,
    names: Ids<String>,
    paths: Ids<String>,
    build_ids: Ids<Vec<u8>>,
    /// Beginning, end, offset, path and build identifier.
    mappings: Ids<(u64, u64, u64, u64, u64)>,
    /// Mapping, address there, name.
    frames: Ids<(u64, u64, u64)>,
    callstacks: u64,
    /// Stacks of events, by their data and by their ids: lists of names.
    known_lists: HashMap<StackKey, u64>,
    lists: HashMap<u64, Vec<u64>>,
    lines: Ids<String>,
    last_list: u64,
}

/// Ids of things, from 1 on.
#[derive(Debug)]
struct Ids<K> {
    ids: HashMap<K, u64>,
    last: u64,
}

impl<K> Default for Ids<K> {
    fn default() -> Self {
        Self {
            ids: HashMap::new(),
            last: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> Ids<K> {
    /// Returns the id of a thing, and whether it is new.
    fn get_or_assign(&mut self, key: &K) -> (u64, bool) {
        if let Some(known) = self.ids.get(key) {
            return (*known, false);
        }
        if self.ids.len() >= MOST_PARTS {
            self.ids.clear();
        }
        self.last += 1;
        self.ids.insert(key.clone(), self.last);
        (self.last, true)
    }
}

impl WrittenStacks {
    /// Returns the id of a stack, and the data to be written before it is used, if any.
    pub fn id(&mut self, stack: &Stack<'_>) -> (u64, Option<InternedData>) {
        let key = (stack.pid, stack.space(), stack.data.to_vec());
        if let Some(known) = self.known.get(&key) {
            return (*known, None);
        }
        let mut new = InternedData::default();
        let mut frame_ids: Vec<u64> = Vec::new();
        for frame in stack.frames() {
            frame_ids.push(self.frame(&frame, &mut new));
        }
        // The outermost comes first.
        frame_ids.reverse();
        self.callstacks += 1;
        new.callstacks.push(Callstack {
            iid: Some(self.callstacks),
            frame_ids,
        });
        if self.known.len() >= MOST_PARTS {
            self.known.clear();
        }
        self.known.insert(key, self.callstacks);
        (self.callstacks, Some(new))
    }

    /// Returns the id of the stack of an event, as the list of its functions, and the data to be
    /// written before it is used, if any. Engines that do not know stacks of events yet show lists
    /// as any other value.
    pub fn list(&mut self, stack: &Stack<'_>) -> (u64, Option<InternedData>) {
        let key = (stack.pid, stack.space(), stack.data.to_vec());
        if let Some(known) = self.known_lists.get(&key) {
            return (*known, None);
        }
        let mut new = InternedData::default();
        let names = &mut new.debug_annotation_string_values;
        let lines = stack.frames().into_iter();
        let list = lines.map(|frame| interned(&mut self.lines, &line(&frame), names));
        let list: Vec<u64> = list.collect();
        if self.known_lists.len() >= MOST_PARTS {
            self.known_lists.clear();
            self.lists.clear();
        }
        self.last_list += 1;
        self.known_lists.insert(key, self.last_list);
        self.lists.insert(self.last_list, list);
        let has_new = !new.debug_annotation_string_values.is_empty();
        (self.last_list, has_new.then_some(new))
    }

    /// Returns the names of the functions of such a list.
    pub fn names_of(&self, list: u64) -> Option<&[u64]> {
        self.lists.get(&list).map(Vec::as_slice)
    }

    /// Forgets the stacks of a process that runs another program: the meaning of its addresses has
    /// changed.
    pub fn forget(&mut self, process: i32) {
        self.known.retain(|(pid, ..), _| *pid != process);
        self.known_lists.retain(|(pid, ..), _| *pid != process);
    }

    fn frame(&mut self, frame: &stacks::Frame, new: &mut InternedData) -> u64 {
        let name = match &frame.function {
            Some((name, _)) => {
                let mut name = text(name.as_bytes());
                if frame.is_inlined {
                    name.push_str(" (inlined)");
                }
                interned(&mut self.names, &name, &mut new.function_names)
            }
            None => 0,
        };
        let (mapping, rel_pc) = match &frame.mapping {
            Some(mapping) => {
                let offset = frame.address.saturating_sub(mapping.start);
                (
                    self.mapping(mapping, new),
                    offset.saturating_add(mapping.file_offset),
                )
            }
            None if frame.is_kernel => (self.mapping_of("[kernel]", new), frame.address),
            None => (self.mapping_of("[unknown]", new), frame.address),
        };
        let (id, is_new) = self.frames.get_or_assign(&(mapping, rel_pc, name));
        if is_new {
            new.frames.push(Frame {
                iid: Some(id),
                function_name_id: (name != 0).then_some(name),
                mapping_id: Some(mapping),
                rel_pc: Some(rel_pc),
            });
        }
        id
    }

    /// Returns the id of a mapping of all addresses, under this name.
    fn mapping_of(&mut self, name: &str, new: &mut InternedData) -> u64 {
        let mapping = stacks::Mapping {
            start: 0,
            end: u64::MAX,
            file_offset: 0,
            build_id: Vec::new(),
            path: name.as_bytes().into(),
            inode: 0,
        };
        self.mapping(&mapping, new)
    }

    fn mapping(&mut self, mapping: &stacks::Mapping, new: &mut InternedData) -> u64 {
        let path = if mapping.path.is_empty() {
            "[anon]".to_owned()
        } else {
            text(&mapping.path)
        };
        let path = interned(&mut self.paths, &path, &mut new.mapping_paths);
        let build_id = if mapping.build_id.is_empty() {
            0
        } else {
            let (id, is_new) = self.build_ids.get_or_assign(&mapping.build_id);
            if is_new {
                new.build_ids.push(InternedString {
                    iid: Some(id),
                    str: Some(mapping.build_id.clone()),
                });
            }
            id
        };
        let key = (
            mapping.start,
            mapping.end,
            mapping.file_offset,
            path,
            build_id,
        );
        let (id, is_new) = self.mappings.get_or_assign(&key);
        if is_new {
            new.mappings.push(Mapping {
                iid: Some(id),
                build_id: (build_id != 0).then_some(build_id),
                start_offset: Some(0),
                start: Some(mapping.start),
                end: Some(mapping.end),
                load_bias: Some(0),
                path_string_ids: vec![path],
                exact_offset: Some(mapping.file_offset),
            });
        }
        id
    }
}

/// Returns a function as it appears in a list.
fn line(frame: &stacks::Frame) -> String {
    match (&frame.function, &frame.mapping) {
        (Some((name, _)), _) if frame.is_inlined => format!("{} (inlined)", text(name.as_bytes())),
        (Some((name, _)), _) => text(name.as_bytes()),
        (None, Some(mapping)) if !mapping.path.is_empty() => {
            let offset = frame.address.saturating_sub(mapping.start);
            let offset = offset.saturating_add(mapping.file_offset);
            format!("{}+{offset:#x}", text(&mapping.path))
        }
        (None, _) => format!("{:#x}", frame.address),
    }
}

fn interned(ids: &mut Ids<String>, name: &str, new: &mut Vec<InternedString>) -> u64 {
    let (id, is_new) = ids.get_or_assign(&name.to_owned());
    if is_new {
        new.push(InternedString {
            iid: Some(id),
            str: Some(name.as_bytes().to_vec()),
        });
    }
    id
}
