//! Carillon itself on a test cluster: built from this workspace, run as a process beside it, with
//! an administrator's rights or with those of the chart.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::answer::answer;
use crate::cluster::Cluster;
use crate::process::{Launch, Process, Usage};
use crate::{cargo, http, ports, wait};

/// Namespace the chart is installed into.
pub const NAMESPACE: &str = "carillon-system";
/// Name of the release, its ServiceAccount and its lease.
pub const RELEASE: &str = "carillon";

const READY: Duration = Duration::from_mins(1);

/// The root of this workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Which build of the operator.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Profile {
    /// As tests build it.
    #[default]
    Dev,
    /// As users run it.
    Release,
}

/// A program of this workspace.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Program {
    /// `carillon`
    Operator,
    /// `kubectl-carillon`
    Cli,
}

impl Program {
    /// The package it is in, and its name.
    pub fn target(self) -> (&'static str, &'static str) {
        match self {
            Self::Operator => ("carillon-operator", "carillon"),
            Self::Cli => ("carillon-cli", "kubectl-carillon"),
        }
    }
}

/// Builds a program, once per process, and gives its path.
pub fn build(program: Program, profile: Profile) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<(Program, Profile), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = built.get(&(program, profile)) {
        return Ok(path.clone());
    }
    let path = build_now(program, profile)?;
    built.insert((program, profile), path.clone());
    Ok(path)
}

fn build_now(program: Program, profile: Profile) -> Result<PathBuf> {
    let (package, name) = program.target();
    let mut command = cargo::command();
    command.args(["build", "--quiet", "--message-format=json"]);
    match profile {
        // With the features of the whole workspace, as its tests: dependencies are compiled once.
        Profile::Dev => command.args(["--workspace", "--bin", name]),
        Profile::Release => command.args(["--release", "--package", package]),
    };
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = output.context("running cargo build")?;
    ensure!(
        output.status.success(),
        "cargo build of {name} failed: {}",
        output.status
    );
    let executable = String::from_utf8_lossy(&output.stdout)
        .lines()
        .rev()
        .find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            (message["target"]["name"] == name).then_some(())?;
            message["executable"].as_str().map(PathBuf::from)
        });
    executable.with_context(|| format!("cargo build named no program called {name}"))
}

/// Builds the image of the operator under a name, and gives a docker-archive of it in `dir`, which must be new or that of
/// an image before. Takes minutes the first time.
pub fn build_image(dir: &Path, name: &str) -> Result<PathBuf> {
    let mut command = cargo::command();
    command
        .args(["run", "--quiet", "--package", "carillon-release", "--"])
        .args(["image", "--name", name, "--output"])
        .arg(dir);
    answer(&mut command)?;
    let files = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let mut paths = files.filter_map(|file| Some(file.ok()?.path()));
    let archive = paths.find(|path| path.to_string_lossy().ends_with(".docker.tar"));
    archive.with_context(|| format!("no docker-archive in {}", dir.display()))
}

/// Applies our CRDs as an administrator would without the chart, and waits until they are served.
pub fn apply_crds(cluster: &Cluster) -> Result<()> {
    let crds = workspace().join("crds");
    let crds = crds.to_str().context("the workspace's path is not UTF-8")?;
    cluster.kubectl_ok(["apply", "--server-side", "-f", crds])?;
    // `kubectl wait` fails on a CRD so new that it has no conditions yet; what counts is whether
    // the kinds are served.
    let served = || {
        let got = cluster.kubectl(["get", "broadcastjobs,noderesultslices", "--all-namespaces"])?;
        Ok(got.status.success().then_some(()))
    };
    wait::until(
        "our CRDs are served",
        READY,
        Duration::from_millis(100),
        served,
        String::new,
    )
}

