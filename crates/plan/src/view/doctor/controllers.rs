//! Whether Carillon and kube-controller-manager serve the same kinds of Kubernetes.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::operators::Installed;
use super::{Check, Finding, Severity};
use crate::view::read::{list, text};

/// The name of the check.
pub const CHECK: &str = "controllers";
/// Pods of kube-controller-manager, on a control plane by kubeadm.
pub const SELECTOR: &str = "component=kube-controller-manager";
/// Field managers of a status.
const MANAGERS: [&str; 2] = ["carillon", "kube-controller-manager"];
/// Two that have both written within this time are writing; right after a switch that is so, too.
const LATELY: SignedDuration = SignedDuration::from_mins(10);
/// Plurals of the kinds that Carillon can serve in the place of a controller.
pub const KINDS: [&str; 3] = ["jobs", "cronjobs", "daemonsets"];

/// An object whose status both have written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shared {
    place: String,
    /// When each has last changed it, in the order of [`MANAGERS`].
    written: [Timestamp; 2],
}

/// Looks at who has written the status of an object; `None` unless both have.
pub fn shared(kind: &str, object: &Value) -> Option<Shared> {
    let meta = &object["metadata"];
    let last = |manager: &str| {
        let entries = list(&meta["managedFields"]);
        let of = entries.filter(|one| one["manager"] == manager && one["subresource"] == "status");
        of.filter_map(|one| text(&one["time"]).parse::<Timestamp>().ok())
            .max()
    };
    let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
    Some(Shared {
        place: format!("{kind} {namespace}/{name}"),
        written: [last(MANAGERS[0])?, last(MANAGERS[1])?],
    })
}

/// Whether two controllers serve one kind. `manager`: pods of kube-controller-manager, where they can be seen.
pub fn check(
    shared: &[Shared],
    manager: &[Value],
    operators: &[Installed],
    now: Timestamp,
) -> Check {
    let mut findings: Vec<Finding> = shared.iter().filter_map(|one| both(one, now)).collect();
    let written = findings.len();
    if let [pod, ..] = manager {
        let of_kinds = KINDS.into_iter();
        findings.extend(of_kinds.filter_map(|plural| by_flags(plural, pod, operators)));
    }
    let native: Vec<&str> = KINDS
        .into_iter()
        .filter(|plural| operators.iter().any(|one| one.serves_native(plural)))
        .collect();
    let served = match native.as_slice() {
        _ if operators.is_empty() => String::new(),
        [] => "Carillon serves no kind of Kubernetes; ".to_owned(),
        all => format!("Carillon serves {} of Kubernetes; ", all.join(", ")),
    };
    let found = match written {
        0 => format!("{served}no status is written by two"),
        1 => format!("{served}1 object has a status that two write"),
        more => format!("{served}{more} objects have a status that two write"),
    };
    Check::made(CHECK, found, findings)
}

fn both(one: &Shared, now: Timestamp) -> Option<Finding> {
    let lately = one
        .written
        .iter()
        .all(|at| now.duration_since(*at) < LATELY);
    if !lately {
        return None;
    }
    let [ours, theirs] = one.written;
    let what = format!(
        "{} has written its status at {ours}, {} at {theirs}: two controllers serve it, and undo each other's work",
        MANAGERS[0], MANAGERS[1]
    );
    let finding = Finding::new(CHECK, Severity::Problem, &*one.place, what);
    Some(
        finding
            .or(
                "if the one was stopped a moment ago, ask again in ten minutes",
                "",
            )
            .or(
                "stop that of kube-controller-manager, for this kind alone: docs/coming-from-kube-controller-manager.md",
                "",
            )
            .or(NO_LONGER, ""),
    )
}

/// What to add to a flag. What it has else stays: a list that is replaced starts or stops other controllers.
fn add_to_flag(plural: &str) -> (String, String) {
    let what =
        "stop that of kube-controller-manager: add to the end of its flag --controllers".to_owned();
    (what, format!(",-{}", controller(plural)))
}

const NO_LONGER: &str =
    "or take this kind out of serveNative in the values of Carillon's release; other kinds stay";

/// The name of a controller in the flags of kube-controller-manager.
fn controller(plural: &str) -> String {
    format!("{}-controller", plural.trim_end_matches('s'))
}

