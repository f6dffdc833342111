//! Whether an operator leads: by its lease, and when that was last renewed.

use carillon_api::names::ANNOTATION_LEASE;
use jiff::Timestamp;
use serde_json::Value;

use super::operators::Installed;
use super::{Check, Finding, Severity};
use crate::view::read::text;

/// The name of the check.
pub const CHECK: &str = "leader";
/// Part of the name of an operator's lease, where nothing says which one it is.
const NAME: &str = "carillon";
/// What a lease lasts that does not say so.
const SECONDS: i64 = 15;

/// A lease of an operator.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Who holds it; empty: nobody.
    pub holder: String,
    /// When it was last renewed.
    pub renewed: Option<Timestamp>,
    /// How many seconds it holds after that.
    pub lasts: i64,
}

impl Lease {
    fn place(&self) -> String {
        format!("Lease {}/{}", self.namespace, self.name)
    }

    /// Seconds since it was renewed, by the clock of whoever asks.
    fn age(&self, now: Timestamp) -> Option<i64> {
        Some(now.duration_since(self.renewed?).as_secs())
    }

    /// Whether it is held and was renewed as lately as it lasts. Clocks may differ: one that was not has to be
    /// watched.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        let lasts = -self.lasts..=self.lasts;
        !self.holder.is_empty() && self.age(now).is_some_and(|age| lasts.contains(&age))
    }
}

/// Namespace and name of a lease: `carillon-system/carillon`.
pub fn named(text: &str) -> Option<(&str, &str)> {
    let (namespace, name) = text.split_once('/')?;
    let is_whole = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
    is_whole.then_some((namespace, name))
}

/// The lease that our chart has noted at a CRD (`carillon.dev/lease`). CRDs are of the whole cluster: nobody writes
/// them who has no more than a namespace.
pub fn noted(crd: &Value) -> Option<(&str, &str)> {
    named(crd["metadata"]["annotations"][ANNOTATION_LEASE].as_str()?)
}

/// The leases of our operators: those that are noted at a CRD or named by an operator, or else those that have our name
/// in theirs.
pub fn find(leases: &[Value], noted: Option<(&str, &str)>, operators: &[Installed]) -> Vec<Lease> {
    let by_operators = operators.iter().filter_map(|one| one.lease.as_ref());
    let by_operators = by_operators.map(|(namespace, name)| (&**namespace, &**name));
    let named: Vec<(&str, &str)> = noted.into_iter().chain(by_operators).collect();
    let all = leases.iter().map(read);
    let (ours, others): (Vec<Lease>, Vec<Lease>) =
        all.partition(|lease| named.contains(&(&*lease.namespace, &*lease.name)));
    if !ours.is_empty() {
        return ours;
    }
    let ours = others.into_iter().filter(|lease| lease.name.contains(NAME));
    ours.collect()
}

fn read(object: &Value) -> Lease {
    let (meta, spec) = (&object["metadata"], &object["spec"]);
    Lease {
        namespace: text(&meta["namespace"]).to_owned(),
        name: text(&meta["name"]).to_owned(),
        holder: text(&spec["holderIdentity"]).to_owned(),
        renewed: text(&spec["renewTime"]).parse().ok(),
        lasts: spec["leaseDurationSeconds"].as_i64().unwrap_or(SECONDS),
    }
}

/// Whether somebody leads. `watched`: those of them that were seen to be renewed while they were watched.
pub fn check(
    leases: &[Lease],
    watched: &[(String, String)],
    operators: &[Installed],
    now: Timestamp,
) -> Check {
    let without = operators.iter().filter(|one| one.lease.is_none());
    let mut findings: Vec<Finding> = without.map(runs_without).collect();
    if leases.is_empty() && findings.is_empty() {
        findings.push(nobody());
    }
    let mut found = Vec::new();
    for lease in leases {
        let renewed = watched.contains(&(lease.namespace.clone(), lease.name.clone()));
        let age = lease.age(now);
        let (holder, place) = (&lease.holder, lease.place());
        match age {
            _ if holder.is_empty() => findings.push(released(lease)),
            Some(age) if lease.is_fresh(now) => {
                found.push(format!(
                    "{holder} leads, {place} was renewed {} s ago",
                    age.max(0)
                ));
            }
            _ if renewed => {
                found.push(format!("{holder} leads, {place} is renewed"));
                findings.push(clocks_differ(lease, age));
            }
            age => findings.push(stale(lease, age)),
        }
    }
    let found = match (found.as_slice(), findings.first()) {
        ([], Some(first)) => first.what.clone(),
        (all, _) => all.join("; "),
    };
    Check::made(CHECK, found, findings)
}

