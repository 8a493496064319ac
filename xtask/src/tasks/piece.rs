//! What the distribution consists of.

/// What a file belongs to. Distributions make a package of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The command line.
    Tool,
    /// What programs that were built with the library need.
    Library,
    /// What building such programs needs.
    Development,
}

/// A file of the distribution.
pub struct Piece {
    /// What it belongs to.
    pub part: Part,
    /// Where it is under `target/dist`, and under the prefix once installed.
    pub path: String,
    /// What it is made from.
    pub content: Content,
}

/// What a [`Piece`] is made from. Paths are from the top folder.
pub enum Content {
    /// A copy of a file of the repository or build.
    Copy {
        /// Its path.
        from: String,
        /// File mode.
        mode: u32,
    },
    /// A copy of a program or library, without what only a debugger needs.
    Compiled {
        /// Its path.
        from: String,
        /// File mode.
        mode: u32,
    },
    /// A static library that has no global names but those that are exported.
    Archive {
        /// The archive's path.
        from: &'static str,
        /// Path of the list of names, one a line.
        exports: &'static str,
    },
    /// A static library made of one C file.
    CArchive {
        /// The file's path.
        from: &'static str,
    },
    /// A copy of a file with `@VERSION@`, and where things are (`@PREFIX@`, `@LIB@`), replaced.
    Template {
        /// Its path.
        from: &'static str,
    },
    /// This text.
    Text(String),
    /// A symbolic link.
    Link {
        /// What it says.
        to: &'static str,
    },
}

impl Piece {
    /// A piece at this path.
    pub fn new(part: Part, path: impl Into<String>, content: Content) -> Self {
        let path = path.into();
        Self {
            part,
            path,
            content,
        }
    }
}
