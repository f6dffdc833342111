//! An OCI image layout: a directory that `skopeo`, `crane`, `oras` and `regctl` copy to a registry.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::blob::{Blob, Digest};
use crate::image::{Image, MANIFEST};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// A document that belongs to an image, e.g. its bill of materials.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// The image, by its place among those that are written.
    pub to: usize,
    /// The document. Its media type is also the type of the artifact.
    pub document: Blob,
    /// Name of the file, for tools that save it.
    pub file: String,
}

/// The files of a layout, by their paths in it.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A layout with these images under one tag, and the digest of what the tag names.
pub fn files(tag: &str, images: &[Image], attachments: &[Attachment]) -> (Digest, Files) {
    let mut files = Files::new();
    let mut store = |blob: &Blob| {
        let path = format!("blobs/sha256/{}", blob.digest.hex());
        files.insert(path, blob.bytes.clone());
    };
    let mut manifests = Vec::new();
    for image in images {
        for blob in [&image.layer.gzip, &image.config, &image.manifest] {
            store(blob);
        }
        let mut descriptor = image.manifest.descriptor();
        descriptor["platform"] = image.platform.json();
        manifests.push(descriptor);
    }
    let index = Blob::json(INDEX, &index(&manifests));
    store(&index);
    let mut tagged = index.descriptor();
    tagged["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
    let mut roots = vec![tagged];
    for attachment in attachments {
        let [empty, manifest] = artifact(attachment, &images[attachment.to]);
        for blob in [&empty, &attachment.document, &manifest] {
            store(blob);
        }
        let mut descriptor = manifest.descriptor();
        descriptor["artifactType"] = json!(attachment.document.media_type);
        roots.push(descriptor);
    }
    let documents = [
        ("index.json", self::index(&roots)),
        ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
    ];
    files.extend(
        documents.map(|(name, document)| (name.to_owned(), document.to_string().into_bytes())),
    );
    (index.digest, files)
}

/// Writes the files of a layout below `dir`.
pub fn write(dir: &Path, files: &Files) -> Result<()> {
    for (name, bytes) in files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn index(manifests: &[Value]) -> Value {
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
}

/// The manifest of a document that refers to an image, and the empty config that it has by convention.
fn artifact(attachment: &Attachment, image: &Image) -> [Blob; 2] {
    let empty = Blob::new(EMPTY, b"{}".to_vec());
    let mut document = attachment.document.descriptor();
    document["annotations"] = json!({"org.opencontainers.image.title": attachment.file});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": attachment.document.media_type,
        "config": empty.descriptor(),
        "layers": [document],
        "subject": image.manifest.descriptor(),
    });
    let manifest = Blob::json(MANIFEST, &manifest);
    [empty, manifest]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Config;
    use crate::layer::Layer;
    use crate::platform::Platform;

    /// Each blob that a document of the layout refers to is there, with the digest and size that it says.
    fn check(dir: &Path, document: &Value) -> usize {
        let mut seen = 0;
        match document {
            Value::Object(fields) => {
                if let (Some(Value::String(digest)), Some(size)) =
                    (fields.get("digest"), fields.get("size"))
                {
                    let hex = digest.strip_prefix("sha256:").expect("a digest");
                    let bytes = fs::read(dir.join("blobs/sha256").join(hex)).expect("the blob");
                    assert_eq!(size.as_u64(), Some(bytes.len() as u64));
                    assert_eq!(Digest::of(&bytes).to_string(), *digest);
                    let inner = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                    // An attachment refers back to its image.
                    seen += 1 + check(dir, &inner);
                }
                seen + fields
                    .values()
                    .map(|value| check(dir, value))
                    .sum::<usize>()
            }
            Value::Array(items) => items.iter().map(|item| check(dir, item)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn a_layout_has_every_blob_that_it_names_and_says_what_is_attached_to_which_image() {
        let dir = tempfile::tempdir().expect("a directory");
        let image = |platform| {
            let layer = Layer::new(&[], 0).expect("layer");
            Image::new(platform, layer, &Config::default())
        };
        let images = Platform::ALL.map(image);
        let attachment = Attachment {
            to: 1,
            document: Blob::json("application/vnd.example+json", &json!({"a": 1})),
            file: "a.json".to_owned(),
        };
        let (digest, files) = files("1.0", &images, &[attachment]);
        write(dir.path(), &files).expect("written");
        let read = |path: &str| -> Value {
            let bytes = fs::read(dir.path().join(path)).expect("a file");
            serde_json::from_slice(&bytes).expect("JSON")
        };
        assert_eq!(read("oci-layout")["imageLayoutVersion"], "1.0.0");
        let index = read("index.json");
        assert!(check(dir.path(), &index) > 10, "{index}");
        let [tagged, attached] = &index["manifests"].as_array().expect("a list")[..] else {
            panic!("{index}")
        };
        assert_eq!(tagged["digest"], digest.to_string());
        assert_eq!(
            tagged["annotations"]["org.opencontainers.image.ref.name"],
            "1.0"
        );
        assert_eq!(attached["artifactType"], "application/vnd.example+json");
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            read(&digest.replace("sha256:", "blobs/sha256/"))
        };
        let platforms = blob(tagged);
        assert_eq!(
            platforms["manifests"][0]["platform"]["architecture"],
            "amd64"
        );
        assert_eq!(
            blob(attached)["subject"]["digest"],
            platforms["manifests"][1]["digest"]
        );
    }
}
