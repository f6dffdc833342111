//! Backups of etcd, and what a restore of one does to a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cluster::{Cluster, Component, random_hex};

impl Cluster {
    /// Copies what etcd has stored by now. etcd is down for a moment.
    pub fn back_up(&self) -> Result<PathBuf> {
        let backup = self.dir().join(format!("backup-{}", random_hex(4)?));
        self.kill(Component::Etcd)?;
        copy(&self.etcd_data(), &backup)?;
        self.restart(Component::Etcd)?;
        Ok(backup)
    }

    /// Puts a backup in the place of what etcd has stored, so that all that was done since is forgotten. The whole
    /// control plane starts anew, as it has to: what its parts remember is of another history.
    pub fn restore(&self, backup: &Path) -> Result<()> {
        let parts: Vec<Component> = self.processes().keys().copied().collect();
        for part in parts.iter().rev() {
            self.kill(*part)?;
        }
        let data = self.etcd_data();
        fs::remove_dir_all(&data).with_context(|| data.display().to_string())?;
        copy(backup, &data)?;
        for part in parts {
            self.restart(part)?;
        }
        Ok(())
    }

    fn etcd_data(&self) -> PathBuf {
        self.dir().join("etcd")
    }
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}
