//! Objects of a megabyte, made when they are asked for.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// Who serves an object.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Us,
    SomebodyElse,
}

/// So many objects of a kind.
#[derive(Clone, Copy)]
pub(crate) struct Objects {
    pub(crate) count: usize,
    pub(crate) plural: &'static str,
    pub(crate) make: fn(usize) -> String,
}

pub(crate) fn jobs(count: usize, owner: Owner) -> Objects {
    Objects {
        count,
        plural: "jobs",
        make: match owner {
            Owner::Us => |n| job(n, "carillon.dev/job-controller"),
            Owner::SomebodyElse => |n| job(n, "example.com/another"),
        },
    }
}

/// A container with a megabyte of small things, which are dearest to keep parsed.
static TEMPLATE: LazyLock<String> = LazyLock::new(|| {
    let env: Vec<Value> = (0..17_000)
        .map(
            |n| json!({"name": format!("SETTING_{n:05}"), "value": format!("value of number {n}")}),
        )
        .collect();
    json!({
        "metadata": {"labels": {"app": "large"}},
        "spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/large:1", "env": env}]},
    })
    .to_string()
});

fn metadata(n: usize) -> Value {
    let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}");
    json!({
        "name": format!("large-{n}"), "namespace": "ops", "uid": uid, "generation": 1,
        "resourceVersion": (n + 1).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:template": {}}}}],
    })
}

fn job(n: usize, managed_by: &str) -> String {
    let metadata = metadata(n);
    let uid = &metadata["uid"];
    let spec = json!({
        "managedBy": managed_by, "parallelism": 1, "completions": 1, "backoffLimit": 6,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": "TEMPLATE",
    });
    with_template(&json!({"metadata": metadata, "spec": spec, "status": {}}))
}

pub(crate) fn broadcast_jobs(count: usize) -> Objects {
    Objects {
        count,
        plural: "broadcastjobs",
        make: |n| large(&json!({"metadata": metadata(n), "spec": {"template": pod()}})),
    }
}

/// The CronJobs of one API are those of the other, too.
pub(crate) fn cron_jobs(count: usize) -> Objects {
    let make = |n| {
        let template = json!({"spec": {"template": pod()}});
        let spec = json!({"schedule": "0 0 1 1 *", "jobTemplate": template});
        large(&json!({"metadata": metadata(n), "spec": spec}))
    };
    Objects {
        count,
        plural: "cronjobs",
        make,
    }
}

/// A template with one text that is a megabyte.
fn pod() -> Value {
    json!({"spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/large:1", "args": ["TEXT"]}]}})
}

fn large(object: &Value) -> String {
    object.to_string().replace("TEXT", &"x".repeat(1 << 20))
}

fn with_template(object: &Value) -> String {
    object.to_string().replace("\"TEMPLATE\"", &TEMPLATE)
}
