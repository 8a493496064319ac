//! A flame graph as a picture, with what makes it zoom and search in it.

use std::io::Write;

use anyhow::Context;
use inferno::flamegraph::color::MultiPalette;
use inferno::flamegraph::{Options, Palette, from_lines};

use super::{FlameKind, Folded};

/// Writes the picture. Functions of the kernel are orange, those of programs red, or yellow where
/// they are of C++ or Rust, inlined ones blue. It loads nothing.
///
/// # Errors
///
/// It cannot be written.
pub fn svg(kind: FlameKind, folded: &Folded, to: impl Write) -> anyhow::Result<()> {
    let mut options = Options::default();
    kind.title().clone_into(&mut options.title);
    "us".clone_into(&mut options.count_name);
    options.factor = 1e-3;
    // One function has one colour.
    options.hash = true;
    options.colors = Palette::Multi(MultiPalette::Java);
    let text = folded.text();
    from_lines(&mut options, text.lines(), to).context("cannot write the flame graph")
}
