//! The test bed against itself: what pods do, what parts survive, and that nothing is left running.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use carillon_testbed::{Cluster, Component, Config, Fate, Prometheus, Signal, fate, http, wait};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(100);

/// In a static, so never dropped: the watchdog ends it with this test binary.
fn shared() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(Config::new("testbed").with_nodes(10)).expect("the cluster starts")
    })
}

/// A pod bound to a node, so that its fate does not depend on the scheduler.
fn pod(name: &str, node: &str, restart_policy: &str, fate: &Fate) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": fate.annotations()},
        "spec": {
            "nodeName": node,
            "restartPolicy": restart_policy,
            "containers": [{"name": "main", "image": "none"}],
        },
    })
}

fn create(cluster: &Cluster, objects: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    cluster.kubectl_stdin(["create", "-f", "-"], &list.to_string())?;
    Ok(())
}

fn get(cluster: &Cluster, name: &str) -> Result<Option<Value>> {
    let text = cluster.kubectl_ok(["get", "--ignore-not-found", "--output=json", name])?;
    if text.trim().is_empty() {
        Ok(None)
    } else {
        Ok(Some(serde_json::from_str(&text)?))
    }
}

fn wait_for(
    cluster: &Cluster,
    name: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let mut last = None;
    let found = wait::until(
        &format!("{name}: {what}"),
        LIMIT,
        EVERY,
        || {
            last = get(cluster, name)?;
            Ok(last.clone().filter(|object| is(object)))
        },
        String::new,
    );
    found.with_context(|| format!("last seen: {}", last.unwrap_or_default()["status"]))
}

/// Waits until every pod is in a phase.
fn wait_for_all(cluster: &Cluster, phase: &str) -> Result<()> {
    let others = format!("--field-selector=status.phase!={phase}");
    let left = |output| cluster.kubectl_ok(["get", "pods", &others, output]);
    let none_left = || Ok(left("--output=name")?.is_empty().then_some(()));
    let what = format!("all pods are {phase}");
    let hint = || left("--output=wide").unwrap_or_default();
    wait::until(&what, LIMIT, EVERY, none_left, hint)
}

fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn ready(object: &Value) -> &str {
    let conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready
        .next()
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or("absent")
}

#[test]
fn a_native_job_of_twenty_pods_completes() -> Result<()> {
    let cluster = shared();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "twenty"},
        "spec": {"completions": 20, "parallelism": 20, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none"}],
        }}},
    });
    create(cluster, &[job])?;
    let job = wait_for(cluster, "job/twenty", "complete", |job| {
        job["status"]["completionTime"].is_string()
    })?;
    assert_eq!(job["status"]["succeeded"], 20);
    let events = cluster.audit_events()?;
    let created = events.iter().filter(|event| {
        event.is_stored_write()
            && (event.verb.as_str(), event.resource.as_str()) == ("create", "pods")
            && event.subresource.is_empty()
            && event.user.ends_with(":job-controller")
    });
    assert_eq!(
        created.count(),
        20,
        "the audit log names who created the pods"
    );
    Ok(())
}

/// With a watch at resourceVersion 0 it is told of all pods anew, each time that a watch ends.
#[test]
fn kwok_watches_pods_from_where_it_stopped() -> Result<()> {
    let cluster = shared();
    let watches = wait::until(
        "kwok watches pods",
        LIMIT,
        EVERY,
        || {
            let mut events = cluster.audit_events()?;
            events.retain(|event| {
                (event.user.as_str(), event.verb.as_str()) == ("kwok", "watch")
                    && event.resource == "pods"
            });
            Ok(Some(events).filter(|events| !events.is_empty()))
        },
        String::new,
    )?;
    for watch in watches {
        let from = watch
            .request_uri
            .split(['?', '&'])
            .find_map(|parameter| parameter.strip_prefix("resourceVersion="))
            .with_context(|| format!("a watch from anywhere: {}", watch.request_uri))?;
        assert_ne!(from, "0", "{}", watch.request_uri);
    }
    Ok(())
}

