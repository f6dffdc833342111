//! Install, upgrade, uninstall.

use anyhow::Result;
use carillon_testbed::{Cluster, Config};
use carillon_tests::documented::Shell;
use serde_json::{Value, json};

use super::{INSTALL, README, create, get, items, running, until};

/// The block by which a release is installed.
pub(super) const RELEASE: &str =
    "helm install carillon charts/carillon --namespace carillon-system";

fn job(name: &str, namespace: &str, fate: &Value) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {
            "metadata": {"annotations": fate},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
        }},
    })
}

fn is_complete(cluster: &Cluster, name: &str, namespace: &str) -> Result<bool> {
    let job = get(
        cluster,
        &["broadcastjobs.carillon.dev", name, "-n", namespace],
    )?;
    Ok(job["status"]["phase"] == "completed")
}

fn crds(cluster: &Cluster) -> Result<usize> {
    let crds = items(&get(cluster, &["crds"])?);
    Ok(crds
        .iter()
        .filter(|crd| crd["spec"]["group"] == "carillon.dev")
        .count())
}

#[test]
fn a_release_is_installed_upgraded_and_removed_as_the_page_says() {
    one_release().unwrap();
}

fn one_release() -> Result<()> {
    let cluster = Cluster::start(Config::new("documented-install").with_nodes(3))?;
    let shell = Shell::new(&cluster)?;
    shell.run(INSTALL, RELEASE)?;
    assert!(
        shell
            .run(INSTALL, "helm test carillon")?
            .contains("Succeeded")
    );
    shell.run(INSTALL, "kubectl label namespace carillon-system")?;
    shell.run(
        README,
        "kubectl apply -f examples/broadcastjob-minimal.yaml",
    )?;
    let outcomes = shell.run(README, "kubectl get noderesultslices -l")?;
    let succeeded = outcomes.lines().filter(|line| line.contains("Succeeded"));
    assert_eq!(succeeded.count(), 3, "{outcomes}");
    shell.run(README, "kubectl apply -f examples/cronjob-broadcast.yaml")?;

    let upgrade = "helm upgrade carillon charts/carillon --namespace carillon-system --reset";
    shell.run(INSTALL, upgrade)?;
    assert!(is_complete(&cluster, "hello", "default")?);
    until(&cluster, "the runs have ended and are recorded", || {
        let cron = get(&cluster, &["ccj", "clean-images"])?;
        let jobs = items(&get(&cluster, &["broadcastjobs.carillon.dev"])?);
        let ended = |job: &Value| job["status"]["phase"] == "completed";
        Ok(cron["status"]["active"].is_null() && jobs.len() == 3 && jobs.iter().all(ended))
    })?;
    shell.run(INSTALL, "kubectl carillon uninstall --check")?;

    // While it runs, and after that at work.
    let first_way = "kubectl delete cronjobs.carillon.dev,broadcastjobs.carillon.dev --all";
    shell.run(INSTALL, first_way)?;
    assert_eq!(crds(&cluster)?, 4, "they stay");
    shell.run(INSTALL, RELEASE)?;
    let crds_by_hand = "kubectl apply --server-side --force-conflicts -f crds/";
    shell.run(INSTALL, crds_by_hand)?;
    create(
        &cluster,
        &job(
            "hangs",
            "default",
            &json!({"testbed.carillon.dev/fate": "hang"}),
        ),
    )?;
    until(&cluster, "its pods run", || {
        Ok(running(&cluster)?.len() == 3)
    })?;
    let second_way = "helm uninstall carillon --namespace carillon-system";
    let said = shell.run(INSTALL, second_way)?;
    assert!(said.contains("taken off 3 Pods"), "{said}");
    assert_eq!(running(&cluster)?.len(), 3, "pods that run go on");
    shell.run(INSTALL, "kubectl delete crd broadcastjobs.carillon.dev")?;
    until(&cluster, "all of it is gone", || {
        let pods = items(&get(&cluster, &["pods"])?);
        Ok(crds(&cluster)? == 0 && pods.is_empty())
    })
}

#[test]
fn two_releases_come_and_go_as_the_page_says() {
    two_releases().unwrap();
}

fn two_releases() -> Result<()> {
    let cluster = Cluster::start(Config::new("documented-two").with_nodes(2))?;
    let shell = Shell::new(&cluster)?;
    for served in ["team-a", "team-b"] {
        cluster.kubectl_ok(["create", "namespace", served])?;
    }
    shell.run(INSTALL, "helm install carillon-a charts/carillon")?;
    let run = |name: &str, namespace: &str| {
        create(&cluster, &job(name, namespace, &json!({})))?;
        until(&cluster, name, || is_complete(&cluster, name, namespace))
    };
    run("first", "team-a")?;
    run("second", "team-b")?;
    let the_one_with_crds = "kubectl carillon uninstall --check --namespace team-a";
    shell.run(INSTALL, the_one_with_crds)?;
    assert_eq!(crds(&cluster)?, 4);
    run("third", "team-b")?;
    let the_other = "kubectl carillon uninstall --check --namespace team-b";
    shell.run(INSTALL, the_other)?;
    assert_eq!(crds(&cluster)?, 4);
    Ok(())
}
