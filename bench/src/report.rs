//! What was measured: rows, each with a value for each round, and how they compare.

use std::fmt::Write;

use serde::Serialize;

/// Least, median and most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The median; of an even number the upper of the two.
    pub median: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of some numbers; none where there are none.
    pub fn of(mut numbers: Vec<f64>) -> Option<Self> {
        numbers.sort_unstable_by(f64::total_cmp);
        Some(Self {
            least: *numbers.first()?,
            median: numbers[numbers.len() / 2],
            most: *numbers.last()?,
        })
    }

    /// `least / median / most`, with three digits that count.
    pub fn text(&self) -> String {
        let [least, median, most] = [self.least, self.median, self.most].map(digits);
        format!("{least} / {median} / {most}")
    }
}

/// With three digits that count, and with thousands whole.
pub fn digits(number: f64) -> String {
    match number.abs() {
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// One thing that is measured each round.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The table that it stands in.
    pub section: &'static str,
    /// What it is, once in its section.
    pub name: String,
    /// What its values are.
    pub unit: &'static str,
    /// The row of the same section that it is compared with.
    pub base: Option<String>,
    /// One for each round.
    pub values: Vec<f64>,
}

/// All rows, in the order in which they first came.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The machine that it was measured on.
    pub machine: String,
    /// How often everything was measured.
    pub rounds: usize,
    /// What was measured.
    pub rows: Vec<Row>,
}

impl Report {
    /// Notes what a row was in this round.
    pub fn note(
        &mut self,
        section: &'static str,
        name: &str,
        unit: &'static str,
        base: Option<&str>,
        value: f64,
    ) {
        match self.position(section, name) {
            Some(at) => self.rows[at].values.push(value),
            None => self.rows.push(Row {
                section,
                name: name.to_owned(),
                unit,
                base: base.map(str::to_owned),
                values: vec![value],
            }),
        }
    }

    /// Forgets all values of the rounds so far: they warmed up.
    pub fn forget(&mut self) {
        self.rows.clear();
    }

    fn position(&self, section: &str, name: &str) -> Option<usize> {
        let fits = |row: &Row| row.section == section && row.name == name;
        self.rows.iter().position(fits)
    }

    /// A row by its place.
    pub fn row(&self, section: &str, name: &str) -> Option<&Row> {
        self.position(section, name).map(|at| &self.rows[at])
    }

    /// A row as a multiple of its base, round by round; none where it has none.
    pub fn ratio_to_base(&self, row: &Row) -> Option<Spread> {
        let base = self.row(row.section, row.base.as_deref()?)?;
        let both = row.values.iter().zip(&base.values);
        Spread::of(both.map(|(value, base)| value / base).collect())
    }

    /// Every row, as Markdown: a table for each section.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        let mut sections: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sections.contains(&row.section) {
                sections.push(row.section);
            }
        }
        for section in sections {
            let _ = write!(
                text,
                "\n### {section}\n\n| | least / median / most | | × base, round by round | base |\n|---|---:|---|---:|---|\n"
            );
            for row in self.rows.iter().filter(|row| row.section == section) {
                let values = Spread::of(row.values.clone());
                let values = values.map_or_else(String::new, |all| all.text());
                let base = row.base.as_deref().unwrap_or_default();
                let ratio = self.ratio_to_base(row);
                let ratio = ratio.map_or_else(String::new, |ratio| ratio.text());
                let _ = writeln!(
                    text,
                    "| {} | {values} | {} | {ratio} | {base} |",
                    row.name, row.unit
                );
            }
        }
        text
    }
}
