//! Files with the debugger's part of another file, and the symbols that a file has packed.
//!
//! Distributions put the debugger's part into files of their own: by the build identifier
//! (`/usr/lib/debug/.build-id`), or by a name that the file gives (`.gnu_debuglink`), as gdb looks
//! for it. Others leave the names of functions in the file, packed (`.gnu_debugdata`). Whatever is
//! not certain to be of this very file is not read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::Crc;
use lzma_rust2::XzReader;
use object::read::ReadCache;
use object::{Object, ObjectSection, ReadRef};

use super::binary::Parsed;
use super::opening::open_ordinary_below;
use super::opening::{Bounded, ReadBudget};

/// Bytes of packed symbols, once they are unpacked.
const MOST_UNPACKED: u64 = 64 << 20;

/// Memory for unpacking, in KiB.
const MOST_MEMORY_KIB: u32 = 128 << 10;

/// Bytes of a file of which the sum is made.
const MOST_SUMMED: u64 = 512 << 20;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Marks by which a file tells its debugger's part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Build identifier.
    id: Option<Vec<u8>>,
    /// Name of the other file, and the sum of its bytes.
    link: Option<(Vec<u8>, u32)>,
}

impl Marks {
    /// Reads the marks of a file.
    pub fn read<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Self {
        let link = parsed.gnu_debuglink().ok().flatten();
        let is_name = |name: &[u8]| !name.is_empty() && !name.contains(&b'/');
        Self {
            id: parsed.build_id().ok().flatten().map(<[u8]>::to_vec),
            link: link
                .filter(|(name, _)| is_name(name))
                .map(|(name, sum)| (name.to_vec(), sum)),
        }
    }

    /// Returns where the file may be of which this one, at `path`, tells: below a root.
    pub fn places(&self, path: &Path) -> Vec<PathBuf> {
        let mut places = Vec::new();
        places.extend(self.id.as_deref().and_then(place_by_id));
        if let (Some((name, _)), Some(folder)) = (&self.link, path.parent()) {
            let name = OsStr::from_bytes(name);
            let folder = folder.strip_prefix("/").unwrap_or(folder);
            places.push(folder.join(name));
            places.push(folder.join(".debug").join(name));
            places.push(Path::new("usr/lib/debug").join(folder).join(name));
        }
        places
    }

    /// Returns the build identifier.
    pub fn id(&self) -> Option<&[u8]> {
        self.id.as_deref()
    }

    /// Tells whether a file is the one with these marks.
    pub fn are_of<'a, R: ReadRef<'a>>(&self, file: &File, parsed: &object::File<'a, R>) -> bool {
        let id = parsed.build_id().ok().flatten();
        match (&self.id, id, &self.link) {
            (Some(own), Some(other), _) => own == other,
            (_, _, Some((_, sum))) => sum_of(file) == Some(*sum),
            _ => false,
        }
    }
}

/// Returns where a file with this build identifier is: below a root.
fn place_by_id(id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let folder = Path::new("usr/lib/debug/.build-id").join(hex(&[*first]));
    Some(folder.join(format!("{}.debug", hex(rest))))
}

/// Marks by which the debugger's part of a file tells the file that has what several such parts
/// have in common (`dwz`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// Build identifier.
    id: Vec<u8>,
    /// Places at which it may be: below a root.
    pub places: Vec<PathBuf>,
}

impl Alternate {
    /// Reads the marks of a parsed file, which is open as well.
    pub fn read<'a, R: ReadRef<'a>>(file: &File, parsed: &object::File<'a, R>) -> Option<Self> {
        let (name, id) = parsed.gnu_debugaltlink().ok().flatten()?;
        let mut places: Vec<PathBuf> = place_by_id(id).into_iter().collect();
        // A name that begins nowhere is one in the folder of the file itself, whatever link led to
        // that.
        let own = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let folder = own.ok().and_then(|own| Some(own.parent()?.to_owned()));
        let path = folder.unwrap_or_default().join(OsStr::from_bytes(name));
        places.push(path);
        Some(Self {
            id: id.to_vec(),
            places,
        })
        .filter(|found| !found.id.is_empty())
    }

    /// Returns the build identifier.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// Tells whether a file is the one with these marks.
    pub fn is<'a, R: ReadRef<'a>>(&self, parsed: &object::File<'a, R>) -> bool {
        parsed.build_id().ok().flatten() == Some(&*self.id)
    }
}

