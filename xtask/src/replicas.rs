//! Replicas of the operator, as users run it, one of which leads.

use anyhow::Result;
use carillon_testbed::carillon::{self, Profile};
use carillon_testbed::{Cluster, Operator, Options};

const LEADS: &str = "leader_election_master_status{name=\"carillon\"}";

/// Replicas beside a cluster. They end with this value.
pub(crate) struct Replicas<'a> {
    cluster: &'a Cluster,
    options: Options,
    started: usize,
    /// Each with its number; none is given twice.
    pub(crate) running: Vec<(usize, Operator)>,
}

impl<'a> Replicas<'a> {
    /// Installs the chart, and starts so many with its rights and arguments.
    pub(crate) fn start(cluster: &'a Cluster, count: usize) -> Result<Self> {
        let kubeconfig = carillon::install_chart(cluster, &[])?;
        let mut options = Options::new("replica").kubeconfig(kubeconfig);
        options.profile = Profile::Release;
        options.args = carillon::arguments(cluster)?;
        let mut replicas = Self {
            cluster,
            options,
            started: 0,
            running: Vec::new(),
        };
        for _ in 0..count {
            replicas.add()?;
        }
        Ok(replicas)
    }

    fn add(&mut self) -> Result<()> {
        self.started += 1;
        let mut options = self.options.clone();
        options.name = format!("replica-{}", self.started);
        let replica = Operator::start(self.cluster, &options)?;
        self.running.push((self.started, replica));
        Ok(())
    }

    /// Where the one is that leads, unless there is none or more than one.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leads = |replica: &Operator| replica.metric(LEADS).is_ok_and(|leads| leads > 0.0);
        let replicas = self.running.iter().enumerate();
        let mut leaders = replicas.filter(|(_, (_, replica))| leads(replica));
        let leader = leaders.next()?.0;
        leaders.next().is_none().then_some(leader)
    }

    /// Ends one, if it has not, and starts another in its place.
    pub(crate) fn replace(&mut self, old: usize) -> Result<()> {
        self.running.remove(old).1.process.kill()?;
        self.add()
    }
}
