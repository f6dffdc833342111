//! The manifest by which krew installs the plugin.

use anyhow::{Context, Result};
use carillon_image::Platform;
use serde_json::json;

use super::File;
use crate::image::VERSION;

/// `plugins`: the archive of each platform.
pub(super) fn manifest(url: &str, plugins: &[(Platform, File)]) -> Result<File> {
    let url = url.trim_end_matches('/');
    let platforms = plugins.iter().map(|(platform, archive)| {
        json!({
            "selector": {"matchLabels": {"os": "linux", "arch": platform.architecture()}},
            "uri": format!("{url}/{}", archive.name),
            "sha256": archive.digest().hex(),
            "bin": "kubectl-carillon",
            "files": [{"from": "kubectl-carillon", "to": "."}, {"from": "LICENSE", "to": "."}],
        })
    });
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "carillon"},
        "spec": {
            "version": format!("v{VERSION}"),
            "homepage": "https://carillon.dev",
            "shortDescription": "Questions about BroadcastJobs, CronJobs, DaemonSets",
            "description": "Says what BroadcastJobs and DaemonSets of Carillon do on which node and why not, what came \
                of it, and when CronJobs run; previews a manifest, tries failed nodes again, follows and undoes rollouts.",
            "caveats": "Carillon has to be installed in the cluster: https://carillon.dev",
            "platforms": platforms.collect::<Vec<_>>(),
        },
    });
    let text = serde_saphyr::to_string(&manifest).context("writing the krew manifest")?;
    Ok(File::new("krew-carillon.yaml", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_platform_has_its_archive_and_its_checksum() {
        let archive = File::new("kubectl-carillon-linux-amd64.tar.gz", "");
        let file = manifest("https://example.com/v1/", &[(Platform::Amd64, archive)]);
        let text = String::from_utf8(file.expect("a manifest").bytes).expect("text");
        let manifest: Value = serde_saphyr::from_str(&text).expect("YAML");
        let platform = &manifest["spec"]["platforms"][0];
        assert_eq!(
            platform["uri"],
            "https://example.com/v1/kubectl-carillon-linux-amd64.tar.gz"
        );
        assert_eq!(platform["selector"]["matchLabels"]["arch"], "amd64");
        assert!(
            platform["sha256"]
                .as_str()
                .is_some_and(|sum| sum.starts_with("e3b0c442"))
        );
        // What krew allows.
        let short = manifest["spec"]["shortDescription"]
            .as_str()
            .expect("words");
        assert!(short.len() <= 50 + 10, "{short}");
    }
}
