//! One control plane on loopback: start, stop, kill and restart its parts, and talk to it.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, process};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::components::{Layout, kubeconfig_file, launch};
use crate::process::{Process, Signal, Usage, tail};
use crate::tools::{self, ControlPlane};
use crate::{AuditEvent, audit, http, kubeconfig, kwok, ports, wait, watchdog};

const READY_LIMIT: Duration = Duration::from_secs(90);
const EVERY: Duration = Duration::from_millis(50);
const START_ATTEMPTS: usize = 3;

/// What the API server writes to its audit log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Audit {
    /// Nothing.
    Off,
    /// All requests; with bodies for writes of pods, jobs, DaemonSets, revisions, leases and our kinds.
    #[default]
    Requests,
    /// The same, and the answers to those writes (so uids and resourceVersions).
    Responses,
}

/// What a cluster is to be. `Config::new("name")` has everything on, and no nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// For messages and paths: letters, digits and dashes.
    pub name: String,
    /// Nodes to start with, named `node-0000` and on; more with [`Cluster::add_nodes`].
    pub nodes: usize,
    /// Capacity of each node.
    pub allocatable: BTreeMap<String, String>,
    /// Whether kube-scheduler runs.
    pub scheduler: bool,
    /// Whether kube-controller-manager runs. Without it there are no ServiceAccounts, garbage
    /// collection or taints.
    pub controller_manager: bool,
    /// Whether kwok plays the kubelets. Without it nodes stay as created, and pods Pending.
    pub kwok: bool,
    /// What is audited.
    pub audit: Audit,
    /// Where the API server listens: loopback, or an address of a network of this machine alone.
    #[serde(default = "loopback")]
    pub address: Ipv4Addr,
    /// Duration of the nodes' leases; kwok renews each after a quarter of it.
    pub node_lease_seconds: u32,
    /// Further arguments of kube-apiserver; a later flag wins over ours.
    pub apiserver_args: Vec<String>,
    /// Further arguments of kube-controller-manager, such as `--controllers=*,-job-controller`.
    pub controller_manager_args: Vec<String>,
    /// Further arguments of kube-scheduler.
    pub scheduler_args: Vec<String>,
}

fn loopback() -> Ipv4Addr {
    Ipv4Addr::LOCALHOST
}

impl Config {
    /// All components, no nodes.
    pub fn new(name: &str) -> Self {
        let allocatable = [("cpu", "32"), ("memory", "256Gi"), ("pods", "110")];
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self {
            name: name.to_owned(),
            nodes: 0,
            allocatable: allocatable.into_iter().map(owned).collect(),
            scheduler: true,
            controller_manager: true,
            kwok: true,
            audit: Audit::default(),
            address: loopback(),
            node_lease_seconds: 40,
            apiserver_args: Vec::new(),
            controller_manager_args: Vec::new(),
            scheduler_args: Vec::new(),
        }
    }

    /// The same with this many nodes.
    #[must_use]
    pub fn with_nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    fn components(&self) -> Vec<Component> {
        let optional = [
            (Component::ControllerManager, self.controller_manager),
            (Component::Scheduler, self.scheduler),
            (Component::Kwok, self.kwok),
        ];
        let wanted = optional
            .into_iter()
            .filter(|(_, on)| *on)
            .map(|(component, _)| component);
        [Component::Etcd, Component::ApiServer]
            .into_iter()
            .chain(wanted)
            .collect()
    }
}

/// A process of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Component {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
    /// kwok.
    Kwok,
}

impl Component {
    /// The program's usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }

    /// The API server's name for it, where it is a user of the API.
    fn user(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Etcd | Self::ApiServer => None,
            Self::ControllerManager => Some(("system:kube-controller-manager", "")),
            Self::Scheduler => Some(("system:kube-scheduler", "")),
            Self::Kwok => Some(("kwok", "system:masters")),
        }
    }
}

/// A running control plane. Dropping it ends its processes and removes its data directory
/// (set `CARILLON_TESTBED_KEEP` to keep the directory).
///
/// A cluster in a `static` is never dropped; it ends with the process all the same.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) config: Config,
    pub(crate) dir: PathBuf,
    pub(crate) etcd_port: u16,
    pub(crate) apiserver_port: u16,
    pub(crate) tools: ControlPlane,
    pub(crate) processes: Mutex<BTreeMap<Component, Process>>,
    /// No node that was added had this number or a higher one.
    pub(crate) next_node: Mutex<usize>,
    /// Whether it ends, and its directory goes, with this value.
    pub(crate) ours: bool,
}

