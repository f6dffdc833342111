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

/// Nothing is replaced but what the same command has made: the directory has the file `mark`, and nothing at its top that
/// `is_ours` does not know.
pub(crate) fn check(dir: &Path, mark: &str, is_ours: impl Fn(&str) -> bool) -> Result<()> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(());
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<Result<_>>()?;
    let made_by_us = || dir.join(mark).exists() && names.iter().all(|name| is_ours(name));
    ensure!(
        names.is_empty() || made_by_us(),
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
        let check = |dir: &Path| check(dir, mark, |name| name == "oci");
        assert!(check(&dir.path().join("new")).is_ok());
        assert!(check(dir.path()).is_ok());
        fs::create_dir(dir.path().join("oci")).expect("created");
        assert!(check(dir.path()).is_err(), "without the mark");
        fs::write(dir.path().join(mark), "").expect("written");
        assert!(check(dir.path()).is_ok());
        fs::write(dir.path().join("mine"), "").expect("written");
        let error = check(dir.path()).expect_err("other files");
        assert!(error.to_string().contains("other files"), "{error}");
    }
}
