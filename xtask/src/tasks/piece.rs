//! Files that the distribution consists of.

/// Part that a file belongs to. Distributions make a package of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Command line.
    Tool,
    /// Files needed by programs that were built with the library.
    Library,
    /// Files needed to build such programs.
    Development,
}

/// File of the distribution.
pub struct Piece {
    /// Part that it belongs to.
    pub part: Part,
    /// Path under `target/dist`, and under the prefix once installed.
    pub path: String,
    /// Source of its contents.
    pub content: Content,
}

/// Source of the contents of a [`Piece`]. Paths are from the top folder.
pub enum Content {
    /// Copy of a file of the repository or build.
    Copy {
        /// Its path.
        from: String,
        /// File mode.
        mode: u32,
    },
    /// Copy of a program or library, without debug information.
    Compiled {
        /// Its path.
        from: String,
        /// File mode.
        mode: u32,
    },
    /// Static library whose only global names are the exported ones.
    Archive {
        /// The archive's path.
        from: &'static str,
        /// Path of the list of names, one per line.
        exports: &'static str,
    },
    /// Static library made of one C file.
    CArchive {
        /// The file's path.
        from: &'static str,
    },
    /// Copy of a file with `@VERSION@` and paths (`@PREFIX@`, `@LIB@`) replaced.
    Template {
        /// Its path.
        from: &'static str,
    },
    /// This text.
    Text(String),
    /// Symbolic link.
    Link {
        /// Target of the link.
        to: &'static str,
    },
}

impl Piece {
    /// Creates a piece at this path.
    pub fn new(part: Part, path: impl Into<String>, content: Content) -> Self {
        let path = path.into();
        Self {
            part,
            path,
            content,
        }
    }
}
