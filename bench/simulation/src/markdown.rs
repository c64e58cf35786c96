//! What is written for people, and where it goes.

/// A whole number with commas between thousands.
pub fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A document with something else between its marks of that name, which are lines of their own; none where it has none.
pub fn put_into(document: &str, mark: &str, text: &str) -> Option<String> {
    let marks = [format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->")];
    let (before, rest) = document.split_once(&marks[0])?;
    let (_, after) = rest.split_once(&marks[1])?;
    Some([before, &marks[0], text, &marks[1], after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        assert_eq!(
            [1.0, 1e3, 123_456.0, 2e6].map(count),
            ["1", "1,000", "123,456", "2,000,000"]
        );
    }

    #[test]
    fn every_document_has_a_place_and_nothing_else_of_it_is_changed() {
        for (document, mark) in [
            (include_str!("../../../docs/capacity.md"), "simulation"),
            (include_str!("../../../docs/performance.md"), "measured"),
            (include_str!("../../../docs/performance.md"), "load"),
        ] {
            let once = put_into(document, mark, "one\n").unwrap();
            let twice = put_into(&once, mark, "two\n");
            assert_eq!(twice, put_into(document, mark, "two\n"));
            assert!(once.contains(&format!("<!-- {mark} -->\none\n<!-- /{mark} -->")));
        }
        assert_eq!(put_into("nothing", "load", "one\n"), None);
    }
}
