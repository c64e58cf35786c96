//! Who a server runs as that refuses to be root.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{ServerError, machine};

/// The user `postgres` of Debian's packages, when we are root.
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

impl Owner {
    /// None when we are not root: then a server runs as who we are.
    pub(super) fn find() -> Result<Option<Self>, ServerError> {
        if id(&["-u"])? != 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            user: id(&["-u", "postgres"])?,
            group: id(&["-g", "postgres"])?,
        }))
    }

    /// The program to start so that `program` runs as this user, and the arguments that go before its own.
    pub(super) fn runs(owner: Option<&Self>, program: &Path) -> (PathBuf, Vec<String>) {
        let Some(Self { user, group }) = owner else {
            return (program.to_owned(), Vec::new());
        };
        let arguments = vec![
            format!("--reuid={user}"),
            format!("--regid={group}"),
            "--clear-groups".to_owned(),
            program.display().to_string(),
        ];
        (PathBuf::from("setpriv"), arguments)
    }
}

fn id(arguments: &[&str]) -> Result<u32, ServerError> {
    let doing = || machine(format!("id {}", arguments.join(" ")));
    let output = Command::new("id")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(doing())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        doing()(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    })
}
