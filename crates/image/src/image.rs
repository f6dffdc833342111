//! An image for one platform: its layer, its config, its manifest.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::blob::Blob;
use crate::layer::Layer;
use crate::platform::Platform;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// How a container of the image starts.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `uid:gid`; root if empty.
    pub user: String,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Further arguments, which whoever starts it may replace.
    pub command: Vec<String>,
    /// Environment, each as `NAME=value`.
    pub env: Vec<String>,
    /// Ports it listens on, each as `8080/tcp`.
    pub ports: Vec<String>,
    /// Labels, also the annotations of the manifest.
    pub labels: BTreeMap<String, String>,
    /// When it was made, in the form of RFC 3339; left out if empty.
    pub created: String,
}

/// An image for one platform.
#[derive(Clone, Debug)]
pub struct Image {
    /// Where it runs.
    pub platform: Platform,
    /// Its only layer.
    pub layer: Layer,
    /// Its config.
    pub config: Blob,
    /// Its manifest, whose digest is that of the image.
    pub manifest: Blob,
}

impl Image {
    /// Makes config and manifest.
    pub fn new(platform: Platform, layer: Layer, config: &Config) -> Self {
        let config_blob = Blob::json(CONFIG, &config_of(platform, &layer, config));
        let mut manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config_blob.descriptor(),
            "layers": [layer.gzip.descriptor()],
        });
        if !config.labels.is_empty() {
            manifest["annotations"] = json!(config.labels);
        }
        Self {
            platform,
            layer,
            config: config_blob,
            manifest: Blob::json(MANIFEST, &manifest),
        }
    }
}

fn config_of(platform: Platform, layer: &Layer, config: &Config) -> Value {
    let mut run = Map::new();
    let mut set = |name: &str, value: Value, is_empty: bool| {
        if !is_empty {
            run.insert(name.to_owned(), value);
        }
    };
    let ports: BTreeMap<&String, Value> =
        config.ports.iter().map(|port| (port, json!({}))).collect();
    set("User", json!(config.user), config.user.is_empty());
    set(
        "Entrypoint",
        json!(config.entrypoint),
        config.entrypoint.is_empty(),
    );
    set("Cmd", json!(config.command), config.command.is_empty());
    set("Env", json!(config.env), config.env.is_empty());
    set("ExposedPorts", json!(ports), ports.is_empty());
    set("Labels", json!(config.labels), config.labels.is_empty());
    let mut document = json!({
        "architecture": platform.architecture(),
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id.to_string()]},
    });
    // An empty time is none that a runtime can read.
    if !config.created.is_empty() {
        document["created"] = json!(config.created);
        document["history"] =
            json!([{"created": config.created, "created_by": "cargo xtask image"}]);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_says_how_it_starts_and_leaves_out_what_is_not_set() {
        let layer = Layer::new(&[], 0).expect("layer");
        let config = Config {
            user: "65532:65532".to_owned(),
            entrypoint: vec!["/program".to_owned()],
            ports: vec!["8080/tcp".to_owned()],
            created: "1970-01-01T00:00:00Z".to_owned(),
            ..Config::default()
        };
        let image = Image::new(Platform::Arm64, layer, &config);
        let found: Value = serde_json::from_slice(&image.config.bytes).expect("JSON");
        let run = json!({"User": "65532:65532", "Entrypoint": ["/program"], "ExposedPorts": {"8080/tcp": {}}});
        assert_eq!(found["config"], run);
        assert_eq!(found["architecture"], "arm64");
        let manifest: Value = serde_json::from_slice(&image.manifest.bytes).expect("JSON");
        assert_eq!(
            manifest["config"]["digest"],
            image.config.digest.to_string()
        );
        assert_eq!(
            manifest["layers"][0]["digest"],
            image.layer.gzip.digest.to_string()
        );
        assert_eq!(
            found["rootfs"]["diff_ids"][0],
            image.layer.diff_id.to_string()
        );
        assert!(manifest.get("annotations").is_none());
    }
}
