//! Removes the debug sections of an object file of any machine, as `strip` does for this one's.

use anyhow::{Context as _, ensure};
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

use crate::type_information;

const TYPES: &[u8] = b".BTF";
const FUNCTIONS: &[u8] = b".BTF.ext";

/// Returns the object without its debug sections. Everything else stays: code, relocations,
/// symbols, and the part of the kernel's own type information that [the kernel
/// needs](type_information::without_lines).
pub fn remove(object: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut builder = Builder::read(object).context("the object cannot be read")?;
    for section in &mut builder.sections {
        let name = section.name.as_slice();
        let prefixes: [&[u8]; 3] = [b".debug", b".rel.debug", b".rela.debug"];
        // Those of `.BTF.ext` are for linkers: instructions are counted from the beginning of each
        // section there, and are already.
        section.delete =
            prefixes.iter().any(|prefix| name.starts_with(prefix)) || name == b".rel.BTF.ext";
    }
    let of = |wanted: &[u8]| {
        let mut sections = builder.sections.iter();
        let section = sections.find(|section| section.name.as_slice() == wanted);
        match section.map(|section| &section.data) {
            Some(SectionData::Data(bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    };
    if let (Some(types), Some(functions)) = (of(TYPES), of(FUNCTIONS)) {
        let (types, functions) = type_information::without_lines(&types, &functions)
            .context("its type information is not as expected")?;
        for section in &mut builder.sections {
            if section.name.as_slice() == TYPES {
                section.data = SectionData::Data(types.clone().into());
            } else if section.name.as_slice() == FUNCTIONS {
                section.data = SectionData::Data(functions.clone().into());
            }
        }
    }
    // LLVM puts the names of sections and of symbols into one table, and the builder wants two.
    let is_of_names = |data: &SectionData<'_>| matches!(data, SectionData::SectionString);
    if !builder
        .sections
        .iter()
        .any(|section| is_of_names(&section.data))
    {
        let names = builder.sections.add();
        names.name = b".shstrtab"[..].into();
        names.sh_type = SHT_STRTAB;
        names.data = SectionData::SectionString;
    }
    builder.delete_orphans();
    let mut stripped = Vec::new();
    builder
        .write(&mut stripped)
        .context("the object cannot be written")?;
    ensure!(stripped.len() <= object.len(), "the object grew");
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    use super::*;

    /// Returns name and contents of each section, and the names of the symbols, of a small object
    /// file.
    fn parts(object: &[u8]) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
        let file = object::File::parse(object).unwrap();
        let sections = file.sections().map(|section| {
            let data = section.data().unwrap().to_vec();
            (section.name().unwrap().to_owned(), data)
        });
        let symbols = file
            .symbols()
            .map(|symbol| symbol.name().unwrap().to_owned());
        (sections.collect(), symbols.collect())
    }

    fn compile(folder: &Path) -> Vec<u8> {
        let (source, to) = (folder.join("small.c"), folder.join("small.o"));
        std::fs::write(
            &source,
            "int count = 7; int twice(void) { return 2 * count; }",
        )
        .unwrap();
        let status = Command::new("cc")
            .args(["-g", "-c", "-o"])
            .args([&to, &source])
            .status();
        assert!(status.unwrap().success());
        std::fs::read(to).unwrap()
    }

    #[test]
    fn only_what_is_for_debuggers_is_taken_out() {
        let folder = std::env::temp_dir().join(format!("debug-sections-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let whole = compile(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let stripped = remove(&whole).unwrap();

        let is_debug = |(name, _): &(String, Vec<u8>)| name.starts_with(".debug");
        let (before, symbols) = parts(&whole);
        let (after, symbols_after) = parts(&stripped);
        assert!(before.iter().any(is_debug) && !after.iter().any(is_debug));
        assert!(stripped.len() < whole.len());
        for name in [".text", ".data"] {
            let of = |sections: &[(String, Vec<u8>)]| {
                let found = sections.iter().find(|(section, _)| section == name);
                found.unwrap().1.clone()
            };
            assert_eq!(of(&before), of(&after), "{name}");
        }
        for name in ["twice", "count"] {
            assert!(symbols.iter().any(|symbol| symbol == name));
            assert!(symbols_after.iter().any(|symbol| symbol == name), "{name}");
        }
        assert!(remove(b"no object").is_err());
    }
}
