//! Bytes that are known by their SHA-256.

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of a blob, shown as `sha256:…`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Digest([u8; 32]);

impl Digest {
    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        let digits = |byte: &u8| {
            [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        };
        self.0.iter().flat_map(digits).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// Bytes of an image, with what they are.
#[derive(Clone, Debug)]
pub struct Blob {
    /// Media type, e.g. `application/vnd.oci.image.manifest.v1+json`.
    pub media_type: &'static str,
    /// Content.
    pub bytes: Vec<u8>,
    /// Of the content.
    pub digest: Digest,
}

impl Blob {
    /// Names the bytes by their digest.
    pub fn new(media_type: &'static str, bytes: Vec<u8>) -> Self {
        let digest = Digest::of(&bytes);
        Self {
            media_type,
            bytes,
            digest,
        }
    }

    /// A document; its fields are in alphabetical order.
    pub fn json(media_type: &'static str, document: &Value) -> Self {
        Self::new(media_type, document.to_string().into_bytes())
    }

    /// How a manifest or an index refers to it.
    pub fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": self.digest.to_string(),
            "size": self.bytes.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_names_type_size_and_digest() {
        let empty = Blob::new("text/plain", Vec::new());
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let expected = json!({"mediaType": "text/plain", "digest": digest, "size": 0});
        assert_eq!(empty.descriptor(), expected);
    }
}
