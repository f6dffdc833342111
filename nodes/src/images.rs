//! Images that each node has from the beginning, made here: there may be no registry to pull from.

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

/// Writes them below `dir`, and gives their paths.
pub(crate) fn write(dir: &Path) -> Result<Vec<PathBuf>> {
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
            path: "root".to_owned(),
            mode: 0o700,
        },
    ];
    let applets = list.lines().filter(|applet| *applet != "busybox");
    entries.extend(applets.map(|applet| Entry::Link {
        path: format!("bin/{applet}"),
        to: "/bin/busybox".to_owned(),
    }));
    let layer = Layer::new(&entries, 0)?;
    let shell = Config {
        command: vec!["sh".to_owned()],
        env: vec![PATH.to_owned()],
        ..Config::default()
    };
    let wait = Config {
        entrypoint: ["/bin/busybox", "sh", "-c", WAIT].map(str::to_owned).into(),
        env: vec![PATH.to_owned()],
        ..Config::default()
    };
    let platform = if cfg!(target_arch = "aarch64") {
        Platform::Arm64
    } else {
        Platform::Amd64
    };
    [(PAUSE, "pause.tar", wait), (BUSYBOX, "busybox.tar", shell)]
        .into_iter()
        .map(|(name, file, config)| {
            let image = Image::new(platform, layer.clone(), &config);
            let path = dir.join(file);
            fs::write(&path, docker_archive::write(&image, name, 0)?)
                .with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        })
        .collect()
}