#[test]
fn pods_of_one_template_meet_the_fate_of_their_node() -> Result<()> {
    let cluster = shared();
    let table = fate::table([
        ("node-0000", Fate::exits(3, "disk \"full\": 100%\n")),
        ("node-0001", Fate::hangs()),
        ("node-0002", Fate::never_starts("ImagePullBackOff")),
        ("node-0003", Fate::default().with("exit-code", 0)),
        ("fate-4", Fate::exits(4, "by name")),
    ]);
    let template = Fate::exits(9, "others").with("fates", table);
    let pods: Vec<_> = (0..6)
        .map(|n| {
            pod(
                &format!("fate-{n}"),
                &format!("node-000{n}"),
                "Never",
                &template,
            )
        })
        .collect();
    create(cluster, &pods)?;
    let ended = |name: &str| -> Result<(String, Value)> {
        let pod = wait_for(cluster, name, "ended", |pod| {
            pod["status"]["phase"] == "Failed" || pod["status"]["phase"] == "Succeeded"
        })?;
        let phase = pod["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(pod["status"]["podIP"].is_string(), "{pod}");
        assert_eq!(ready(&pod), "False");
        Ok((phase, container(&pod)["state"]["terminated"].clone()))
    };
    let (phase, state) = ended("pod/fate-0")?;
    assert_eq!((phase.as_str(), &state["exitCode"]), ("Failed", &json!(3)));
    assert_eq!(state["message"], "disk \"full\": 100%\n");
    assert_eq!(state["reason"], "Error");
    let (phase, state) = ended("pod/fate-3")?;
    assert_eq!(
        (phase.as_str(), &state["exitCode"]),
        ("Succeeded", &json!(0))
    );
    assert_eq!(state["reason"], "Completed");
    assert_eq!(ended("pod/fate-4")?.1["message"], "by name");
    assert_eq!(ended("pod/fate-5")?.1["exitCode"], 9);
    let hangs = get(cluster, "pod/fate-1")?.context("fate-1 is there")?;
    assert_eq!(
        (&hangs["status"]["phase"], ready(&hangs)),
        (&json!("Running"), "True")
    );
    let waits = get(cluster, "pod/fate-2")?.context("fate-2 is there")?;
    assert_eq!(waits["status"]["phase"], "Pending");
    assert_eq!(
        container(&waits)["state"]["waiting"]["reason"],
        "ImagePullBackOff"
    );
    Ok(())
}

#[test]
fn failing_containers_are_restarted() -> Result<()> {
    let cluster = shared();
    let fast = |fate: Fate| {
        fate.with("run-time", "100ms")
            .with("restart-delay", "200ms")
    };
    let twice = fast(Fate::exits(7, "again")).with("restarts", 2);
    create(
        cluster,
        &[
            pod(
                "loops",
                "node-0003",
                "OnFailure",
                &fast(Fate::crash_loops(5)),
            ),
            pod("recovers", "node-0003", "OnFailure", &twice),
            pod("daemon", "node-0003", "Always", &Fate::default()),
        ],
    )?;
    let pod = wait_for(cluster, "pod/recovers", "ended", |pod| {
        pod["status"]["phase"] == "Succeeded"
    })?;
    assert_eq!(container(&pod)["restartCount"], 2);
    assert_eq!(container(&pod)["state"]["terminated"]["exitCode"], 0);
    let pod = wait_for(
        cluster,
        "pod/loops",
        "in back-off after two restarts",
        |pod| {
            container(pod)["restartCount"].as_u64() >= Some(2)
                && container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        },
    )?;
    assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 5);
    assert_eq!(
        (&pod["status"]["phase"], ready(&pod)),
        (&json!("Running"), "False")
    );
    let pod = wait_for(cluster, "pod/loops", "running after a restart", |pod| {
        container(pod)["state"]["running"].is_object()
    })?;
    assert_eq!(container(&pod)["lastState"]["terminated"]["exitCode"], 5);
    let pod = get(cluster, "pod/daemon")?.context("daemon is there")?;
    assert_eq!(
        pod["status"]["phase"], "Running",
        "restartPolicy Always runs for ever"
    );
    Ok(())
}

