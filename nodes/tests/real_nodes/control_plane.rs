//! The operator and what it talks to go away while work is under way.

use std::thread::sleep;
use std::time::{Duration, Instant};

use carillon_testbed::Component;
use carillon_testbed::carillon::NAMESPACE;
use serde_json::json;

use crate::lab::{Lab, alone};
use crate::work::Work;

/// Waits until another pod leads than `before`, and prints after how long.
fn wait_taken_over(lab: &Lab, before: &str, how: &str) {
    let start = Instant::now();
    let next = lab.until("another replica leads", || {
        let leader = lab.leader();
        (leader != before && !leader.is_empty()).then_some(leader)
    });
    println!(
        "{how}: {next} leads after {:.1} s",
        start.elapsed().as_secs_f64()
    );
}

#[test]
fn a_leader_that_is_deleted_killed_or_evicted_is_followed_by_the_other_and_nothing_runs_twice() {
    let lab = alone();
    lab.wait_operators();
    for name in ["deleted", "killed", "evicted"] {
        let work = Work::start(&lab, name, 25, &json!({}));
        let leader = lab.leader();
        let delete = ["delete", "pod", &leader, "-n", NAMESPACE, "--wait=false"];
        match name {
            "deleted" => drop(lab.kubectl(&delete)),
            "killed" => {
                let now = ["--grace-period=0", "--force=true"];
                lab.kubectl(&[&delete[..], &now].concat());
            }
            _ => drop(lab.evict(&leader).unwrap()),
        }
        wait_taken_over(&lab, &leader, name);
        // Under the new one.
        work.broadcast("late", 0, &json!({}));
        work.bench.wait("late", "Complete");
        assert_eq!(work.runs("late"), [(1, 1); 3]);
        work.wait();
        work.assert_once();
        lab.wait_operators();
    }
}

#[test]
fn a_leader_whose_node_is_cut_off_is_followed_and_does_nothing_when_it_is_back() {
    let lab = alone();
    lab.wait_operators();
    let work = Work::start(&lab, "leader-cut", 30, &json!({}));
    let leader = lab.leader();
    let node = lab.get(&["pod", &leader, "-n", NAMESPACE])["spec"]["nodeName"].clone();
    let index = work
        .bench
        .nodes
        .iter()
        .position(|name| node == **name)
        .unwrap();
    lab.nodes().all()[index].cut_off().unwrap();
    wait_taken_over(&lab, &leader, "cut off");
    lab.until("the other nodes are served", || {
        (work.bench.get("fix")["status"]["succeeded"] == 2).then_some(())
    });
    lab.nodes().all()[index].reconnect().unwrap();
    work.wait();
    work.assert_once();
    lab.wait_nodes();
    lab.wait_operators();
}

#[test]
fn an_api_server_that_is_restarted_and_an_etcd_that_is_away_for_a_minute_lose_nothing() {
    let lab = alone();
    lab.wait_operators();
    let work = Work::start(&lab, "restarted", 20, &json!({}));
    lab.cluster.kill_apiserver().unwrap();
    sleep(Duration::from_secs(5));
    lab.cluster.start_apiserver().unwrap();
    work.wait();
    work.assert_once();

    lab.wait_operators();
    let work = Work::start(&lab, "no-etcd", 30, &json!({}));
    lab.cluster.kill(Component::Etcd).unwrap();
    sleep(Duration::from_mins(1));
    lab.cluster.restart(Component::Etcd).unwrap();
    work.wait();
    work.assert_once();
    lab.wait_nodes();
    lab.wait_operators();
}
