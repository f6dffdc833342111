//! Builds the programs of the test bed from source, once per user.
//!
//! Go modules beside this crate hold little more than `tool` lines. What they build lies in
//! `~/.cache/carillon/testbed` (or `$CARILLON_TESTBED_CACHE`), keyed by their checksum files and by
//! what is mended in them ([`amendment`]).

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use self::amendment::{Amendment, amended};
use crate::process::tail;

mod amendment;

/// kubectl, helm and kwok parse the server's version and refuse the placeholder of a plain build.
macro_rules! ldflags {
    ($version:literal) => {
        concat!(
            "-s -w -X k8s.io/component-base/version.gitVersion=",
            $version,
            " -X k8s.io/client-go/pkg/version.gitVersion=",
            $version
        )
    };
}

const KUBERNETES_LDFLAGS: &str = ldflags!("v1.36.3");

/// Programs that are built together.
struct Module {
    name: &'static str,
    /// The Go module, a directory beside this crate.
    source: &'static str,
    /// The packages of the programs. Those of one Go module share what they have in common: it is compiled once.
    packages: &'static [&'static str],
    what: &'static str,
    first_time: &'static str,
    flags: &'static [&'static str],
    programs: &'static [&'static str],
    amendment: Option<Amendment>,
}

/// Each program that the module names as a tool.
const TOOLS: &[&str] = &["tool"];

const CONTROL_PLANE: Module = Module {
    name: "control-plane",
    source: "kubernetes",
    packages: &[
        "go.etcd.io/etcd/server/v3",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kubectl",
        "sigs.k8s.io/kwok/cmd/kwok",
    ],
    what: "the Kubernetes control plane, etcd, kubectl and kwok",
    first_time: "6 minutes",
    flags: &["-trimpath", "-ldflags", KUBERNETES_LDFLAGS],
    // etcd's package is called `server`, and so is its binary.
    programs: &[
        "server",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kwok",
    ],
    amendment: Some(amendment::KWOK),
};

const HELM: Module = Module {
    name: "helm",
    source: "kubernetes",
    packages: &["helm.sh/helm/v4/cmd/helm"],
    what: "helm",
    first_time: "1 minute",
    flags: &["-trimpath", "-ldflags", KUBERNETES_LDFLAGS],
    programs: &["helm"],
    amendment: None,
};

const JQ: Module = Module {
    name: "jq",
    source: "jq",
    packages: TOOLS,
    what: "gojq, which is a jq",
    first_time: "20 seconds",
    flags: &["-trimpath", "-ldflags", "-s -w"],
    programs: &["gojq"],
    amendment: None,
};

const PROMETHEUS: Module = Module {
    name: "prometheus",
    source: "prometheus",
    packages: TOOLS,
    what: "Prometheus and promtool",
    first_time: "3 minutes",
    // Without its cloud service discoveries: half the build, and we scrape static targets.
    flags: &["-trimpath", "-tags", "remove_all_sd", "-ldflags", "-s -w"],
    programs: &["prometheus", "promtool"],
    amendment: None,
};

const NODE: Module = Module {
    name: "node",
    source: "kubernetes",
    packages: &[
        "k8s.io/kubernetes/cmd/kubelet",
        "k8s.io/kubernetes/cmd/kube-proxy",
    ],
    what: "kubelet and kube-proxy",
    first_time: "2 minutes",
    flags: &["-trimpath", "-ldflags", KUBERNETES_LDFLAGS],
    programs: &["kubelet", "kube-proxy"],
    amendment: None,
};

const DNS: Module = Module {
    name: "dns",
    source: "dns",
    packages: &["."],
    what: "CoreDNS",
    first_time: "1 minute",
    flags: &["-trimpath", "-ldflags", "-s -w"],
    programs: &["dns"],
    amendment: None,
};

const GITOPS: Module = Module {
    name: "gitops",
    source: "gitops",
    packages: &["."],
    what: "kstatus and the Lua of Argo CD",
    first_time: "1 minute",
    flags: &["-trimpath", "-ldflags", "-s -w"],
    programs: &["gitops"],
    amendment: None,
};

/// Names another minor version of Kubernetes than that of [`CONTROL_PLANE`], one of [`OTHER_KUBERNETES`].
const KUBERNETES: &str = "CARILLON_TESTBED_KUBERNETES";