#[test]
fn a_run_time_is_kept_although_the_pod_is_changed_meanwhile() -> Result<()> {
    let cluster = shared();
    let fate = Fate::default().with("run-time", "3s");
    create(cluster, &[pod("touched", "node-0004", "Never", &fate)])?;
    wait_for(cluster, "pod/touched", "running", |pod| {
        pod["status"]["phase"] == "Running"
    })?;
    let start = Instant::now();
    while get(cluster, "pod/touched")?.context("there")?["status"]["phase"] == "Running" {
        let label = format!("at={}", start.elapsed().as_millis());
        cluster.kubectl_ok(["label", "--overwrite", "pod/touched", &label])?;
        ensure!(start.elapsed() < LIMIT, "each change started the time anew");
    }
    let took = start.elapsed().as_secs_f64();
    assert!((2.0..4.5).contains(&took), "{took}s");
    Ok(())
}

#[test]
fn a_deleted_pod_is_stopped_and_stays_while_it_has_a_finalizer() -> Result<()> {
    let cluster = shared();
    let hold = |mut pod: Value| {
        pod["metadata"]["finalizers"] = json!(["testbed.carillon.dev/hold"]);
        pod
    };
    let slow = Fate::hangs().with("termination-time", "3s");
    let late = Fate::hangs().with("termination-time", "10m");
    create(
        cluster,
        &[
            hold(pod("held", "node-0005", "Never", &Fate::hangs())),
            hold(pod("slow", "node-0005", "Always", &slow)),
            hold(pod(
                "pending",
                "node-0005",
                "Never",
                &Fate::never_starts("Creating"),
            )),
            pod("killed", "node-0005", "Never", &late),
            pod("plain", "node-0005", "Never", &Fate::hangs()),
        ],
    )?;
    for name in ["pod/held", "pod/slow", "pod/killed", "pod/plain"] {
        wait_for(cluster, name, "running", |pod| ready(pod) == "True")?;
    }
    let start = Instant::now();
    cluster.kubectl_ok([
        "delete",
        "--wait=false",
        "pod",
        "held",
        "slow",
        "pending",
        "plain",
    ])?;
    cluster.kubectl_ok([
        "delete",
        "--wait=false",
        "--grace-period=2",
        "pod",
        "killed",
    ])?;
    for (name, code) in [("pod/held", 143), ("pod/pending", 143)] {
        let pod = wait_for(cluster, name, "stopped", |pod| {
            pod["status"]["phase"] == "Failed"
        })?;
        assert_eq!(container(&pod)["state"]["terminated"]["exitCode"], code);
    }
    assert_eq!(
        get(cluster, "pod/slow")?.context("there")?["status"]["phase"],
        "Running"
    );
    let gone = |name: &str| {
        let probe = || Ok(get(cluster, name)?.is_none().then_some(()));
        wait::until(&format!("{name} gone"), LIMIT, EVERY, probe, String::new)
    };
    gone("pod/plain")?;
    wait_for(cluster, "pod/slow", "stopped", |pod| {
        pod["status"]["phase"] == "Failed"
    })?;
    let took = start.elapsed().as_secs_f64();
    assert!((3.0..6.0).contains(&took), "{took}s");
    gone("pod/killed")?;
    for name in ["pod/held", "pod/slow", "pod/pending"] {
        let pod = wait_for(cluster, name, "released by the kubelet", |pod| {
            pod["metadata"]["deletionGracePeriodSeconds"] == 0
        })?;
        assert!(pod["metadata"]["finalizers"].is_array());
        cluster.kubectl_ok([
            "patch",
            name,
            "--type=merge",
            "--patch={\"metadata\":{\"finalizers\":null}}",
        ])?;
        gone(name)?;
    }
    Ok(())
}

#[test]
fn a_node_becomes_not_ready_and_ready_again() -> Result<()> {
    let cluster = shared();
    let tainted = |node: &Value| node["spec"]["taints"].to_string().contains("not-ready");
    cluster.set_node_ready("node-0008", false)?;
    wait_for(cluster, "node/node-0008", "tainted", tainted)?;
    cluster.set_node_ready("node-0008", true)?;
    wait_for(cluster, "node/node-0008", "not tainted", |node| {
        !tainted(node)
    })?;
    Ok(())
}