/// Opens files at places below one of these roots, the first ones first, until one is what `look`
/// looks for.
pub fn look_at_places<T>(
    roots: [&Path; 2],
    places: &[PathBuf],
    mut look: impl FnMut(&File, &Parsed<'_>) -> Option<T>,
) -> Option<T> {
    // The process may have ended, and its root with it: the other file is told by its marks.
    let mut places = roots
        .into_iter()
        .flat_map(|root| places.iter().map(move |place| (root, place)));
    places.find_map(|(root, place)| {
        let file = open_ordinary_below(root, place).ok()?;
        look_at_file(&file, &mut look)
    })
}

/// Looks at a file, within limits.
pub fn look_at_file<T>(
    file: &File,
    look: impl FnOnce(&File, &Parsed<'_>) -> Option<T>,
) -> Option<T> {
    let cache = ReadCache::new(file);
    let budget = ReadBudget::default();
    let parsed = object::File::parse(Bounded::new(&cache, &budget)).ok()?;
    look(file, &parsed)
}

/// Returns the sum of the bytes of a file; `None` where it is too large or cannot be read.
fn sum_of(file: &File) -> Option<u32> {
    if file.metadata().ok()?.len() > MOST_SUMMED {
        return None;
    }
    let mut sum = Crc::new();
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let bytes = file.read_at(&mut piece, at).ok()?;
        if bytes == 0 || at > MOST_SUMMED {
            return Some(sum.sum());
        }
        sum.update(piece.get(..bytes)?);
        at += bytes as u64;
    }
}

/// Returns the file with the names of functions that a file has packed, if it has one.
pub fn packed_symbols<'a, R: ReadRef<'a>>(parsed: &object::File<'a, R>) -> Option<Vec<u8>> {
    let section = parsed.section_by_name(".gnu_debugdata")?;
    unpacked(section.data().ok()?)
}

/// Unpacks xz; `None` where it is damaged, or there is more of it than is read.
fn unpacked(untrusted: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let reader = XzReader::new_mem_limit(untrusted, false, MOST_MEMORY_KIB);
    let read = { reader }.take(MOST_UNPACKED + 1).read_to_end(&mut bytes);
    (read.ok()? as u64 <= MOST_UNPACKED).then_some(bytes)
}

/// Reads any bytes as packed symbols.
#[doc(hidden)]
pub fn look_through_packed(untrusted: &[u8]) {
    if let Some(bytes) = unpacked(untrusted) {
        let _ = object::File::parse(&*bytes).map(|parsed| Marks::read(&parsed));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use crate::probes::Binary;

    use super::*;

    const SOURCE: &str = "
        static __attribute__((noinline)) int hidden(int of) { return of + 1; }
        int main(int count, char **typed) { return hidden(count) + (typed == 0); }";

    fn run(folder: &Path, words: &str) {
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        let status = command.args(words).current_dir(folder).status().unwrap();
        assert!(status.success());
    }

    /// Builds a program without a build identifier, or with one; returns its folder.
    fn program(id: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.c"), SOURCE).unwrap();
        run(
            folder.path(),
            &format!("cc -g -O1 -Wl,--build-id={id} -o whole a.c"),
        );
        folder
    }

    fn names_hidden(path: &Path) -> bool {
        let binary = Binary::open(path, path, Path::new("/")).unwrap();
        let functions = binary.functions().unwrap();
        functions.iter().any(|one| one.name == "hidden")
    }

    #[test]
    fn the_file_that_another_names_has_its_functions_where_it_is_the_right_one() {
        for id in ["none", "sha1"] {
            let folder = program(id);
            let path = folder.path();
            run(path, "objcopy --only-keep-debug whole whole.debug");
            run(
                path,
                "objcopy --strip-all --add-gnu-debuglink=whole.debug whole stripped",
            );
            assert!(names_hidden(&path.join("stripped")), "{id}");
            let parsed = Binary::open(
                &path.join("stripped"),
                &path.join("stripped"),
                Path::new("/"),
            );
            assert!(parsed.unwrap().debug_data().is_some());
            std::fs::create_dir(path.join(".debug")).unwrap();
            run(path, "mv whole.debug .debug/");
            assert!(names_hidden(&path.join("stripped")), "{id}");
            // Another one of that name.
            std::fs::write(path.join("a.c"), format!("int more; {SOURCE}")).unwrap();
            run(path, &format!("cc -g -O1 -Wl,--build-id={id} -o whole a.c"));
            run(path, "objcopy --only-keep-debug whole .debug/whole.debug");
            assert!(!names_hidden(&path.join("stripped")), "{id}");
        }
    }

    /// Packs bytes as `xz` does.
    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut xz = Command::new("xz");
        xz.args(["-c", "-T1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut xz = xz.spawn().unwrap();
        let mut to = xz.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || to.write_all(&bytes));
        let output = xz.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        output.stdout
    }

    #[test]
    fn packed_symbols_name_functions_and_damaged_ones_do_not() {
        let folder = program("sha1");
        let path = folder.path();
        run(
            path,
            "objcopy -S --strip-debug --keep-symbol=hidden whole symbols",
        );
        let symbols = packed(&std::fs::read(path.join("symbols")).unwrap());
        let add = |symbols: &[u8]| {
            std::fs::write(path.join("packed"), symbols).unwrap();
            run(
                path,
                "objcopy --strip-all --add-section=.gnu_debugdata=packed whole stripped",
            );
            names_hidden(&path.join("stripped"))
        };
        assert!(add(&symbols));
        assert!(!add(&symbols[..symbols.len() / 2]));
        for at in (0..symbols.len()).step_by(7) {
            let mut damaged = symbols.clone();
            damaged[at] ^= 0x10;
            assert_eq!(unpacked(&damaged), None, "{at}");
        }
    }

    #[test]
    fn no_more_is_unpacked_than_may_be() {
        let whole = vec![7; usize::try_from(MOST_UNPACKED).unwrap()];
        assert_eq!(unpacked(&packed(&whole)), Some(whole.clone()));
        assert_eq!(unpacked(&packed(&[&*whole, &[7]].concat())), None);
    }
}
