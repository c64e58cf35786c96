//! The functions' binaries, built once for each test process.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// A function that can run in a [`Container`](crate::Container).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// May this call through?
    Authorizer,
    /// The same question over HTTP.
    Check,
    /// The rules of the control API.
    Rules,
    /// The registry of the control API.
    Clients,
    /// Pending schema migrations.
    Migrate,
    /// Postgres to Redis.
    Refresh,
    /// Whether limits hold, seen from without.
    Canary,
    /// Not one of ours: it does what its event says, and shows that containers are what they claim to be.
    Echo,
}

impl Function {
    /// The name of the binary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Authorizer => "authorizer",
            Self::Check => "check",
            Self::Rules => "rules",
            Self::Clients => "clients",
            Self::Migrate => "migrate",
            Self::Refresh => "refresh",
            Self::Canary => "canary",
            Self::Echo => "echo",
        }
    }

    /// The binary, as new as its sources.
    pub fn path(self) -> PathBuf {
        let folder = built();
        match self {
            Self::Echo => folder.join("examples").join(self.name()),
            _ => folder.join(self.name()),
        }
    }
}

/// The folder of the profile that the tests themselves were built with, after a build of the binaries into it. Of the whole
/// workspace at once, so that dependencies keep the features that a test of all of it has built them with.
fn built() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let program = std::env::current_exe().expect("a test knows its own path");
        let folder = program
            .parent()
            .filter(|folder| folder.ends_with("deps") || folder.ends_with("examples"))
            .and_then(Path::parent)
            .expect("cargo puts tests into TARGET/PROFILE/deps, and examples beside");
        let target = folder.parent().expect("a profile lies in a target folder");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args([
                "build",
                "--locked",
                "--quiet",
                "--workspace",
                "--bins",
                "--example",
                "echo",
            ])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo tells this test of its own package is no news to a build: some dependencies would be built again for it.
        for (name, _) in std::env::vars_os() {
            let own = ["CARGO_PKG_", "CARGO_MANIFEST_"];
            if name
                .to_str()
                .is_some_and(|name| own.iter().any(|own| name.starts_with(own)))
            {
                command.env_remove(name);
            }
        }
        if folder.ends_with("release") {
            command.arg("--release");
        }
        let output = command.output().expect("cargo can be run");
        assert!(
            output.status.success(),
            "the functions do not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        folder.to_owned()
    })
}