/// The control plane of another minor version; etcd and kwok are those of [`CONTROL_PLANE`].
const fn kubernetes(
    name: &'static str,
    what: &'static str,
    flags: &'static [&'static str],
) -> Module {
    Module {
        name,
        source: name,
        packages: TOOLS,
        what,
        first_time: "6 minutes",
        flags,
        programs: &[
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubectl",
        ],
        amendment: None,
    }
}

const OTHER_KUBERNETES: [(&str, Module); 2] = [
    (
        "1.35",
        kubernetes(
            "kubernetes-1.35",
            "the control plane of Kubernetes 1.35",
            &["-trimpath", "-ldflags", ldflags!("v1.35.4")],
        ),
    ),
    (
        "1.37",
        kubernetes(
            "kubernetes-1.37",
            "the control plane of Kubernetes 1.37",
            &["-trimpath", "-ldflags", ldflags!("v1.37.2")],
        ),
    ),
];

const E2E: Module = Module {
    name: "e2e",
    source: "kubernetes",
    packages: &["./e2e", "k8s.io/kubernetes/test/images/agnhost"],
    what: "Kubernetes' own tests of workloads",
    first_time: "3 minutes",
    flags: &["-trimpath", "-ldflags", KUBERNETES_LDFLAGS],
    programs: &["e2e", "agnhost"],
    amendment: None,
};

/// Where the programs of the control plane lie.
#[derive(Clone, Debug)]
pub struct ControlPlane {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager.
    pub kube_controller_manager: PathBuf,
    /// kube-scheduler.
    pub kube_scheduler: PathBuf,
    /// kubectl.
    pub kubectl: PathBuf,
    /// kwok, which plays the kubelets.
    pub kwok: PathBuf,
}

/// The control plane, built if need be. When `KUBEBUILDER_ASSETS` is set, its etcd, kube-apiserver
/// and kubectl are used; when `CARILLON_TESTBED_KUBERNETES` is, the Kubernetes of that minor version.
pub fn control_plane() -> Result<ControlPlane> {
    let built = build(&CONTROL_PLANE)?;
    let kubernetes = match env::var(KUBERNETES) {
        Ok(minor) if !minor.is_empty() => build(other_kubernetes(&minor)?)?,
        _ => built.clone(),
    };
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let preferred = |asset: &str, otherwise: PathBuf| match &assets {
        None => Ok(otherwise),
        Some(dir) if dir.join(asset).is_file() => Ok(dir.join(asset)),
        Some(dir) => bail!(
            "KUBEBUILDER_ASSETS is {}, which has no {asset}; unset it or put {asset} there",
            dir.display()
        ),
    };
    Ok(ControlPlane {
        etcd: preferred("etcd", built.join("server"))?,
        kube_apiserver: preferred("kube-apiserver", kubernetes.join("kube-apiserver"))?,
        kubectl: preferred("kubectl", kubernetes.join("kubectl"))?,
        kube_controller_manager: kubernetes.join("kube-controller-manager"),
        kube_scheduler: kubernetes.join("kube-scheduler"),
        kwok: built.join("kwok"),
    })
}

fn other_kubernetes(minor: &str) -> Result<&'static Module> {
    let found = OTHER_KUBERNETES.iter().find(|(name, _)| *name == minor);
    found.map(|(_, module)| module).with_context(|| {
        let known = OTHER_KUBERNETES.map(|(name, _)| name).join(", ");
        format!("{KUBERNETES} is {minor}: there is {known}; without it, 1.36")
    })
}

/// helm, built if need be.
pub fn helm() -> Result<PathBuf> {
    Ok(build(&HELM)?.join("helm"))
}

/// The programs of a node.
#[derive(Clone, Debug)]
pub struct Node {
    /// kubelet.
    pub kubelet: PathBuf,
    /// kube-proxy.
    pub kube_proxy: PathBuf,
}

/// kubelet and kube-proxy, built if need be.
pub fn node() -> Result<Node> {
    let built = build(&NODE)?;
    Ok(Node {
        kubelet: built.join("kubelet"),
        kube_proxy: built.join("kube-proxy"),
    })
}

/// CoreDNS, built if need be.
pub fn dns() -> Result<PathBuf> {
    Ok(build(&DNS)?.join("dns"))
}

/// Kubernetes' own tests of workloads.
#[derive(Clone, Debug)]
pub struct E2e {
    /// The suite.
    pub e2e: PathBuf,
    /// What its pods run.
    pub agnhost: PathBuf,
}

