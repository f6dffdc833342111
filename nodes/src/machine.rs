//! What this machine must have.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Programs, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 9] = [
    ("busybox", "busybox-static"),
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("ctr", "containerd"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("nsenter", "util-linux"),
    ("runc", "runc"),
    ("unshare", "util-linux"),
];
/// Where distributions put CNI plugins.
const PLUGIN_DIRS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
const PLUGINS: [&str; 4] = ["host-local", "loopback", "portmap", "ptp"];
const PLUGINS_PACKAGE: &str = "containernetworking-plugins";

/// An error that says what is missing, and the command that installs it.
pub fn check() -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "real nodes make namespaces, mounts and network devices: run this as root"
    );
    let mut missing: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|(name, _)| program(name).is_err())
        .map(|(_, package)| package)
        .collect();
    if plugins().is_err() {
        missing.push(PLUGINS_PACKAGE);
    }
    missing.sort_unstable();
    missing.dedup();
    ensure!(
        missing.is_empty(),
        "real nodes need packages that are not installed: apt-get install --no-install-recommends {}",
        missing.join(" ")
    );
    let known = fs::read_to_string("/proc/filesystems").context("reading /proc/filesystems")?;
    ensure!(
        known
            .lines()
            .any(|line| line.trim_start_matches("nodev").trim() == "overlay"),
        "the kernel has no overlay file system, which containers lie on: modprobe overlay"
    );
    Ok(())
}

/// Where a program lies.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let further = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path)
        .chain(further)
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("no program {name} in PATH"))
}

/// The directory of the CNI plugins.
pub(crate) fn plugins() -> Result<&'static Path> {
    let has_all = |dir: &&str| {
        PLUGINS
            .iter()
            .all(|plugin| Path::new(dir).join(plugin).is_file())
    };
    let found = PLUGIN_DIRS.iter().find(|dir| has_all(dir));
    let found = found.with_context(|| format!("no CNI plugins in {PLUGIN_DIRS:?}"))?;
    Ok(Path::new(found))
}
