//! `cargo xtask dist`: all files of a release, with their checksums, from one commit. The same commit gives the same
//! bytes, as long as Rust, the C library, the linker and helm are the same.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use carillon_image::{Digest, Entry, Layer, Platform};
use carillon_testbed::carillon::{Program, workspace};

use crate::image::{self, Made, VERSION};
use crate::source::{self, Source};
use crate::{binary, chart, output, sbom};

mod install;
mod krew;
mod provenance;

/// The checksums of all other files, as `sha256sum --check` reads them.
pub(crate) const CHECKSUMS: &str = "SHA256SUMS";
/// Where the files go unless told otherwise, below `target`.
pub(crate) const DIRECTORY: &str = "dist";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// For which platform; can be repeated
    #[arg(long, value_name = "OS/ARCH", default_value = "linux/amd64")]
    platform: Vec<Platform>,
    /// What the image is called where nodes pull it, for `install.yaml` and the chart's annotations
    #[arg(long, value_name = "IMAGE", default_value_t = format!("{}:{VERSION}", chart::NAME))]
    image: String,
    /// Where plugins will be downloaded from, for the krew manifest: the files' names follow
    #[arg(long, value_name = "URL", default_value_t = format!("https://carillon.dev/releases/v{VERSION}"))]
    url: String,
    /// Where the files go: a new directory, or that of a release before, which is replaced [default: target/dist of
    /// the workspace]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// A file of a release.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

impl File {
    fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.into(),
        }
    }

    fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let output = output::directory(args.output.as_deref(), DIRECTORY)?;
    output::check(&output, CHECKSUMS, is_of_a_release)?;
    let source = Source::read()?;
    let platforms: BTreeSet<Platform> = args.platform.iter().copied().collect();

    let made = image::make_all(&platforms, &source)?;
    let mut files = images(&made, &source)?;
    let mut plugins = Vec::new();
    for platform in &platforms {
        let (archive, bill) = plugin(*platform, &source)?;
        plugins.push((*platform, archive.clone()));
        files.extend([archive, bill]);
    }
    let chart = chart_package(&args.image, &source)?;
    files.push(install::manifest(&chart, &args.image)?);
    files.push(chart);
    files.push(crds()?);
    files.push(krew::manifest(&args.url, &plugins)?);
    let statement = provenance::statement(args, &source, &platforms, &files)?;
    files.push(statement);
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files.push(checksums(&files));

    write(&output, &files)?;
    for file in &files {
        println!(
            "{:>11}  {}  {}",
            file.bytes.len(),
            file.digest().hex(),
            file.name
        );
    }
    println!(
        "{}: {} files, {}s",
        output.display(),
        files.len(),
        start.elapsed().as_secs()
    );
    Ok(())
}

/// Whether a file of this name may be of a release, of any version.
fn is_of_a_release(name: &str) -> bool {
    let (_, plugin) = Program::Cli.target();
    let fixed = [CHECKSUMS, "install.yaml", "crds.yaml", "krew-carillon.yaml"];
    fixed.contains(&name)
        || [chart::NAME, plugin]
            .iter()
            .any(|stem| name.starts_with(&format!("{stem}-")))
}

fn write(dir: &Path, files: &[File]) -> Result<()> {
    output::empty(dir)?;
    for File { name, bytes } in files {
        let path = dir.join(name);
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// The image in the two forms that tools read, and its bill of materials.
fn images(made: &Made, source: &Source) -> Result<Vec<File>> {
    let name = format!("{}:{VERSION}", chart::NAME);
    let (_, layout) = made.layout(VERSION);
    let entries = layout.into_iter().map(|(path, bytes)| Entry::File {
        path,
        mode: 0o644,
        bytes,
    });
    let entries: Vec<Entry> = entries.collect();
    let mut files = vec![File::new(
        format!("{}-{VERSION}-oci.tar", chart::NAME),
        Layer::new(&entries, source.seconds())?.tar,
    )];
    for (file, bytes) in made.archives(&name, source)? {
        files.push(File::new(file, bytes));
    }
    for (file, bytes) in made.bills() {
        files.push(File::new(file, bytes));
    }
    Ok(files)
}

/// The plugin of kubectl, as an archive, and its bill of materials.
fn plugin(platform: Platform, source: &Source) -> Result<(File, File)> {
    let program = Program::Cli;
    eprintln!("building the plugin for {platform}");
    let built = binary::build(program, platform)?;
    let bill = sbom::of(program, &built, platform, source, None)?;
    let (_, name) = program.target();
    let stem = format!("{name}-{VERSION}-linux-{}", platform.architecture());
    let read = |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
    let entries = [
        (name, 0o755, &built.path),
        ("LICENSE", 0o644, &workspace().join("LICENSE")),
    ];
    let entries = entries.map(|(path, mode, from)| {
        Ok(Entry::File {
            path: path.to_owned(),
            mode,
            bytes: read(from)?,
        })
    });
    let entries: Vec<Entry> = entries.into_iter().collect::<Result<_>>()?;
    let archive = Layer::new(&entries, source.seconds())?.gzip.bytes;
    Ok((
        File::new(format!("{stem}.tar.gz"), archive),
        File::new(format!("{stem}.cdx.json"), bill.bytes),
    ))
}

/// The chart as a package that helm reads, the same each time.
fn chart_package(image: &str, source: &Source) -> Result<File> {
    let mut entries = Vec::new();
    for (path, bytes) in chart::files()? {
        let bytes = if path == "Chart.yaml" {
            chart::with_images(&String::from_utf8(bytes).context("Chart.yaml")?, image).into_bytes()
        } else {
            bytes
        };
        entries.push(Entry::File {
            path: format!("{}/{path}", chart::NAME),
            mode: 0o644,
            bytes,
        });
    }
    let name = format!("{}-{VERSION}.tgz", chart::NAME);
    Ok(File::new(
        name,
        Layer::new(&entries, source.seconds())?.gzip.bytes,
    ))
}

/// All CRDs in one file, for `kubectl apply --server-side`.
fn crds() -> Result<File> {
    let mut text = String::new();
    for path in source::files("crds")? {
        let path = workspace().join(path);
        text += "---\n";
        text +=
            &fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    }
    Ok(File::new("crds.yaml", text))
}

fn checksums(files: &[File]) -> File {
    let lines = files
        .iter()
        .map(|file| format!("{}  {}\n", file.digest().hex(), file.name));
    File::new(CHECKSUMS, lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let file = checksums(&[File::new("empty", "")]);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(file.bytes, format!("{empty}  empty\n").into_bytes());
    }

    #[test]
    fn the_chart_is_packed_whole_and_says_which_image_it_runs() {
        let source = Source::of_test();
        let file = chart_package("example.com/you/carillon:1", &source).expect("a package");
        assert_eq!(file.name, format!("carillon-{VERSION}.tgz"));
        let again = chart_package("example.com/you/carillon:1", &source).expect("a package");
        assert_eq!(file.bytes, again.bytes);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("chart.tgz");
        fs::write(&path, &file.bytes).expect("written");
        let mut tar = std::process::Command::new("tar");
        let listed = tar
            .args(["--list", "--file"])
            .arg(&path)
            .output()
            .expect("tar");
        let listed = String::from_utf8(listed.stdout).expect("names");
        let first = listed.lines().find(|line| line.contains('/'));
        assert_eq!(first, Some("carillon/Chart.yaml"), "helm looks for it");
        for file in [
            "carillon/values.yaml",
            "carillon/templates/deployment.yaml",
            "carillon/.helmignore",
        ] {
            assert!(listed.lines().any(|line| line == file), "{file}");
        }
    }
}
