//! Whether the CRDs are there, and have every field that this program knows.

use std::collections::BTreeSet;

use carillon_api::names::{GROUP, VERSION};
use serde_json::Value;

use super::{Check, Finding, Severity, count, some};
use crate::view::read::{entries, list, text};

/// The name of the check.
pub const CHECK: &str = "crds";
const VERSION_LABEL: &str = "app.kubernetes.io/version";
const INSTALL: &str =
    "helm upgrade --install carillon charts/carillon -n carillon-system --create-namespace";

/// Compares the CRDs of the cluster with those of this program, which has this version.
pub fn check(wanted: &[Value], stored: &[Value], program: &str) -> Check {
    let mut findings = Vec::new();
    for crd in wanted {
        let name = text(&crd["metadata"]["name"]);
        let found = stored.iter().find(|one| one["metadata"]["name"] == name);
        findings.extend(found.map_or_else(
            || Some(missing(name)),
            |found| compare(name, crd, found, program),
        ));
    }
    let absent = findings
        .iter()
        .filter(|finding| finding.what == MISSING)
        .count();
    let there = wanted.len() - absent;
    if there == 0 && absent > 0 {
        return Check::made(CHECK, "Carillon is not installed", vec![nothing()]);
    }
    let found = format!("{there} of {} are there", wanted.len());
    Check::made(CHECK, found, findings)
}

/// The same by what the API server says it serves, for those who may not read CRDs: plurals of resources.
pub fn served(wanted: &[Value], plurals: &[String]) -> Check {
    let lacks = wanted.iter().filter(|crd| {
        let plural = text(&crd["spec"]["names"]["plural"]);
        !plurals.iter().any(|one| one == plural)
    });
    let lacks: Vec<Finding> = lacks
        .map(|crd| missing(text(&crd["metadata"]["name"])))
        .collect();
    if lacks.len() == wanted.len() {
        return Check::made(CHECK, "Carillon is not installed", vec![nothing()]);
    }
    let there = wanted.len() - lacks.len();
    let found = format!("{there} of {} are served", wanted.len());
    Check::made(CHECK, found, lacks).without(Some(
        "their fields, as you may not list customresourcedefinitions".to_owned(),
    ))
}

const MISSING: &str = "is not there";

fn place(name: &str) -> String {
    format!("CustomResourceDefinition {name}")
}

fn nothing() -> Finding {
    let what =
        format!("the API server does not serve {GROUP}/{VERSION}: Carillon is not installed");
    Finding::new(CHECK, Severity::Problem, GROUP, what).or("install it", INSTALL)
}

fn missing(name: &str) -> Finding {
    Finding::new(CHECK, Severity::Problem, place(name), MISSING)
        .or("install the CRDs of this version", upgrade())
}

fn upgrade() -> String {
    "helm upgrade carillon charts/carillon -n carillon-system --reset-then-reuse-values\n\
     # or, of a release without CRDs:\n\
     kubectl apply --server-side --force-conflicts -f crds/"
        .to_owned()
}

fn compare(name: &str, wanted: &Value, stored: &Value, program: &str) -> Option<Finding> {
    let (Some(wanted), Some(found)) = (schema(wanted), schema(stored)) else {
        let what = format!("does not serve {VERSION}");
        let finding = Finding::new(CHECK, Severity::Problem, place(name), what);
        return Some(finding.or("install the CRDs of this version", upgrade()));
    };
    let version = text(&stored["metadata"]["labels"][VERSION_LABEL]);
    let of = match version {
        "" => String::new(),
        version => format!(" (version {version})"),
    };
    let lacks = beyond(wanted, found);
    if !lacks.is_empty() {
        let what = format!(
            "is older than this program{of}: it lacks {}: {}. What is written there is dropped or refused",
            count(lacks.len(), "field"),
            some(&lacks)
        );
        let finding = Finding::new(CHECK, Severity::Problem, place(name), what);
        return Some(finding.or("install the CRDs of this version", upgrade()));
    }
    let more = beyond(found, wanted);
    if !more.is_empty() {
        let what = format!(
            "is newer than this program{of}: it has {} that {program} does not know: {}",
            count(more.len(), "field"),
            some(&more)
        );
        let finding = Finding::new(CHECK, Severity::Warning, place(name), what);
        return Some(finding.or("use the plugin of that version", ""));
    }
    (!version.is_empty() && version != program).then(|| {
        let what = format!("is of version {version}, with the same fields as {program}");
        Finding::new(CHECK, Severity::Info, place(name), what)
    })
}

