//! Plots, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use super::outcome::Outcome;
use super::results::Curve;

const OURS: RGBColor = RGBColor(0, 90, 160);
const PEERS: RGBColor = RGBColor(150, 150, 150);
const FONT: &str = "sans-serif";
const WIDTH: u32 = 720;

/// Draws a bar for each contestant's median, on a logarithmic scale where they lie far apart.
///
/// Returns `None` when there is nothing to draw.
pub fn bars(outcome: &Outcome, path: &Path) -> anyhow::Result<Option<()>> {
    let shown = |contender: &super::outcome::Contender| contender.measured.or(contender.spread);
    let bars: Vec<(&str, f64, bool)> = outcome
        .contenders
        .iter()
        .filter_map(|contender| {
            Some((
                &*contender.name,
                shown(contender)?.median,
                contender.is_ours,
            ))
        })
        .filter(|(_, value, _)| *value > 0.0)
        .collect();
    let (Some(least), Some(most)) = (
        bars.iter().map(|bar| bar.1).reduce(f64::min),
        bars.iter().map(|bar| bar.1).reduce(f64::max),
    ) else {
        return Ok(None);
    };
    let is_wide = most / least > 20.0;
    let scale = move |value: f64| {
        if is_wide {
            1.0 + (value / least).ln()
        } else {
            value
        }
    };
    let full = scale(most);
    let height = 34 * u32::try_from(bars.len())? + 16;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let (left, right) = (250, 90);
    let space = f64::from(WIDTH - left - right);
    for (index, (name, value, is_ours)) in bars.iter().enumerate() {
        let top = 10 + 34 * i32::try_from(index)?;
        let colour = if *is_ours { OURS } else { PEERS };
        let left = i32::try_from(left)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within the picture's width"
        )]
        let end = left + (space * scale(*value) / full).max(1.0) as i32;
        let text = |words: String, x, colour: &RGBColor| {
            Text::new(words, (x, top + 6), (FONT, 13).into_font().color(colour))
        };
        area.draw(&Rectangle::new(
            [(left, top), (end, top + 24)],
            colour.filled(),
        ))
        .map_err(failed)?;
        area.draw(&text((*name).to_owned(), 6, &BLACK))
            .map_err(failed)?;
        area.draw(&text(super::text::plain(*value), end + 6, &BLACK))
            .map_err(failed)?;
    }
    area.present().map_err(failed)?;
    Ok(Some(()))
}

/// Draws a curve on logarithmic scales, with the power that fits it.
pub fn curve(curve: &Curve, path: &Path) -> anyhow::Result<Option<()>> {
    let bounds = |values: Vec<f64>, below: f64, above: f64| {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        (least > 0.0).then_some(least * below..most * above)
    };
    let (xs, ys) = curve.points.iter().copied().unzip();
    let (Some(x), Some(y)) = (bounds(xs, 0.9, 1.1), bounds(ys, 0.5, 2.0)) else {
        return Ok(None);
    };
    let area = SVGBackend::new(path, (WIDTH, 300)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(x.log_scale(), y.log_scale())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(curve.x.clone())
        .y_desc(curve.y.clone())
        .x_label_formatter(&|value| super::text::plain(*value))
        .y_label_formatter(&|value| super::text::plain(*value))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    chart
        .draw_series(
            LineSeries::new(curve.points.iter().copied(), OURS.stroke_width(2)).point_size(3),
        )
        .map_err(failed)?;
    area.present().map_err(failed)?;
    Ok(Some(()))
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
