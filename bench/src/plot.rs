//! Plots, as SVG.

use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::results::Curve;

const OURS: RGBColor = RGBColor(0, 90, 160);
const PANEL: (u32, u32) = (480, 270);
const COLUMNS: usize = 2;

/// Draws each curve in a panel of its own, on logarithmic scales.
pub fn curves(curves: &[Curve], path: &Path) -> anyhow::Result<()> {
    let rows = curves.len().div_ceil(COLUMNS);
    let size = (
        PANEL.0 * u32::try_from(COLUMNS)?,
        PANEL.1 * u32::try_from(rows)?,
    );
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    for (curve, panel) in curves.iter().zip(area.split_evenly((rows, COLUMNS))) {
        draw(curve, &panel)?;
    }
    area.present().map_err(failed)
}

/// Draws a curve, if it has points.
fn draw(curve: &Curve, panel: &DrawingArea<SVGBackend<'_>, Shift>) -> anyhow::Result<()> {
    let bounds = |values: Vec<f64>, below: f64, above: f64| {
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        (least > 0.0).then_some(least * below..most * above)
    };
    let (xs, ys) = curve.points.iter().copied().unzip();
    let (Some(x), Some(y)) = (bounds(xs, 0.9, 1.1), bounds(ys, 0.5, 2.0)) else {
        return Ok(());
    };
    let mut chart = ChartBuilder::on(panel)
        .margin(12)
        .caption(&curve.name, ("sans-serif", 15))
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(x.log_scale(), y.log_scale())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(curve.x.clone())
        .y_desc(curve.y.clone())
        .x_labels(6)
        .x_label_formatter(&|value| super::text::plain(*value))
        .y_label_formatter(&|value| super::text::plain(*value))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    let line = LineSeries::new(curve.points.iter().copied(), OURS.stroke_width(2));
    chart.draw_series(line.point_size(3)).map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}