impl Cluster {
    /// Starts a cluster and waits until it is ready for work: API server ready, the default
    /// ServiceAccount there, all nodes Ready and without taints. Takes 3 to 5 seconds, plus about
    /// a second per 100 nodes. Builds the programs first if need be.
    pub fn start(config: impl Borrow<Config>) -> Result<Self> {
        let config = config.borrow();
        let nonce = random_hex(4)?;
        let name = &config.name;
        let dir = env::temp_dir().join(format!("carillon-{name}-{}-{nonce}", process::id()));
        Self::start_in(config, &dir, false)
    }

    /// `dir` must not exist; it is removed again when the start fails.
    pub(crate) fn start_in(config: &Config, dir: &Path, detached: bool) -> Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        ensure!(
            !config.name.is_empty() && config.name.chars().all(plain),
            "cluster name {:?}: use letters, digits and dashes only",
            config.name
        );
        let tools = tools::control_plane()?;
        let mut attempt = 1;
        loop {
            let started = Self::start_once(config.clone(), dir, tools.clone(), detached);
            match started {
                Err(error) if attempt < START_ATTEMPTS && is_port_clash(&error) => {
                    eprintln!(
                        "testbed: {}: a port was taken meanwhile, starting over",
                        config.name
                    );
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    fn start_once(config: Config, dir: &Path, tools: ControlPlane, detached: bool) -> Result<Self> {
        let ports = ports::free(2)?;
        watchdog::guard_directory(dir)?;
        fs::create_dir_all(dir.join("certs"))
            .with_context(|| format!("creating the data directory {}", dir.display()))?;
        let cluster = Self {
            config,
            dir: dir.to_owned(),
            etcd_port: ports[0],
            apiserver_port: ports[1],
            tools,
            processes: Mutex::default(),
            next_node: Mutex::default(),
            ours: true,
        };
        cluster.bring_up(detached)?;
        Ok(cluster)
    }

    fn bring_up(&self, detached: bool) -> Result<()> {
        let tokens = self.write_config()?;
        // The API server waits for etcd by itself, and takes longer to get going.
        self.spawn(Component::Etcd, detached)?;
        self.spawn(Component::ApiServer, detached)?;
        self.wait_etcd()?;
        self.wait_listening()?;
        self.write_kubeconfigs(&tokens)?;
        self.wait_apiserver()?;
        for component in self.config.components() {
            if component.user().is_some() {
                self.spawn(component, detached)?;
            }
        }
        if self.config.nodes > 0 {
            self.add_nodes(self.config.nodes, &[], &[])?;
        }
        if self.config.controller_manager {
            self.wait_component(
                "the ServiceAccount default/default",
                &[Component::ControllerManager],
                || {
                    Ok(self
                        .kubectl(["get", "serviceaccount", "default"])?
                        .status
                        .success()
                        .then_some(()))
                },
            )?;
        }
        Ok(())
    }

    /// The name it was given.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Data directory: logs, kubeconfigs, audit log.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// `https://127.0.0.1:PORT`, or of the address that the config says.
    pub fn server(&self) -> String {
        format!("https://{}:{}", self.config.address, self.apiserver_port)
    }

    /// etcd's client URL, `http://127.0.0.1:PORT`; its HTTP gateway is below `/v3/`.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd_port)
    }

    /// etcd's port on 127.0.0.1, for [`http::post`].
    pub fn etcd_port(&self) -> u16 {
        self.etcd_port
    }

    /// Path of the audit log.
    pub fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.log")
    }

    /// The audit log so far, in the order of answers.
    pub fn audit_events(&self) -> Result<Vec<AuditEvent>> {
        audit::read(&self.audit_log())
    }

    /// Writes a kubeconfig for a bearer token (of `kubectl create token`) and gives its path.
    pub fn kubeconfig_for_token(&self, token: &str, name: &str) -> Result<PathBuf> {
        let path = self.dir.join(format!("{name}.kubeconfig"));
        let crt = self.dir.join("certs/apiserver.crt");
        let ca = fs::read(&crt).with_context(|| format!("reading {}", crt.display()))?;
        let text = kubeconfig::render(&self.config.name, &self.server(), &ca, token.trim());
        write_secret(&path, &text)?;
        Ok(path)
    }

    /// A kubectl command for this cluster's administrator, to be run by the caller.
    pub fn kubectl_command(&self) -> Command {
        let mut command = Command::new(&self.tools.kubectl);
        self.isolate(&mut command);
        command
    }

    /// A helm command for this cluster's administrator; builds helm first if need be.
    pub fn helm_command(&self) -> Result<Command> {
        let mut command = Command::new(tools::helm()?);
        self.isolate(&mut command);
        command.env("HELM_CACHE_HOME", self.dir.join("helm/cache"));
        command.env("HELM_CONFIG_HOME", self.dir.join("helm/config"));
        command.env("HELM_DATA_HOME", self.dir.join("helm/data"));
        Ok(command)
    }

    /// A port may belong to another cluster tomorrow, so what is cached about a server lies here.
    fn isolate(&self, command: &mut Command) {
        command.env("KUBECONFIG", self.kubeconfig());
        command.env("KUBECACHEDIR", self.dir.join("kubectl-cache"));
    }

    /// Runs kubectl as administrator; the exit status is the caller's to judge.
    pub fn kubectl<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<Output> {
        let mut command = self.kubectl_command();
        command
            .args(args)
            .stdin(Stdio::null())
            .output()
            .context("running kubectl")
    }

    /// Runs kubectl as administrator and gives its standard output; an error when it fails.
    pub fn kubectl_ok<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<String> {
        let mut command = self.kubectl_command();
        command.args(args).stdin(Stdio::null());
        let output = command.output().context("running kubectl")?;
        succeeded(&command, output)
    }

    /// The same with `input` on its standard input, for `apply -f -`.
    pub fn kubectl_stdin<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &str,
    ) -> Result<String> {
        let mut command = self.kubectl_command();
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().context("running kubectl")?;
        // kubectl reads all of it before it writes more than a pipe holds; when it fails before
        // that, its own message says more than ours would.
        let _ = child
            .stdin
            .take()
            .context("kubectl has no pipe")?
            .write_all(input.as_bytes());
        let output = child.wait_with_output().context("running kubectl")?;
        succeeded(&command, output)
    }

