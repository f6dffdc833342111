//! `install.yaml`: what the chart installs, for those who have no helm.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use carillon_testbed::{answer, carillon, tools};

use super::File;
use crate::chart;

/// Renders the packed chart, so that what is packed is what works.
pub(super) fn manifest(package: &File, image: &str) -> Result<File> {
    let dir = tempfile::tempdir().context("a directory for the chart")?;
    let path = dir.path().join(&package.name);
    fs::write(&path, &package.bytes).with_context(|| format!("writing {}", path.display()))?;
    let mut helm = Command::new(tools::helm()?);
    helm.args(["template", carillon::RELEASE]).arg(&path).args([
        "--namespace",
        carillon::NAMESPACE,
        "--skip-tests",
    ]);
    for value in values(image) {
        helm.arg(format!("--set-string={value}"));
    }
    // A configuration of whoever builds changes nothing.
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(variable, dir.path());
    }
    let rendered = answer(&mut helm).context("rendering the chart")?;
    let namespace = carillon::NAMESPACE;
    let text = format!(
        "# {} without helm: kubectl apply --server-side -f install.yaml\napiVersion: v1\nkind: Namespace\nmetadata:\n  \
         name: {namespace}\n{rendered}\n",
        chart::NAME
    );
    Ok(File::new("install.yaml", text))
}

/// The chart's values for an image: `REGISTRY/REPOSITORY:TAG` or `…@DIGEST`.
fn values(image: &str) -> Vec<String> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash is that of a port.
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (repository, tag) = match name[slash..].rfind(':') {
        Some(colon) => (&name[..slash + colon], Some(&name[slash + colon + 1..])),
        None => (name, None),
    };
    let mut values = vec![format!("image.repository={repository}")];
    values.extend(tag.map(|tag| format!("image.tag={tag}")));
    values.extend(digest.map(|digest| format!("image.digest={digest}")));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_taken_apart_into_repository_tag_and_digest() {
        for (image, expected) in [
            (
                "carillon:1",
                &["image.repository=carillon", "image.tag=1"][..],
            ),
            (
                "example.com:5000/you/carillon",
                &["image.repository=example.com:5000/you/carillon"],
            ),
            (
                "example.com:5000/carillon:1@sha256:ab",
                &[
                    "image.repository=example.com:5000/carillon",
                    "image.tag=1",
                    "image.digest=sha256:ab",
                ],
            ),
        ] {
            assert_eq!(values(image), expected, "{image}");
        }
    }
}
