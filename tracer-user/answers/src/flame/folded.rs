//! Paths of frames, each with its time.

use std::sync::Arc;

use foldhash::HashMap;

use tracer_text::escape::push_for_people;

/// Limit of paths that have a line of their own; the time of those beyond it is added to their
/// threads.
const MOST_PATHS: usize = 1 << 18;

/// Limit of known frames.
const MOST_FRAMES: usize = 1 << 20;

/// Name of the frame that stands for the paths beyond the limit.
const TOO_MANY: &str = "[too many paths]";

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FrameKind {
    /// Thread, by its name.
    Thread,
    /// Function of the program.
    User,
    /// Function of the program that the compiler has inlined into the one before it.
    Inlined,
    /// Function of the kernel.
    Kernel,
    /// Mark instead of a function: words in brackets.
    Mark,
}

impl FrameKind {
    /// Returns the mark behind the name of such a frame in a line, as other tools write it.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Kernel => "_[k]",
            Self::Inlined => "_[i]",
            Self::Thread | Self::User | Self::Mark => "",
        }
    }
}

/// Frame, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShownFrame {
    /// Name of the frame. Harmless: without control characters, and on one line.
    pub name: Arc<str>,
    /// Kind of the frame.
    pub kind: FrameKind,
}

/// Id of a frame of a [`Folded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameId(u32);

/// Paths of frames, the outermost first, each with its time.
#[derive(Debug, Default)]
pub struct Folded {
    frames: Vec<ShownFrame>,
    ids: HashMap<ShownFrame, u32>,
    paths: HashMap<Box<[FrameId]>, u64>,
    total: u64,
}

impl Folded {
    /// Returns the frame of this kind with this name, which is any bytes.
    pub fn frame(&mut self, kind: FrameKind, untrusted: &[u8]) -> FrameId {
        let name = harmless(untrusted);
        let mut frame = ShownFrame {
            name: name.into(),
            kind,
        };
        if self.frames.len() >= MOST_FRAMES && !self.ids.contains_key(&frame) {
            frame = ShownFrame {
                name: TOO_MANY.into(),
                kind: FrameKind::Mark,
            };
        }
        if let Some(known) = self.ids.get(&frame) {
            return FrameId(*known);
        }
        let id = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame.clone());
        self.ids.insert(frame, id);
        FrameId(id)
    }

    /// Adds `ns` to the time of a path.
    pub fn add(&mut self, path: &[FrameId], ns: u64) {
        if ns == 0 || path.is_empty() {
            return;
        }
        self.total = self.total.saturating_add(ns);
        if let Some(known) = self.paths.get_mut(path) {
            *known = known.saturating_add(ns);
            return;
        }
        let is_full = self.paths.len() >= MOST_PATHS;
        let path = if is_full {
            let mark = self.frame(FrameKind::Mark, TOO_MANY.as_bytes());
            path.iter().take(1).copied().chain([mark]).collect()
        } else {
            Box::from(path)
        };
        let of_path = self.paths.entry(path).or_default();
        *of_path = of_path.saturating_add(ns);
    }

    /// Returns the total time, in nanoseconds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns all paths with their nanoseconds, in order of their names.
    #[must_use]
    pub fn paths(&self) -> Vec<(Vec<&ShownFrame>, u64)> {
        let frame = |id: &FrameId| self.frames.get(usize::try_from(id.0).ok()?);
        let paths = self.paths.iter();
        let mut paths: Vec<(Vec<&ShownFrame>, u64)> = paths
            .map(|(path, ns)| (path.iter().filter_map(frame).collect(), *ns))
            .collect();
        paths.sort();
        paths
    }

    /// Returns a line for each path: frames with semicolons between them, a space, nanoseconds.
    /// Functions of the kernel end with `_[k]`, inlined ones with `_[i]`, as other tools write
    /// them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, ns) in self.paths() {
            for (index, frame) in path.iter().enumerate() {
                if index > 0 {
                    text.push(';');
                }
                text.push_str(&frame.name);
                text.push_str(frame.kind.suffix());
            }
            text.push_str(&format!(" {ns}\n"));
        }
        text
    }
}

/// Escapes a name so that nothing in it ends a frame, a line or a count, and nothing commands a
/// terminal.
fn harmless(untrusted: &[u8]) -> String {
    let mut shown = Vec::new();
    push_for_people(&mut shown, untrusted);
    let shown = String::from_utf8_lossy(&shown).replace(';', ":");
    let shown = shown.trim();
    // A line that begins so is a comment to others.
    let shown = shown.strip_prefix("# ").unwrap_or(shown);
    if shown.is_empty() {
        return "[no name]".to_owned();
    }
    // Readers of folded stacks look for a count behind the last space of a line.
    match shown.rsplit_once(' ') {
        Some((before, last)) if last.parse::<f64>().is_ok() => format!("{before}_{last}"),
        _ => shown.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_path_and_its_time() {
        let mut folded = Folded::default();
        let [thread, main, read, call] = [
            (FrameKind::Thread, "worker"),
            (FrameKind::User, "main"),
            (FrameKind::User, "read(int, void*)"),
            (FrameKind::Kernel, "do_syscall_64"),
        ]
        .map(|(kind, name)| folded.frame(kind, name.as_bytes()));
        folded.add(&[thread, main, read, call], 5);
        folded.add(&[thread, main], 2);
        folded.add(&[thread, main, read, call], 6);
        folded.add(&[thread], 0);
        assert_eq!(
            folded.text(),
            "worker;main 2\nworker;main;read(int, void*);do_syscall_64_[k] 11\n"
        );
        assert_eq!(folded.total(), 13);
    }

    #[test]
    fn a_hostile_name_is_one_frame_of_one_line() {
        for (name, shown) in [
            (b"a;b\n9".as_slice(), "a:b\\n9"),
            (b"x 12 5", "x 12_5"),
            (b"x 1.5", "x_1.5"),
            (b"\x1b[2J\xff", "\\u{1b}[2J\\xff"),
            (b"  ", "[no name]"),
            (b"", "[no name]"),
            (b" ends ", "ends"),
            (b"# no comment", "no comment"),
        ] {
            assert_eq!(harmless(name), shown);
        }
    }

    #[test]
    fn what_is_too_much_goes_to_its_thread() {
        let mut folded = Folded::default();
        let thread = folded.frame(FrameKind::Thread, b"t");
        let ids: Vec<FrameId> = (0..600)
            .map(|id| folded.frame(FrameKind::User, format!("f{id}").as_bytes()))
            .collect();
        let pairs = ids
            .iter()
            .flat_map(|one| ids.iter().map(move |other| [*one, *other]));
        for [one, other] in pairs {
            folded.add(&[thread, one, other], 1);
        }
        assert_eq!(folded.total(), 360_000);
        assert_eq!(folded.paths.len(), MOST_PATHS + 1);
        let beyond = 360_000 - MOST_PATHS as u64;
        assert!(folded.text().contains(&format!("t;{TOO_MANY} {beyond}\n")));
    }
}
