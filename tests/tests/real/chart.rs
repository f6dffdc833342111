//! The chart on a real API server.
//!
//! One cluster lives through install, upgrade, work, narrowing to namespaces and removal, once (see
//! [`story`]); the tests here judge what was seen there. Those of [`render`] and [`exits`] need no
//! cluster.

mod alone;
mod daemons;
mod dashboards;
mod exits;
pub(crate) mod render;
mod rights;
mod runs;
mod side_by_side;
mod story;
mod uninstall;
mod work;

use std::collections::BTreeSet;
use std::time::Duration;

use carillon_testbed::carillon::NAMESPACE;
use serde_json::json;

use self::render::{said, texts};
use self::rights::{BEYOND, CAN_I, assert_equal, granted, used};
use self::story::{AfterUninstall, Narrow, story};

const LIMIT: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_millis(100);
const ACCOUNT: &str = "system:serviceaccount:carillon-system:carillon";

#[test]
fn helm_upgrade_rolls_out_a_changed_crd_and_a_changed_value_and_keeps_the_rest() {
    let story = story();
    assert_eq!(story.slices_by_short_name, [false, true], "the CRD");
    let [before, after] = &story.deployment_args;
    assert!(
        before.contains(&"--log-level=info".to_owned()),
        "{before:?}"
    );
    assert!(after.contains(&"--log-level=debug".to_owned()), "{after:?}");
    let [before, after] = &story.pod_labels;
    assert_eq!(before["team"], "platform");
    assert_eq!(after["team"], "platform", "a value of the first install");
    let [before, after] = &story.kept_uid;
    assert_eq!(before, after, "a job that was there");
    assert_eq!(
        story.revisions,
        ["carillon-0.0.9 superseded", "carillon-0.1.0 deployed"]
    );
}

#[test]
fn helm_test_passes_and_its_command_asks_a_real_operator() {
    let story = story();
    assert!(story.helm_test.contains("Succeeded"), "{}", story.helm_test);
    let (ok, text) = &story.check[0];
    assert!(ok, "{text}");
    assert!(text.contains("[+]cache-pods ok"), "{text}");
    assert!(text.contains("readyz check passed"), "{text}");
    let (ok, text) = &story.check[1];
    assert!(!ok, "{text}");
    assert!(text.contains("404"), "{text}");
}

#[test]
fn the_api_server_accepts_every_object_that_everything_on_renders() {
    let text = &story().fully_valued;
    for kind in [
        "deployment.apps/",
        "networkpolicy.",
        "poddisruptionbudget.",
        "role.",
    ] {
        assert!(text.contains(kind), "no {kind} in {text}");
    }
}

#[test]
fn the_operator_with_the_charts_rights_runs_jobs_to_their_end() {
    let story = story();
    let ends = &story.ended["ends"];
    assert_eq!(ends["phase"], "completed", "{ends}");
    assert_eq!(
        (&ends["succeeded"], &ends["failed"]),
        (&json!(9), &json!(1))
    );
    let fails = &story.ended["fails-fast"];
    assert_eq!(fails["phase"], "failed", "{fails}");
    assert!(story.stopped_pods >= 1, "FailFast stops what runs");
    assert_eq!(story.withdrawn_pods, 1, "the pod for a cordoned node");
    assert_eq!(story.attempts_after_vanishing["reason"], "PodVanished");
    let events = &story.events;
    assert!(events.contains("SuccessfulCreate"), "{events:?}");
    assert!(events.contains("SuccessfulDelete"), "{events:?}");
    let last = story.exit.as_deref().unwrap_or_default();
    assert!(last.contains("stopped"), "its last line: {last}");
}

