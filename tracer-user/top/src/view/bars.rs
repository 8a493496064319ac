//! Bars and sparklines.

use ratatui::buffer::Buffer;

use super::look::{Role, ScreenLook};

/// Draws the parts of a whole, each as wide as its share.
pub fn draw_bar(
    buffer: &mut Buffer,
    (x, y, width): (u16, u16, u16),
    parts: &[(&'static str, u64)],
    whole: u64,
    look: ScreenLook,
) {
    let mut drawn = 0;
    let mut total = 0_u64;
    for (name, ns) in parts {
        total = total.saturating_add(*ns);
        let end = cells(total, whole, width);
        let role = Role::from_part(name);
        while drawn < end {
            if let Some(cell) = buffer.cell_mut((x + drawn, y)) {
                cell.set_char(look.part(role)).set_style(look.style(role));
            }
            drawn += 1;
        }
    }
}

/// Returns the number of cells that a part of the whole takes.
fn cells(part: u64, whole: u64, width: u16) -> u16 {
    if whole == 0 {
        return 0;
    }
    let whole = u128::from(whole);
    let cells = (u128::from(part) * u128::from(width) + whole / 2) / whole;
    u16::try_from(cells).unwrap_or(width).min(width)
}

/// Draws values over time, the newest on the right; `most` is the height of the full scale.
pub fn draw_sparkline(
    buffer: &mut Buffer,
    (x, y, width): (u16, u16, u16),
    values: &[u64],
    most: u64,
    look: ScreenLook,
) {
    let shown = values.len().min(usize::from(width));
    let left = width - u16::try_from(shown).unwrap_or(width);
    let newest = values.iter().skip(values.len() - shown);
    for (value, x) in newest.zip(x + left..) {
        let eighths = (u128::from(*value) * 8).div_ceil(u128::from(most.max(1)));
        // What is less than a hundredth is next to nothing.
        let eighths = if *value < most / 100 { 0 } else { eighths };
        let eighths = usize::try_from(eighths).unwrap_or(8);
        if let Some(cell) = buffer.cell_mut((x, y)) {
            let style = look.style(Role::Running);
            cell.set_char(look.eighths(eighths)).set_style(style);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::*;

    const LOOK: ScreenLook = ScreenLook {
        is_coloured: false,
        is_unicode: false,
    };

    fn drawn(draw: impl FnOnce(&mut Buffer)) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 10, 1));
        draw(&mut buffer);
        buffer.content.iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn parts_are_as_long_as_their_share_and_never_longer_than_the_whole() {
        let bar = |parts: &[(&'static str, u64)], whole| {
            drawn(|buffer| draw_bar(buffer, (0, 0, 10), parts, whole, LOOK))
        };
        let parts = [("running", 30), ("runnable", 20), ("blocked", 50)];
        assert_eq!(bar(&parts, 100), "###++.....");
        assert_eq!(bar(&parts, 200), "##+..     ");
        assert_eq!(bar(&parts, 0), "          ");
        assert_eq!(
            bar(&[("unknown", u64::MAX), ("running", 9)], 1),
            "??????????"
        );
    }

    #[test]
    fn the_newest_is_on_the_right() {
        let line =
            |values: &[u64]| drawn(|buffer| draw_sparkline(buffer, (0, 0, 10), values, 1000, LOOK));
        assert_eq!(line(&[0, 500, 1000]), "        -#");
        assert_eq!(line(&[1000; 30]), "##########");
        assert_eq!(line(&[]), "          ");
    }
}
