//! Which DaemonSet is meant, and what the verbs about it share.

use anyhow::{Result, anyhow};
use carillon_plan::node::Nodes;
use carillon_plan::view::daemon_set::known::Known;
use clap::Args;
use clap_complete::ArgValueCandidates;

use crate::candidates;
use crate::client::Api;
use crate::names::{ApiName, set_name};

/// A DaemonSet by name.
#[derive(Clone, Debug, Args)]
pub(super) struct SetName {
    /// Name of the DaemonSet, also as cds/NAME; ds/NAME is one of apps/v1
    #[arg(value_name = "SET", value_parser = set_name, add = ArgValueCandidates::new(candidates::sets))]
    pub(super) set: ApiName,
}

/// The DaemonSet with its revisions, without which nothing can be said of what it was.
pub(super) async fn with_revisions(api: &Api, name: &SetName) -> Result<Known> {
    let object = api.set(&name.set).await?;
    let known = api.known(&object, Nodes::new()).await?;
    if known.revisions.is_none() {
        let namespace = &api.namespace;
        return Err(anyhow!(
            "you may not list ControllerRevisions in namespace {namespace}, where the templates of DaemonSet {} are: \
             ask for a role with get and list of controllerrevisions.apps",
            name.set.name
        ));
    }
    Ok(known)
}
