//! What the chart says of itself.

use std::fs;

use anyhow::{Context, Result};
use carillon_testbed::carillon::workspace;
use serde::Deserialize;

use crate::source;

/// Name of the chart, and of the program in its image.
pub(crate) const NAME: &str = "carillon";

/// Of `Chart.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) version: String,
    pub(crate) app_version: String,
    pub(crate) description: String,
    pub(crate) home: String,
    pub(crate) sources: Vec<String>,
}

/// What the chart says of itself.
pub(crate) fn metadata() -> Result<Metadata> {
    let path = workspace().join("charts").join(NAME).join("Chart.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

/// Its files of the commit, with their paths within the chart: `Chart.yaml` first, as helm packs them, then by name.
pub(crate) fn files() -> Result<Vec<(String, Vec<u8>)>> {
    let dir = format!("charts/{NAME}");
    let named = source::files(&dir)?.into_iter().map(|path| {
        let name = path.strip_prefix(&dir).context("a path of the chart")?;
        let path = workspace().join(&path);
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok((name.trim_start_matches('/').to_owned(), bytes))
    });
    let mut files: Vec<(String, Vec<u8>)> = named.collect::<Result<_>>()?;
    files.sort_by(|(a, _), (b, _)| (a != "Chart.yaml", a).cmp(&(b != "Chart.yaml", b)));
    Ok(files)
}

/// `Chart.yaml`, whose last key is `annotations`, with the annotation by which Artifact Hub finds and scans the image.
pub(crate) fn with_images(text: &str, image: &str) -> String {
    format!(
        "{}\n  artifacthub.io/images: |\n    - name: {NAME}\n      image: {image}\n",
        text.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_annotation_of_the_image_stands_among_the_others() {
        let path = workspace().join("charts").join(NAME).join("Chart.yaml");
        let text = fs::read_to_string(path).expect("a chart");
        let chart: Value =
            serde_saphyr::from_str(&with_images(&text, "you/carillon:1")).expect("YAML");
        let annotations = &chart["annotations"];
        assert_eq!(
            annotations["artifacthub.io/images"],
            "- name: carillon\n  image: you/carillon:1\n"
        );
        assert_eq!(annotations["artifacthub.io/license"], "Apache-2.0");
    }
}
