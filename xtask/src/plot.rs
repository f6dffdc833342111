//! Pictures for the documentation.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (860, 360);

/// A line: its name, and its points.
pub(crate) type Line = (String, Vec<(f64, f64)>);

/// Draws lines over the same axes, from zero on, as SVG.
pub(crate) fn lines(
    file: &Path,
    title: &str,
    (x_label, y_label): (&str, &str),
    lines: &[Line],
) -> Result<()> {
    draw(file, title, (x_label, y_label), lines)
        .map_err(|error| anyhow!("{}: {error}", file.display()))
}

fn draw(
    file: &Path,
    title: &str,
    (x_label, y_label): (&str, &str),
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (right, top) = points().fold((1.0_f64, 1.0_f64), |(right, top), (x, y)| {
        (right.max(*x), top.max(*y))
    });
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..right, 0.0..top * 1.2)?;
    chart
        .configure_mesh()
        .x_desc(x_label)
        .y_desc(y_label)
        .light_line_style(WHITE)
        .draw()?;
    for (n, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(n).to_rgba();
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                color.stroke_width(2),
            ))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}