/// The schema of the version that is ours, if it is served.
fn schema(crd: &Value) -> Option<&Value> {
    let mut versions = list(&crd["spec"]["versions"]);
    let ours = versions.find(|one| one["name"] == VERSION && one["served"] == true)?;
    Some(&ours["schema"]["openAPIV3Schema"])
}

/// Fields that `one` has and `other` lacks, as paths: of a field with others in it only itself.
fn beyond(one: &Value, other: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    compare_fields(one, other, "", &mut found);
    found.into_iter().collect()
}

fn compare_fields(one: &Value, other: &Value, at: &str, found: &mut BTreeSet<String>) {
    for (name, field) in entries(&one["properties"]) {
        let path = match at {
            "" => name.to_owned(),
            at => format!("{at}.{name}"),
        };
        match other["properties"].get(name) {
            Some(same) => compare_fields(field, same, &path, found),
            None => drop(found.insert(path)),
        }
    }
    for (inner, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
        if one[inner].is_object() && other[inner].is_object() {
            compare_fields(&one[inner], &other[inner], &format!("{at}{mark}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;

    /// They take a while to be made.
    fn ours() -> Vec<Value> {
        static OURS: OnceLock<Vec<Value>> = OnceLock::new();
        let make = || carillon_api::crds().iter().map(|crd| json!(crd)).collect();
        OURS.get_or_init(make).clone()
    }

    fn of(change: impl FnOnce(&mut Vec<Value>)) -> Check {
        let mut stored = ours();
        change(&mut stored);
        check(&ours(), &stored, "1.2.3")
    }

    fn properties(crd: &mut Value) -> &mut serde_json::Map<String, Value> {
        let spec =
            &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        spec["properties"].as_object_mut().unwrap()
    }

    #[test]
    fn the_crds_of_this_program_are_well() {
        let well = of(|_| {});
        assert_eq!((well.result, well.findings), (Outcome::Ok, vec![]));
        let labelled = of(|stored| {
            stored[0]["metadata"]["labels"] = json!({VERSION_LABEL: "1.2.2"});
        });
        assert_eq!(labelled.result, Outcome::Info);
        assert!(labelled.findings[0].what.contains("version 1.2.2"));
    }

    #[test]
    fn one_that_is_missing_or_lacks_a_field_is_a_problem() {
        let missing = of(|stored| drop(stored.remove(1)));
        assert_eq!(missing.result, Outcome::Problem);
        assert_eq!(missing.found, "3 of 4 are there");
        assert!(
            missing.findings[0]
                .where_
                .ends_with("cronjobs.carillon.dev")
        );
        let stale = of(|stored| {
            properties(&mut stored[0]).remove("nodeNames");
        });
        let found = &stale.findings[0];
        assert_eq!(stale.result, Outcome::Problem);
        assert!(
            found.what.contains("lacks 1 field: spec.nodeNames"),
            "{found:?}"
        );
        let unserved = of(|stored| stored[0]["spec"]["versions"][0]["served"] = json!(false));
        assert!(
            unserved.findings[0]
                .what
                .contains("does not serve v1alpha1")
        );
    }

    #[test]
    fn one_that_is_newer_is_a_warning() {
        let newer = of(|stored| {
            let field = json!({"type": "object", "properties": {"deep": {"type": "string"}}});
            properties(&mut stored[0]).insert("later".to_owned(), field);
        });
        assert_eq!(newer.result, Outcome::Warning);
        let found = &newer.findings[0].what;
        assert!(
            found.contains("1 field that 1.2.3 does not know: spec.later"),
            "{found}"
        );
    }

    #[test]
    fn without_any_it_says_what_to_install() {
        for check in [of(Vec::clear), served(&ours(), &[])] {
            assert_eq!(check.result, Outcome::Problem);
            assert_eq!(check.findings.len(), 1);
            assert!(
                check.findings[0].remedies[0]
                    .write
                    .contains("helm upgrade --install")
            );
        }
    }

    #[test]
    fn those_who_may_not_read_crds_are_told_what_is_served() {
        let plurals = ["broadcastjobs", "cronjobs", "daemonsets"].map(str::to_owned);
        let check = served(&ours(), &plurals);
        assert!(
            check.findings[0].where_.contains("noderesultslices"),
            "{check:?}"
        );
        let mut all = plurals.to_vec();
        all.push("noderesultslices".to_owned());
        let check = served(&ours(), &all);
        assert_eq!(check.result, Outcome::NotChecked);
        assert!(
            check
                .found
                .contains("you may not list customresourcedefinitions")
        );
    }
}