    /// CPU time and memory of a component.
    pub fn usage(&self, component: Component) -> Result<Usage> {
        self.with(component, Process::usage)
    }

    /// A component's process id.
    pub fn pid(&self, component: Component) -> Result<u32> {
        self.with(component, |process| Ok(process.pid()))
    }

    /// Sends a signal to a component, for example STOP and CONT.
    pub fn signal(&self, component: Component, signal: Signal) -> Result<()> {
        self.with(component, |process| process.signal(signal))
    }

    /// Whether a component runs.
    pub fn is_alive(&self, component: Component) -> bool {
        self.processes()
            .get(&component)
            .is_some_and(Process::is_alive)
    }

    /// SIGKILLs a component.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.with(component, Process::kill)?;
        self.processes().remove(&component);
        Ok(())
    }

    /// Starts a component that was killed, with the same arguments, ports and data.
    pub fn restart(&self, component: Component) -> Result<()> {
        ensure!(
            self.ours,
            "cluster {}: only the process that started it restarts parts",
            self.name()
        );
        if self.is_alive(component) {
            self.kill(component)?;
        }
        let port = match component {
            Component::Etcd => Some(self.etcd_port),
            Component::ApiServer => Some(self.apiserver_port),
            _ => None,
        };
        if let Some(port) = port {
            let probe = || Ok(ports::is_free(port).then_some(()));
            wait::until(
                &format!("port {port} is free"),
                READY_LIMIT,
                EVERY,
                probe,
                String::new,
            )?;
        }
        if component == Component::Kwok {
            // The new kwok is a stranger to the leases of the old one, and would wait them out.
            // One request, where `delete leases --all` sends one for each.
            let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
            self.kubectl_ok(["delete", "--raw", leases])?;
        }
        self.spawn(component, false)?;
        match component {
            Component::Etcd => self.wait_etcd(),
            Component::ApiServer => self.wait_apiserver(),
            _ => Ok(()),
        }
    }

    /// SIGKILLs kube-apiserver.
    pub fn kill_apiserver(&self) -> Result<()> {
        self.kill(Component::ApiServer)
    }

    /// Starts kube-apiserver again on its port and waits until it is ready.
    pub fn start_apiserver(&self) -> Result<()> {
        self.restart(Component::ApiServer)
    }

    /// Ends all processes: asks the API server and its clients first, etcd when they are gone.
    pub fn stop(&self) -> Result<()> {
        let mut processes = self.processes();
        for process in processes.values() {
            if process.name() != Component::Etcd.name() && process.is_alive() {
                let _ = process.signal(Signal::TERM);
                let _ = process.signal(Signal::CONT);
            }
        }
        // The map's order is etcd first.
        let mut result = Ok(());
        while let Some((component, process)) = processes.pop_last() {
            let grace = Duration::from_secs(if component == Component::ApiServer {
                5
            } else {
                2
            });
            let stopped = process.stop(grace);
            result = result.and(stopped);
        }
        result
    }

    pub(crate) fn processes(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, component: Component, act: impl FnOnce(&Process) -> Result<T>) -> Result<T> {
        let processes = self.processes();
        let process = processes.get(&component);
        let process = process.with_context(|| {
            format!(
                "{} of cluster {} is not running",
                component.name(),
                self.config.name
            )
        })?;
        act(process)
    }

    fn spawn(&self, component: Component, detached: bool) -> Result<()> {
        let at = Layout {
            dir: &self.dir,
            etcd_port: self.etcd_port,
            apiserver_port: self.apiserver_port,
        };
        let process = launch(component, &self.tools, &self.config, &at)
            .detached(detached)
            .start()?;
        self.processes().insert(component, process);
        Ok(())
    }

    fn write_config(&self) -> Result<BTreeMap<String, String>> {
        let mut csv = String::new();
        let mut tokens = BTreeMap::new();
        let users = self
            .config
            .components()
            .into_iter()
            .filter_map(|component| {
                let (user, group) = component.user()?;
                Some((kubeconfig_file(component), user, group))
            });
        let admin = ("admin.kubeconfig".to_owned(), "admin", "system:masters");
        for (file, user, group) in users.chain([admin]) {
            let token = random_hex(16)?;
            writeln!(csv, "{token},{user},{user},\"{group}\"")?;
            tokens.insert(file, token);
        }
        write_secret(&self.dir.join("tokens.csv"), &csv)?;
        fs::write(
            self.dir.join("audit-policy.json"),
            audit::policy(self.config.audit).to_string(),
        )?;
        fs::write(self.dir.join("kwok.yaml"), kwok::config())?;
        Ok(tokens)
    }

    fn write_kubeconfigs(&self, tokens: &BTreeMap<String, String>) -> Result<()> {
        for (file, token) in tokens {
            self.kubeconfig_for_token(token, file.trim_end_matches(".kubeconfig"))?;
        }
        Ok(())
    }

    fn wait_etcd(&self) -> Result<()> {
        self.wait_component("etcd is healthy", &[Component::Etcd], || {
            let answer = http::get(self.etcd_port, "/health");
            Ok(answer
                .is_ok_and(|answer| answer.status == 200)
                .then_some(()))
        })
    }

    fn wait_listening(&self) -> Result<()> {
        self.wait_component(
            "kube-apiserver listens",
            &[Component::Etcd, Component::ApiServer],
            || {
                Ok(
                    TcpStream::connect((self.config.address, self.apiserver_port))
                        .is_ok()
                        .then_some(()),
                )
            },
        )
    }

    fn wait_apiserver(&self) -> Result<()> {
        self.wait_listening()?;
        self.wait_component(
            "kube-apiserver is ready",
            &[Component::Etcd, Component::ApiServer],
            || {
                Ok(self
                    .kubectl(["get", "--raw=/readyz"])?
                    .status
                    .success()
                    .then_some(()))
            },
        )
    }

    /// Waits, but not for what can no longer be because one of `needed` has ended.
    pub(crate) fn wait_component(
        &self,
        what: &str,
        needed: &[Component],
        mut probe: impl FnMut() -> Result<Option<()>>,
    ) -> Result<()> {
        let tail_of = |component: &Component| {
            let file = format!("{}.log", component.name());
            format!("\nThe end of {file}:\n{}", tail(&self.dir.join(&file), 8))
        };
        let keep = "\nCARILLON_TESTBED_KEEP=1 keeps all logs after a failure.";
        let tails = || needed.iter().map(tail_of).collect::<String>() + keep;
        let what = format!("cluster {}: {what}", self.config.name);
        let check = || {
            for component in needed {
                if !self.is_alive(*component) {
                    bail!(
                        "{what}: {} ended.{}{keep}",
                        component.name(),
                        tail_of(component)
                    );
                }
            }
            probe()
        };
        wait::until(&what, READY_LIMIT, EVERY, check, tails)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        if let Err(error) = self.stop() {
            eprintln!("testbed: stopping cluster {}: {error:#}", self.config.name);
        }
        if env::var_os("CARILLON_TESTBED_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.dir);
        } else {
            eprintln!(
                "testbed: cluster {} left its files in {}",
                self.config.name,
                self.dir.display()
            );
        }
        let _ = watchdog::release_directory(&self.dir);
    }
}

fn is_port_clash(error: &anyhow::Error) -> bool {
    error.to_string().contains("address already in use")
}

fn succeeded(command: &Command, output: Output) -> Result<String> {
    if output.status.success() {
        return String::from_utf8(output.stdout).context("kubectl's output is not UTF-8");
    }
    let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    bail!(
        "kubectl {} failed ({}): {}",
        args.join(" "),
        output.status,
        stderr.trim()
    )
}

pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| anyhow!("writing {}: {error}", path.display()))
}

pub(crate) fn random_hex(bytes: usize) -> Result<String> {
    let mut buffer = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut buffer)?;
    Ok(tools::hex(&buffer))
}
