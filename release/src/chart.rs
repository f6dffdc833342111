//! What the chart says of itself.

use std::fs;

use anyhow::{Context, Result};
use carillon_testbed::carillon::workspace;
use serde::Deserialize;

/// Name of the chart, and of the program in its image.
pub(crate) const NAME: &str = "carillon";

/// Of `Chart.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
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
