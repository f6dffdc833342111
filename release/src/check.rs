//! `cargo xtask release --dry-run`: whether everything is right for a release of this commit. Nothing is published:
//! that is done by hand, see docs/release.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use carillon_image::Digest;
use carillon_testbed::carillon::workspace;
use carillon_testbed::{answer, cargo};
use serde_json::Value;

use crate::dist::{CHECKSUMS, DIRECTORY};
use crate::image::VERSION;
use crate::source::{Source, git};
use crate::{chart, output};

/// Most bytes of an image that is not compressed.
const LARGEST_IMAGE: usize = 20_000_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only check; there is nothing else that this command does
    #[arg(long, required = true)]
    dry_run: bool,
    /// Where the files of `cargo xtask dist` lie [default: target/dist of the workspace]
    #[arg(long, value_name = "DIR")]
    dist: Option<PathBuf>,
}

/// What a check has found, unless it has failed.
enum Found {
    Right(String),
    /// It could not be asked, and why.
    Unknown(String),
}

use Found::{Right, Unknown};

pub(crate) fn run(args: &Args) -> Result<()> {
    let dist = output::directory(args.dist.as_deref(), DIRECTORY)?;
    let source = Source::read()?;
    let checks = [
        ("commit", commit(&source)),
        ("version", version()),
        ("changelog", changelog()),
        ("tag", tag(&source)),
        ("stored objects", stored()),
        ("files", files(&dist)),
        ("provenance", provenance(&dist, &source)),
        ("image size", image_size(&dist)),
        ("licences", deny("licenses bans sources")),
        ("advisories", deny("advisories")),
    ];
    let mut failed = 0;
    for (name, found) in checks {
        let (word, text) = match found {
            Ok(Right(text)) => ("ok", text),
            Ok(Unknown(text)) => ("NOT CHECKED", text),
            Err(error) => {
                failed += 1;
                ("FAILED", format!("{error:#}"))
            }
        };
        println!("{name:<15} {word:<12} {text}");
    }
    ensure!(
        failed == 0,
        "{failed} checks failed: {VERSION} is not ready"
    );
    Ok(())
}

fn commit(source: &Source) -> Result<Found> {
    ensure!(
        !source.revision.ends_with("-dirty") && source.revision != "unknown",
        "{}: commit all changes first",
        source.revision
    );
    Ok(Right(source.revision.clone()))
}

fn version() -> Result<Found> {
    let chart = chart::metadata()?;
    for (field, found) in [
        ("version", &chart.version),
        ("appVersion", &chart.app_version),
    ] {
        ensure!(
            found == VERSION,
            "{field} of Chart.yaml is {found}, the workspace has {VERSION}: write the same"
        );
    }
    Ok(Right(format!("{VERSION} in Cargo.toml and Chart.yaml")))
}

fn changelog() -> Result<Found> {
    let path = workspace().join("CHANGELOG.md");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let heading = heading(&text)?;
    Ok(Right(heading.to_owned()))
}

/// The heading of this version, which has a date.
fn heading(changelog: &str) -> Result<&str> {
    let start = format!("## [{VERSION}]");
    let heading = changelog.lines().find(|line| line.starts_with(&start));
    let heading = heading.with_context(|| {
        format!("CHANGELOG.md has no heading `{start} - DATE`: give the one of what is unreleased that name")
    })?;
    let date = heading[start.len()..].trim_start_matches([' ', '-']);
    let is_date = date.parse::<jiff::civil::Date>().is_ok();
    ensure!(
        is_date,
        "{heading:?} in CHANGELOG.md has no date: write `{start} - 2026-01-31`"
    );
    Ok(heading)
}

fn tag(source: &Source) -> Result<Found> {
    let name = format!("v{VERSION}");
    let commit = git(&["rev-list", "-n", "1", &name]);
    match commit {
        Err(_) => Ok(Right(format!("{name} is free"))),
        Ok(commit) if commit == source.revision => Ok(Right(format!("{name} is this commit"))),
        Ok(commit) => bail!("{name} is {commit} already: raise the version in Cargo.toml"),
    }
}

/// What a released version stores is kept, so that later ones are tested with it.
fn stored() -> Result<Found> {
    let path = format!("tests/stored/{VERSION}");
    let listed = fs::read_dir(workspace().join(&path));
    let listed = listed
        .with_context(|| format!("{path}: write an object of each kind, with every field"))?;
    Ok(Right(format!("{} files in {path}", listed.count())))
}

