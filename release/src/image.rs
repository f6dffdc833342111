//! `cargo xtask image`: the image of the operator, without Docker.
//!
//! The same commit gives the same bytes from every clone, as long as Rust, the C library and the linker are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use carillon_image::layout::Attachment;
use carillon_image::{Config, Digest, Entry, Image, Layer, Platform, docker_archive, layout};
use carillon_testbed::carillon::{Program, workspace};

use crate::source::Source;
use crate::{binary, chart, output, sbom};

mod certificates;

/// The version of everything: that of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// User and group, by number, as there is no /etc/passwd. The same as in the chart.
const USER: &str = "65532:65532";
/// Metrics and probes. The debug pages listen on loopback only.
const PORT: &str = "8080/tcp";
/// By which the output of this command is known.
const MARK: &str = "oci/oci-layout";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// For which platform; can be repeated
    #[arg(long, value_name = "OS/ARCH", default_value = "linux/amd64")]
    platform: Vec<Platform>,
    /// What the image is called where the docker-archive is loaded; its tag is also that of the OCI layout
    #[arg(long, value_name = "IMAGE", default_value_t = format!("{}:{VERSION}", chart::NAME))]
    name: String,
    /// Where the files go: a new directory, or that of an image before, which is replaced [default: target/image of
    /// the workspace]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let name = named(&args.name)?;
    let output = output::directory(args.output.as_deref(), "image")?;
    output::check(&output, MARK, |name| {
        name == "oci" || name.starts_with(&format!("{}-", chart::NAME))
    })?;
    let source = Source::read()?;
    let platforms: BTreeSet<Platform> = args.platform.iter().copied().collect();
    let made = make_all(&platforms, &source)?;
    write(&output, &name, &source, &made)?;
    println!("{}s", start.elapsed().as_secs());
    Ok(())
}

/// The name with its tag.
fn named(name: &str) -> Result<String> {
    ensure!(
        !name.contains('@'),
        "--name {name:?}: an image gets a tag, not a digest"
    );
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') {
        return Ok(name.to_owned());
    }
    Ok(format!("{name}:{VERSION}"))
}

/// The images of a version, one for each platform, with their bills of materials.
pub(crate) struct Made {
    images: Vec<Image>,
    bills: Vec<Attachment>,
}

/// Builds the operator for each platform, and makes an image of it.
pub(crate) fn make_all(platforms: &BTreeSet<Platform>, source: &Source) -> Result<Made> {
    let mut made = Made {
        images: Vec::new(),
        bills: Vec::new(),
    };
    for platform in platforms {
        eprintln!(
            "building the operator for {platform} (the first time: about 6 minutes on 2 cores)"
        );
        let (image, document) = make(*platform, source)?;
        made.bills.push(Attachment {
            to: made.images.len(),
            document,
            file: format!("{}.cdx.json", stem(&image)),
        });
        made.images.push(image);
    }
    Ok(made)
}

/// What files of an image are called.
fn stem(image: &Image) -> String {
    let architecture = image.platform.architecture();
    format!("{}-{VERSION}-linux-{architecture}", chart::NAME)
}

impl Made {
    /// As an OCI layout under one tag, and the digest of what the tag names.
    pub(crate) fn layout(&self, tag: &str) -> (Digest, layout::Files) {
        layout::files(tag, &self.images, &self.bills)
    }

    /// A docker-archive of each image under one name, by file name.
    pub(crate) fn archives(&self, name: &str, source: &Source) -> Result<Vec<(String, Vec<u8>)>> {
        let archive = |image: &Image| {
            let bytes = docker_archive::write(image, name, source.seconds())?;
            Ok((format!("{}.docker.tar", stem(image)), bytes))
        };
        self.images.iter().map(archive).collect()
    }

    /// The bill of materials of each image, by file name.
    pub(crate) fn bills(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let bills = self.bills.iter();
        bills.map(|bill| (bill.file.clone(), bill.document.bytes.clone()))
    }
}

fn make(platform: Platform, source: &Source) -> Result<(Image, carillon_image::Blob)> {
    let binary = binary::build(Program::Operator, platform)?;
    let beside = Some(certificates::PACKAGE);
    let bill = sbom::of(Program::Operator, &binary, platform, source, beside)?;
    let layer = Layer::new(&entries(&binary.path)?, source.seconds())?;
    let config = Config {
        user: USER.to_owned(),
        entrypoint: vec!["/carillon".to_owned()],
        ports: vec![PORT.to_owned()],
        labels: labels(source)?,
        created: source.time.to_string(),
        ..Config::default()
    };
    Ok((Image::new(platform, layer, &config), bill))
}

/// All that is in the image.
fn entries(binary: &Path) -> Result<Vec<Entry>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("reading {}", path.display()));
    let file = |path: &str, mode: u32, bytes: Vec<u8>| Entry::File {
        path: path.to_owned(),
        mode,
        bytes,
    };
    Ok(vec![
        file("LICENSE", 0o444, read(&workspace().join("LICENSE"))?),
        file("carillon", 0o555, read(binary)?),
        file(certificates::PATH, 0o444, certificates::pem().into_bytes()),
    ])
}

/// By the convention of OCI.
fn labels(source: &Source) -> Result<BTreeMap<String, String>> {
    let chart = chart::metadata()?;
    let labels = [
        ("title", chart::NAME),
        ("description", &chart.description),
        ("licenses", env!("CARGO_PKG_LICENSE")),
        ("version", VERSION),
        ("revision", &source.revision),
        ("created", &source.time.to_string()),
        ("url", &chart.home),
        ("documentation", &chart.home),
        ("source", chart.sources.first().unwrap_or(&chart.home)),
        ("vendor", "Carillon"),
    ]
    .map(|(name, value)| (format!("org.opencontainers.image.{name}"), value.to_owned()));
    Ok(labels.into())
}

fn write(output: &Path, name: &str, source: &Source, made: &Made) -> Result<()> {
    output::empty(output)?;
    let dir = output.join("oci");
    let tag = name.rsplit(':').next().unwrap_or(VERSION);
    let (digest, files) = made.layout(tag);
    layout::write(&dir, &files)?;
    println!("{name}: {digest}");
    println!("{}  OCI layout", dir.display());
    let archives = made.archives(name, source)?.into_iter();
    let archives = archives.map(|(file, bytes)| (file, bytes, "docker-archive"));
    let bills = made
        .bills()
        .map(|(file, bytes)| (file, bytes, "CycloneDX bill of materials"));
    for (file, bytes, what) in archives.chain(bills) {
        let path = output.join(file);
        fs::write(&path, &bytes).with_context(|| format!("writing {}", path.display()))?;
        println!("{}  {what}, {} bytes", path.display(), bytes.len());
    }
    for image in &made.images {
        println!(
            "{}: {} bytes, compressed {}",
            image.platform,
            image.layer.tar.len(),
            image.layer.gzip.bytes.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_tag_also_behind_a_port() {
        for (typed, named_as) in [
            ("carillon", "carillon:0.1.0"),
            ("carillon:1", "carillon:1"),
            (
                "example.com:5000/you/carillon",
                "example.com:5000/you/carillon:0.1.0",
            ),
            (
                "example.com:5000/you/carillon:1",
                "example.com:5000/you/carillon:1",
            ),
        ] {
            assert_eq!(
                named(typed).expect(typed),
                named_as.replace("0.1.0", VERSION)
            );
        }
        assert!(named("carillon@sha256:00").is_err());
    }
}
