//! Steps of small programs that follow descriptors of the calling process to what the kernel has of
//! them.
//!
//! All that these steps follow exists while such a program runs: the descriptors belong to the
//! calling process, an open file keeps its inode, a folder in `/proc` keeps its `struct pid`, an
//! open connection keeps its socket, and the socket keeps the noted credentials.

use crate::assembled::{ADD_REGISTER, Assembly, COPY, JUMP_IF, READ, SHIFT, helper, register};
use crate::btf::reader::Btf;

/// Registers that calls of helpers leave as they are, and their content.
pub mod kept {
    /// The context: the question.
    pub const ASKED: u8 = 6;
    /// The calling task.
    pub const TASK: u8 = 7;
    /// The table of descriptors.
    pub const TABLE: u8 = 8;
}

/// Offsets of the members of the kernel's structures by which a file is found.
#[derive(Debug)]
pub struct FilePlaces {
    files: i32,
    table: i32,
    descriptors: i32,
}

impl FilePlaces {
    pub fn find(types: &Btf<'_>) -> Option<Self> {
        Some(Self {
            files: place(types, "task_struct", &["files"])?,
            table: place(types, "files_struct", &["fdt"])?,
            descriptors: place(types, "fdtable", &["fd"])?,
        })
    }
}

/// Offsets by which the credentials are found that were noted of who connected.
#[derive(Debug)]
pub struct NotedPlaces {
    socket: i32,
    connection: i32,
    noted: i32,
}

impl NotedPlaces {
    pub fn find(types: &Btf<'_>) -> Option<Self> {
        Some(Self {
            socket: place(types, "file", &["private_data"])?,
            connection: place(types, "socket", &["sk"])?,
            noted: place(types, "sock", &["sk_peer_cred"])?,
        })
    }
}

/// Offsets by which the `struct pid` of a process is found.
#[derive(Debug)]
pub struct FolderPlaces {
    inode: i32,
    /// Distance from an inode to the pointer to the `struct pid`, which is in the same structure.
    pid_behind_inode: i32,
}

impl FolderPlaces {
    pub fn find(types: &Btf<'_>) -> Option<Self> {
        Some(Self {
            inode: place(types, "file", &["f_inode"])?,
            pid_behind_inode: place(types, "proc_inode", &["pid"])?
                - place(types, "proc_inode", &["vfs_inode"])?,
        })
    }
}

/// Returns the offset of a member.
pub fn place(types: &Btf<'_>, of: &str, path: &[&str]) -> Option<i32> {
    i32::try_from(types.member_offset(of, path)?).ok()
}

impl Assembly {
    /// Begins a program: notes the question, the calling task and its table of descriptors in the
    /// registers for them.
    pub fn begin_with_files(&mut self, places: &FilePlaces) {
        self.put(COPY, kept::ASKED, register::FIRST, 0);
        self.call(helper::TASK);
        self.put(COPY, kept::TASK, register::RESULT, 0);
        self.pointer(kept::TASK, places.files);
        self.follow(places.table);
        self.follow(places.descriptors);
        self.put(COPY, kept::TABLE, register::THIRD, 0);
    }

    /// Goes on to the pointer that is `offset` bytes behind the address in the third register, and
    /// leaves the program where that is null.
    pub fn follow_or_leave(&mut self, offset: i32) {
        self.follow(offset);
        self.leave_where(JUMP_IF, register::THIRD, 0, 0);
    }

    /// Finds the file of the descriptor in this word of the question, for the third register.
    pub fn file_asked(&mut self, word: i16) {
        self.put_at(READ, register::THIRD, kept::ASKED, 8 * word, 0);
        self.put(SHIFT, register::THIRD, 0, 3);
        self.put(ADD_REGISTER, register::THIRD, kept::TABLE, 0);
        self.follow_or_leave(0);
    }

    /// Finds the credentials that were noted of who connected to the socket in this word of the
    /// question, for the third register.
    pub fn noted_credentials(&mut self, word: i16, places: &NotedPlaces) {
        self.file_asked(word);
        for place in [places.socket, places.connection, places.noted] {
            self.follow_or_leave(place);
        }
    }

    /// Finds the `struct pid` of the process of which a folder in `/proc` is in this word of the
    /// question, for the third register.
    pub fn pid_of_folder(&mut self, word: i16, places: &FolderPlaces) {
        self.file_asked(word);
        for place in [places.inode, places.pid_behind_inode] {
            self.follow_or_leave(place);
        }
    }
}
