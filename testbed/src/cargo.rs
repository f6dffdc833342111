//! Cargo, started by a program that cargo has started.

use std::env;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use crate::carillon::workspace;

/// In the workspace, and as it would be started by hand.
///
/// A program that cargo runs is told about its own package. Build scripts may ask to be run again
/// when these variables change, as ring's does, and then most of the workspace is built again.
pub fn command() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace());
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_about_a_package) {
            command.env_remove(name);
        }
    }
    command
}

/// What `cargo metadata` says, with further arguments.
pub fn metadata<T: DeserializeOwned>(args: &[&str]) -> Result<T> {
    let output = command()
        .args(["metadata", "--format-version=1"])
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

fn is_about_a_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_not_told_of_the_package_of_the_program_that_starts_it() {
        assert!(
            env::var_os("CARGO_PKG_NAME").is_some(),
            "cargo runs this test"
        );
        let command = command();
        let removed = |wanted: &str| {
            let mut variables = command.get_envs();
            variables.any(|(name, value)| name == wanted && value.is_none())
        };
        assert!(removed("CARGO_PKG_NAME"));
        assert!(removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("CARGO_HOME"));
        assert!(!removed("PATH"));
    }
}
