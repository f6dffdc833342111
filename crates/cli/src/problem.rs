//! What to say when something asked for is not there.

use anyhow::{Error, anyhow};
use carillon_api::names::GROUP;
use carillon_plan::cron_job::Api as Side;
use carillon_plan::view::refusal::{self, Cause, Refusal, Sent};
use carillon_plan::view::remedy;
use kube::core::Status;
use serde_json::Value;

use crate::names::ApiName;
use crate::render::sample;
use crate::two_apis::TwoApis;

/// How somebody comes to read nodes.
pub(crate) const VIEW_NODES: &str = "ask for a ClusterRoleBinding to carillon-view-nodes";

/// Names that are shown in place of one that does not exist.
const SHOWN: usize = 5;

/// How near a name must be to be offered (Jaro-Winkler).
const NEAR: f64 = 0.7;

/// How near a word must be to be the one that was meant.
const MEANT: f64 = 0.85;

/// The CRDs are not installed.
pub(crate) fn not_installed(server: &str) -> Error {
    anyhow!(
        "{server} does not know carillon.dev/v1alpha1, or not all of it: Carillon is not installed there.\n\
         Install it with helm install (docs/install.md says how), or choose another cluster with --context"
    )
}

/// A job does not exist; `others` are names that do, in `namespace`, `elsewhere` are namespaces with
/// a job of that name.
pub(crate) fn no_job(
    name: &str,
    namespace: &str,
    others: &[String],
    elsewhere: &[String],
) -> Error {
    let hint = if !elsewhere.is_empty() {
        format!("There is one in {}: use -n", sample(elsewhere, SHOWN))
    } else if others.is_empty() {
        format!("There are none in {namespace}: use -n for another namespace, or get -A for all")
    } else {
        those_that_are(name, others)
    };
    anyhow!("BroadcastJob {name} not found in namespace {namespace}. {hint}")
}

/// An object of a kind that two APIs have does not exist; `others` are names that do.
pub(crate) fn no_such(
    kind: &TwoApis,
    wanted: &ApiName,
    namespace: &str,
    others: &[String],
) -> Error {
    let name = &wanted.name;
    let which = match wanted.sides() {
        [one] => format!("of {}", kind.api_version(*one)),
        _ => format!("of carillon.dev or {}", kind.api_version(Side::Native)),
    };
    let kind = kind.kind;
    let hint = if others.is_empty() {
        format!("There are none in {namespace}: use -n for another namespace")
    } else {
        those_that_are(name, others)
    };
    anyhow!("{kind} {name} {which} not found in namespace {namespace}. {hint}")
}

/// Names like the one that was asked for.
fn those_that_are(name: &str, others: &[String]) -> String {
    let near = near(name, others);
    if near.is_empty() {
        let number = others.len();
        return format!("None of the {number} that are there has a name like it");
    }
    let word = if near.len() < others.len() {
        "Among those that are"
    } else {
        "There are"
    };
    format!("{word}: {}", near.join(", "))
}

/// The kubeconfig has no such context, cluster or user; `others` are those that it has.
pub(crate) fn not_in_kubeconfig(what: &str, name: &str, others: &[String]) -> Error {
    let hint = if others.is_empty() {
        "There is none".to_owned()
    } else {
        those_that_are(name, others)
    };
    anyhow!("--{what}: the kubeconfig has no {what} {name}. {hint}")
}

/// A node does not exist.
pub(crate) fn no_such_node(name: &str, others: &[String]) -> Error {
    anyhow!("there is no node {name}{}", did_you_mean(name, others))
}

/// A node has no result.
pub(crate) fn no_node(name: &str, what: &str, others: &[String]) -> Error {
    anyhow!("node {name} {what}{}", did_you_mean(name, others))
}

fn did_you_mean(name: &str, others: &[String]) -> String {
    let near = near(name, others);
    if near.is_empty() {
        String::new()
    } else {
        format!(". Did you mean {}?", near.join(", "))
    }
}

/// The nearest of some names, the best first; all of them when they are few.
fn near(name: &str, others: &[String]) -> Vec<String> {
    let mut scored: Vec<(f64, &String)> = others
        .iter()
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let few = scored.len() <= SHOWN;
    scored
        .into_iter()
        .filter(|(score, _)| few || *score >= NEAR)
        .take(SHOWN)
        .map(|(_, other)| other.clone())
        .collect()
}

/// What the API server answered, in its words, and how somebody comes to do what was forbidden.
pub(crate) fn words(status: &Status) -> String {
    if status.message.is_empty() {
        return format!("the API server answered {} {}", status.code, status.reason);
    }
    let hint = role_for(&status.message).filter(|_| status.code == 403);
    let hint = hint.map(|hint| format!(". {hint}"));
    format!("{}{}", status.message, hint.unwrap_or_default())
}

/// What is wrong with an object that the API server refuses. `place`: where it stands in the manifest.
pub(crate) fn refused(status: &Status, sent: &Value, place: &str) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes = causes.map(|cause| Cause {
        reason: cause.reason.clone(),
        field: cause.field.clone(),
        message: cause.message.clone(),
    });
    let refusal = Refusal {
        message: remedy::told(&words(status)),
        causes: causes.collect(),
    };
    let sent = Sent {
        manifest: sent,
        place,
        nearest,
    };
    let whole = |problem: String| {
        // In the words of the API server: it names the pod that was asked about, which nobody has written.
        if problem == refusal.message && !place.is_empty() {
            format!("{}: {problem}", place.trim_end_matches('.'))
        } else {
            problem
        }
    };
    refusal::problems(&refusal, &sent)
        .into_iter()
        .map(whole)
        .collect()
}

