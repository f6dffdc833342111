//! The history of a cluster.

use anyhow::Result;
use carillon_testbed::{Cluster, Config};
use serde_json::Value;

#[test]
fn every_change_since_the_first_revision_is_told_in_order() -> Result<()> {
    let cluster = Cluster::start(Config::new("history"))?;
    cluster.kubectl_ok(["create", "configmap", "told"])?;
    cluster.kubectl_ok(["label", "configmap", "told", "a=b"])?;
    cluster.kubectl_ok(["delete", "configmap", "told"])?;
    let last = cluster.revision()?;
    let mut events: Vec<(u64, bool)> = Vec::new();
    let mut revisions: Vec<u64> = Vec::new();
    cluster.watch_lines(last, |line| {
        let answer: Value = serde_json::from_str(line)?;
        for event in answer["result"]["events"].as_array().into_iter().flatten() {
            let kv = &event["kv"];
            let revision = kv["mod_revision"].as_str().unwrap_or_default().parse()?;
            revisions.push(revision);
            // base64 of /registry/configmaps/default/told
            if kv["key"] == "L3JlZ2lzdHJ5L2NvbmZpZ21hcHMvZGVmYXVsdC90b2xk" {
                events.push((revision, event["type"] == "DELETE"));
            }
        }
        Ok(())
    })?;
    assert!(revisions.is_sorted());
    assert!(revisions.first() < Some(&10), "from the beginning");
    assert!(revisions.last() >= Some(&last));
    let deleted: Vec<bool> = events.iter().map(|(_, deleted)| *deleted).collect();
    assert_eq!(deleted, [false, false, true]);
    Ok(())
}
