//! What a verb is asked about that knows BroadcastJobs and DaemonSets.

use anyhow::{Result, anyhow, bail};
use serde_json::Value;

use crate::client::Api;
use crate::names::{ApiName, job_name, set_name};
use crate::two_apis::SETS;

/// One object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Target {
    /// A BroadcastJob.
    Job(String),
    /// A DaemonSet.
    Set(ApiName),
    /// Either, by name.
    Any(String),
}

/// What was found.
pub(crate) enum Found {
    /// A BroadcastJob.
    Job(Value),
    /// A DaemonSet.
    Set(Value),
}

/// `fix`, `cbj/fix`, `cds/agent`, `ds/agent`.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    if !text.contains('/') {
        return job_name(text).map(Target::Any);
    }
    let target = job_name(text).map(Target::Job);
    target
        .or_else(|_| set_name(text).map(Target::Set))
        .map_err(|_| "write NAME, cbj/NAME, cds/NAME or ds/NAME".to_owned())
}

impl Target {
    /// Reads it.
    pub(crate) async fn find(&self, api: &Api) -> Result<Found> {
        let name = match self {
            Self::Job(name) => return Ok(Found::Job(api.job(name).await?)),
            Self::Set(name) => return Ok(Found::Set(api.set(name).await?)),
            Self::Any(name) => name,
        };
        let job = api.job_if_any(name).await;
        let set = api.of_two_if_any(&SETS, &ApiName::any(name)).await;
        match (job, set) {
            (Ok(Some(_)), Ok(Some(_))) => bail!(
                "there are a BroadcastJob and a DaemonSet {name}: write cbj/{name}, or cds/{name} (ds/{name} is one \
                 of apps/v1)"
            ),
            // Whoever may not see those of the one kind means the other.
            (Ok(Some(job)), _) => Ok(Found::Job(job)),
            (_, Ok(Some(set))) => Ok(Found::Set(set)),
            (Err(error), _) => Err(error),
            (Ok(None), Err(_)) => Err(api.missing(name).await),
            (Ok(None), Ok(None)) => Err(neither(api, name).await),
        }
    }
}

/// Neither a BroadcastJob nor a DaemonSet has this name.
async fn neither(api: &Api, name: &str) -> anyhow::Error {
    let job = api.missing(name).await;
    let set = api.no_such(&SETS, &ApiName::any(name)).await;
    anyhow!("{job}\n{set}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_may_be_of_either_kind_and_a_kind_decides() {
        assert_eq!(target("fix"), Ok(Target::Any("fix".to_owned())));
        assert_eq!(target("cbj/fix"), Ok(Target::Job("fix".to_owned())));
        for text in ["cds/fix", "ds/fix", "daemonset/fix"] {
            assert!(matches!(target(text), Ok(Target::Set(_))), "{text}");
        }
        for wrong in ["", "pod/fix", "cds/", "a/b/c"] {
            assert!(target(wrong).is_err(), "{wrong:?}");
        }
    }
}
