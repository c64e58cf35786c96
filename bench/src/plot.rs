//! The plot: every row that has a base, as a multiple of it.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::report::{Report, Row, Spread};

/// As high as a row is, in pixels.
const HEIGHT: i32 = 18;
const WIDTH: u32 = 1_100;
/// Where names end and bars begin.
const NAMES: i32 = 560;
/// As far as multiples go.
const MOST: f64 = 8.0;

/// Draws what was measured: of each row the least, the median and the most of its ratios. Tails are left out.
pub fn draw(report: &Report) -> String {
    let rows: Vec<(&Row, Spread)> = report
        .rows
        .iter()
        .filter(|row| !row.name.ends_with("p99") && row.base.as_ref() != Some(&row.name))
        .filter_map(|row| Some((row, report.ratio_to_base(row)?)))
        .collect();
    let height = HEIGHT * (rows.len() as i32 + 3);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height as u32)).into_drawing_area();
        let drawn = draw_on(&area, &rows, height);
        drawn.expect("a text can be written");
    }
    svg
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Failure<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw_on<'a>(area: &Area<'a>, rows: &[(&Row, Spread)], height: i32) -> Result<(), Failure<'a>> {
    area.fill(&WHITE)?;
    let scale = f64::from(WIDTH as i32 - NAMES - 60) / (2.0 * MOST.log2());
    let x = |ratio: f64| {
        let bounded = ratio.clamp(1.0 / MOST, MOST);
        NAMES + 20 + ((bounded.log2() + MOST.log2()) * scale) as i32
    };
    let right = ("sans-serif", 13)
        .into_text_style(area)
        .pos(Pos::new(HPos::Right, VPos::Center));
    let middle = ("sans-serif", 13)
        .into_text_style(area)
        .pos(Pos::new(HPos::Center, VPos::Center));
    for power in -3..=3 {
        let ratio = f64::from(power).exp2();
        let line = if power == 0 {
            BLACK
        } else {
            RGBColor(210, 210, 210)
        };
        let ends = [(x(ratio), 2 * HEIGHT), (x(ratio), height)];
        area.draw(&PathElement::new(ends, line))?;
        area.draw_text(&format!("×{ratio}"), &middle, (x(ratio), HEIGHT))?;
    }
    for (place, (row, ratio)) in rows.iter().enumerate() {
        let y = HEIGHT * (place as i32 + 2) + HEIGHT / 2;
        let name = format!("{}: {}", row.section, row.name);
        area.draw_text(&name, &right, (NAMES, y))?;
        let spread = [(x(ratio.least), y), (x(ratio.most), y)];
        area.draw(&PathElement::new(spread, BLUE.stroke_width(3)))?;
        area.draw(&Circle::new((x(ratio.median), y), 4, BLUE.filled()))?;
    }
    area.present()
}
