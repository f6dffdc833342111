//! What becomes of objects: created, changed, deleted, listed.

#![allow(clippy::unwrap_used)] // a test may panic

use std::time::Duration;

use carillon_sim::{Actor, Call, Delete, Propagation, Server, Status};
use serde_json::{Value, json};
use tokio::time::advance;

fn server() -> Server {
    Server::new("2026-01-01T00:00:00Z".parse().unwrap())
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn job(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}},
    })
}

fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> (u16, &'static str) {
    let status = result.unwrap_err();
    (status.code, status.reason)
}

fn user() -> Actor {
    server().actor("user")
}

#[tokio::test(start_paused = true)]
async fn a_new_object_gets_what_the_server_decides() {
    let user = user();
    advance(Duration::from_millis(1500)).await;
    let created = user.create("pods", "default", &pod("a")).unwrap();
    let meta = &created["metadata"];
    assert_eq!(meta["creationTimestamp"], "2026-01-01T00:00:01Z");
    assert_eq!(meta["namespace"], "default");
    assert_eq!(
        meta["resourceVersion"],
        user.server().revision().to_string()
    );
    assert_eq!(meta["uid"].as_str().unwrap().len(), 36);
    assert_eq!(created["status"], json!({"phase": "Pending"}));
    let again = user.create("pods", "default", &pod("a"));
    assert_eq!(refused(again), (409, "AlreadyExists"));
    let mut unnamed = pod("a");
    unnamed["metadata"] = json!({"generateName": "a-"});
    let named = user.create("pods", "default", &unnamed).unwrap();
    assert!(named["metadata"]["name"].as_str().unwrap().len() > 2);
    assert_eq!(
        refused(user.create("pods", "absent", &pod("a"))),
        (404, "NotFound")
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let user = user();
    let before = user.server().revision();
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let mut object = pod("a");
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Pod");
    let answer = user.send(&http::Method::POST, path, "application/json", Some(&object));
    assert_eq!(answer.unwrap()["metadata"]["name"], "a");
    assert_eq!(user.server().revision(), before);
    assert_eq!(refused(user.get("pods", "default", "a")), (404, "NotFound"));
}

#[tokio::test(start_paused = true)]
async fn an_update_of_an_old_version_is_a_conflict_and_one_of_nothing_is_none() {
    let user = user();
    let old = user.create("pods", "default", &pod("a")).unwrap();
    let label = |value: &str| json!({"metadata": {"labels": {"x": value}}});
    let new = user
        .patch_merge("pods", "default", "a", &label("1"))
        .unwrap();
    assert_ne!(
        new["metadata"]["resourceVersion"],
        old["metadata"]["resourceVersion"]
    );
    let same = user
        .patch_merge("pods", "default", "a", &label("1"))
        .unwrap();
    assert_eq!(same, new);
    assert_eq!(refused(user.update(&old)), (409, "Conflict"));
    let mut patch = label("2");
    patch["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    let stale = user.patch_merge("pods", "default", "a", &patch);
    assert_eq!(refused(stale), (409, "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn another_objects_uid_is_a_conflict_in_a_put_and_invalid_in_a_patch() {
    let user = user();
    let mut object = (*user.create("pods", "default", &pod("a")).unwrap()).clone();
    object["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    assert_eq!(refused(user.update(&object)), (409, "Conflict"));
    let patch = json!({"metadata": {"uid": object["metadata"]["uid"]}});
    let patched = user.patch_strategic("pods", "default", "a", &patch);
    assert_eq!(refused(patched), (422, "Invalid"));
}

#[tokio::test(start_paused = true)]
async fn spec_and_status_are_written_apart() {
    let user = user();
    let mut object = job("a");
    object["status"] = json!({"active": 7});
    let created = user.create("broadcastjobs", "default", &object).unwrap();
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["status"]["observedGeneration"], -1);
    assert_eq!(created["status"]["active"], 0);
    let both = json!({"spec": {"paused": true}, "status": {"active": 7}});
    let changed = user
        .patch_merge("broadcastjobs", "default", "a", &both)
        .unwrap();
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["status"]["active"], 0);
    let status = json!({"active": 1});
    let told = user
        .patch_status("broadcastjobs", "default", "a", &status)
        .unwrap();
    assert_eq!(told["metadata"]["generation"], 2);
    assert_eq!(told["status"]["active"], 1);
    // The schema's defaults.
    assert_eq!(told["status"]["conditions"], json!([]));
    let mut spec = (*told).clone();
    spec["spec"]["paused"] = json!(false);
    let told = user.update_status(&spec).unwrap();
    assert_eq!(told["spec"]["paused"], true);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_finalizer_stays_until_it_goes() {
    let user = user();
    let mut object = job("a");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    user.create("broadcastjobs", "default", &object).unwrap();
    let marked = user
        .delete("broadcastjobs", "default", "a", &Delete::default())
        .unwrap();
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(marked["metadata"]["generation"], 2);
    let revision = user.server().revision();
    user.delete("broadcastjobs", "default", "a", &Delete::default())
        .unwrap();
    assert_eq!(user.server().revision(), revision);
    let more = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let added = user.patch_merge("broadcastjobs", "default", "a", &more);
    assert_eq!(refused(added), (422, "Invalid"));
    let none = json!({"metadata": {"finalizers": null}});
    user.patch_merge("broadcastjobs", "default", "a", &none)
        .unwrap();
    assert_eq!(
        refused(user.get("broadcastjobs", "default", "a")),
        (404, "NotFound")
    );
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_is_given_time_that_can_only_get_shorter() {
    let user = user();
    user.create("pods", "default", &pod("a")).unwrap();
    user.bind("default", "a", "n").unwrap();
    assert_eq!(refused(user.bind("default", "a", "m")), (409, "Conflict"));
    let marked = user
        .delete("pods", "default", "a", &Delete::default())
        .unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:30Z"
    );
    let of = |seconds| Delete {
        grace: Some(seconds),
        ..Delete::default()
    };
    let longer = user.delete("pods", "default", "a", &of(60)).unwrap();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 30);
    let shorter = user.delete("pods", "default", "a", &of(5)).unwrap();
    assert_eq!(
        shorter["metadata"]["deletionTimestamp"],
        "2026-01-01T00:00:05Z"
    );
    user.delete("pods", "default", "a", &Delete::now()).unwrap();
    assert_eq!(refused(user.get("pods", "default", "a")), (404, "NotFound"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_no_kubelet_runs_is_gone_at_once() {
    let user = user();
    user.create("pods", "default", &pod("unbound")).unwrap();
    user.create("pods", "default", &pod("ended")).unwrap();
    user.bind("default", "ended", "n").unwrap();
    user.patch_status("pods", "default", "ended", &json!({"phase": "Failed"}))
        .unwrap();
    for name in ["unbound", "ended"] {
        user.delete("pods", "default", name, &Delete::default())
            .unwrap();
        assert_eq!(
            refused(user.get("pods", "default", name)),
            (404, "NotFound")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_another_state_is_a_conflict() {
    let user = user();
    let created = user.create("pods", "default", &pod("a")).unwrap();
    let text = |field: &str| created["metadata"][field].as_str().map(str::to_owned);
    let wrong_uid = Delete {
        uid: Some("other".into()),
        ..Delete::default()
    };
    let old = Delete {
        resource_version: Some("1".into()),
        ..Delete::default()
    };
    for how in [wrong_uid, old] {
        let deleted = user.delete("pods", "default", "a", &how);
        assert_eq!(refused(deleted), (409, "Conflict"));
    }
    let right = Delete {
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..Delete::default()
    };
    user.delete("pods", "default", "a", &right).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_policy_for_dependents_is_a_finalizer_until_they_are_seen_to() {
    let user = user();
    for (name, how, finalizer) in [
        ("a", Propagation::Foreground, "foregroundDeletion"),
        ("b", Propagation::Orphan, "orphan"),
    ] {
        user.create("broadcastjobs", "default", &job(name)).unwrap();
        let marked = user.delete("broadcastjobs", "default", name, &Delete::with(how));
        assert_eq!(
            marked.unwrap()["metadata"]["finalizers"],
            json!([finalizer])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_of_one_revision_even_page_by_page() {
    let user = user();
    for name in ["a", "b", "c"] {
        user.create("pods", "default", &pod(name)).unwrap();
    }
    let get = |query: &str| {
        let path = format!("/api/v1/namespaces/default/pods?{query}");
        user.send(&http::Method::GET, &path, "", None)
    };
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = get("limit=2").unwrap();
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a".into(), "b".into()], &json!(1))
    );
    user.create("pods", "default", &pod("d")).unwrap();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&format!("limit=2&continue={}", token.replace('/', "%2F"))).unwrap();
    assert_eq!(names(&second), ["c"]);
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let old = format!(
        "resourceVersion={}&resourceVersionMatch=Exact",
        user.server().revision() - 1
    );
    assert_eq!(names(&get(&old).unwrap()), ["a", "b", "c"]);
    user.server().compact(user.server().revision());
    assert_eq!(refused(get(&old)), (410, "Expired"));
    assert_eq!(refused(get("resourceVersion=999")), (504, "Timeout"));
    assert_eq!(user.list("pods", "", "app=a").unwrap().len(), 4);
    assert_eq!(user.list("pods", "default", "app!=a").unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn admission_sees_what_is_to_be_created_and_may_refuse_it() {
    let user = user();
    user.server()
        .set_admission(|call: &Call, object: &mut Value| {
            if call.resource() != "pods" {
                return Ok(());
            }
            if object["metadata"]["name"] == "b" {
                return Err(Status::forbidden("pods", &call.name, "exceeded quota: q"));
            }
            object["metadata"]["labels"]["admitted"] = json!("yes");
            Ok(())
        });
    let created = user.create("pods", "default", &pod("a")).unwrap();
    assert_eq!(created["metadata"]["labels"]["admitted"], "yes");
    let status = user.create("pods", "default", &pod("b")).unwrap_err();
    assert_eq!(status.message, "pods \"b\" is forbidden: exceeded quota: q");
    user.server().clear_admission();
    user.create("pods", "default", &pod("b")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_nothing_new_once_it_is_deleted() {
    let user = user();
    user.create("namespaces", "", &json!({"metadata": {"name": "ns"}}))
        .unwrap();
    user.delete("namespaces", "", "ns", &Delete::default())
        .unwrap();
    let status = user.create("pods", "ns", &pod("a")).unwrap_err();
    assert_eq!(
        (status.code, &status.details["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    user.finalize_namespace("ns").unwrap();
    assert_eq!(refused(user.get("namespaces", "", "ns")), (404, "NotFound"));
}

#[tokio::test(start_paused = true)]
async fn the_history_says_who_did_what_and_when() {
    let user = user();
    user.create("pods", "default", &pod("a")).unwrap();
    advance(Duration::from_secs(7)).await;
    user.delete("pods", "default", "a", &Delete::default())
        .unwrap();
    let history = user.server().history();
    let steps: Vec<_> = history
        .steps
        .iter()
        .filter(|step| &*step.key.resource == "pods")
        .collect();
    // A pod without time to end is marked first, as by a real server.
    assert_eq!(steps.len(), 3);
    assert!(
        history
            .steps
            .windows(2)
            .all(|pair| pair[0].rev + 1 == pair[1].rev)
    );
    let by = steps[2].by.as_ref().unwrap();
    assert_eq!((&*by.user, &*by.verb), ("user", "delete"));
    assert_eq!(by.uri, "/api/v1/namespaces/default/pods/a");
    assert_eq!(steps[2].at.to_string(), "2026-01-01T00:00:07Z");
    assert!(steps[2].new.is_none() && steps[0].old.is_none());
    assert_eq!(steps[1].old, steps[0].new);
}
