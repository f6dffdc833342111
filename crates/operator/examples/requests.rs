//! What the requests of a CronJob's run cost by themselves: the same five as the operator sends for
//! each Job of a native CronJob, over the same connections, and nothing else. No watch, no plan, no
//! log. What is left of the operator's CPU time is what could be saved without sending less.
//!
//! ```sh
//! cargo xtask cluster up --no-controller-manager --no-scheduler --nodes 0
//! eval "$(cargo xtask cluster env)"
//! cargo run --release -p carillon-operator --example requests -- 2000 16
//! ```
//!
//! Arguments: how many runs, and how many side by side. The cluster is that of `KUBECONFIG`;
//! its own controller for CronJobs must not run, for it writes the same statuses.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carillon_operator::apply::write;
use carillon_operator::clock::Clock;
use carillon_operator::gate::Kind;
use carillon_operator::kinds::cron_job::requests;
use carillon_operator::lease::Leadership;
use carillon_operator::metrics::Metrics;
use carillon_operator::request::{self, CreateMode};
use carillon_operator::transport::{self, BatchWindow, Transport};
use carillon_operator::writes::Writes;
use carillon_plan::object_key::NATIVE_CRON_JOB;
use carillon_plan::{ObjectKey, Uid};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";

fn main() -> Result<()> {
    let (runtime, window) = transport::runtime()?;
    runtime.block_on(measure(&window))
}

async fn measure(window: &BatchWindow) -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: usize| match arguments.next() {
        Some(text) => text
            .parse()
            .with_context(|| format!("{text:?} is no number")),
        None => Ok(otherwise),
    };
    let (runs, parallel) = (number(1000)?, number(16)?);
    let kubeconfig = std::env::var_os("KUBECONFIG").map(PathBuf::from);
    let config = transport::config(kubeconfig.as_deref()).await?;
    let transport = Transport::connect(&config, Metrics::new()?, window)?;
    let leadership = Leadership::always(Clock::system());
    let writes = Writes::new(transport, leadership, parallel);

    let prefix = format!("requests-{}", Timestamp::now().as_second());
    let crons: Vec<(Arc<ObjectKey>, u64)> = stream::iter(0..runs)
        .map(|number| cron_job(&writes, format!("{prefix}-{number}")))
        .buffered(parallel)
        .try_collect()
        .await?;
    let (begin, before) = (Instant::now(), cpu_time());
    stream::iter(&crons)
        .map(|cron| run(&writes, cron))
        .buffer_unordered(parallel)
        .try_collect::<()>()
        .await?;
    let (spent, wall) = (cpu_time().saturating_sub(before), begin.elapsed());
    println!(
        "{runs} runs of five requests, {parallel} side by side: {:.2} s CPU ({:.0} µs a request), {:.2} s wall",
        spent.as_secs_f64(),
        spent.as_secs_f64() * 1e6 / (5 * runs) as f64,
        wall.as_secs_f64(),
    );
    Ok(())
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

async fn cron_job(writes: &Writes, name: String) -> Result<(Arc<ObjectKey>, u64)> {
    let body = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": job()}},
    });
    let request = request::create(Kind::NativeCronJob, NAMESPACE, &body, CreateMode::Plain);
    let meta = write(writes, request, None).await?;
    let uid = meta.uid().context("a CronJob without uid")?;
    let owner = ObjectKey::of(NATIVE_CRON_JOB, NAMESPACE, name, uid);
    Ok((owner, meta.rv()))
}

fn job() -> Value {
    json!({
        "suspend": true,
        "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/none"}],
        }},
    })
}

/// Promise, Job, record, release, event.
async fn run(writes: &Writes, (owner, rv): &(Arc<ObjectKey>, u64)) -> Result<()> {
    let name = format!("{}-1", owner.name);
    let none = json!({});
    let active = |uid: Option<Uid>| {
        json!({"active": [{
            "apiVersion": "batch/v1", "kind": "Job", "namespace": NAMESPACE, "name": name,
            "uid": uid.map(|uid| uid.to_string()),
        }]})
    };
    let promise = request::write_status(Kind::NativeCronJob, owner, *rv, &none, active(None));
    let promised = write(writes, promise, None).await?;
    let body = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "ownerReferences": [owner.reference()],
            "finalizers": [carillon_api::names::FINALIZER_RUN_TRACKING],
        },
        "spec": job(),
    });
    let create = request::create(Kind::NativeJob, NAMESPACE, &body, CreateMode::Plain);
    let uid = write(writes, create, None).await?.uid();
    let uid = uid.context("a Job without uid")?;
    let mut recorded = active(Some(uid));
    recorded["lastScheduleTime"] = json!("2026-01-01T00:00:00Z");
    let record = request::write_status(
        Kind::NativeCronJob,
        owner,
        promised.rv(),
        &active(None),
        recorded,
    );
    write(writes, record, None).await?;
    write(writes, requests::release_job(NAMESPACE, &name, uid), None).await?;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "eventTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        "reportingController": "carillon.dev/example", "reportingInstance": "requests",
        "action": "Creating", "reason": "SuccessfulCreate", "type": "Normal",
        "note": format!("Created job {name}"),
        "regarding": {"apiVersion": "batch/v1", "kind": "CronJob", "namespace": NAMESPACE,
                      "name": owner.name, "uid": owner.uid.to_string()},
    });
    write(writes, request::create_event(NAMESPACE, &event), None).await?;
    Ok(())
}