/// Kubernetes' own tests of workloads, built if need be.
pub fn e2e() -> Result<E2e> {
    let built = build(&E2E)?;
    Ok(E2e {
        e2e: built.join("e2e"),
        agnhost: built.join("agnhost"),
    })
}

/// What says how Flux, Helm and Argo CD judge objects, built if need be.
pub fn gitops() -> Result<PathBuf> {
    Ok(build(&GITOPS)?.join("gitops"))
}

/// A jq, built if need be: our pages use it.
pub fn jq() -> Result<PathBuf> {
    Ok(build(&JQ)?.join("gojq"))
}

/// Prometheus, built if need be.
pub fn prometheus() -> Result<PathBuf> {
    Ok(build(&PROMETHEUS)?.join("prometheus"))
}

/// promtool, which checks and tests rules; built if need be.
pub fn promtool() -> Result<PathBuf> {
    Ok(build(&PROMETHEUS)?.join("promtool"))
}

/// `$CARILLON_TESTBED_CACHE`, or `carillon/testbed` in the user's cache directory.
pub fn cache_dir() -> Result<PathBuf> {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let dir = set("CARILLON_TESTBED_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("carillon/testbed")))
        .or_else(|| Some(set("HOME")?.join(".cache/carillon/testbed")))
        .context("no cache directory: set CARILLON_TESTBED_CACHE, XDG_CACHE_HOME or HOME")?;
    fs::create_dir_all(&dir).with_context(|| format!("creating the cache {}", dir.display()))?;
    fs::canonicalize(&dir).with_context(|| format!("the cache {}", dir.display()))
}

fn build(module: &Module) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(module.source);
    let cache = cache_dir()?;
    let target = cache.join(format!("{}-{}", module.name, key(&source, module)?));
    if complete(&target, module) {
        return Ok(target);
    }
    let lock_path = cache.join(format!("{}.lock", module.name));
    let lock =
        File::create(&lock_path).with_context(|| format!("creating {}", lock_path.display()))?;
    if lock.try_lock().is_err() {
        eprintln!(
            "testbed: waiting for another process that builds {}",
            module.what
        );
        lock.lock()
            .with_context(|| format!("locking {}", lock_path.display()))?;
    }
    if complete(&target, module) {
        return Ok(target);
    }
    check_go(&source, module)?;
    eprintln!(
        "testbed: building {} from source; takes about {} the first time on 2 cores",
        module.what, module.first_time
    );
    let start = Instant::now();
    let partial = cache.join(format!("{}.partial-{}", module.name, process::id()));
    let _ = fs::remove_dir_all(&partial);
    if let Err(error) = compile(module, &source, &partial, &cache, start) {
        let _ = fs::remove_dir_all(&partial);
        return Err(error);
    }
    if target.exists() {
        // An incomplete one: someone removed a program from it.
        fs::remove_dir_all(&target)?;
    }
    fs::rename(&partial, &target)
        .with_context(|| format!("moving the built programs to {}", target.display()))?;
    eprintln!(
        "testbed: built {} in {}s, kept in {}",
        module.what,
        start.elapsed().as_secs(),
        target.display()
    );
    Ok(target)
}

fn compile(
    module: &Module,
    source: &Path,
    partial: &Path,
    cache: &Path,
    start: Instant,
) -> Result<()> {
    let workshop = partial.join("source");
    fs::create_dir_all(&workshop)?;
    let amended = module
        .amendment
        .as_ref()
        .map(|amendment| amended(amendment, source, &workshop))
        .transpose()?;
    let log_path = cache.join(format!("{}.log", module.name));
    let log = File::create(&log_path)?;
    let mut build = go()
        .args(["build", "-buildvcs=false"])
        .args(module.flags)
        .args(amended)
        .arg("-o")
        .arg(partial)
        .args(module.packages)
        .current_dir(source)
        .env("CGO_ENABLED", "0")
        // The compiler collects its garbage less often: kubectl takes 89 seconds instead of 109 on 2 cores.
        .env("GOGC", "400")
        .env("GOMEMLIMIT", "2GiB")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("starting go build")?;
    let mut told = 0;
    let status = loop {
        if let Some(status) = build.try_wait()? {
            break status;
        }
        let half_minutes = start.elapsed().as_secs() / 30;
        if half_minutes > told {
            told = half_minutes;
            eprintln!(
                "testbed: still building {}, {}s so far",
                module.what,
                told * 30
            );
        }
        sleep(Duration::from_millis(100));
    };
    if !status.success() || !complete(partial, module) {
        bail!(
            "building {} failed ({status}), see {}:\n{}",
            module.what,
            log_path.display(),
            tail(&log_path, 15)
        );
    }
    fs::remove_dir_all(&workshop)?;
    Ok(())
}

