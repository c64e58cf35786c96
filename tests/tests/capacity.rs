//! `docs/capacity.md` says what its program reckons.

use std::path::Path;
use std::process::Command;

#[test]
fn the_table_of_the_document_is_what_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let printed = Command::new("python3")
        .arg(root.join("scripts/capacity"))
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert_eq!(printed.lines().count(), 7, "{printed}");
    let document = std::fs::read_to_string(root.join("docs/capacity.md")).unwrap();
    let (_, rest) = document.split_once("<!-- table -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- /table -->").unwrap();
    assert_eq!(table, printed);
}
