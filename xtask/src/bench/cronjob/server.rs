//! Who serves CronJobs in a run: a process that is started for it and ends with it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use carillon_testbed::carillon::{self, Profile};
use carillon_testbed::process::Usage;
use carillon_testbed::{Cluster, Operator, Options, Process};

use crate::chart;

/// With its default of 20 requests a second that limit would be measured.
const LIMITS: [&str; 2] = ["--kube-api-qps=1000", "--kube-api-burst=1000"];
/// What kube-controller-manager has by default.
const DEFAULT_LIMITS: [&str; 2] = ["--kube-api-qps=20", "--kube-api-burst=30"];
const GRACE: Duration = Duration::from_secs(10);

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
    /// For tables and namespaces.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Theirs => "kcm",
            Self::TheirsByDefault => "kcm-20-qps",
            Self::Ours => "carillon",
        }
    }

    /// The user of the API.
    pub(super) fn user(self) -> &'static str {
        match self {
            Self::Theirs | Self::TheirsByDefault => {
                "system:serviceaccount:kube-system:cronjob-controller"
            }
            Self::Ours => "system:serviceaccount:carillon-system:carillon",
        }
    }
}

/// What is needed to start either.
#[derive(Debug)]
pub(super) struct Server {
    kubeconfig: PathBuf,
    arguments: Vec<String>,
}

/// One that runs.
#[derive(Debug)]
pub(super) struct Running(Process);

impl Server {
    /// Installs the chart for its rights and arguments.
    pub(super) fn prepare(cluster: &Cluster, further: &[String]) -> Result<Self> {
        let kubeconfig = carillon::install_chart(cluster, &["--set", "serveNative={cronjobs}"])?;
        let mut arguments = chart::operator_arguments(cluster)?;
        arguments.extend_from_slice(further);
        eprintln!("the operator runs with {}", arguments.join(" "));
        Ok(Self {
            kubeconfig,
            arguments,
        })
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
                return Ok(Running(Operator::start(cluster, &options)?.process));
            }
        };
        let process = cluster.start_controller("cronjob-controller", &limits.map(str::to_owned))?;
        Ok(Running(process))
    }
}

impl Running {
    /// CPU time and memory so far.
    pub(super) fn usage(&self) -> Result<Usage> {
        self.0.usage()
    }

    /// Ends it in good order: the next one needs the lease.
    pub(super) fn stop(self) -> Result<()> {
        self.0.stop(GRACE)
    }
}
