//! The template as CloudFormation is given it: the SAM translator's output, with parameters put in.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{LazyLock, Mutex},
};

use serde_json::{Value, json};

/// What becomes of the template for each choice of parameters (a JSON list of objects); with `--lint` among the arguments, what
/// cfn-lint finds in each.
pub fn translate(choices: &Value, arguments: &[&str]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let python = root.join(".tools/venv/bin/python");
    assert!(
        python.is_file(),
        "the SAM translator is not installed: `make setup` does it"
    );
    let mut child = Command::new(python)
        .arg(root.join("tests/translate.py"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(choices.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The template with these parameters, and the rest of them left as they are.
pub fn deployed(parameters: Value) -> &'static Value {
    static KNOWN: LazyLock<Mutex<BTreeMap<String, &'static Value>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap();
    known
        .entry(parameters.to_string())
        .or_insert_with(|| Box::leak(Box::new(translate(&json!([parameters]), &[])[0].take())))
}

/// The template with every parameter left as it is.
pub fn translated() -> &'static Value {
    deployed(json!({}))
}

/// Every resource of it, by its logical id.
pub fn resources() -> &'static Value {
    &translated()["Resources"]
}
