//! Names as they are written on the command line: as kubectl has them.

use carillon_plan::cron_job::Api as Side;

/// The name of a CronJob, and of which API it may be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CronName {
    /// `None`: of carillon.dev, or else of batch/v1.
    pub(crate) side: Option<Side>,
    pub(crate) name: String,
}

impl CronName {
    /// The APIs to look in, in this order.
    pub(crate) fn sides(&self) -> &'static [Side] {
        match self.side {
            None => &[Side::Carillon, Side::Native],
            Some(Side::Carillon) => &[Side::Carillon],
            Some(Side::Native) => &[Side::Native],
        }
    }
}

/// `report`, `ccj/report`, `cj/report`, `cronjobs.batch/report`.
pub(crate) fn cron_name(text: &str) -> Result<CronName, String> {
    const FORMS: &str =
        "write NAME, ccj/NAME for one of carillon.dev, or cj/NAME for one of batch/v1";
    let (kind, name) = text.split_once('/').unwrap_or(("cronjob", text));
    let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
    let group = group.strip_prefix("v1alpha1.").unwrap_or(group);
    let group = group.strip_prefix("v1.").unwrap_or(group);
    let side = match (kind.to_ascii_lowercase().as_str(), group) {
        _ if name.is_empty() || name.contains('/') => return Err(FORMS.to_owned()),
        ("ccj", _) | ("cronjob" | "cronjobs", "carillon.dev") => Some(Side::Carillon),
        ("cj", _) | ("cronjob" | "cronjobs", "batch") => Some(Side::Native),
        ("cronjob" | "cronjobs", "") => None,
        _ => return Err(FORMS.to_owned()),
    };
    Ok(CronName {
        side,
        name: name.to_owned(),
    })
}

/// `fix`, `bcj/fix`, `broadcastjob.carillon.dev/fix`: the name.
pub(crate) fn job_name(text: &str) -> Result<String, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("bcj", text));
    let kind = kind.split_once('.').map_or(kind, |(kind, _)| kind);
    match kind.to_ascii_lowercase().as_str() {
        _ if name.is_empty() || name.contains('/') => Err("write NAME or bcj/NAME".to_owned()),
        "bcj" | "broadcastjob" | "broadcastjobs" => Ok(name.to_owned()),
        _ => Err(format!("{kind} is no BroadcastJob: write NAME or bcj/NAME")),
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
        for text in ["fix", "bcj/fix", "broadcastjobs.carillon.dev/fix"] {
            assert_eq!(job_name(text).as_deref(), Ok("fix"));
        }
        for wrong in ["pod/fix", "", "bcj/", "a/b/c"] {
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
            assert_eq!(cron_name(text), Ok(CronName { side, name }), "{text}");
        }
        for wrong in [
            "",
            "ccj/",
            "bcj/report",
            "cronjob.example.com/report",
            "a/b/c",
        ] {
            assert!(cron_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
