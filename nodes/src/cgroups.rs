//! The cgroups of a node: one below the root of each hierarchy, also with version 2, which has only one.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use carillon_testbed::watchdog;

const ROOT: &str = "/sys/fs/cgroup";

/// Makes them.
pub(crate) fn create(name: &str) -> Result<()> {
    watchdog::guard_cgroup(name)?;
    for hierarchy in hierarchies()? {
        let dir = hierarchy.join(name);
        // Nobody else has the number of this network: what is there was left by somebody who is gone.
        if dir.exists() {
            remove_all(&dir).with_context(|| format!("removing the cgroup {}", dir.display()))?;
        }
        fs::create_dir(&dir).with_context(|| format!("creating the cgroup {}", dir.display()))?;
        // A new cpuset has no processors, and runs nothing.
        for file in ["cpuset.mems", "cpuset.cpus"] {
            if let Ok(inherited) = fs::read(hierarchy.join(file)) {
                let _ = fs::write(dir.join(file), inherited);
            }
        }
    }
    Ok(())
}

/// Removes them, once nothing runs in them any more.
pub(crate) fn remove(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let dir = hierarchy.join(name);
        if dir.exists() {
            remove_all(&dir).with_context(|| format!("removing the cgroup {}", dir.display()))?;
        }
    }
    watchdog::release_cgroup(name)
}

/// Files of a cgroup go with it, and cannot be removed.
fn remove_all(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_all(&entry.path())?;
        }
    }
    Ok(fs::remove_dir(dir)?)
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![root.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(root).with_context(|| format!("reading {ROOT}"))? {
        let entry = entry?;
        // Others are links to these.
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}
