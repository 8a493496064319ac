//! Makes Rust of `src/table.txt`: the system calls of the machine that the crate is built for, by
//! their numbers.

// What is wrong with the table ends the build, and says in which line.
#![expect(clippy::unwrap_used, reason = "a build script fails so")]

#[path = "build/machine.rs"]
mod machine;
#[path = "build/structs.rs"]
mod structs;
#[path = "build/table.rs"]
mod table;
#[path = "build/write.rs"]
mod write;

use std::path::Path;
use std::{env, fs};

const TABLE: &str = "src/table.txt";

fn main() {
    println!("cargo::rerun-if-changed={TABLE}");
    println!("cargo::rerun-if-changed=build");
    let text = fs::read_to_string(TABLE).unwrap();
    let machine = machine::Machine::of_target();
    let rust = write::rust(&table::Table::read(&text), &machine);
    let folder = env::var("OUT_DIR").unwrap();
    fs::write(Path::new(&folder).join("table.rs"), rust).unwrap();
}