/// Whether kube-controller-manager runs it, by its flags.
fn is_run(pod: &Value, plural: &str) -> bool {
    let container = &pod["spec"]["containers"][0];
    let words = list(&container["command"]).chain(list(&container["args"]));
    let wanted = words
        .filter_map(|word| text(word).strip_prefix("--controllers="))
        .last();
    let Some(wanted) = wanted else {
        return true;
    };
    let (new, old) = (controller(plural), plural.trim_end_matches('s'));
    let names: Vec<&str> = wanted.split(',').map(str::trim).collect();
    let says = |prefix: &str| {
        let is = |name: &&str| {
            let name = name.strip_prefix(prefix).unwrap_or_default();
            name == new || name == old
        };
        names.iter().any(is)
    };
    !says("-") && (says("") || names.contains(&"*"))
}

fn by_flags(plural: &str, pod: &Value, operators: &[Installed]) -> Option<Finding> {
    let place = format!(
        "Pod {}/{}",
        text(&pod["metadata"]["namespace"]),
        text(&pod["metadata"]["name"])
    );
    let ours = operators.iter().find(|one| one.serves_native(plural));
    match (is_run(pod, plural), ours) {
        (true, Some(ours)) => {
            let what = format!(
                "kube-controller-manager runs its {}, and {} serves {plural} of Kubernetes, too",
                controller(plural),
                ours.place()
            );
            let finding = Finding::new(CHECK, Severity::Problem, place, what);
            let (what, add) = add_to_flag(plural);
            Some(finding.or(what, add).or(NO_LONGER, ""))
        }
        (false, None) if !operators.is_empty() => {
            let what = format!(
                "kube-controller-manager leaves out its {}, and no operator serves {plural} of Kubernetes: nobody does",
                controller(plural)
            );
            let finding = Finding::new(CHECK, Severity::Problem, place, what);
            let serve = format!(
                "have Carillon serve them: add {plural} to serveNative in the values of its release"
            );
            Some(finding.or(serve, ""))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;
    use crate::view::doctor::operators::installed;
    use crate::view::doctor::operators::tests::deployment;

    fn object(fields: &[(&str, &str, &str)]) -> Value {
        let fields = fields.iter().map(
            |(manager, part, time)| json!({"manager": manager, "subresource": part, "time": time}),
        );
        json!({"metadata": {"namespace": "ops", "name": "agent", "managedFields": fields.collect::<Vec<_>>()}})
    }

    fn pod(controllers: &str) -> Value {
        json!({"metadata": {"namespace": "kube-system", "name": "kcm"},
               "spec": {"containers": [{"command": ["kube-controller-manager", format!("--controllers={controllers}")]}]}})
    }

    #[test]
    fn a_status_that_two_write_lately_is_a_problem() {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let (late, early) = ("2026-01-01T00:09:00Z", "2025-12-31T23:00:00Z");
        for (fields, bad) in [
            (
                vec![
                    ("carillon", "status", late),
                    ("kube-controller-manager", "status", late),
                ],
                true,
            ),
            // One has taken over from the other some time ago.
            (
                vec![
                    ("carillon", "status", late),
                    ("kube-controller-manager", "status", early),
                ],
                false,
            ),
            (
                vec![
                    ("carillon", "status", late),
                    ("kube-controller-manager", "", late),
                ],
                false,
            ),
            (vec![("kube-controller-manager", "status", late)], false),
        ] {
            let shared: Vec<Shared> = shared("DaemonSet", &object(&fields)).into_iter().collect();
            let check = check(&shared, &[], &[], now);
            assert_eq!(check.is_bad(), bad, "{fields:?} {check:?}");
        }
    }

    #[test]
    fn flags_of_kube_controller_manager_are_compared_with_what_carillon_serves() {
        let all = "*,-job-controller,-cronjob-controller,-daemonset-controller";
        for (controllers, native, says) in [
            ("*", "", None),
            ("*", "daemonsets", Some("runs its daemonset-controller")),
            (all, "jobs,cronjobs,daemonsets", None),
            ("*,-daemonset", "daemonsets", None),
            ("job-controller", "cronjobs,daemonsets", None),
            (
                "*,-job-controller",
                "",
                Some("leaves out its job-controller"),
            ),
        ] {
            let native = format!("--serve-native={native}");
            let operators = installed(&[deployment("carillon", &[&native])]);
            let check = check(&[], &[pod(controllers)], &operators, Timestamp::UNIX_EPOCH);
            match says {
                None => assert_eq!(
                    check.result,
                    Outcome::Ok,
                    "{controllers} {native} {check:?}"
                ),
                Some(says) => {
                    assert_eq!(check.result, Outcome::Problem);
                    assert!(check.findings[0].what.contains(says), "{check:?}");
                }
            }
        }
    }
}
