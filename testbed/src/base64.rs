//! Base64, for certificates in kubeconfigs and for keys and values of etcd.

use anyhow::{Context, Result};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    bytes.chunks(3).fold(String::new(), |mut out, chunk| {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let sextet = (bits >> (18 - 6 * position)) & 63;
            let padding = position > chunk.len();
            out.push(if padding {
                '='
            } else {
                char::from(ALPHABET[sextet as usize])
            });
        }
        out
    })
}

pub(crate) fn decode(text: &str) -> Result<Vec<u8>> {
    let (mut bytes, mut bits, mut filled) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = ALPHABET.iter().position(|known| *known == digit);
        bits = bits << 6 | value.context("not base64")? as u32;
        filled += 6;
        if filled >= 8 {
            filled -= 8;
            bytes.push((bits >> filled & 0xff) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_as_in_rfc_4648() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ];
        for (plain, encoded) in cases {
            assert_eq!(encode(plain.as_bytes()), encoded);
            assert_eq!(decode(encoded).expect("decoded"), plain.as_bytes());
        }
        assert!(decode("Zm9*").is_err());
    }
}