#[test]
fn a_stopped_kubelet_does_nothing_until_it_is_started() -> Result<()> {
    let cluster = shared();
    cluster.stop_kubelets(&["node-0009"])?;
    create(
        cluster,
        &[pod("frozen", "node-0009", "Never", &Fate::default())],
    )?;
    // Another node's pod is through in the meantime.
    create(
        cluster,
        &[pod("other", "node-0007", "Never", &Fate::default())],
    )?;
    wait_for(cluster, "pod/other", "ended", |pod| {
        pod["status"]["phase"] == "Succeeded"
    })?;
    let frozen = get(cluster, "pod/frozen")?.context("there")?;
    assert_eq!(
        (&frozen["status"]["phase"], ready(&frozen)),
        (&json!("Pending"), "absent")
    );
    cluster.start_kubelets(&["node-0009"])?;
    wait_for(cluster, "pod/frozen", "ended", |pod| {
        pod["status"]["phase"] == "Succeeded"
    })?;
    Ok(())
}

#[test]
fn the_name_of_a_node_that_was_deleted_is_not_given_again() -> Result<()> {
    let mut config = Config::new("names");
    (config.controller_manager, config.scheduler, config.kwok) = (false, false, false);
    let cluster = Cluster::start(config)?;
    assert_eq!(cluster.add_nodes(2, &[], &[])?, ["node-0000", "node-0001"]);
    cluster.kubectl_ok(["delete", "node", "node-0001"])?;
    assert_eq!(cluster.add_nodes(1, &[], &[])?, ["node-0002"]);
    Ok(())
}

/// kwok learns of nodes, leases and pods in any order when it starts.
#[test]
fn pods_that_were_bound_while_kwok_was_away_are_run() -> Result<()> {
    let cluster = Cluster::start(Config::new("away").with_nodes(30))?;
    cluster.kill(Component::Kwok)?;
    let pods: Vec<Value> = (0..30)
        .map(|node| {
            let (name, node) = (format!("pod-{node}"), format!("node-{node:04}"));
            pod(&name, &node, "Never", &Fate::default())
        })
        .collect();
    create(&cluster, &pods)?;
    cluster.restart(Component::Kwok)?;
    wait_for_all(&cluster, "Succeeded")
}

#[test]
fn what_kwok_writes_while_the_api_server_is_killed_is_written_in_the_end() -> Result<()> {
    let cluster = Cluster::start(Config::new("kwok-writes").with_nodes(10))?;
    for round in 0..3 {
        let name = |index: usize| format!("write-{round}-{index}");
        let pods: Vec<Value> = (0..200)
            .map(|index| {
                let node = format!("node-{:04}", index % 10);
                pod(&name(index), &node, "Always", &Fate::default())
            })
            .collect();
        create(&cluster, &pods)?;
        cluster.kill_apiserver()?;
        cluster.start_apiserver()?;
        wait_for_all(&cluster, "Running")?;
    }
    Ok(())
}

