//! DaemonSets that are updated, broken and put back while everything fails: plain ones, with a surge, OnDelete, with a
//! partition, and of apps/v1 in place of kube-controller-manager.

use std::time::{Duration, Instant};

use carillon_oracle::Assumptions;
use carillon_oracle::daemon_set::world::NATIVE;
use carillon_testbed::Config;
use carillon_tests::lab;
use carillon_tests::proof;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Chaos, Fault, HEAL, Subject};

const OURS_API: &str = "carillon.dev/v1alpha1";
const NATIVE_API: &str = "apps/v1";

/// How much goes wrong.
struct Form {
    name: &'static str,
    nodes: usize,
    /// What users do, one after the other: no update waits for the one before it.
    edits: &'static [Edit],
    faults: &'static [(Fault, usize)],
    both_lead: bool,
    seed: u64,
}

/// What users do to all DaemonSets at once.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// A template, of which a node may see another one before it is everywhere.
    Image(u32),
    /// One whose pods never start.
    Broken,
}

const SMALL: Form = Form {
    name: "daemon-chaos-small",
    nodes: 8,
    edits: &[Edit::Image(1), Edit::Broken, Edit::Image(2)],
    faults: &[
        (Fault::KillLeader, 1),
        (Fault::PauseLeader, 1),
        (Fault::KillApiServer, 1),
        (Fault::BreakConnections, 1),
        (Fault::AddNode, 1),
        (Fault::RemoveNode, 1),
        (Fault::Taint("NoExecute"), 1),
        (Fault::Taint("NoSchedule"), 1),
        (Fault::Cordon, 1),
        (Fault::DeletePod, 1),
        (Fault::FailPod, 2),
        (Fault::HoldPod, 1),
        (Fault::ReleasePod, 1),
    ],
    both_lead: false,
    seed: 1,
};

const FULL: Form = Form {
    name: "daemon-chaos",
    nodes: 60,
    edits: &[
        Edit::Image(1),
        Edit::Image(2),
        Edit::Broken,
        Edit::Image(2),
        Edit::Image(3),
        Edit::Image(1),
        Edit::Broken,
        Edit::Image(4),
    ],
    faults: &[
        (Fault::KillLeader, 10),
        (Fault::KillFollower, 3),
        (Fault::PauseLeader, 3),
        (Fault::KillApiServer, 3),
        (Fault::BreakConnections, 10),
        (Fault::StopKubelets, 3),
        (Fault::NotReady, 10),
        (Fault::ReplaceNode, 6),
        (Fault::AddNode, 5),
        (Fault::RemoveNode, 5),
        (Fault::Taint("NoExecute"), 6),
        (Fault::Taint("NoSchedule"), 6),
        (Fault::Cordon, 6),
        (Fault::DeletePod, 20),
        (Fault::FailPod, 20),
        (Fault::HoldPod, 10),
        (Fault::ReleasePod, 6),
    ],
    both_lead: false,
    seed: 2,
};

const BOTH: Form = Form {
    name: "daemon-chaos-both",
    nodes: 30,
    both_lead: true,
    seed: 3,
    ..FULL
};

/// Nothing moves any more once that long nothing has.
const STILL: Duration = Duration::from_secs(1);

fn subject(form: &Form) -> Subject {
    Subject {
        look: |chaos| {
            let sets = names().map(|name| get(chaos, name).unwrap_or_default());
            let sets =
                sets.map(|set| json!({"name": set["metadata"]["name"], "status": set["status"]}));
            json!({"pods": chaos.pods_that_do_not_run(), "sets": sets.collect::<Value>()})
        },
        works: |chaos| {
            // An edit that changes no pod: the status has to follow it.
            let set = ["cds", HELD];
            let generation = |set: &Value| set["metadata"]["generation"].as_u64();
            let before = get(chaos, HELD).as_ref().and_then(generation).unwrap();
            let limit = json!({"spec": {"revisionHistoryLimit": 10 + before}}).to_string();
            chaos
                .bench
                .kubectl(&["patch", set[0], set[1], "--type=merge", "-p", &limit]);
            chaos.patiently("an edit is seen", |chaos| {
                let set = get(chaos, HELD).unwrap_or_default();
                set["status"]["observedGeneration"].as_u64() > Some(before)
            });
        },
        args: &["--controllers=daemonset", "--serve-native=daemonsets"],
        both_lead: form.both_lead,
        through_proxy: true,
    }
}

