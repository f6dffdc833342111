//! Who serves a native kind in a run: a process that is started for it and ends with it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use carillon_testbed::carillon::{self, NAMESPACE, Profile, RELEASE};
use carillon_testbed::process::Usage;
use carillon_testbed::{Cluster, Operator, Options, Process, http};

/// With its default of 20 requests a second that limit would be measured.
const LIMITS: [&str; 2] = ["--kube-api-qps=1000", "--kube-api-burst=1000"];
/// What kube-controller-manager has by default.
const DEFAULT_LIMITS: [&str; 2] = ["--kube-api-qps=20", "--kube-api-burst=30"];
const GRACE: Duration = Duration::from_secs(10);

/// A native kind, as both sides call it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Native {
    /// kube-controller-manager's controller.
    pub(super) controller: &'static str,
    /// Its ServiceAccount, which is not always called like it.
    pub(super) account: &'static str,
    /// Carillon's `--serve-native`.
    pub(super) plural: &'static str,
}

/// Who it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// kube-controller-manager's controller, with high limits.
    Theirs,
    /// The same with the limits it has by default.
    TheirsByDefault,
    /// Carillon.
    Ours,
}

impl Kind {
    /// Both, in the order of a round: the machine, and where they share it the cluster, grow older,
    /// and neither is always the second.
    pub(super) fn in_turn(round: usize) -> [Self; 2] {
        let mut both = [Self::Theirs, Self::Ours];
        if round.is_multiple_of(2) {
            both.reverse();
        }
        both
    }

    /// For tables and namespaces.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Theirs => "kcm",
            Self::TheirsByDefault => "kcm-20-qps",
            Self::Ours => "carillon",
        }
    }
}

/// What is needed to start either.
#[derive(Debug)]
pub(super) struct Server {
    native: Native,
    kubeconfig: PathBuf,
    arguments: Vec<String>,
}

/// One that runs, and where ours shows its metrics.
#[derive(Debug)]
pub(super) struct Running(Process, Option<u16>);

impl Server {
    /// Installs the chart for its rights and arguments.
    pub(super) fn prepare(cluster: &Cluster, native: Native, further: &[String]) -> Result<Self> {
        let serve = format!("serveNative={{{}}}", native.plural);
        let kubeconfig = carillon::install_chart(cluster, &["--set", &serve])?;
        let mut arguments = carillon::arguments(cluster)?;
        arguments.extend_from_slice(further);
        Ok(Self {
            native,
            kubeconfig,
            arguments,
        })
    }

    /// Says how ours is started.
    pub(super) fn announce(&self) {
        eprintln!("the operator runs with {}", self.arguments.join(" "));
    }

    /// Starts one of the two; the other one does not run.
    pub(super) fn start(&self, cluster: &Cluster, kind: Kind) -> Result<Running> {
        let limits = match kind {
            Kind::Theirs => LIMITS,
            Kind::TheirsByDefault => DEFAULT_LIMITS,
            Kind::Ours => {
                let mut options = Options::new("carillon").kubeconfig(&self.kubeconfig);
                options.profile = Profile::Release;
                options.args.clone_from(&self.arguments);
                let operator = Operator::start(cluster, &options)?;
                return Ok(Running(operator.process, Some(operator.http_port)));
            }
        };
        let limits = limits.map(str::to_owned);
        let process = cluster.start_controller(self.native.controller, &limits)?;
        Ok(Running(process, None))
    }

    /// The user of the API.
    pub(super) fn user(&self, kind: Kind) -> String {
        match kind {
            Kind::Theirs | Kind::TheirsByDefault => {
                format!("system:serviceaccount:kube-system:{}", self.native.account)
            }
            Kind::Ours => format!("system:serviceaccount:{NAMESPACE}:{RELEASE}"),
        }
    }
}

impl Running {
    /// CPU time and memory so far.
    pub(super) fn usage(&self) -> Result<Usage> {
        self.0.usage()
    }

    /// The metrics of ours.
    pub(super) fn metrics(&self) -> Result<Option<String>> {
        let page = self.1.map(|port| http::get(port, "/metrics")).transpose()?;
        Ok(page.map(|page| page.body))
    }

    /// Ends it in good order: the next one needs the lease.
    pub(super) fn stop(self) -> Result<()> {
        self.0.stop(GRACE)
    }
}
