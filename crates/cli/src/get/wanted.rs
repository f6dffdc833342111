//! What `get` is asked about, as it is written.

use carillon_plan::cron_job::Api as Side;

use crate::names::{ApiName, cron_name, job_name, set_name};

/// A kind that `get` shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Jobs,
    Crons(Side),
    Sets(Side),
}

/// One object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum One {
    Job(String),
    Cron(ApiName),
    Set(ApiName),
    /// Of any kind.
    Any(String),
}

/// What is asked about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Wanted {
    /// All of some kinds.
    Kinds(Vec<Kind>),
    /// Some objects by name.
    Names(Vec<One>),
}

/// What is shown when nothing is named.
pub(super) const OURS: [Kind; 3] = [
    Kind::Jobs,
    Kind::Crons(Side::Carillon),
    Kind::Sets(Side::Carillon),
];

/// `fix agent`, `cbj/fix ds/agent`, `cbj fix other`, `cbj,ccj`: as kubectl reads them.
pub(super) fn wanted(words: &[String]) -> Result<Wanted, String> {
    let Some((first, names)) = words.split_first() else {
        return Ok(Wanted::Kinds(OURS.to_vec()));
    };
    let kinds: Option<Vec<Kind>> = first.split(',').map(kind).collect();
    match (kinds, names) {
        (Some(kinds), []) => Ok(Wanted::Kinds(kinds)),
        (Some(kinds), names) => {
            let [kind] = kinds[..] else {
                return Err(format!("{first} with names: write one kind before them"));
            };
            let each = names.iter().map(|name| of_kind(kind, name));
            Ok(Wanted::Names(each.collect::<Result<_, _>>()?))
        }
        (None, _) => {
            let each = words.iter().map(|word| one(word));
            Ok(Wanted::Names(each.collect::<Result<_, _>>()?))
        }
    }
}

fn kind(text: &str) -> Option<Kind> {
    Some(match text.to_ascii_lowercase().as_str() {
        "cbj" | "broadcastjob" | "broadcastjobs" | "broadcastjobs.carillon.dev" => Kind::Jobs,
        "ccj" | "cronjobs.carillon.dev" => Kind::Crons(Side::Carillon),
        "cj" | "cronjob" | "cronjobs" | "cronjobs.batch" => Kind::Crons(Side::Native),
        "cds" | "daemonsets.carillon.dev" => Kind::Sets(Side::Carillon),
        "ds" | "daemonset" | "daemonsets" | "daemonsets.apps" => Kind::Sets(Side::Native),
        _ => return None,
    })
}

fn of_kind(kind: Kind, name: &str) -> Result<One, String> {
    if name.is_empty() || name.contains('/') {
        return Err(format!("{name:?}: behind a kind write names alone"));
    }
    let named = |side| ApiName {
        side: Some(side),
        name: name.to_owned(),
    };
    Ok(match kind {
        Kind::Jobs => One::Job(name.to_owned()),
        Kind::Crons(side) => One::Cron(named(side)),
        Kind::Sets(side) => One::Set(named(side)),
    })
}

fn one(text: &str) -> Result<One, String> {
    if !text.contains('/') {
        return job_name(text).map(One::Any);
    }
    let job = || job_name(text).map(One::Job);
    let cron = || cron_name(text).map(One::Cron);
    let set = || set_name(text).map(One::Set);
    job().or_else(|_| cron()).or_else(|_| set()).map_err(|_| {
        format!("{text}: write NAME, cbj/NAME, ccj/NAME, cj/NAME, cds/NAME or ds/NAME")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Wanted, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        wanted(&words)
    }

    fn any(name: &str) -> One {
        One::Any(name.to_owned())
    }

    #[test]
    fn a_kind_alone_is_all_of_that_kind_and_kinds_may_be_joined() {
        for (text, kinds) in [
            ("", &OURS[..]),
            ("cds", &[Kind::Sets(Side::Carillon)]),
            ("DaemonSets", &[Kind::Sets(Side::Native)]),
            ("cbj", &[Kind::Jobs]),
            (
                "ccj,cj",
                &[Kind::Crons(Side::Carillon), Kind::Crons(Side::Native)],
            ),
        ] {
            assert_eq!(read(text), Ok(Wanted::Kinds(kinds.to_vec())), "{text}");
        }
    }

    #[test]
    fn names_are_read_as_kubectl_reads_them() {
        let job = |name: &str| One::Job(name.to_owned());
        let on = |side, name: &str| ApiName {
            side: Some(side),
            name: name.to_owned(),
        };
        for (text, names) in [
            ("fix", vec![any("fix")]),
            ("fix other", vec![any("fix"), any("other")]),
            ("cbj fix cds", vec![job("fix"), job("cds")]),
            (
                "cbj/fix ds/agent",
                vec![job("fix"), One::Set(on(Side::Native, "agent"))],
            ),
            ("ccj report", vec![One::Cron(on(Side::Carillon, "report"))]),
            ("cj/report", vec![One::Cron(on(Side::Native, "report"))]),
            ("cronjob/report", vec![One::Cron(ApiName::any("report"))]),
        ] {
            assert_eq!(read(text), Ok(Wanted::Names(names)), "{text}");
        }
        for wrong in [
            "pod/fix",
            "cbj cds/agent",
            "cbj,cds fix",
            "fix pod/x",
            "a/b/c",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