#[test]
fn the_api_server_comes_back_after_sigkill_and_tokens_still_work() -> Result<()> {
    let cluster = Cluster::start(Config::new("restarts").with_nodes(2))?;
    cluster.kubectl_ok(["create", "serviceaccount", "robot"])?;
    let token = cluster.kubectl_ok(["create", "token", "robot"])?;
    let kubeconfig = cluster.kubeconfig_for_token(&token, "robot")?;
    let robot = || -> Result<(bool, String)> {
        let mut command = cluster.kubectl_command();
        command
            .env("KUBECONFIG", &kubeconfig)
            .args(["auth", "can-i", "create", "pods"]);
        let output = command.output()?;
        Ok((
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ))
    };
    assert_eq!(
        robot()?,
        (false, "no".to_owned()),
        "known, and allowed nothing"
    );
    cluster.kill_apiserver()?;
    assert!(!cluster.is_alive(Component::ApiServer));
    assert!(!cluster.kubectl(["get", "nodes"])?.status.success());
    cluster.start_apiserver()?;
    assert_eq!(robot()?, (false, "no".to_owned()));
    cluster.restart(Component::Kwok)?;
    create(
        &cluster,
        &[pod("after", "node-0001", "Never", &Fate::default())],
    )?;
    wait_for(&cluster, "pod/after", "ended", |pod| {
        pod["status"]["phase"] == "Succeeded"
    })?;
    // etcd keeps objects as JSON: key and value are base64 of `/registry/pods/default/after`.
    let range = json!({"key": "L3JlZ2lzdHJ5L3BvZHMvZGVmYXVsdC9hZnRlcg=="});
    let answer = http::post(cluster.etcd_port(), "/v3/kv/range", &range.to_string())?;
    let answer: Value = serde_json::from_str(&answer.body)?;
    let value = answer["kvs"][0]["value"].as_str().context("one value")?;
    assert!(
        value.starts_with("eyJ"),
        "a JSON object in base64: {value:.20}"
    );
    let dir = cluster.dir().to_owned();
    drop(cluster);
    assert!(!dir.exists(), "nothing is left");
    Ok(())
}

#[test]
fn prometheus_scrapes_and_answers() -> Result<()> {
    let config = "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: self\n  \
                  static_configs: [{targets: []}]\n";
    let rule = "groups: [{name: g, rules: [{alert: Always, expr: vector(1)}]}]";
    let prometheus = Prometheus::start(config, &[rule])?;
    let data = prometheus.query("vector(2) > bool 1")?;
    assert_eq!(data["result"][0]["value"][1], "1");
    assert_eq!(
        prometheus.rules()?["groups"][0]["rules"][0]["name"],
        "Always"
    );
    let error = prometheus.query("sum(").expect_err("not PromQL");
    assert!(format!("{error:#}").contains("parse error"), "{error:#}");
    Ok(())
}

#[test]
fn helm_talks_to_the_cluster() -> Result<()> {
    let output = shared()
        .helm_command()?
        .args(["list", "--all-namespaces", "-o=json"])
        .output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8(output.stdout)?.trim(), "[]");
    Ok(())
}

/// Not a test by itself: the process that the next test kills.
#[test]
fn victim() -> Result<()> {
    if env::var_os("CARILLON_TESTBED_VICTIM").is_none() {
        return Ok(());
    }
    let cluster = Cluster::start(Config::new("victim").with_nodes(1))?;
    let all = [
        Component::Etcd,
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
    ];
    let pids = all
        .iter()
        .map(|component| Ok(cluster.pid(*component)?.to_string()));
    let pids = pids.collect::<Result<Vec<_>>>()?;
    // A stopped process does not end by SIGTERM alone.
    cluster.signal(Component::Scheduler, Signal::STOP)?;
    println!("\nvictim {} {}", cluster.dir().display(), pids.join(" "));
    std::thread::sleep(Duration::from_mins(10));
    bail!("nobody killed the victim")
}

#[test]
fn nothing_is_left_when_the_parent_is_killed() -> Result<()> {
    let mut victim = Command::new(env::current_exe()?)
        .args(["victim", "--exact", "--nocapture"])
        .env("CARILLON_TESTBED_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(victim.stdout.take().context("stdout")?).lines();
    let line = lines
        .map_while(Result::ok)
        .find(|line| line.starts_with("victim "));
    let line = line.context("the victim started a cluster")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let (dir, pids) = (Path::new(words[1]), &words[2..]);
    let alive = || {
        pids.iter()
            .filter(|pid| Path::new("/proc").join(pid).exists())
            .count()
    };
    assert_eq!(alive(), 5);
    assert!(dir.exists());
    victim.kill()?;
    victim.wait()?;
    let left = || {
        pids.iter()
            .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok())
            .collect::<String>()
    };
    let gone = || Ok((alive() == 0 && !dir.exists()).then_some(()));
    wait::until(
        "all of the victim's processes are gone",
        Duration::from_secs(8),
        EVERY,
        gone,
        left,
    )
}
