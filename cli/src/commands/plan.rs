//! `weir rules plan`

use std::fs;
use std::path::PathBuf;

use crate::api::Api;
use crate::difference::{Difference, compare};
use crate::exit::Exit;
use crate::held::Held;
use crate::output::print;
use crate::rules_file::{self, RulesFile};
use crate::show;
use crate::text::shown;

/// Shows what would change.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The file of rules.
    pub file: PathBuf,
    /// Whether what is not in the file is deleted.
    pub prune: bool,
}

impl Plan {
    /// Compares, and shows the difference.
    ///
    /// # Errors
    /// Every fault of the file, or why the API could not be read.
    pub async fn run(self, api: &Api) -> Result<Exit, String> {
        let file = self.read()?;
        let held = Held::read(api).await.map_err(|error| error.to_string())?;
        if held.revision.is_none() {
            eprintln!(
                "the API cannot tell its revision now: somebody may have written while it was read"
            );
        }
        let difference = self.shown(&file, &held)?;
        Ok(if difference.changes.is_empty() {
            Exit::Success
        } else {
            Exit::Difference
        })
    }

    /// The rules of the file.
    pub(super) fn read(&self) -> Result<RulesFile, String> {
        let name = self.file.display().to_string();
        let text = fs::read(&self.file).map_err(|error| format!("{}: {error}", shown(&name)))?;
        let text =
            String::from_utf8(text).map_err(|_| format!("{}: must be UTF-8", shown(&name)))?;
        rules_file::read(&name, &text).map_err(|faults| faults.to_string())
    }

    /// The difference, which is shown.
    pub(super) fn shown<'a>(
        &self,
        file: &'a RulesFile,
        held: &'a Held,
    ) -> Result<Difference<'a>, String> {
        let difference = compare(file, held, self.prune).map_err(|faults| faults.to_string())?;
        let text = show::difference(&file.name, &difference).map_err(|error| error.to_string())?;
        print(&text)?;
        Ok(difference)
    }
}
