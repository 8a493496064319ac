//! Plots, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use super::results::Curve;

const OURS: RGBColor = RGBColor(0, 90, 160);
const WIDTH: u32 = 720;

/// Draws a curve on logarithmic scales. Returns `None` when there is nothing to draw.
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
