//! The plot: what the authorizer adds, and how busy the busiest core is, by requests a second.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use simulation::markdown::count;

use crate::breaking::RATES;
use crate::measured::Measured;
use crate::report::Sweep;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

const SIZE: (u32, u32) = (1_000, 760);
/// How wide the names of the lines are.
const NAMES: i32 = 260;
const LINE: i32 = 22;

/// Of each scenario a line in both halves.
///
/// # Errors
/// Where it could not be drawn.
pub(crate) fn draw(sweeps: &[Sweep]) -> Result<String, String> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    draw_on(&area, sweeps).map_err(|error| error.to_string())?;
    drop(area);
    Ok(svg)
}

fn draw_on<'a>(area: &Area<'a>, sweeps: &[Sweep]) -> Result<(), Failure<'a>> {
    area.fill(&WHITE)?;
    let (lines, names) = area.split_horizontally(SIZE.0 as i32 - NAMES);
    let (upper, lower) = lines.split_vertically(SIZE.1 as i32 / 2);
    let latency = |run: &Measured| run.percentile(99.0);
    half(
        &upper,
        "p99 of what the authorizer adds, ms",
        0.5..2e4,
        sweeps,
        latency,
    )?;
    let load = |run: &Measured| (100.0 * run.core).max(0.1);
    half(
        &lower,
        "load of the busiest shard's core, %",
        0.5..300.0,
        sweeps,
        load,
    )?;
    for (number, sweep) in sweeps.iter().enumerate() {
        let at = LINE * (number as i32 + 2);
        names.draw(&PathElement::new([(0, at), (20, at)], style(number)))?;
        let text = ("sans-serif", 15).into_font();
        let name = sweep.scenario.name.replace('`', "");
        names.draw(&Text::new(name, (28, at - 7), text))?;
    }
    area.present()
}

fn style(number: usize) -> ShapeStyle {
    Palette99::pick(number).stroke_width(2)
}

fn half<'a>(
    area: &Area<'a>,
    what: &str,
    range: Range<f64>,
    sweeps: &[Sweep],
    value: impl Fn(&Measured) -> f64,
) -> Result<(), Failure<'a>> {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d((RATES[0]..RATES[5]).log_scale(), range.log_scale())?;
    chart
        .configure_mesh()
        .x_desc("requests a second")
        .y_desc(what)
        .label_style(("sans-serif", 14))
        .x_label_formatter(&|rate| count(*rate))
        .y_label_formatter(&|value| count(*value))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (number, sweep) in sweeps.iter().enumerate() {
        let points = sweep.runs.iter().map(|run| (run.rate, value(run)));
        chart.draw_series(LineSeries::new(points, style(number)))?;
    }
    Ok(())
}
