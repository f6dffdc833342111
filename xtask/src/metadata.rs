//! What cargo knows about this workspace.

use anyhow::{Context, Result, ensure};
use carillon_testbed::cargo;
use serde::Deserialize;

/// A member of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) targets: Vec<Target>,
    #[cfg_attr(not(test), allow(dead_code))] // for the tests of the repository's layout
    pub(crate) dependencies: Vec<Dependency>,
}

/// Something that is built: a library, a program, a test.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(not(test), allow(dead_code))] // for the tests of the repository's layout
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev`, `build`, or absent.
    pub(crate) kind: Option<String>,
}

impl Package {
    /// Names of the targets of a kind: `lib`, `bin`, `test`.
    pub(crate) fn targets_of_kind(&self, kind: &str) -> impl Iterator<Item = &str> {
        let wanted = move |target: &&Target| target.kind.iter().any(|found| found == kind);
        self.targets
            .iter()
            .filter(wanted)
            .map(|target| target.name.as_str())
    }
}

/// Runs cargo on the workspace; it says what it does itself.
pub(crate) fn run_cargo(args: &[&str]) -> Result<()> {
    let status = cargo::command()
        .args(args)
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "cargo {}: {status}", args[0]);
    Ok(())
}

/// All members of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let metadata: Metadata = cargo::metadata(&["--no-deps"])?;
    Ok(metadata.packages)
}
