//! What cargo knows of packages: their licences, what they depend on, and the checksum they were fetched by.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use cargo_lock::Lockfile;
use carillon_testbed::cargo;
use carillon_testbed::carillon::workspace;
use serde::Deserialize;

/// A package, as it is known by its id.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) repository: Option<String>,
    source: Option<String>,
    /// SHA-256 of what was fetched, in hexadecimal; none for our own.
    #[serde(skip)]
    pub(crate) checksum: Option<String>,
    /// Ids of what it uses for any purpose.
    #[serde(skip)]
    pub(crate) uses: Vec<String>,
}

impl Package {
    /// Whether it comes from the public registry.
    pub(crate) fn is_published(&self) -> bool {
        self.source
            .as_deref()
            .is_some_and(|source| source.starts_with("registry+"))
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    /// Absent where dependencies are not asked for.
    resolve: Option<Resolve>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    dependencies: Vec<String>,
}

/// All packages of the lock file that can be used on a target, by id.
pub(crate) fn all(target: &str) -> Result<BTreeMap<String, Package>> {
    let metadata: Metadata = cargo::metadata(&["--locked", "--filter-platform", target])?;
    let path = workspace().join("Cargo.lock");
    let lock = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let lock: Lockfile = lock
        .parse()
        .with_context(|| format!("reading {}", path.display()))?;
    let checksums: BTreeMap<(String, String), String> = lock
        .packages
        .iter()
        .filter_map(|locked| {
            let checksum = locked.checksum.as_ref()?.to_string();
            Some((
                (locked.name.to_string(), locked.version.to_string()),
                checksum,
            ))
        })
        .collect();
    let resolve = metadata
        .resolve
        .context("cargo metadata tells no dependencies")?;
    let mut uses: BTreeMap<String, Vec<String>> = resolve
        .nodes
        .into_iter()
        .map(|node| (node.id, node.dependencies))
        .collect();
    let packages = metadata.packages.into_iter().map(|mut package| {
        package.checksum = checksums
            .get(&(package.name.clone(), package.version.clone()))
            .cloned();
        package.uses = uses.remove(&package.id).unwrap_or_default();
        (package.id.clone(), package)
    });
    Ok(packages.collect())
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let metadata: Metadata = cargo::metadata(&["--no-deps"])?;
    Ok(metadata.target_directory)
}
