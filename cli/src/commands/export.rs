//! `weir rules export`

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use limits::Rule;

use crate::api::Api;
use crate::exit::Exit;
use crate::held::Held;
use crate::output::print;
use crate::rules_file::{self, RulesFile};
use crate::text::shown;

/// Writes what the API holds.
#[derive(Debug, Clone)]
pub struct Export {
    /// The file to write; none is standard output.
    pub file: Option<PathBuf>,
    /// Whether the file may be there already.
    pub overwrites: bool,
}

impl Export {
    /// Reads, and writes.
    ///
    /// # Errors
    /// Why the API could not be read or the file not be written.
    pub async fn run(self, api: &Api) -> Result<Exit, String> {
        let held = Held::read(api).await.map_err(|error| error.to_string())?;
        let rules: Vec<&Rule> = held.rules.iter().map(|held| &held.rule).collect();
        let text = rules_file::write(&rules).map_err(|error| error.to_string())?;
        // Better no file than one that means something else.
        let back = rules_file::read("export", &text);
        if !back.as_ref().is_ok_and(|file| says(file, &rules)) {
            return Err("the rules cannot be written so that they are read again as they are; nothing was written".to_owned());
        }
        match &self.file {
            None => print(&text)?,
            Some(path) => {
                let name = path.display().to_string();
                self.save(path, &text)
                    .map_err(|error| format!("{}: {error}", shown(&name)))?;
                print(&format!("{} rules in {}\n", rules.len(), shown(&name)))?;
            }
        }
        Ok(Exit::Success)
    }

    fn save(&self, path: &Path, text: &str) -> Result<(), String> {
        let mut options = OpenOptions::new();
        options.write(true);
        let options = if self.overwrites {
            options.create(true).truncate(true)
        } else {
            options.create_new(true)
        };
        let file = options.open(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                "is there already, with remarks perhaps: --force overwrites it".to_owned()
            }
            _ => error.to_string(),
        });
        file?
            .write_all(text.as_bytes())
            .map_err(|error| error.to_string())
    }
}

/// Whether a file says these rules and no others.
fn says(file: &RulesFile, rules: &[&Rule]) -> bool {
    let mut told: Vec<&Rule> = file.rules.iter().map(|written| &written.rule).collect();
    let mut rules = rules.to_vec();
    told.sort_by_key(|rule| rule.id());
    rules.sort_by_key(|rule| rule.id());
    told == rules
}
