//! The template as CloudFormation is given it: the SAM translator's output.

use std::{path::Path, process::Command, sync::OnceLock};

use serde_json::Value;

/// All of it.
pub fn translated() -> &'static Value {
    static TRANSLATED: OnceLock<Value> = OnceLock::new();
    TRANSLATED.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let python = root.join(".tools/venv/bin/python");
        assert!(
            python.is_file(),
            "the SAM translator is not installed: `make setup` does it"
        );
        let output = Command::new(python)
            .arg(root.join("tests/translate.py"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    })
}

/// Every resource, by its logical id.
pub fn resources() -> &'static Value {
    &translated()["Resources"]
}
