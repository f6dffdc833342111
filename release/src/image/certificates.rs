//! The certificate authorities that the image trusts: those of Mozilla, from a crate, so that they are the same on
//! every build machine. They count only where a kubeconfig names no authority; a pod is given that of its cluster.

use pem::{EncodeConfig, LineEnding, Pem, encode_many_config};
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// Where they come from.
pub(super) const PACKAGE: &str = "webpki-root-certs";
/// Where programs look for them.
pub(super) const PATH: &str = "etc/ssl/certs/ca-certificates.crt";

/// All of them.
pub(super) fn pem() -> String {
    let certificates = TLS_SERVER_ROOT_CERTS.iter();
    let blocks: Vec<Pem> = certificates
        .map(|der| Pem::new("CERTIFICATE", der.as_ref()))
        .collect();
    encode_many_config(&blocks, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorities_of_mozilla_are_in_lines_that_every_reader_takes() {
        let pem = pem();
        let count = pem::parse_many(&pem).expect("PEM").len();
        assert!(count > 100, "{count}");
        assert!(pem.lines().all(|line| line.len() <= 64));
    }
}