/// Every file has its checksum, and every checksum its file.
fn files(dist: &Path) -> Result<Found> {
    let sums = sums(dist)?;
    for (sum, name) in &sums {
        let bytes = fs::read(dist.join(name)).with_context(|| format!("reading {name}"))?;
        ensure!(
            Digest::of(&bytes).hex() == *sum,
            "{name} is not what {CHECKSUMS} says: build anew"
        );
    }
    let named: BTreeSet<&str> = sums.iter().map(|(_, name)| name.as_str()).collect();
    let there =
        fs::read_dir(dist)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let there: BTreeSet<String> = there.collect::<Result<_>>()?;
    let unknown: Vec<&String> = there
        .iter()
        .filter(|name| *name != CHECKSUMS && !named.contains(name.as_str()))
        .collect();
    ensure!(
        unknown.is_empty(),
        "{unknown:?} have no checksum: build anew"
    );
    for needed in [
        format!("carillon-{VERSION}.tgz"),
        format!("carillon-{VERSION}-oci.tar"),
        format!("carillon-{VERSION}.intoto.json"),
        "install.yaml".to_owned(),
        "crds.yaml".to_owned(),
        "krew-carillon.yaml".to_owned(),
    ] {
        ensure!(named.contains(needed.as_str()), "no {needed}: build anew");
    }
    Ok(Right(format!("{} with their checksums", named.len())))
}

/// Checksums and names.
fn sums(dist: &Path) -> Result<Vec<(String, String)>> {
    let path = dist.join(CHECKSUMS);
    let text = fs::read_to_string(&path);
    let text =
        text.with_context(|| format!("{}: build it with `cargo xtask dist`", path.display()))?;
    let lines = text.lines().map(|line| {
        let (sum, name) = line
            .split_once("  ")
            .with_context(|| format!("{line:?} in {CHECKSUMS}"))?;
        Ok((sum.to_owned(), name.to_owned()))
    });
    lines.collect()
}

/// What was built is this commit, and its statement is about all that is there.
fn provenance(dist: &Path, source: &Source) -> Result<Found> {
    let name = format!("{}-{VERSION}.intoto.json", chart::NAME);
    let text = fs::read_to_string(dist.join(&name)).with_context(|| format!("reading {name}"))?;
    let statement: Value =
        serde_json::from_str(&text).with_context(|| format!("reading {name}"))?;
    let built = &statement["predicate"]["buildDefinition"]["externalParameters"]["ref"];
    ensure!(
        *built == *source.revision,
        "{name} is about {built}, and {} is checked out: build anew",
        source.revision
    );
    let subjects = statement["subject"].as_array().into_iter().flatten();
    let subjects: BTreeSet<(&str, &str)> = subjects
        .filter_map(|subject| {
            Some((
                subject["digest"]["sha256"].as_str()?,
                subject["name"].as_str()?,
            ))
        })
        .collect();
    for (sum, file) in sums(dist)?.iter().filter(|(_, file)| *file != name) {
        ensure!(
            subjects.contains(&(sum.as_str(), file.as_str())),
            "{name} says nothing of {file}: build anew"
        );
    }
    Ok(Right(format!("{} files, not signed", subjects.len())))
}

fn image_size(dist: &Path) -> Result<Found> {
    let entries = fs::read_dir(dist).with_context(|| format!("reading {}", dist.display()))?;
    let paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    let mut sizes = Vec::new();
    for path in paths
        .iter()
        .filter(|path| path.to_string_lossy().ends_with(".docker.tar"))
    {
        let bytes = usize::try_from(fs::metadata(path)?.len())?;
        ensure!(
            bytes <= LARGEST_IMAGE,
            "{} has {bytes} bytes, more than {LARGEST_IMAGE}",
            path.display()
        );
        sizes.push(format!("{bytes} bytes"));
    }
    ensure!(!sizes.is_empty(), "no image");
    Ok(Right(sizes.join(", ")))
}

/// By cargo-deny, which is a tool of its own.
fn deny(what: &str) -> Result<Found> {
    if answer(Command::new("cargo-deny").arg("--version")).is_err() {
        let install = "cargo-deny is not installed: cargo install --locked cargo-deny";
        return Ok(Unknown(install.to_owned()));
    }
    let mut command = cargo::command();
    command.args(["deny", "check"]);
    if what == "advisories" && !has_advisories() {
        return Ok(Unknown(
            "no database of advisories on this machine: cargo deny fetch".to_owned(),
        ));
    }
    if what == "advisories" {
        command.arg("--disable-fetch");
    }
    answer(command.args(what.split(' '))).map(|_| Right(what.to_owned()))
}

/// Where cargo-deny keeps what it has fetched.
fn has_advisories() -> bool {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    home.is_some_and(|home| {
        fs::read_dir(home.join("advisory-dbs")).is_ok_and(|dirs| dirs.count() > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_in_the_changelog_has_a_date() {
        let dated = format!("# Changelog\n## [{VERSION}] - 2026-12-01\n");
        assert_eq!(
            heading(&dated).expect("a date"),
            format!("## [{VERSION}] - 2026-12-01")
        );
        for text in [
            "# Changelog\n## [Unreleased]\n".to_owned(),
            format!("## [{VERSION}] - soon\n"),
        ] {
            assert!(heading(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_that_was_changed_or_has_no_checksum_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let empty = Digest::of(b"").hex();
        let write =
            |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write("a", "");
        write(CHECKSUMS, &format!("{empty}  a\n"));
        let problem = || {
            files(dir.path())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(problem().starts_with("no carillon-"), "{}", problem());
        write("b", "");
        assert!(
            problem().contains("[\"b\"] have no checksum"),
            "{}",
            problem()
        );
        write("a", "changed");
        assert!(problem().starts_with("a is not what"), "{}", problem());
    }
}