/// Installs the chart with helm and further arguments, and gives a kubeconfig for its
/// ServiceAccount. The chart's own pods run nothing here: kwok only pretends.
pub fn install_chart(cluster: &Cluster, further: &[&str]) -> Result<PathBuf> {
    let chart = workspace().join("charts/carillon");
    let mut command = cluster.helm_command()?;
    command.args(["install", RELEASE]).arg(chart);
    command
        .args(["--namespace", NAMESPACE, "--create-namespace"])
        .args(further);
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("running helm")?;
    if !output.status.success() {
        bail!(
            "helm install failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    service_account(cluster)
}

/// A kubeconfig for the ServiceAccount of the installed chart.
pub fn service_account(cluster: &Cluster) -> Result<PathBuf> {
    account_of(cluster, RELEASE, NAMESPACE)
}

/// The same for a release of another name, or in another namespace.
pub fn account_of(cluster: &Cluster, release: &str, namespace: &str) -> Result<PathBuf> {
    let token = ["create", "token", release, "-n", namespace, "--duration=2h"];
    let token = cluster.kubectl_ok(token)?;
    cluster.kubeconfig_for_token(&token, release)
}

/// The arguments of the operator of the installed chart, as [`Options`] takes them.
pub fn arguments(cluster: &Cluster) -> Result<Vec<String>> {
    arguments_of(cluster, RELEASE, NAMESPACE)
}

/// The same of a release of another name, or in another namespace.
pub fn arguments_of(cluster: &Cluster, release: &str, namespace: &str) -> Result<Vec<String>> {
    let get = ["get", "deployment", release, "-n", namespace, "-o=json"];
    let deployment: serde_json::Value = serde_json::from_str(&cluster.kubectl_ok(get)?)?;
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let args: Vec<String> = serde_json::from_value(args)
        .with_context(|| format!("the Deployment {namespace}/{release}"))?;
    Ok(args.into_iter().filter(|arg| is_ours(arg)).collect())
}

/// Not what two processes of one machine cannot share, and how the log looks: the test bed says that.
pub fn is_ours(arg: &str) -> bool {
    let not_ours = ["--http-address=", "--log-format="];
    !not_ours.iter().any(|flag| arg.starts_with(flag))
}

/// How an operator is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name in messages and of the log file; several operators of a cluster need several.
    pub name: String,
    /// Which build.
    pub profile: Profile,
    /// Another program in place of a build of this tree, such as an earlier version.
    pub program: Option<PathBuf>,
    /// Kubeconfig; the administrator's when `None`.
    pub kubeconfig: Option<PathBuf>,
    /// Further arguments.
    pub args: Vec<String>,
    /// Whether it may be kept beside a cluster that stays, see [`crate::persistent::Pending`].
    pub detached: bool,
}

impl Options {
    /// An operator with an administrator's rights.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            profile: Profile::Dev,
            program: None,
            kubeconfig: None,
            args: Vec::new(),
            detached: false,
        }
    }

    /// One with the account and the arguments of a release in a namespace.
    pub fn of_release(
        cluster: &Cluster,
        (release, namespace): (&str, &str),
        name: &str,
    ) -> Result<Self> {
        let mut options = Self::new(name).kubeconfig(account_of(cluster, release, namespace)?);
        options.args = arguments_of(cluster, release, namespace)?;
        Ok(options)
    }

    /// The same with one more argument.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// The same with the rights of a kubeconfig.
    #[must_use]
    pub fn kubeconfig(mut self, path: impl Into<PathBuf>) -> Self {
        self.kubeconfig = Some(path.into());
        self
    }
}

/// A running operator. It ends with this value.
#[derive(Debug)]
pub struct Operator {
    /// The process; its log is in the cluster's directory.
    pub process: Process,
    /// Port of metrics and health.
    pub http_port: u16,
    /// Port of the debug pages.
    pub debug_port: u16,
}

impl Operator {
    /// Builds the operator if need be, starts it and waits until its caches are filled.
    pub fn start(cluster: &Cluster, options: &Options) -> Result<Self> {
        let operator = Self::launch(cluster, options)?;
        operator.wait_ready()?;
        Ok(operator)
    }

    /// Starts the operator and does not wait.
    pub fn launch(cluster: &Cluster, options: &Options) -> Result<Self> {
        let program = match &options.program {
            Some(program) => program.clone(),
            None => build(Program::Operator, options.profile)?,
        };
        let ports = ports::free(2)?;
        let (&[http_port, debug_port], name) = (ports.as_slice().try_into()?, &options.name);
        let kubeconfig = options
            .kubeconfig
            .clone()
            .unwrap_or_else(|| cluster.kubeconfig());
        let log = cluster.dir().join(format!("{name}.log"));
        let process = Launch::new(name, program, log)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args([
                format!("--http-address=127.0.0.1:{http_port}"),
                format!("--debug-address=127.0.0.1:{debug_port}"),
                "--log-format=text".to_owned(),
            ])
            .args(options.args.iter().cloned())
            .detached(options.detached)
            .start()?;
        Ok(Self {
            process,
            http_port,
            debug_port,
        })
    }

    /// Waits until the caches are filled.
    pub fn wait_ready(&self) -> Result<()> {
        let ready = || {
            ensure!(self.process.is_alive(), "{} ended", self.process.name());
            let response = http::get(self.http_port, "/readyz").ok();
            Ok(response.filter(|response| response.status == 200).map(drop))
        };
        let what = format!("{} is ready", self.process.name());
        let hint = || self.process.log_tail(5);
        wait::until(&what, READY, Duration::from_millis(50), ready, hint)
            .with_context(|| self.process.log_tail(10))
    }

    /// The page of metrics.
    pub fn metrics(&self) -> Result<String> {
        Ok(http::get(self.http_port, "/metrics")?.body)
    }

    /// Value of one series, written as Prometheus shows it: `name{label="value"}`.
    pub fn metric(&self, series: &str) -> Result<f64> {
        let page = self.metrics()?;
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.with_context(|| format!("no series {series} at /metrics"))
    }

    /// CPU time and memory of the process.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }
}
