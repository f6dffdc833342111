//! A layer: files, as a tar.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header, HeaderMode};

use crate::blob::{Blob, Digest};

const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Something in a layer. It belongs to root; directories on the way to it are added.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A file.
    File {
        /// Relative, with `/` between its parts.
        path: String,
        /// Permissions, e.g. `0o444`.
        mode: u32,
        /// Content.
        bytes: Vec<u8>,
    },
    /// A symbolic link.
    Link {
        /// Relative, with `/` between its parts.
        path: String,
        /// What it points to.
        to: String,
    },
    /// A directory, which may be empty.
    Directory {
        /// Relative, with `/` between its parts.
        path: String,
        /// Permissions, e.g. `0o1777`.
        mode: u32,
    },
}

impl Entry {
    fn path(&self) -> &str {
        match self {
            Self::File { path, .. } | Self::Link { path, .. } | Self::Directory { path, .. } => {
                path
            }
        }
    }
}

/// A layer, as it is and compressed.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The tar.
    pub tar: Vec<u8>,
    /// Of the tar, which is what a config calls `diff_id`.
    pub diff_id: Digest,
    /// The tar, compressed.
    pub gzip: Blob,
}

impl Layer {
    /// Puts the entries into a layer, in this order. `time`: seconds since 1970 that each of them was last changed.
    pub fn new(entries: &[Entry], time: u64) -> Result<Self> {
        let tar = tar(entries, time).context("writing a layer")?;
        let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
        gzip.write_all(&tar)?;
        Ok(Self {
            diff_id: Digest::of(&tar),
            gzip: Blob::new(GZIP, gzip.finish()?),
            tar,
        })
    }
}

fn tar(entries: &[Entry], time: u64) -> Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    tar.mode(HeaderMode::Deterministic);
    let mut directories = BTreeSet::new();
    for entry in entries {
        let above = Path::new(entry.path()).ancestors().skip(1);
        let mut missing: Vec<&Path> = above
            .filter(|path| !path.as_os_str().is_empty() && !directories.contains(*path))
            .collect();
        missing.reverse();
        for path in missing {
            directories.insert(path.to_owned());
            let mut header = header(EntryType::Directory, 0o755, time);
            tar.append_data(&mut header, path, &[][..])?;
        }
        match entry {
            Entry::File { path, mode, bytes } => {
                let mut header = header(EntryType::Regular, *mode, time);
                header.set_size(bytes.len() as u64);
                tar.append_data(&mut header, path, bytes.as_slice())?;
            }
            Entry::Link { path, to } => {
                let mut header = header(EntryType::Symlink, 0o777, time);
                tar.append_link(&mut header, path, to)?;
            }
            Entry::Directory { path, mode } => {
                directories.insert(Path::new(path).to_owned());
                let mut header = header(EntryType::Directory, *mode, time);
                tar.append_data(&mut header, path, &[][..])?;
            }
        }
    }
    Ok(tar.into_inner()?)
}

fn header(kind: EntryType, mode: u32, time: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let file = |path: &str, mode| Entry::File {
            path: path.to_owned(),
            mode,
            bytes: path.as_bytes().to_vec(),
        };
        vec![
            file("program", 0o555),
            file("etc/ssl/certs/ca.crt", 0o444),
            file("etc/hosts", 0o444),
            Entry::Directory {
                path: "tmp".to_owned(),
                mode: 0o1777,
            },
            Entry::Link {
                path: "bin/sh".to_owned(),
                to: "/program".to_owned(),
            },
        ]
    }

    #[test]
    fn a_layer_has_each_entry_with_its_directories_before_it_and_nothing_of_this_machine() {
        let layer = Layer::new(&entries(), 1_700_000_000).expect("layer");
        let mut archive = tar::Archive::new(layer.tar.as_slice());
        let mut found = Vec::new();
        for entry in archive.entries().expect("a tar") {
            let entry = entry.expect("an entry");
            let header = entry.header();
            assert_eq!(header.mtime().expect("time"), 1_700_000_000);
            assert_eq!(
                (header.uid().expect("uid"), header.gid().expect("gid")),
                (0, 0)
            );
            let path = entry.path().expect("path").display().to_string();
            found.push((
                path,
                header.mode().expect("mode"),
                header.size().expect("size"),
            ));
        }
        let expected = [
            ("program", 0o555, 7),
            ("etc", 0o755, 0),
            ("etc/ssl", 0o755, 0),
            ("etc/ssl/certs", 0o755, 0),
            ("etc/ssl/certs/ca.crt", 0o444, 20),
            ("etc/hosts", 0o444, 9),
            ("tmp", 0o1777, 0),
            ("bin", 0o755, 0),
            ("bin/sh", 0o777, 0),
        ];
        let expected = expected.map(|(path, mode, size)| (path.to_owned(), mode, size));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_same_files_at_the_same_time_give_the_same_bytes() {
        let made_at = |time| Layer::new(&entries(), time).expect("layer");
        let (one, other, later) = (made_at(1), made_at(1), made_at(2));
        assert_eq!(one.diff_id, other.diff_id);
        assert_eq!(one.gzip.bytes, other.gzip.bytes);
        assert_ne!(one.diff_id, later.diff_id);
    }
}