/// The word that was probably meant.
fn nearest(word: &str, among: &[String]) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let score = |other: &String| strsim::jaro_winkler(&lower, &other.to_ascii_lowercase());
    let scored = among.iter().map(|other| (score(other), other));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)));
    best.filter(|(score, _)| *score >= MEANT)
        .map(|(_, other)| other.clone())
}

/// Which role of the chart would allow what a message says is forbidden. Source: `ForbiddenMessage` of Kubernetes'
/// authorization.
fn role_for(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(" cannot ")?;
    let (verb, rest) = rest.split_once(" resource ")?;
    let mut quoted = rest.split('"').skip(1).step_by(2);
    let (resource, group) = (quoted.next()?, quoted.next()?);
    if (resource, group) == ("nodes", "") {
        return Some(capitalised(VIEW_NODES));
    }
    let may_write = ["broadcastjobs", "cronjobs", "daemonsets"].contains(&resource);
    let role = match verb {
        _ if group != GROUP => return None,
        "get" | "list" | "watch" => "carillon-view",
        _ if may_write => "carillon-edit",
        // Status and results are the operator's to write.
        _ => return None,
    };
    let binding = if rest.contains("at the cluster scope") {
        "ClusterRoleBinding"
    } else {
        "RoleBinding"
    };
    Some(format!("Ask for a {binding} to the ClusterRole {role}"))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::two_apis::CRONS;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_missing_job_is_answered_with_where_to_look() {
        let message = |others: &[&str], elsewhere: &[&str]| {
            no_job("fix", "ops", &names(others), &names(elsewhere)).to_string()
        };
        assert!(message(&[], &[]).ends_with("get -A for all"));
        assert!(message(&["fixx", "a"], &[]).ends_with("There are: fixx, a"));
        assert!(message(&["b"], &["team-a"]).ends_with("in team-a: use -n"));
        let many: Vec<String> = (0..600).map(|n| format!("q{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let said = message(&many, &[]);
        assert!(
            said.ends_with("None of the 600 that are there has a name like it"),
            "{said}"
        );
    }

    #[test]
    fn a_missing_cron_job_is_answered_with_where_it_was_looked_for() {
        let message = |text: &str, others: &[&str]| {
            let wanted = crate::names::cron_name(text).unwrap();
            no_such(&CRONS, &wanted, "ops", &names(others)).to_string()
        };
        assert_eq!(
            message("books", &["close-books"]),
            "CronJob books of carillon.dev or batch/v1 not found in namespace ops. There are: \
             close-books"
        );
        assert!(message("cj/books", &[]).starts_with("CronJob books of batch/v1 not found"));
    }

    #[test]
    fn what_is_forbidden_names_the_role_that_allows_it() {
        let message = |verb: &str, resource: &str, group: &str, place: &str| {
            format!(
                "{resource} is forbidden: User \"jane\" cannot {verb} resource \"{resource}\" in API group \
                 \"{group}\" {place}"
            )
        };
        let here = "in the namespace \"ops\"";
        for (message, role) in [
            (
                message("list", "broadcastjobs", GROUP, here),
                "a RoleBinding to the ClusterRole carillon-view",
            ),
            (
                message("patch", "cronjobs", GROUP, here),
                "a RoleBinding to the ClusterRole carillon-edit",
            ),
            (
                message("list", "daemonsets", GROUP, "at the cluster scope"),
                "a ClusterRoleBinding to the ClusterRole carillon-view",
            ),
            (
                message("list", "nodes", "", "at the cluster scope"),
                "carillon-view-nodes",
            ),
        ] {
            let said = role_for(&message).unwrap_or_default();
            assert!(
                said.starts_with("Ask for a ") && said.ends_with(role),
                "{message}: {said}"
            );
        }
        for message in [
            message("list", "pods", "", here),
            message("patch", "broadcastjobs/status", GROUP, here),
            message("list", "daemonsets", "apps", here),
            "pods \"a\" is forbidden: exceeded quota".to_owned(),
        ] {
            assert_eq!(role_for(&message), None, "{message}");
        }
    }

    #[test]
    fn only_a_word_that_is_near_is_taken_for_the_one_that_was_meant() {
        let fields = names(&["parallelism", "paused", "template", "nodeNames", "image"]);
        for (word, meant) in [
            ("paralelism", Some("parallelism")),
            ("Parallelism", Some("parallelism")),
            ("imgae", Some("image")),
            ("nodenames", Some("nodeNames")),
            ("replicas", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &fields).as_deref(), meant, "{word}");
        }
    }

    #[test]
    fn of_many_names_only_the_near_ones_are_offered() {
        let many: Vec<String> = (0..2000).map(|n| format!("node-{n:04}")).collect();
        let near = near("node-0a17", &many);
        assert_eq!(near.len(), SHOWN);
        assert!(near.contains(&"node-0017".to_owned()), "{near:?}");
    }
}
