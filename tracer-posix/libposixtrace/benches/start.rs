//! Cost of starting a program that is linked to the library and never traced.
//!
//! The programs are C, and the library is what `cargo xtask dist` has laid out. One of them loads
//! nothing but the C library; one also what the library needs itself (`libgcc_s`), as every C++
//! program does.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use criterion::{Criterion, criterion_group, criterion_main};

const PLAIN: &str = "int main(void) { return 0; }\n";
const LINKED: &str = "#include <trace.h>\n\
    int main(int argc, char **argv)\n\
    { (void)argv; if (argc > 1) posix_trace_event(POSIX_TRACE_UNNAMED_USEREVENT, 0, 0); return 0; }\n";

fn compile(folder: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dist");
    let lib = dist.join("lib").display().to_string();
    let (program, file) = (folder.join(name), folder.join(format!("{name}.c")));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("cc")
        .args(["-O2", "-I"])
        .arg(dist.join("include"))
        .arg("-o")
        .args([&program, &file])
        .args([format!("-L{lib}"), format!("-Wl,-rpath,{lib}")])
        .args(options)
        .status();
    assert!(status.unwrap().success(), "run first: cargo xtask dist");
    program
}

fn start(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let gcc = ["-Wl,--no-as-needed", "-lgcc_s"];
    let programs = [
        ("baseline: the C library alone", PLAIN, &[][..]),
        ("baseline: and libgcc_s", PLAIN, &gcc),
        ("with the shared library", LINKED, &["-lposixtrace"]),
        (
            "with the static library",
            LINKED,
            &["-l:libposixtrace.a", "-lm"],
        ),
    ];
    let mut group = criterion.benchmark_group("start to end of a program");
    for (index, (name, source, options)) in programs.into_iter().enumerate() {
        let program = compile(folder.path(), &format!("program{index}"), source, options);
        group.bench_function(name, |bencher| {
            bencher.iter(|| assert!(Command::new(&program).status().unwrap().success()));
        });
    }
    group.finish();
}

criterion_group!(benches, start);
criterion_main!(benches);
