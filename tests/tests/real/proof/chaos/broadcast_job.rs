//! One job on many nodes while everything fails: nodes, the API server, and the operator itself.

use std::time::Instant;

use carillon_oracle::Assumptions;
use carillon_tests::lab::{self, is};
use carillon_tests::proof;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Chaos, Fault, HEAL, Subject};

/// How much goes wrong.
struct Form {
    name: &'static str,
    nodes: usize,
    parallelism: usize,
    /// Run times of pods, in tenths of a second.
    run_time: std::ops::RangeInclusive<u32>,
    /// Nodes whose pods run shorter or longer, or fail.
    special: usize,
    faults: &'static [(Fault, usize)],
    seed: u64,
}

const SMALL: Form = Form {
    name: "chaos-small",
    nodes: 60,
    parallelism: 6,
    run_time: 10..=30,
    special: 20,
    faults: &[
        (Fault::KillLeader, 1),
        (Fault::KillFollower, 1),
        (Fault::PauseLeader, 1),
        (Fault::KillApiServer, 1),
        (Fault::StopKubelets, 1),
        (Fault::NotReady, 1),
        (Fault::ReplaceNode, 1),
        (Fault::DeletePod, 2),
    ],
    seed: 1,
};

const FULL: Form = Form {
    name: "chaos",
    nodes: 1000,
    parallelism: 100,
    run_time: 20..=100,
    special: 100,
    faults: &[
        (Fault::KillLeader, 8),
        (Fault::KillFollower, 2),
        (Fault::PauseLeader, 1),
        (Fault::KillApiServer, 2),
        (Fault::StopKubelets, 4),
        (Fault::NotReady, 15),
        (Fault::ReplaceNode, 15),
        (Fault::DeletePod, 15),
    ],
    seed: 2,
};

const SUBJECT: Subject = Subject {
    look: job,
    works: |chaos| {
        let before = done(chaos);
        chaos.patiently("the job goes on", |chaos| done(chaos) > before);
    },
    args: &[],
    both_lead: false,
    through_proxy: false,
};

fn job(chaos: &Chaos<'_>) -> Value {
    let namespace = chaos.bench.name;
    let path = format!("/apis/carillon.dev/v1alpha1/namespaces/{namespace}/broadcastjobs/fix");
    // The API server may be on its way back.
    chaos.api.get(&path).unwrap_or_default()
}

fn done(chaos: &Chaos<'_>) -> u64 {
    let status = &job(chaos)["status"];
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    count("succeeded") + count("failed")
}

/// Waits until `count` nodes are done.
fn reach(chaos: &mut Chaos<'_>, count: u64) {
    chaos.patiently(&format!("{count} nodes are done"), |chaos| {
        chaos.return_nodes();
        done(chaos) >= count
    });
}

/// Run times from 2 to 10 s and failures, decided by a seed. Only some nodes are named: the table
/// is part of every pod.
fn fates(form: &Form, rng: &mut Rng) -> Value {
    let seconds = |tenths: u32| format!("{}ms", tenths * 100);
    let (shortest, longest) = (*form.run_time.start(), *form.run_time.end());
    let mut fates = json!({"*": {"run-time": seconds(u32::midpoint(shortest, longest))}});
    for _ in 0..form.special {
        let node = format!("node-{:04}", rng.usize(..form.nodes));
        let mut fate = json!({"run-time": seconds(rng.u32(form.run_time.clone()))});
        if rng.u8(..4) == 0 {
            fate["exit-code"] = json!(1 + rng.u8(..100));
        }
        fates[node] = fate;
    }
    fates
}

/// The faults of a form in an order decided by a seed. Nodes go in the first half: the job has to
/// run still when they are back.
fn schedule(form: &Form, rng: &mut Rng) -> Vec<Fault> {
    let each = form.faults.iter();
    let all = each.flat_map(|(fault, times)| vec![*fault; *times]);
    let (nodes, mut faults): (Vec<_>, Vec<_>) = all.partition(|fault| *fault == Fault::ReplaceNode);
    rng.shuffle(&mut faults);
    for fault in nodes {
        faults.insert(rng.usize(..=faults.len() / 2), fault);
    }
    faults
}

fn endure(form: &Form) {
    let cluster = lab::judged_cluster(form.name, form.nodes);
    let bench = lab::bench(&cluster, form.name);
    let mut rng = Rng::with_seed(form.seed);
    let fates = fates(form, &mut rng);
    let faults = schedule(form, &mut rng);
    println!("seed {}", form.seed);
    let mut chaos = Chaos::start(&bench, form.seed, SUBJECT);
    let start = Instant::now();
    let spec = json!({
        "parallelism": form.parallelism,
        "failurePolicy": {"type": "Continue"},
    });
    bench.apply(&bench.job("fix", &fates, &spec));
    for (index, fault) in faults.iter().enumerate() {
        // Spread over nine tenths of the run.
        let due = form.nodes * 9 * (index + 1) / 10 / (faults.len() + 1);
        reach(&mut chaos, due as u64);
        println!(
            "{:>6.1?} {:>5} nodes done: {fault:?}",
            start.elapsed(),
            done(&chaos)
        );
        chaos.inflict(*fault);
    }
    // The job must not complete without the nodes that are away or not ready for the moment.
    bench.patch("fix", &json!({"spec": {"paused": true}}));
    chaos.patiently("the job is paused", |chaos| is(&job(chaos), "Paused"));
    assert!(!is(&job(&chaos), "Complete"), "the job ran while it failed");
    chaos.heal();
    bench.patch("fix", &json!({"spec": {"paused": false}}));
    let healed = Timestamp::now();
    println!(
        "{:>6.1?} {:>5} nodes done: nothing fails any more",
        start.elapsed(),
        done(&chaos)
    );
    chaos.patiently("the job is complete", |chaos| is(&job(chaos), "Complete"));
    let job = job(&chaos);
    println!("{:>6.1?} complete: {}", start.elapsed(), job["status"]);
    assert_every_node_is_accounted_for(&chaos, &job);
    let assumptions = Assumptions {
        // Watches break, and a process that was stopped goes on with what it saw before.
        lag: SignedDuration::from_secs(30),
        late_requests: true,
        healed: Some((healed, SignedDuration::try_from(HEAL).unwrap())),
        over: true,
        ..Assumptions::default()
    };
    proof::assert_no_violation(&cluster, &assumptions);
}

/// Every node that there is has a result of its own, and the status counts them.
fn assert_every_node_is_accounted_for(chaos: &Chaos<'_>, job: &Value) {
    let results = chaos.bench.results("fix");
    let nodes = chaos.api.list("/api/v1/nodes");
    assert_eq!(nodes.len(), chaos.bench.nodes.len());
    for node in &nodes {
        let of = results
            .iter()
            .filter(|r| r["nodeUID"] == node["metadata"]["uid"]);
        let ended = of.filter(|r| r["state"] == "Succeeded" || r["state"] == "Failed");
        let name = &node["metadata"]["name"];
        assert_eq!(ended.count(), 1, "{name} has one outcome");
    }
    let count = |state: &str| json!(results.iter().filter(|r| r["state"] == state).count());
    for (field, state) in [("succeeded", "Succeeded"), ("failed", "Failed")] {
        assert_eq!(job["status"][field], count(state), "{field}");
    }
}

#[test]
fn a_job_survives_one_of_each_fault() {
    endure(&SMALL);
}

#[test]
#[ignore = "takes minutes; the proof runs it"]
fn a_job_on_a_thousand_nodes_survives_everything() {
    endure(&FULL);
}
