//! `weir rules export`

use std::fs::{self, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use limits::Rule;
use tempfile::{Builder, NamedTempFile};

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
        let saved = match fs::metadata(path) {
            Ok(old) if self.overwrites && !old.is_file() => fs::write(path, text),
            Ok(old) if self.overwrites => replace(path, &old, text),
            // Whoever makes it meanwhile is not overwritten either.
            _ => make(path, text, self.overwrites),
        };
        saved.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                "is there already, with remarks perhaps: --force overwrites it".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

/// Writes a file in the place of one that is there, which stays as it is until the new one is whole. A link to it stays one.
fn replace(path: &Path, old: &Metadata, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let new = beside(&path, text, 0o600)?;
    // Only an administrator may give a file away, and whoever may not owns the new one.
    let _ = fchown(new.as_file(), Some(old.uid()), Some(old.gid()));
    new.as_file().set_permissions(old.permissions())?;
    new.persist(&path)?;
    Ok(())
}

/// Writes a file that is not there.
fn make(path: &Path, text: &str, overwrites: bool) -> io::Result<()> {
    let new = beside(path, text, 0o666)?;
    if overwrites {
        new.persist(path)?;
    } else {
        new.persist_noclobber(path)?;
    }
    Ok(())
}

/// A file in the same folder with all of a text, which is gone again unless it is given its name. Of `mode` it has what the umask
/// leaves.
fn beside(path: &Path, text: &str, mode: u32) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let mut file = Builder::new()
        .prefix(".weir-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// Whether a file says these rules and no others.
fn says(file: &RulesFile, rules: &[&Rule]) -> bool {
    let mut told: Vec<&Rule> = file.rules.iter().map(|written| &written.rule).collect();
    let mut rules = rules.to_vec();
    told.sort_by_key(|rule| rule.id());
    rules.sort_by_key(|rule| rule.id());
    told == rules
}
