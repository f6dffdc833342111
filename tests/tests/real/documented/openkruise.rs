//! From OpenKruise, and back. Its operator does not run here: what it has made is made by hand.

use std::fs;

use anyhow::Result;
use carillon_testbed::{Cluster, Config};
use carillon_tests::documented::Shell;
use serde_json::{Value, json};

use super::install::RELEASE;
use super::{INSTALL, OPENKRUISE, create, get, items, owned, running, uids, until};

const THEIRS: &str = "apps.kruise.io/v1beta1";

/// Kinds of OpenKruise, which take any fields.
fn install_kinds(cluster: &Cluster) -> Result<()> {
    for (kind, plural) in [
        ("AdvancedCronJob", "advancedcronjobs"),
        ("BroadcastJob", "broadcastjobs"),
        ("DaemonSet", "daemonsets"),
    ] {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        create(
            cluster,
            &json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.apps.kruise.io")},
                "spec": {
                    "group": "apps.kruise.io", "scope": "Namespaced",
                    "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                    "versions": [{"name": "v1beta1", "served": true, "storage": true,
                        "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}],
                },
            }),
        )?;
        let crd = format!("crd/{plural}.apps.kruise.io");
        until(cluster, &format!("{kind} of OpenKruise is served"), || {
            let crd = get(cluster, &[&crd])?;
            let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
            Ok(conditions.any(|one| one["type"] == "Established" && one["status"] == "True"))
        })?;
    }
    Ok(())
}

fn work() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}})
}

#[test]
fn what_openkruise_runs_is_moved_and_back_as_the_page_says() {
    live().unwrap();
}

fn live() -> Result<()> {
    let cluster = Cluster::start(Config::new("documented-kruise").with_nodes(2))?;
    let shell = Shell::new(&cluster)?;
    install_kinds(&cluster)?;
    shell.run(INSTALL, RELEASE)?;

    let job = json!({"apiVersion": THEIRS, "kind": "BroadcastJob", "metadata": {"name": "fix"},
        "spec": {"template": work(), "completionPolicy": {"type": "Always"}}});
    // As a person writes it: keys in lines of their own.
    let yaml = serde_saphyr::to_string(&job)?;
    fs::write(shell.home().join("job.yaml"), yaml)?;
    shell.run(OPENKRUISE, "sed 's|^apiVersion: apps.kruise.io/")?;
    until(&cluster, "the BroadcastJob is complete", || {
        let job = get(&cluster, &["broadcastjobs.carillon.dev", "fix"])?;
        Ok(job["status"]["phase"] == "completed")
    })?;
    cron_jobs(&cluster, &shell)?;
    daemon_sets(&cluster, &shell)
}

fn cron_jobs(cluster: &Cluster, shell: &Shell<'_>) -> Result<()> {
    let spec = json!({"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "paused": false,
        "template": {"broadcastJobTemplate": {"spec": {"template": work()}}}});
    let theirs = json!({"apiVersion": THEIRS, "kind": "AdvancedCronJob", "spec": spec,
        "metadata": {"name": "sweep", "namespace": "default"}});
    create(cluster, &theirs)?;
    shell.run(
        OPENKRUISE,
        "kubectl get advancedcronjobs.apps.kruise.io/sweep",
    )?;
    until(cluster, "the CronJob has run", || {
        let cron = get(cluster, &["ccj", "sweep"])?;
        Ok(cron["status"]["lastSuccessfulTime"].is_string())
    })?;
    shell.run(OPENKRUISE, "kubectl get ccj/sweep")?;
    let back = get(cluster, &["advancedcronjobs.apps.kruise.io", "sweep"])?;
    let template = &back["spec"]["template"]["broadcastJobTemplate"]["spec"]["template"]["spec"];
    assert_eq!(template["containers"][0]["image"], "busybox");
    assert_eq!(back["spec"]["concurrencyPolicy"], "Forbid");
    assert!(back["spec"]["suspend"].is_null(), "{back}");
    assert!(items(&get(cluster, &["ccj"])?).is_empty());
    Ok(())
}

/// A pod of OpenKruise, which controls it, on a node.
fn their_pod(node: &str, uid: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("agent-{node}"), "labels": {"app": "agent"}, "ownerReferences": [{
            "apiVersion": THEIRS, "kind": "DaemonSet", "name": "agent", "uid": uid,
            "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "busybox"}]},
    })
}

fn daemon_sets(cluster: &Cluster, shell: &Shell<'_>) -> Result<()> {
    let theirs = json!({"apiVersion": THEIRS, "kind": "DaemonSet",
    "metadata": {"name": "agent", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        // Their pods are kept until somebody says otherwise.
        "updateStrategy": {"type": "OnDelete"},
        "template": {"metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]}},
    }});
    create(cluster, &theirs)?;
    let uid = get(cluster, &["daemonsets.apps.kruise.io", "agent"])?["metadata"]["uid"].clone();
    let nodes = items(&get(cluster, &["nodes"])?);
    for node in &nodes {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        create(cluster, &their_pod(name, &uid))?;
    }
    let agents = || {
        let mut pods = running(cluster)?;
        pods.retain(|pod| pod.name.starts_with("agent-"));
        Ok::<_, anyhow::Error>(pods)
    };
    until(cluster, "their pods run", || Ok(agents()?.len() == 2))?;
    let before = agents()?;

    shell.run(OPENKRUISE, "kubectl get daemonsets.apps.kruise.io/agent")?;
    until(cluster, "their pods are adopted", || {
        let set = get(cluster, &["cds", "agent"])?;
        let owned = owned(&agents()?, &set);
        Ok(owned == 2 && set["status"]["numberAvailable"] == 2)
    })?;
    shell.run(OPENKRUISE, "kubectl get cds/agent -o json > agent.json")?;
    let nobodys = || {
        let pods = agents()?;
        Ok(pods.iter().all(|pod| pod.owner.is_empty()))
    };
    until(cluster, "nobody controls them", nobodys)?;
    assert_eq!(uids(&agents()?), uids(&before), "each pod has stayed");
    let back = get(cluster, &["daemonsets.apps.kruise.io", "agent"])?;
    assert_eq!(back["spec"]["updateStrategy"]["type"], "OnDelete");
    Ok(())
}
