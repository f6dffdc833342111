//! Where the files of a command go.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use carillon_testbed::carillon::workspace;

/// The directory that was asked for, or that of this name below `target` of the workspace.
pub(crate) fn directory(asked: Option<&Path>, name: &str) -> Result<PathBuf> {
    match asked {
        Some(dir) => Ok(dir.to_owned()),
        None => Ok(workspace().canonicalize()?.join("target").join(name)),
    }
}

/// Nothing is replaced but what the same command has made, which has the file `mark`.
pub(crate) fn check(dir: &Path, mark: &str) -> Result<()> {
    let Ok(mut entries) = fs::read_dir(dir) else {
        return Ok(());
    };
    ensure!(
        entries.next().is_none() || dir.join(mark).exists(),
        "--output {}: other files lie there, and it would be replaced: name another directory",
        dir.display()
    );
    Ok(())
}

/// Empties a directory that was checked, or makes it.
pub(crate) fn empty(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_other_files_is_not_replaced() {
        let mark = "oci/oci-layout";
        let dir = tempfile::tempdir().expect("a directory");
        assert!(check(&dir.path().join("new"), mark).is_ok());
        assert!(check(dir.path(), mark).is_ok());
        fs::write(dir.path().join("mine"), "").expect("written");
        let error = check(dir.path(), mark).expect_err("other files");
        assert!(error.to_string().contains("other files"), "{error}");
        fs::create_dir(dir.path().join("oci")).expect("created");
        fs::write(dir.path().join(mark), "").expect("written");
        assert!(check(dir.path(), mark).is_ok());
    }
}