fn complete(dir: &Path, module: &Module) -> bool {
    module
        .programs
        .iter()
        .all(|program| dir.join(program).is_file())
}

fn key(source: &Path, module: &Module) -> Result<String> {
    let mut hash = Sha256::new();
    for file in ["go.mod", "go.sum"] {
        let path = source.join(file);
        hash.update(fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
    }
    let amendment = module.amendment.as_ref();
    let mends = amendment.map_or(&[][..], |amendment| amendment.mends);
    let mends = mends.iter().flat_map(|mend| [mend.file, mend.was, mend.is]);
    // Programs of ours, where no public one fits.
    let ours = module.packages.iter().filter(|path| path.starts_with('.'));
    for path in ours {
        let path = source.join(path).join("main.go");
        hash.update(fs::read(&path).with_context(|| format!("reading {}", path.display()))?);
    }
    let built = module.packages.iter().chain(module.flags).copied();
    for text in built.chain(mends) {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    Ok(hex(&hash.finalize()[..8]))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// The Go there is, on the module at hand, whatever a workspace around it says.
pub fn go() -> Command {
    let mut go = Command::new("go");
    go.env("GOWORK", "off").env("GOTOOLCHAIN", "local");
    go
}

fn check_go(source: &Path, module: &Module) -> Result<()> {
    let manifest = fs::read_to_string(source.join("go.mod"))?;
    let needed = required_go(&manifest).context("no `go` line in go.mod")?;
    let instead = if module.name == CONTROL_PLANE.name {
        "Install it, or put a ready cache at CARILLON_TESTBED_CACHE. (KUBEBUILDER_ASSETS replaces \
         etcd, kube-apiserver and kubectl only; the other programs are built in any case.)"
    } else {
        "Install it, or put a ready cache at CARILLON_TESTBED_CACHE."
    };
    // Not inside the module: there an older Go would fail on the go line instead of answering.
    let answer = go()
        .args(["env", "GOVERSION"])
        .current_dir(env::temp_dir())
        .output();
    let found = match answer {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        Ok(output) => bail!(
            "building {} needs Go {needed} or newer, and `go env GOVERSION` failed: {}. {instead}",
            module.what,
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => bail!(
            "building {} needs Go {needed} or newer, and no `go` was found in PATH ({error}). {instead}",
            module.what
        ),
    };
    if version(&found) < version(&needed) {
        bail!(
            "building {} needs Go {needed} or newer, and {found} was found. {instead}",
            module.what
        );
    }
    Ok(())
}

fn required_go(manifest: &str) -> Option<String> {
    manifest
        .lines()
        .find_map(|line| Some(line.strip_prefix("go ")?.trim().to_owned()))
}

/// `go1.26.8`, `1.26.0` and `go1.27rc1` as numbers; what is not a number counts as 0.
fn version(text: &str) -> Vec<u32> {
    let numbers = text.trim_start_matches("go").split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.resize(3, 0);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_versions_compare_by_number() {
        assert!(version("go1.9.1") < version("1.26.0"));
        assert!(version("go1.26.8") >= version("1.26.0"));
        assert!(version("go1.27rc1") >= version("1.26.0"));
        assert!(version("go1.26") >= version("1.26.0"));
    }

    #[test]
    fn every_module_names_the_go_it_needs_and_has_a_key() {
        for module in [CONTROL_PLANE, DNS, E2E, GITOPS, HELM, JQ, NODE, PROMETHEUS] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(module.source);
            let manifest = fs::read_to_string(source.join("go.mod")).expect("go.mod");
            assert!(required_go(&manifest).is_some(), "{}", module.name);
            let first = key(&source, &module).expect("key");
            assert_eq!(first.len(), 16);
            let other = Module {
                flags: &["other"],
                ..module
            };
            let other = key(&source, &other).expect("key");
            assert_ne!(first, other, "flags are in the key");
        }
    }
}