/// Whether somebody leads, as [`check`] has found; without leader election that is not known.
pub fn leads(leases: &[Lease], watched: &[(String, String)], now: Timestamp) -> bool {
    leases.iter().any(|lease| {
        let name = (lease.namespace.clone(), lease.name.clone());
        lease.is_fresh(now) || watched.contains(&name)
    })
}

fn runs_without(one: &Installed) -> Finding {
    let what = "it runs without leader election: whether it works is not seen by a lease";
    Finding::new(CHECK, Severity::Info, one.place(), what)
}

fn nobody() -> Finding {
    let what = format!("nobody leads: no lease has {NAME:?} in its name, and the CRDs note none");
    Finding::new(CHECK, Severity::Problem, "Leases", what).or(
        "start the operator",
        "kubectl get deployments -A -l app.kubernetes.io/component=operator",
    )
}

fn released(lease: &Lease) -> Finding {
    let what = "nobody leads: the last leader has given the lease back";
    Finding::new(CHECK, Severity::Problem, lease.place(), what).or("start the operator", start())
}

fn stale(lease: &Lease, age: Option<i64>) -> Finding {
    let since = age.map_or_else(
        || "it was never renewed".to_owned(),
        |age| format!("it was renewed {age} s ago and lasts {} s", lease.lasts),
    );
    let what = format!("nobody leads: {} held it, {since}", lease.holder);
    let finding = Finding::new(CHECK, Severity::Problem, lease.place(), what);
    finding.or("see why the operator does not run", start())
}

fn start() -> &'static str {
    "kubectl get deployments,pods -A -l app.kubernetes.io/component=operator"
}

fn clocks_differ(lease: &Lease, age: Option<i64>) -> Finding {
    let what = format!(
        "it is renewed, though its time is {} s from that of this machine: one of the clocks is wrong",
        age.unwrap_or_default()
    );
    Finding::new(CHECK, Severity::Info, lease.place(), what)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;
    use crate::view::doctor::operators::installed;
    use crate::view::doctor::operators::tests::deployment;

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn lease(namespace: &str, name: &str, holder: &str, renewed: &str) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name},
               "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 20}})
    }

    fn judge(objects: &[Value], watched: &[&str]) -> Check {
        let now = NOW.parse().unwrap();
        let leases = find(objects, None, &[]);
        let watched = watched
            .iter()
            .map(|name| ("sys".to_owned(), (*name).to_owned()));
        let watched: Vec<_> = watched.collect();
        check(&leases, &watched, &[], now)
    }

    #[test]
    fn a_lease_that_is_renewed_says_who_leads() {
        let fresh = judge(
            &[lease("sys", "carillon", "pod-a", "2026-01-01T00:00:57.5Z")],
            &[],
        );
        assert_eq!(fresh.result, Outcome::Ok);
        assert_eq!(
            fresh.found,
            "pod-a leads, Lease sys/carillon was renewed 2 s ago"
        );
    }

    #[test]
    fn without_a_renewed_lease_nobody_leads() {
        let old = "2026-01-01T00:00:00Z";
        for (objects, says) in [
            (vec![], "no lease has \"carillon\""),
            (
                vec![lease("sys", "carillon", "", old)],
                "has given the lease back",
            ),
            (
                vec![lease("sys", "carillon", "pod-a", old)],
                "pod-a held it, it was renewed 60 s ago",
            ),
            (
                vec![lease("sys", "carillon", "pod-a", "?")],
                "it was never renewed",
            ),
        ] {
            let check = judge(&objects, &[]);
            assert_eq!(check.result, Outcome::Problem, "{check:?}");
            assert!(check.findings[0].what.contains(says), "{check:?}");
        }
    }

    #[test]
    fn a_lease_that_is_renewed_while_it_is_watched_tells_of_wrong_clocks() {
        for renewed in ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"] {
            let check = judge(&[lease("sys", "carillon", "pod-a", renewed)], &["carillon"]);
            assert_eq!(check.result, Outcome::Info);
            assert!(
                check.findings[0]
                    .what
                    .contains("one of the clocks is wrong")
            );
        }
    }

    #[test]
    fn the_lease_that_is_named_counts_and_no_other_of_such_a_name() {
        let all = [
            lease("sys", "bells", "a", NOW),
            lease("tenant", "my-carillon", "b", NOW),
        ];
        let holder = |note: Option<&str>, operators: &[Installed]| {
            let crd = json!({"metadata": {"annotations": {"carillon.dev/lease": note}}});
            let found = find(&all, noted(&crd), operators);
            found
                .iter()
                .map(|one| one.holder.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(holder(Some("sys/bells"), &[]), ["a"]);
        let operators = installed(&[deployment("x", &["--lease-name=bells"])]);
        assert_eq!(holder(None, &operators), ["a"]);
        assert_eq!(holder(None, &[]), ["b"]);
        assert_eq!(holder(Some("no slash"), &[]), ["b"]);
    }
}
