//! JSON as people read it: names and values below one another, and lists as tables.

use serde_json::{Map, Value};

use crate::text::shown;

/// What an object tells: first its plain values, then each object and list under its name. Names that `first` lists come first,
/// in that order.
pub fn of(object: &Map<String, Value>, first: &[&str]) -> String {
    let mut plain = Vec::new();
    let mut parts = Vec::new();
    for (name, value) in in_order(object, first) {
        match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                parts.push(format!("{}\n{}", shown(name), table(items, first)));
            }
            Value::Object(inner) if !inner.is_empty() => {
                let mut cells = Vec::new();
                flatten("", inner, first, &mut cells);
                parts.push(format!("{}\n{}", shown(name), lines(&cells, "  ")));
            }
            value => plain.push((shown(name).into_owned(), cell(value))),
        }
    }
    if !plain.is_empty() {
        parts.insert(0, lines(&plain, ""));
    }
    parts.join("\n")
}

fn in_order<'a>(object: &'a Map<String, Value>, first: &[&str]) -> Vec<(&'a String, &'a Value)> {
    let mut entries: Vec<_> = object.iter().collect();
    let place = |name: &str| {
        first
            .iter()
            .position(|other| *other == name)
            .unwrap_or(first.len())
    };
    entries.sort_by_key(|(name, _)| place(name));
    entries
}

/// The plain values of an object, those of inner ones under `outer.inner`.
fn flatten(
    prefix: &str,
    object: &Map<String, Value>,
    first: &[&str],
    cells: &mut Vec<(String, String)>,
) {
    for (name, value) in in_order(object, first) {
        let name = format!("{prefix}{}", shown(name));
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                flatten(&format!("{name}."), inner, first, cells)
            }
            value => cells.push((name, cell(value))),
        }
    }
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    shown(&text).into_owned()
}

fn lines(cells: &[(String, String)], indent: &str) -> String {
    let width = cells
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or_default();
    let lines = cells
        .iter()
        .map(|(name, value)| format!("{indent}{name:<width$}  {value}\n"));
    lines.collect()
}

/// A line for each item, a column for each name; none for what is nowhere told.
fn table(items: &[Value], first: &[&str]) -> String {
    let rows: Vec<Vec<(String, String)>> = items
        .iter()
        .map(|item| {
            let mut cells = Vec::new();
            match item {
                Value::Object(object) => flatten("", object, first, &mut cells),
                value => cells.push((String::new(), cell(value))),
            }
            cells
        })
        .collect();
    let mut columns: Vec<&str> = Vec::new();
    for (name, text) in rows.iter().flatten() {
        if text != "-" && !text.is_empty() && !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let place = |name: &str| {
        first
            .iter()
            .position(|other| *other == name)
            .unwrap_or(first.len())
    };
    columns.sort_by_key(|name| place(name));
    let text = |row: &[(String, String)], column: &str| {
        let cell = row.iter().find(|(name, _)| name == column);
        cell.map_or_else(|| "-".to_owned(), |(_, text)| text.clone())
    };
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|name| (*name).to_owned()).collect()];
    lines.extend(
        rows.iter()
            .map(|row| columns.iter().map(|column| text(row, column)).collect()),
    );
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| {
            lines
                .iter()
                .map(|line| line[column].chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    lines
        .iter()
        .map(|line| {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(text, width)| format!("{text:<width$}"));
            format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
        })
        .collect()
}
