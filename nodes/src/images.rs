//! Images that nodes have from the beginning, made here: there may be no registry to pull from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use carillon_image::{Config, Entry, Image, Layer, Platform, docker_archive};

use crate::machine::program;

/// Holds the namespaces of a pod.
pub(crate) const PAUSE: &str = "carillon.dev/testbed/pause:1";
/// What manifests of ours ask for.
const BUSYBOX: &str = "docker.io/library/busybox:1.37";
/// Where its programs are found.
const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The first process of a pod reaps what others leave behind, and goes when it is told.
const WAIT: &str = "trap 'exit 0' INT TERM; while :; do sleep 86400 & wait $!; done";

/// What Kubernetes' own tests ask for, as of the release that the test bed builds.
const E2E_PAUSE: &str = "registry.k8s.io/pause:3.10.2";
const E2E_BUSYBOX: &str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1";
const E2E_AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.63.0";
/// What is updated to: another name is all that the tests look at.
const E2E_OTHER_AGNHOST: &str = "registry.k8s.io/e2e-test-images/agnhost:2.55";

/// Writes those of every node below `dir`, and gives their paths.
pub(crate) fn write(dir: &Path) -> Result<Vec<PathBuf>> {
    let layer = Layer::new(&shell()?, 0)?;
    let images = [
        ("pause.tar", PAUSE, &layer, wait()),
        ("busybox.tar", BUSYBOX, &layer, command()),
    ];
    write_all(dir, images)
}

/// Writes those of Kubernetes' own tests below `dir`, and gives their paths. `agnhost`: the program.
pub fn of_e2e(dir: &Path, agnhost: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = shell()?;
    let layer = Layer::new(&entries, 0)?;
    entries.push(Entry::File {
        path: "agnhost".to_owned(),
        mode: 0o755,
        bytes: fs::read(agnhost).with_context(|| format!("reading {}", agnhost.display()))?,
    });
    let with_agnhost = Layer::new(&entries, 0)?;
    let agnhost = Config {
        entrypoint: vec!["/agnhost".to_owned()],
        command: vec!["pause".to_owned()],
        env: vec![PATH.to_owned()],
        ..Config::default()
    };
    let images = [
        ("e2e-pause.tar", E2E_PAUSE, &layer, wait()),
        ("e2e-busybox.tar", E2E_BUSYBOX, &layer, command()),
        (
            "e2e-agnhost.tar",
            E2E_AGNHOST,
            &with_agnhost,
            agnhost.clone(),
        ),
        (
            "e2e-other-agnhost.tar",
            E2E_OTHER_AGNHOST,
            &with_agnhost,
            agnhost,
        ),
    ];
    write_all(dir, images)
}

/// A shell, and what one expects beside it.
fn shell() -> Result<Vec<Entry>> {
    let busybox = fs::read(program("busybox")?).context("reading busybox")?;
    let list = std::process::Command::new(program("busybox")?)
        .arg("--list")
        .output();
    let list = String::from_utf8(list.context("running busybox")?.stdout)?;
    let mut entries = vec![
        Entry::File {
            path: "bin/busybox".to_owned(),
            mode: 0o755,
            bytes: busybox,
        },
        Entry::File {
            path: "etc/passwd".to_owned(),
            mode: 0o644,
            bytes: b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
                .to_vec(),
        },
        Entry::File {
            path: "etc/group".to_owned(),
            mode: 0o644,
            bytes: b"root:x:0:\nnogroup:x:65534:\n".to_vec(),
        },
        Entry::Directory {
            path: "tmp".to_owned(),
            mode: 0o1777,
        },
        Entry::Directory {
            path: "var/tmp".to_owned(),
            mode: 0o1777,
        },
        Entry::Directory {
            path: "root".to_owned(),
            mode: 0o700,
        },
    ];
    let applets = list.lines().filter(|applet| *applet != "busybox");
    entries.extend(applets.map(|applet| Entry::Link {
        path: format!("bin/{applet}"),
        to: "/bin/busybox".to_owned(),
    }));
    Ok(entries)
}

fn command() -> Config {
    Config {
        command: vec!["sh".to_owned()],
        env: vec![PATH.to_owned()],
        ..Config::default()
    }
}

fn wait() -> Config {
    Config {
        entrypoint: ["/bin/busybox", "sh", "-c", WAIT].map(str::to_owned).into(),
        env: vec![PATH.to_owned()],
        ..Config::default()
    }
}

/// File, name, files and configuration of each.
fn write_all<const N: usize>(
    dir: &Path,
    images: [(&str, &str, &Layer, Config); N],
) -> Result<Vec<PathBuf>> {
    let platform = if cfg!(target_arch = "aarch64") {
        Platform::Arm64
    } else {
        Platform::Amd64
    };
    let write = |(file, name, layer, config): (&str, &str, &Layer, Config)| {
        let image = Image::new(platform, layer.clone(), &config);
        let path = dir.join(file);
        fs::write(&path, docker_archive::write(&image, name, 0)?)
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    };
    images.into_iter().map(write).collect()
}
