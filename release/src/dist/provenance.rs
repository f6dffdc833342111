//! The provenance statement, in the form of in-toto with SLSA's predicate: which files came from which commit, and how.
//! It is not signed: whoever publishes a release signs it with a key of their own.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use carillon_image::{Digest, Platform};
use carillon_testbed::answer;
use carillon_testbed::carillon::workspace;
use serde_json::{Value, json};

use super::{Args, File};
use crate::image::VERSION;
use crate::source::Source;
use crate::{binary, chart};

/// The time of the build is not in it: two that build the same commit make the same statement.
pub(super) fn statement(
    args: &Args,
    source: &Source,
    platforms: &BTreeSet<Platform>,
    files: &[File],
) -> Result<File> {
    let subject =
        |file: &File| json!({"name": file.name, "digest": {"sha256": file.digest().hex()}});
    let subjects: Vec<Value> = files.iter().map(subject).collect();
    let lock = workspace().join("Cargo.lock");
    let lock = fs::read(&lock).with_context(|| format!("reading {}", lock.display()))?;
    let repository = chart::metadata()?;
    let repository = repository
        .sources
        .first()
        .unwrap_or(&repository.home)
        .clone();
    let platforms: Vec<String> = platforms.iter().map(ToString::to_string).collect();
    let tools = binary::host_tools()?;
    let helm = answer(Command::new(carillon_testbed::tools::helm()?).args(["version", "--short"]))?;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://carillon.dev/docs/release#dist",
                "externalParameters": {
                    "command": "cargo xtask dist",
                    "repository": repository,
                    "ref": source.revision,
                    "platforms": platforms,
                    "image": args.image,
                    "url": args.url,
                    "sourceDateEpoch": source.seconds(),
                },
                "internalParameters": {
                    "rust": tools.rust, "gcc": tools.gcc, "glibc": tools.glibc, "helm": helm,
                },
                "resolvedDependencies": [
                    {"uri": repository, "digest": {"gitCommit": source.revision}},
                    {"name": "Cargo.lock", "digest": {"sha256": Digest::of(&lock).hex()}},
                ],
            },
            "runDetails": {
                "builder": {"id": "https://carillon.dev/docs/release#by-hand"},
            },
        },
    });
    let mut text = serde_json::to_string_pretty(&statement)?;
    text.push('\n');
    Ok(File::new(
        format!("{}-{VERSION}.intoto.json", chart::NAME),
        text,
    ))
}
