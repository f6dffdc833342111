//! Names as they are written on the command line: as kubectl has them.

use carillon_dashboard::cluster::{
    BROADCAST_JOBS, CRON_JOBS, DAEMON_SETS, NATIVE_CRON_JOBS, NATIVE_DAEMON_SETS, Resource,
};
use carillon_plan::cron_job::Api as Side;

/// What kubectl calls a resource for short, as it stands before the name of an object.
pub(crate) fn short_name(resource: Resource) -> &'static str {
    match resource {
        BROADCAST_JOBS => "cbj",
        CRON_JOBS => "ccj",
        NATIVE_CRON_JOBS => "cj",
        DAEMON_SETS => "cds",
        NATIVE_DAEMON_SETS => "ds",
        other => other.plural,
    }
}

/// The name of an object of a kind that two APIs have, and of which of them it may be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ApiName {
    /// `None`: of carillon.dev, or else of Kubernetes.
    pub(crate) side: Option<Side>,
    pub(crate) name: String,
}

impl ApiName {
    /// Of carillon.dev, or else of Kubernetes.
    pub(crate) fn any(name: &str) -> Self {
        Self {
            side: None,
            name: name.to_owned(),
        }
    }

    /// The APIs to look in, in this order.
    pub(crate) fn sides(&self) -> &'static [Side] {
        match self.side {
            None => &[Side::Carillon, Side::Native],
            Some(Side::Carillon) => &[Side::Carillon],
            Some(Side::Native) => &[Side::Native],
        }
    }
}

/// How the objects of a kind that two APIs have are called on the command line.
struct Forms {
    /// Short name of those of carillon.dev.
    ours: &'static str,
    /// Short name of the others.
    native: &'static str,
    /// In lower case.
    kind: &'static str,
    /// The group of the others.
    group: &'static str,
    /// What to write.
    help: &'static str,
}

/// `report`, `ccj/report`, `cj/report`, `cronjobs.batch/report`.
pub(crate) fn cron_name(text: &str) -> Result<ApiName, String> {
    const FORMS: Forms = Forms {
        ours: "ccj",
        native: "cj",
        kind: "cronjob",
        group: "batch",
        help: "write NAME, ccj/NAME for one of carillon.dev, or cj/NAME for one of batch/v1",
    };
    api_name(text, &FORMS)
}

/// `agent`, `cds/agent`, `ds/agent`, `daemonsets.apps/agent`.
pub(crate) fn set_name(text: &str) -> Result<ApiName, String> {
    const FORMS: Forms = Forms {
        ours: "cds",
        native: "ds",
        kind: "daemonset",
        group: "apps",
        help: "write NAME, cds/NAME for one of carillon.dev, or ds/NAME for one of apps/v1",
    };
    api_name(text, &FORMS)
}

fn api_name(text: &str, forms: &Forms) -> Result<ApiName, String> {
    let (kind, name) = text.split_once('/').unwrap_or((forms.kind, text));
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    let group = group.strip_prefix("v1alpha1.").unwrap_or(group);
    let group = group.strip_prefix("v1.").unwrap_or(group);
    let wrong = || Err(forms.help.to_owned());
    if name.is_empty() || name.contains('/') {
        return wrong();
    }
    let kind = kind.to_ascii_lowercase();
    let is_kind = kind.strip_suffix('s').unwrap_or(&kind) == forms.kind;
    let side = match group {
        _ if kind == forms.ours => Some(Side::Carillon),
        _ if kind == forms.native => Some(Side::Native),
        _ if !is_kind => return wrong(),
        "" => None,
        "carillon.dev" => Some(Side::Carillon),
        group if group == forms.group => Some(Side::Native),
        _ => return wrong(),
    };
    Ok(ApiName {
        side,
        name: name.to_owned(),
    })
}

/// `fix`, `cbj/fix`, `broadcastjob.carillon.dev/fix`: the name.
pub(crate) fn job_name(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("cbj", text));
    let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
    match kind.to_ascii_lowercase().as_str() {
        _ if name.is_empty() || name.contains('/') => Err("write NAME or cbj/NAME".to_owned()),
        "cbj" | "broadcastjob" | "broadcastjobs" => Ok(name.to_owned()),
        _ => Err(format!("{kind} is no BroadcastJob: write NAME or cbj/NAME")),
    }
}

/// `node-1`, `node/node-1`: the name.
pub(crate) fn node_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("node/").unwrap_or(text);
    if name.is_empty() || name.contains('/') {
        return Err("write the name of a node".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_as_kubectl_names_it() {
        for text in ["fix", "cbj/fix", "broadcastjobs.carillon.dev/fix"] {
            assert_eq!(job_name(text).as_deref(), Ok("fix"));
        }
        for wrong in ["pod/fix", "", "cbj/", "a/b/c"] {
            assert!(job_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_cron_job_is_named_as_kubectl_names_it_and_short_names_tell_the_api() {
        for (text, side) in [
            ("report", None),
            ("cronjob/report", None),
            ("ccj/report", Some(Side::Carillon)),
            ("cronjobs.carillon.dev/report", Some(Side::Carillon)),
            ("CronJob.v1alpha1.carillon.dev/report", Some(Side::Carillon)),
            ("cj/report", Some(Side::Native)),
            ("cronjob.batch/report", Some(Side::Native)),
            ("cronjobs.v1.batch/report", Some(Side::Native)),
        ] {
            let name = "report".to_owned();
            assert_eq!(cron_name(text), Ok(ApiName { side, name }), "{text}");
        }
        for wrong in [
            "",
            "ccj/",
            "cbj/report",
            "cronjob.example.com/report",
            "a/b/c",
        ] {
            assert!(cron_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_daemon_set_is_named_as_kubectl_names_it() {
        for (text, side) in [
            ("agent", None),
            ("daemonset/agent", None),
            ("cds/agent", Some(Side::Carillon)),
            ("DaemonSets.carillon.dev/agent", Some(Side::Carillon)),
            ("ds/agent", Some(Side::Native)),
            ("daemonset.apps/agent", Some(Side::Native)),
        ] {
            let name = "agent".to_owned();
            assert_eq!(set_name(text), Ok(ApiName { side, name }), "{text}");
        }
        for wrong in ["", "ds/", "ccj/agent", "daemonset.batch/agent", "a/b/c"] {
            assert!(set_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
