//! The form that `docker load`, `podman load` and `ctr images import` read: a tar of config, layer and manifest.

use anyhow::Result;
use serde_json::json;

use crate::image::Image;
use crate::layer::{Entry, Layer};

/// The archive of one image. `name`: what it is called once it is loaded, e.g. `example.com/program:1.0`.
pub fn write(image: &Image, name: &str, time: u64) -> Result<Vec<u8>> {
    let config = format!("{}.json", image.config.digest.hex());
    let layer = format!("{}/layer.tar", image.layer.diff_id.hex());
    let manifest = json!([{"Config": config, "RepoTags": [name], "Layers": [layer]}]);
    let file = |path: &str, bytes: Vec<u8>| Entry::File {
        path: path.to_owned(),
        mode: 0o644,
        bytes,
    };
    let entries = [
        file(&config, image.config.bytes.clone()),
        file(&layer, image.layer.tar.clone()),
        file("manifest.json", manifest.to_string().into_bytes()),
    ];
    Ok(Layer::new(&entries, time)?.tar)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read;

    use serde_json::Value;

    use super::*;
    use crate::image::Config;
    use crate::platform::Platform;

    #[test]
    fn an_archive_has_what_its_manifest_names() {
        let layer = Layer::new(&[], 0).expect("layer");
        let image = Image::new(Platform::Amd64, layer, &Config::default());
        let bytes = write(&image, "example.com/program:1.0", 0).expect("archive");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut files = BTreeMap::new();
        for entry in archive.entries().expect("a tar") {
            let mut entry = entry.expect("an entry");
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("content");
            files.insert(entry.path().expect("path").display().to_string(), content);
        }
        let manifest: Value = serde_json::from_slice(&files["manifest.json"]).expect("JSON");
        assert_eq!(manifest[0]["RepoTags"][0], "example.com/program:1.0");
        let content = |name: &Value| &files[name.as_str().expect("a name")];
        assert_eq!(*content(&manifest[0]["Config"]), image.config.bytes);
        assert_eq!(*content(&manifest[0]["Layers"][0]), image.layer.tar);
    }
}
