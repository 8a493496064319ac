//! Flame graph as a picture, with the script that makes it zoom and search in it.

use std::io::Write;

use anyhow::Context;
use inferno::flamegraph::color::{Color, PaletteMap};
use inferno::flamegraph::{Direction, Options, from_lines};

use super::{FlameKind, Folded, FrameKind, ShownFrame};

/// Colours of a report's page (`slices` of `page/colours.js`).
const COLOURS: [u32; 8] = [
    0x0056_b4e9,
    0x00f0_e442,
    0x007f_c9b0,
    0x00f3_b56b,
    0x00c9_a3d6,
    0x009f_b7d9,
    0x00d9_c58b,
    0x00a9_d18e,
];

/// Writes the picture, with the colours and the direction of a report's page: threads lie above the
/// functions that they called. It loads nothing.
///
/// # Errors
///
/// It cannot be written.
pub fn svg(kind: FlameKind, folded: &Folded, to: impl Write) -> anyhow::Result<()> {
    let mut palette = PaletteMap::default();
    for (path, _) in folded.paths() {
        for frame in path {
            let name = format!("{}{}", frame.name, frame.kind.suffix());
            if palette.get(&name).is_none() {
                palette.insert(name, colour(frame));
            }
        }
    }
    let mut options = Options::default();
    kind.title().clone_into(&mut options.title);
    "us".clone_into(&mut options.count_name);
    options.factor = 1e-3;
    options.direction = Direction::Inverted;
    // What is no frame, such as the whole, has one colour too.
    options.hash = true;
    options.palette_map = Some(&mut palette);
    let text = folded.text();
    from_lines(&mut options, text.lines(), to).context("cannot write the flame graph")
}

/// Returns the colour of a frame: one of two shades of its kind's, as the page has it
/// (`flameColour` of `page/flames.js`).
fn colour(frame: &ShownFrame) -> Color {
    let first = match frame.kind {
        FrameKind::User => 0,
        FrameKind::Inlined => 2,
        FrameKind::Kernel => 3,
        FrameKind::Mark => 4,
        FrameKind::Thread => 5,
    };
    let letters = frame.name.encode_utf16();
    let sum = letters.fold(0, |sum: usize, letter| {
        (sum * 31 + usize::from(letter)) % 997
    });
    let index = (first + sum % 2 * 4) % COLOURS.len();
    let [_, red, green, blue] = COLOURS
        .get(index)
        .copied()
        .unwrap_or_default()
        .to_be_bytes();
    Color::new(red, green, blue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colours_are_those_of_the_page() {
        let page = include_str!("../../page/colours.js");
        let light = page.split("const LIGHT").nth(1).unwrap();
        let slices = light.split("slices: [").nth(1).unwrap();
        let slices = slices.split(']').next().unwrap().split(',');
        let slices: Vec<u32> = slices
            .map(|one| one.trim().trim_matches('"').trim_start_matches('#'))
            .map(|hex| u32::from_str_radix(hex, 16).unwrap())
            .collect();
        assert_eq!(slices, COLOURS);

        let page = include_str!("../../page/flames.js");
        assert!(page.contains("{ kernel: 3, inlined: 2, thread: 5, mark: 4 }"));
        assert!(page.contains("(sum * 31 + name.charCodeAt(index)) % 997"));
    }

    #[test]
    fn a_picture_has_the_colours_of_its_frames_and_hangs() {
        let mut folded = Folded::default();
        let path = [
            folded.frame(FrameKind::Thread, b"main"),
            folded.frame(FrameKind::User, b"work"),
            folded.frame(FrameKind::Kernel, b"schedule"),
        ];
        folded.add(&path, 5_000_000);
        let mut picture = Vec::new();
        svg(FlameKind::OffCpu, &folded, &mut picture).unwrap();
        let picture = String::from_utf8(picture).unwrap();
        let mut tops = Vec::new();
        for (name, kind) in [
            ("main", FrameKind::Thread),
            ("work", FrameKind::User),
            ("schedule", FrameKind::Kernel),
        ] {
            let frame = ShownFrame {
                name: name.into(),
                kind,
            };
            let Color { r, g, b } = colour(&frame);
            let (_, rest) = picture.split_once(&format!("<title>{name}")).unwrap();
            assert!(
                rest.contains(&format!("rgb({r},{g},{b})")),
                "{name}: {rest}"
            );
            let (_, top) = rest.split_once(" y=\"").unwrap();
            tops.push(top.split('"').next().unwrap().parse::<u32>().unwrap());
        }
        assert!(tops.is_sorted(), "{tops:?}");
    }
}
