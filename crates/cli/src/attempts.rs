//! Which attempts of a job a question is about.

use std::collections::BTreeSet;

use anyhow::Result;
use carillon_plan::record::Record;
use carillon_plan::view::broadcast_job::family::{Members, Relative, may_have_succeeded};
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::read;

use crate::client::Api;
use crate::family::family;
use crate::flags::JobName;
use crate::names::node_name;
use crate::problem;

/// A job and its retries, and which of their attempts.
#[derive(Debug, clap::Args)]
pub(crate) struct Attempts {
    #[command(flatten)]
    name: JobName,
    /// Of this job alone, without the job it retries and without its retries
    #[arg(long)]
    this: bool,
    /// Only nodes that have failed, or whose outcome was lost with a retry that was deleted
    #[arg(long, conflicts_with = "node")]
    pub(crate) failed: bool,
    /// Every attempt on this node
    #[arg(long, value_name = "NAME", value_parser = node_name,
          add = clap_complete::ArgValueCandidates::new(crate::candidates::nodes))]
    pub(crate) node: Option<String>,
}

impl Attempts {
    /// Name of the job.
    pub(crate) fn job(&self) -> &str {
        &self.name.job
    }

    /// The jobs that are meant, as stored.
    pub(crate) async fn members(&self, api: &Api) -> Result<Vec<Relative>> {
        let object = api.job(self.job()).await?;
        if !self.this {
            return Ok(family(api, &object).await?.members);
        }
        let stored = read::job(&object);
        let slices = api.slices(&stored).await?;
        Ok(vec![Relative::new(stored, slices)])
    }

    /// Their records that are meant: all on the one node, or the last on each.
    pub(crate) fn of<'a>(&self, members: &Members<'a>) -> Result<Vec<&'a Record>> {
        let Some(node) = &self.node else {
            let latest = members.latest().into_iter().map(|(_, record)| record);
            let wanted = |record: &&Record| {
                !self.failed || members.has_failed(record) || may_have_succeeded(record)
            };
            return Ok(latest.filter(wanted).collect());
        };
        let ledgers: Vec<&Ledger<'_>> = members.all().map(|(_, ledger)| ledger).collect();
        let attempts: Vec<&Record> = ledgers.iter().flat_map(|l| l.attempts(node)).collect();
        if attempts.is_empty() {
            let others: BTreeSet<&str> = ledgers.iter().flat_map(|l| l.names()).collect();
            let others: Vec<String> = others.into_iter().map(str::to_owned).collect();
            let job = self.job();
            let what = format!(
                "has no result of {job}: kubectl carillon explain {job} --node {node} says why"
            );
            return Err(problem::no_node(node, &what, &others));
        }
        Ok(attempts)
    }

    /// What to say when there are none.
    pub(crate) fn none_found(&self, members: &Members<'_>) -> String {
        let which = match (self.failed, members.tried_again().is_empty()) {
            (false, _) => "result",
            (true, true) => "failed node",
            (true, false) => "other failed node",
        };
        format!("BroadcastJob {} has no {which}.", self.job())
    }
}
