//! What the garbage collector does with dependents.

#![allow(clippy::unwrap_used)] // a test may panic

use std::time::Duration;

use carillon_sim::actors::garbage_collector;
use carillon_sim::{Actor, Delete, Propagation, Server};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::sleep;

const DELAY: Duration = Duration::from_millis(100);

/// A job with two pods, of which one has a finalizer.
fn family(user: &Actor) {
    let job = json!({"metadata": {"name": "job"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
    }}}});
    let job = user.create("broadcastjobs", "default", &job).unwrap();
    for (name, finalizers) in [("plain", json!([])), ("held", json!(["example.com/a"]))] {
        let pod = json!({
            "metadata": {"name": name, "finalizers": finalizers, "ownerReferences": [{
                "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob", "name": "job",
                "uid": job["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
            }]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        user.create("pods", "default", &pod).unwrap();
    }
}

async fn delete(how: Propagation, then: impl AsyncFnOnce(&Actor)) {
    let server = Server::new("2026-01-01T00:00:00Z".parse().unwrap());
    let user = server.actor("user");
    let tasks = LocalSet::new();
    tasks.spawn_local(garbage_collector::run(server, DELAY));
    tasks
        .run_until(async {
            family(&user);
            sleep(10 * DELAY).await;
            assert_eq!(names(&user), ["held", "plain"]);
            user.delete("broadcastjobs", "default", "job", &Delete::with(how))
                .unwrap();
            sleep(10 * DELAY).await;
            then(&user).await;
        })
        .await;
}

fn names(user: &Actor) -> Vec<String> {
    let pods = user.list("pods", "default", "").unwrap();
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    pods.iter().map(|pod| name(pod)).collect()
}

fn release(user: &Actor) {
    let none = json!({"metadata": {"finalizers": null}});
    user.patch_merge("pods", "default", "held", &none).unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none() {
    let server = Server::new("2026-01-01T00:00:00Z".parse().unwrap());
    let user = server.actor("user");
    family(&user);
    let namespace = json!({"metadata": {"name": "evil"}});
    user.create("namespaces", "", &namespace).unwrap();
    for (name, finalizers) in [("plain", json!([])), ("held", json!(["example.com/a"]))] {
        let pod = user.get("pods", "default", name).unwrap();
        let copy = json!({"metadata": {
            "name": name, "finalizers": finalizers,
            "ownerReferences": pod["metadata"]["ownerReferences"],
        }, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        user.create("pods", "evil", &copy).unwrap();
    }
    while garbage_collector::collect(&user) {}
    assert_eq!(names(&user), ["held", "plain"]);
    assert!(user.get("pods", "evil", "plain").is_err());
    let held = user.get("pods", "evil", "held").unwrap();
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    // Nor does a foreground deletion wait for it.
    let foreground = Delete::with(Propagation::Foreground);
    user.delete("broadcastjobs", "default", "job", &foreground)
        .unwrap();
    while garbage_collector::collect(&user) {}
    release(&user);
    while garbage_collector::collect(&user) {}
    assert!(user.get("broadcastjobs", "default", "job").is_err());
    assert!(user.get("pods", "evil", "held").is_ok());
}

#[tokio::test(start_paused = true)]
async fn in_the_background_dependents_go_after_their_owner() {
    delete(Propagation::Background, async |user| {
        assert_eq!(
            user.get("broadcastjobs", "default", "job")
                .unwrap_err()
                .code,
            404
        );
        assert_eq!(names(user), ["held"]);
        let held = user.get("pods", "default", "held").unwrap();
        assert!(held["metadata"]["deletionTimestamp"].is_string());
        release(user);
        assert!(names(user).is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_an_owner_waits_for_its_dependents() {
    delete(Propagation::Foreground, async |user| {
        assert_eq!(names(user), ["held"]);
        user.get("broadcastjobs", "default", "job").unwrap();
        release(user);
        sleep(10 * DELAY).await;
        assert_eq!(
            user.get("broadcastjobs", "default", "job")
                .unwrap_err()
                .code,
            404
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_their_owner_and_stay() {
    delete(Propagation::Orphan, async |user| {
        assert_eq!(
            user.get("broadcastjobs", "default", "job")
                .unwrap_err()
                .code,
            404
        );
        assert_eq!(names(user), ["held", "plain"]);
        let plain = user.get("pods", "default", "plain").unwrap();
        assert_eq!(plain["metadata"].get("ownerReferences"), None);
    })
    .await;
}