#[test]
fn the_charts_account_may_do_what_the_table_says_and_nothing_beyond() {
    let answers = &story().can_i;
    assert_eq!(answers.len(), CAN_I.len());
    let wrong: Vec<_> = answers
        .iter()
        .zip(CAN_I)
        .filter(|((_, answer), (.., expected))| answer != expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn of_everything_the_api_server_serves_the_account_may_do_only_what_the_chart_grants() {
    let story = story();
    let [everywhere, lease] = &story.rules;
    let mut expected = BTreeSet::new();
    for (group, resource, verb) in granted(everywhere) {
        let namespaces: &[&str] = if resource == "nodes" {
            &[""]
        } else {
            &["team-a", NAMESPACE]
        };
        for namespace in namespaces {
            let right = (group.clone(), resource.clone(), verb.clone());
            expected.insert((right.0, right.1, right.2, (*namespace).to_owned()));
        }
    }
    for (group, resource, verb) in granted(lease) {
        expected.insert((group, resource, verb, NAMESPACE.to_owned()));
    }
    // Every account may ask about itself.
    for (group, resource) in [
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ] {
        expected.insert((
            group.into(),
            resource.into(),
            "create".into(),
            String::new(),
        ));
    }
    // Since 1.37 Kubernetes lets every account read trust bundles.
    let bundles = story.allowed.iter().filter(|(group, resource, verb, _)| {
        let reads = ["get", "list", "watch"].contains(&verb.as_str());
        group == "certificates.k8s.io" && resource == "clustertrustbundles" && reads
    });
    expected.extend(bundles.cloned());
    let beyond: Vec<_> = story.allowed.difference(&expected).collect();
    assert!(beyond.is_empty(), "allowed beyond the chart: {beyond:#?}");
    let missing: Vec<_> = expected.difference(&story.allowed).collect();
    assert!(missing.is_empty(), "granted and yet refused: {missing:#?}");
}

#[test]
fn requests_with_the_accounts_token_beyond_its_rights_are_answered_403() {
    let story = story();
    assert_eq!(story.tried.len(), BEYOND.len());
    assert!(!story.running_pod.is_empty());
    for (what, output) in &story.tried {
        let text = said(output);
        assert!(!output.status.success(), "{what} is allowed: {text}");
        let forbidden = text.contains("(Forbidden)") || text.contains("is forbidden");
        assert!(forbidden, "{what}: {text}");
    }
}

/// What is granted and not requested here, unless by chance, and why it is granted.
const NOT_REQUESTED: &[(&str, &str, &str, &str)] = &[
    ("carillon.dev", "broadcastjobs/finalizers", "update", PLUGIN),
    ("carillon.dev", "cronjobs/finalizers", "update", PLUGIN),
    ("carillon.dev", "daemonsets/finalizers", "update", PLUGIN),
    ("batch", "jobs/finalizers", "update", PLUGIN),
    ("apps", "controllerrevisions", "get", EXISTS),
];
const PLUGIN: &str = "OwnerReferencesPermissionEnforcement asks the authorizer for it when a child \
                      with blockOwnerDeletion is created; this cluster runs the plugin";

const EXISTS: &str = "a pod of a Job or DaemonSet, or a revision, is asked for when there is one of its name already: after a reply \
                      that was lost";

#[test]
fn without_update_on_finalizers_admission_refuses_children_that_block_their_owners_deletion() {
    let text = &story().without_finalizers;
    assert!(text.contains("can't set finalizers on"), "{text}");
}

#[test]
fn the_verbs_granted_equal_the_verbs_used_in_the_audit_log() {
    let story = story();
    assert_eq!(story.refused_at_first["phase"], "completed");
    let [everywhere, lease] = &story.rules;
    let mut granted = granted(everywhere);
    granted.extend(rights::granted(lease));
    assert_equal(granted, used(&story.requests), NOT_REQUESTED);
}

#[test]
fn of_each_controller_alone_the_verbs_granted_equal_the_verbs_used() {
    let alone = &story().alone;
    let controllers: Vec<_> = alone.iter().map(|one| one.controller).collect();
    assert_eq!(controllers, ["broadcastjob", "cronjob", "daemonset", "job"]);
    for one in alone {
        println!("{} alone", one.controller);
        let [everywhere, lease] = &one.rules;
        let mut granted = granted(everywhere);
        granted.extend(rights::granted(lease));
        let of_others = |(group, resource, verb, _): &&(&str, &str, &str, &str)| {
            let right = (
                (*group).to_owned(),
                (*resource).to_owned(),
                (*verb).to_owned(),
            );
            granted.contains(&right)
        };
        let mut not_requested: Vec<_> = NOT_REQUESTED.iter().filter(of_others).copied().collect();
        if ["daemonset", "job"].contains(&one.controller) {
            not_requested.push(("", "pods", "get", EXISTS));
        }
        assert_equal(granted, used(&one.requests), &not_requested);
    }
}

#[test]
fn with_watch_namespaces_only_these_are_served_and_nothing_but_nodes_is_granted_cluster_wide() {
    let Narrow {
        cluster_rules,
        roles,
        phases,
        pods_elsewhere,
        status_elsewhere,
        list_elsewhere,
        refused_requests,
    } = &story().narrow;
    let resources: BTreeSet<_> = granted(cluster_rules)
        .into_iter()
        .map(|(_, resource, verb)| format!("{verb} {resource}"))
        .collect();
    assert_eq!(
        resources,
        ["get nodes", "list nodes", "watch nodes"]
            .map(str::to_owned)
            .into()
    );
    let names: Vec<_> = roles.keys().map(String::as_str).collect();
    assert_eq!(names, ["team-a", "team-b"]);
    let [everywhere, _] = &story().rules;
    let mut wide = granted(everywhere);
    wide.retain(|(_, resource, _)| resource != "nodes");
    assert_eq!(
        granted(&roles["team-a"]),
        wide,
        "the same rights, in fewer places"
    );
    assert_eq!(roles["team-a"], roles["team-b"]);
    assert_eq!(phases.len(), 2);
    assert_eq!(pods_elsewhere, "");
    assert_eq!(
        status_elsewhere["observedGeneration"], -1,
        "nobody looked at it"
    );
    assert!(
        said(list_elsewhere).contains("Forbidden"),
        "{}",
        said(list_elsewhere)
    );
    assert_eq!(*refused_requests, 0, "the operator asks only where it may");
}

#[test]
fn helm_uninstall_leaves_crds_and_jobs_and_nothing_else_and_can_be_undone() {
    let AfterUninstall {
        crds,
        jobs,
        left,
        held_pod,
        installed_again,
        record_of_held_pod,
    } = &story().after_uninstall;
    for crd in ["broadcastjobs", "noderesultslices"] {
        assert!(crds.contains(&format!("/{crd}.carillon.dev")), "{crds}");
    }
    assert!(jobs.contains("/kept"), "{jobs}");
    assert_eq!(left, "");
    assert!(
        installed_again.contains("STATUS: deployed"),
        "{installed_again}"
    );
    // While nobody runs a pod that is deleted stays, with its end; whoever comes next records that and
    // lets it go.
    let held = &held_pod["metadata"];
    assert!(held["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(texts(&held["finalizers"]), ["carillon.dev/result-tracking"]);
    assert_eq!(record_of_held_pod["podName"], held["name"]);
    assert_eq!(
        record_of_held_pod["state"], "Disrupted",
        "{record_of_held_pod}"
    );
}
