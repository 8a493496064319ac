//! Builds a program whose debugger's part takes long to read.

use std::path::Path;
use std::process::Command;

/// Builds a program `a`, which has a `main` and many small units that all have the same large table
/// of abbreviations.
pub fn build(folder: &Path) {
    // Each is of a type, without children or attributes; an integer of two bytes is its code.
    let abbreviations = (128_u32..16_000).flat_map(|code| {
        let [low, high, ..] = (code & 0x7f | 0x80 | code >> 7 << 8).to_le_bytes();
        [low, high, 0x24, 0, 0, 0]
    });
    let abbreviations: Vec<u8> = abbreviations.chain([0]).collect();
    // Length, version, abbreviations, bytes of an address, and an entry.
    let unit = [9, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0x80, 0x01];
    std::fs::write(folder.join("abbrev"), abbreviations).unwrap();
    std::fs::write(folder.join("info"), unit.repeat(100_000)).unwrap();
    let section =
        |name: &str| format!(".section .debug_{name},\"\",%progbits\n.incbin \"{name}\"\n");
    let mut source = ".globl main\n.type main,%function\nmain:\nret\n".to_owned();
    source.push_str(".size main,.-main\n.section .note.GNU-stack,\"\",%progbits\n");
    let source = source + &section("abbrev") + &section("info");
    std::fs::write(folder.join("a.s"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-o", "a", "a.s"]);
    assert!(compiler.current_dir(folder).status().unwrap().success());
}