/// Name, API and spec without template of each DaemonSet.
fn kinds(nodes: usize, partition: usize) -> [(&'static str, &'static str, Value); 6] {
    let rolling = |fields: Value| json!({"updateStrategy": {"rollingUpdate": fields}});
    let (some, waits) = ((nodes / 5).max(2), json!(1));
    let mut surging = rolling(json!({"maxSurge": some}));
    surging["minReadySeconds"] = waits.clone();
    let mut native = rolling(json!({"maxUnavailable": "30%"}));
    native["minReadySeconds"] = waits;
    let native_surge = rolling(json!({"maxSurge": "20%", "maxUnavailable": 0}));
    [
        ("plain", OURS_API, rolling(json!({"maxUnavailable": some}))),
        ("surging", OURS_API, surging),
        (
            HELD,
            OURS_API,
            json!({"updateStrategy": {"type": "OnDelete"}}),
        ),
        (
            "parted",
            OURS_API,
            rolling(json!({"maxUnavailable": "20%", "partition": partition})),
        ),
        ("native", NATIVE_API, native),
        ("native-surging", NATIVE_API, native_surge),
    ]
}

/// The one of type OnDelete.
const HELD: &str = "held";

fn names() -> impl Iterator<Item = &'static str> {
    kinds(0, 0).into_iter().map(|(name, ..)| name)
}

/// A user applies all DaemonSets.
fn apply(chaos: &Chaos<'_>, edit: Edit, partition: usize) {
    let (image, fate) = match edit {
        Edit::Image(image) => (image, json!({"testbed.carillon.dev/start-delay": "500ms"})),
        Edit::Broken => (0, json!({"testbed.carillon.dev/fate": "never-starts"})),
    };
    let set = |(name, api, mut spec): (&str, &str, Value)| {
        spec["selector"] = json!({"matchLabels": {"app": name}});
        spec["template"] = json!({
            "metadata": {"labels": {"app": name}, "annotations": fate},
            "spec": {
                "nodeSelector": {"bench": chaos.bench.name},
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": format!("busybox:1.{image}")}],
            },
        });
        json!({"apiVersion": api, "kind": "DaemonSet", "spec": spec,
            "metadata": {"name": name, "namespace": chaos.bench.name}})
    };
    let sets = kinds(chaos.bench.nodes.len(), partition).map(set);
    chaos
        .bench
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": sets}));
}

/// A DaemonSet as it is stored. The API server may be on its way back.
fn get(chaos: &Chaos<'_>, name: &str) -> Option<Value> {
    let mut kinds = kinds(0, 0).into_iter();
    let (_, api, _) = kinds.find(|(other, ..)| *other == name)?;
    let namespace = chaos.bench.name;
    let path = format!("/apis/{api}/namespaces/{namespace}/daemonsets/{name}");
    chaos.api.get(&path).ok()
}

/// Pods of the template of now, as far as the statuses know it.
fn updated(chaos: &Chaos<'_>) -> u64 {
    let of = |name| {
        let set = get(chaos, name)?;
        let seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
        set["status"]["updatedNumberScheduled"]
            .as_u64()
            .filter(|_| seen)
    };
    names().filter_map(of).sum()
}

/// Waits until so many pods more are of the template of now, or nothing moves any more.
fn move_on(chaos: &mut Chaos<'_>, by: u64) {
    let before = updated(chaos);
    let mut last = (before, Instant::now());
    chaos.patiently("something moves, or nothing", |chaos| {
        chaos.return_nodes();
        let now = updated(chaos);
        if now != last.0 {
            last = (now, Instant::now());
        }
        now >= before + by || last.1.elapsed() >= STILL
    });
}

