//! Native DaemonSets, served side by side: by kube-controller-manager on one cluster, by us on another of
//! the same build. The same DaemonSets on the same nodes, the same acts of users and kubelets; after each
//! of them, when nothing happens any more, what the API shows of both has to be the same, or its
//! difference has a name and a reason.

mod deletion;
mod differences;
mod here;
mod history;
mod nodes;
mod ownership;
mod placement;
mod pods;
mod refusals;
mod scenario;
mod side;
mod updates;
mod view;

use std::thread::scope;

use carillon_testbed::{Audit, Cluster, Config, Operator, Options};
use carillon_tests::api::Api;
use serde_json::json;

use self::differences::DIFFERENCES;
use self::scenario::Scenario;
use self::side::Side;
use crate::parity::rounds::{Rounds, assert_all_ended, assert_shown, chosen};
use crate::parity::{judge, merge, print_and_assert};

/// The controllers of kube-controller-manager. Who of two is the first to delete a pod of a tainted node is
/// chance, so one of them is off.
const THEIRS: &str = "--controllers=*,-taint-eviction-controller";
/// The same where we serve.
const THEIRS_OFF: &str = "--controllers=*,-taint-eviction-controller,-daemonset-controller";

fn scenarios() -> Vec<Scenario> {
    let all = [
        nodes::all(),
        placement::all(),
        updates::all(),
        pods::all(),
        ownership::all(),
        history::all(),
        refusals::all(),
        deletion::all(),
    ]
    .concat();
    chosen(all, |scenario| scenario.name)
}

/// A cluster with a node that no scenario uses: the others are made like it.
fn cluster(name: &str, controllers: &str) -> Cluster {
    let mut config = Config::new(name).with_nodes(1);
    config.audit = Audit::Off;
    // Hundreds of nodes, and none that is lost by chance.
    config.node_lease_seconds = 80;
    config.controller_manager_args = vec![controllers.to_owned()];
    Cluster::start(config).expect("a cluster")
}

fn ours(name: &str) -> (Cluster, Operator) {
    let cluster = cluster(name, THEIRS_OFF);
    let options = Options::new("operator")
        .arg("--controllers=job")
        .arg("--serve-native=daemonsets");
    let operator = Operator::start(&cluster, &options).expect("an operator");
    (cluster, operator)
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn native_daemon_sets_are_served_as_kube_controller_manager_serves_them() {
    let (theirs, (ours, _operator)) = scope(|scope| {
        let theirs = scope.spawn(|| cluster("daemon-parity-a", THEIRS));
        (theirs.join().unwrap(), ours("daemon-parity-b"))
    });
    compare([&theirs, &ours], &scenarios());
}

#[test]
#[ignore = "takes minutes, and tells about the comparison only"]
fn daemon_sets_served_by_kube_controller_manager_twice_show_no_difference() {
    let clusters = ["daemon-parity-c", "daemon-parity-d"].map(|name| cluster(name, THEIRS));
    compare([&clusters[0], &clusters[1]], &scenarios());
}

#[test]
#[ignore = "tells about the comparison only"]
fn daemon_sets_that_are_not_the_same_show_a_difference() {
    let cluster = cluster("daemon-parity-e", THEIRS);
    let api = Api::of(&cluster);
    let side = Side::start(&cluster, &api);
    let all = scenarios();
    let changes = [
        (
            "tainted-no-execute",
            json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}),
            "numberMisscheduled",
        ),
        (
            "three-at-a-time",
            json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}),
            "least ready",
        ),
        (
            "history-limit",
            json!({"revisionHistoryLimit": 5}),
            "revision R1",
        ),
        (
            "surge-one",
            json!({"updateStrategy": {"rollingUpdate": {"maxSurge": "100%"}}}),
            "most pods",
        ),
        (
            "labels-and-annotations",
            json!({"template": {"metadata": {"annotations": {"note": "other"}}}}),
            "metadata/annotations/note",
        ),
    ];
    scope(|scope| {
        for (name, change, shown) in &changes {
            let scenario = all.iter().find(|one| one.name == *name).expect(name);
            let mut other = scenario.clone();
            merge(&mut other.set["spec"], change);
            let side = &side;
            scope.spawn(move || {
                let (one, other) = (side.play(scenario, 0), side.play(&other, 1));
                assert_shown(scenario.name, shown, one, other);
            });
        }
    });
}

fn compare(clusters: [&Cluster; 2], scenarios: &[Scenario]) {
    let apis = clusters.map(Api::of);
    let sides = [0, 1].map(|side| Side::start(clusters[side], &apis[side]));
    let rounds = Rounds {
        at_a_time: 36,
        runs: 3,
        differences: DIFFERENCES,
    };
    let (theirs, ours) = rounds.play(
        scenarios,
        |scenario| scenario.name,
        |scenario, side, run| sides[side].play(scenario, run),
    );
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    assert_all_ended(&theirs);
    let verdict = judge(DIFFERENCES, &names, &theirs, &ours);
    print_and_assert(&verdict, names.len());
}