/// Whether each node has an available pod of the newest template, as the status says: not one of before the last node
/// was mended.
fn is_complete(set: &Value, nodes: usize) -> bool {
    let status = &set["status"];
    let all = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
    ]
    .iter()
    .all(|field| status[field] == nodes);
    let told = set["apiVersion"] == NATIVE_API || status["summary"] == "Complete";
    let seen = status["observedGeneration"] == set["metadata"]["generation"];
    all && told && seen
}

/// A user deletes the pods of the one that is updated by hand, until all are of the newest template.
fn delete_old(chaos: &Chaos<'_>) {
    let set = get(chaos, HELD).unwrap_or_default();
    let newest = &set["status"]["updateRevision"];
    let seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
    let namespace = chaos.bench.name;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let old = |pod: &Value| {
        let metadata = &pod["metadata"];
        let hash = &metadata["labels"]["controller-revision-hash"];
        hash != newest && metadata["deletionTimestamp"].is_null()
    };
    let held = chaos
        .api
        .list(&format!("{pods}?labelSelector=app%3D{HELD}"));
    for pod in held.iter().filter(|pod| seen && old(pod)) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let path = format!("{pods}/{name}");
        let _ = chaos.api.send(http::Method::DELETE, &path, &Value::Null);
    }
}

fn endure(form: &Form) {
    let mut config = Config::new(form.name).with_nodes(form.nodes);
    config.controller_manager_args = vec!["--controllers=*,-daemonset-controller".to_owned()];
    let cluster = lab::judged(config);
    let bench = lab::bench(&cluster, form.name);
    println!("seed {}", form.seed);
    let mut chaos = Chaos::start(&bench, form.seed, subject(form));
    let each = form.faults.iter();
    let mut faults: Vec<Fault> = each
        .flat_map(|(fault, times)| vec![*fault; *times])
        .collect();
    chaos.rng.shuffle(&mut faults);
    let start = Instant::now();
    let partition = form.nodes / 2;
    let rounds = faults.chunks(faults.len().div_ceil(form.edits.len()));
    for (edit, faults) in form.edits.iter().zip(rounds) {
        apply(&chaos, *edit, partition);
        println!("{:>6.1?} {edit:?}", start.elapsed());
        let pods = form.nodes * names().count();
        let by = (pods / (faults.len() + 1)) as u64;
        for fault in faults {
            move_on(&mut chaos, by);
            let elapsed = start.elapsed();
            println!(
                "{elapsed:>6.1?} {:>5} pods updated: {fault:?}",
                updated(&chaos)
            );
            chaos.inflict(*fault);
        }
        move_on(&mut chaos, by);
        chaos.heal();
    }
    // What users held back goes on.
    apply(&chaos, form.edits[form.edits.len() - 1], 0);
    let healed = Timestamp::now();
    println!("{:>6.1?} nothing fails any more", start.elapsed());
    chaos.patiently("all are complete", |chaos| {
        delete_old(chaos);
        chaos.bury();
        let sets: Vec<Value> = names().filter_map(|name| get(chaos, name)).collect();
        let nodes = chaos.api.list("/api/v1/nodes").len();
        let complete = |set| is_complete(set, nodes);
        sets.len() == names().count() && sets.iter().all(complete)
    });
    println!("{:>6.1?} all are complete", start.elapsed());
    let assumptions = Assumptions {
        // Watches break, and a process that was stopped goes on with what it saw before.
        lag: SignedDuration::from_secs(30),
        late_requests: true,
        healed: Some((healed, SignedDuration::try_from(HEAL).unwrap())),
        over: true,
        native: &[NATIVE],
        leaders: if form.both_lead { 2 } else { 1 },
        ..Assumptions::default()
    };
    proof::assert_no_violation(&cluster, &assumptions);
}

#[test]
fn daemon_sets_survive_one_of_each_fault() {
    endure(&SMALL);
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn daemon_sets_on_many_nodes_survive_everything() {
    endure(&FULL);
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn daemon_sets_survive_everything_while_two_lead_at_once() {
    endure(&BOTH);
}
