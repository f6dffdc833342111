//! How containers end, and what Carillon makes of it.

use carillon_tests::lab::{Bench, condition_of, is};
use serde_json::{Value, json};

use crate::lab::{broadcast, carillon, object, pod, shared};

/// State, reason, exit code, message.
type Outcome = (String, String, Value, String);

/// Of each node's last attempt.
fn outcomes(bench: &Bench<'_>, job: &str) -> Vec<Outcome> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let results = bench.results(job);
    let last = |node: &String| {
        let mut of_node = results.iter().filter(|result| result["nodeName"] == **node);
        of_node.next_back().cloned().unwrap_or_default()
    };
    let told = |result: Value| {
        let words = ["state", "reason", "message"].map(|field| text(&result[field]));
        let [state, reason, message] = words;
        (state, reason, result["exitCode"].clone(), message)
    };
    bench.nodes.iter().map(last).map(told).collect()
}

/// Runs a script on each node, whatever comes of it, and gives what came of it.
fn run(bench: &Bench<'_>, job: &str, script: &str, more: &Value) -> Vec<Outcome> {
    let mut job_of = broadcast(
        bench,
        job,
        script,
        &json!({"failurePolicy": {"type": "Continue"}}),
    );
    carillon_tests::lab::merge(&mut job_of["spec"], more);
    bench.apply(&job_of);
    bench.wait(job, "Complete");
    outcomes(bench, job)
}

#[track_caller]
fn assert_each(
    outcomes: &[Outcome],
    (state, reason, exit_code, message): (&str, &str, Value, &str),
) {
    let expected = (
        state.to_owned(),
        reason.to_owned(),
        exit_code,
        message.to_owned(),
    );
    assert!(outcomes.iter().all(|one| *one == expected), "{outcomes:#?}");
}

#[test]
fn exit_codes_and_last_words_of_containers_are_the_results_of_their_nodes() {
    let lab = shared();
    let bench = lab.bench("exit-codes");
    let outcomes = run(&bench, "good", "echo all went well", &json!({}));
    assert_each(&outcomes, ("Succeeded", "", json!(0), ""));
    let job = bench.get("good");
    assert_eq!(
        condition_of(&job, "Complete").unwrap()["reason"],
        "AllNodesSucceeded"
    );

    let script = "echo no space left >/dev/termination-log; exit 7";
    let outcomes = run(&bench, "told", script, &json!({}));
    assert_each(
        &outcomes,
        ("Failed", "NonZeroExitCode", json!(7), "no space left"),
    );
    let job = bench.get("told");
    let reason = &condition_of(&job, "Complete").unwrap()["reason"];
    assert_eq!(reason, "CompletedWithFailures");

    // Nothing in the termination message: then the end of its log.
    let outcomes = run(&bench, "logged", "echo cannot open; exit 1", &json!({}));
    assert_each(
        &outcomes,
        ("Failed", "NonZeroExitCode", json!(1), "cannot open"),
    );

    let outcomes = run(
        &bench,
        "killed",
        "sleep 1000 & kill -9 $!; wait $!",
        &json!({}),
    );
    assert_each(
        &outcomes,
        ("Failed", "NonZeroExitCode", json!(137), "Killed"),
    );
}

#[test]
fn a_container_that_takes_too_much_memory_has_failed_and_the_result_says_why() {
    let lab = shared();
    let bench = lab.bench("memory");
    let mut spec = pod("tail /dev/zero");
    spec["containers"][0]["resources"] = json!({"limits": {"memory": "16Mi"}});
    let more = json!({"template": {"spec": spec}});
    let outcomes = run(&bench, "greedy", "", &more);
    assert_each(&outcomes, ("Failed", "OOMKilled", json!(137), ""));
}

#[test]
fn an_image_that_cannot_be_pulled_fails_its_node_when_its_time_is_over() {
    let lab = shared();
    let bench = lab.bench("images");
    let mut spec = pod("true");
    spec["containers"][0]["image"] = json!("carillon.invalid/nothing:1");
    let more = json!({"template": {"spec": spec}, "podStartDeadlineSeconds": 15});
    let outcomes = run(&bench, "unknown", "", &more);
    for (state, reason, _, message) in outcomes {
        assert_eq!(state, "Failed");
        assert!(
            ["ErrImagePull", "ImagePullBackOff"].contains(&&*reason),
            "{reason}"
        );
        assert!(message.contains("carillon.invalid/nothing:1"), "{message}");
    }
}

#[test]
fn a_container_that_is_restarted_is_one_attempt_and_may_succeed_later() {
    let lab = shared();
    let bench = lab.bench("restarts");
    let mut spec = pod("echo try >>/ledger/restarts; test $(wc -l </ledger/restarts) -ge 3");
    spec["restartPolicy"] = json!("OnFailure");
    let outcomes = run(&bench, "third", "", &json!({"template": {"spec": spec}}));
    assert_each(&outcomes, ("Succeeded", "", json!(0), ""));
    for (node, lines) in bench.nodes.iter().zip(lab.ledgers("restarts")) {
        assert_eq!(lines.len(), 3, "{node}");
        assert_eq!(bench.attempts("third", node).len(), 1, "{node}");
    }

    let mut spec = pod("exit 5");
    spec["restartPolicy"] = json!("OnFailure");
    let more = json!({"template": {"spec": spec}, "failurePolicy": {"restartLimit": 1}});
    let outcomes = run(&bench, "limited", "", &more);
    for (state, reason, exit_code, _) in outcomes {
        assert_eq!((&*state, &*reason), ("Failed", "RestartLimitExceeded"));
        assert_eq!(exit_code, 5);
    }
}

#[test]
fn a_pod_that_is_stopped_gets_its_signal_and_its_grace_period() {
    let lab = shared();
    let bench = lab.bench("grace");
    // It takes longer than an instant to end, and is waited for.
    let script = "trap 'sleep 2; echo ended >>/ledger/grace; exit 0' TERM
        echo started >>/ledger/grace; while :; do sleep 1; done";
    let deadline = json!({"completionPolicy": {"activeDeadlineSeconds": 8}});
    bench.apply(&broadcast(&bench, "long", script, &deadline));
    let job = bench.wait("long", "Failed");
    assert_eq!(
        condition_of(&job, "Failed").unwrap()["reason"],
        "DeadlineExceeded"
    );
    for (state, reason, ..) in outcomes(&bench, "long") {
        assert_eq!((&*state, &*reason), ("Failed", "DeadlineExceeded"));
    }
    for lines in lab.ledgers("grace") {
        assert_eq!(
            lines,
            ["started", "ended"],
            "before the job was called failed"
        );
    }
}

#[test]
fn a_pod_that_does_not_end_in_its_grace_period_is_killed_and_only_then_has_its_job_failed() {
    let lab = shared();
    let bench = lab.bench("deaf");
    let script = "trap '' TERM; echo started >>/ledger/deaf
        for n in 1 2 3 4 5 6 7 8 9; do sleep 1; done; sleep 60; echo ended >>/ledger/deaf";
    let deadline = json!({"completionPolicy": {"activeDeadlineSeconds": 8}});
    bench.apply(&broadcast(&bench, "deaf", script, &deadline));
    bench.wait("deaf", "Failed");
    for lines in lab.ledgers("deaf") {
        assert_eq!(lines, ["started"]);
    }
    let pods = lab.get(&["pods", "-n", "deaf"]);
    let running = pods["items"].as_array().into_iter().flatten();
    let running = running.filter(|pod| pod["status"]["phase"] == "Running");
    assert_eq!(running.count(), 0, "{pods}");
}

#[test]
fn a_pod_that_is_evicted_for_its_own_use_of_the_disk_has_failed_by_its_own_doing() {
    let lab = shared();
    let bench = lab.bench("disk");
    let script = "echo run >>/ledger/disk; head -c 30000000 /dev/zero >/scratch/file; sleep 1000";
    let mut spec = pod(script);
    let scratch = json!({"name": "scratch", "mountPath": "/scratch"});
    spec["containers"][0]["volumeMounts"]
        .as_array_mut()
        .unwrap()
        .push(scratch);
    let volume = json!({"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}});
    spec["volumes"].as_array_mut().unwrap().push(volume);
    let outcomes = run(&bench, "full", "", &json!({"template": {"spec": spec}}));
    for (state, reason, _, message) in outcomes {
        assert_eq!((&*state, &*reason), ("Failed", "Evicted"), "{message}");
        assert!(message.contains("exceeds the limit"), "{message}");
    }
    for lines in lab.ledgers("disk") {
        assert_eq!(lines.len(), 1, "no second run would do better");
    }
}

#[test]
fn init_containers_come_first_and_sidecars_do_not_keep_a_pod_from_its_end() {
    let lab = shared();
    let bench = lab.bench("sidecars");
    let mut spec = pod("test -e /ledger/prepared && echo main >>/ledger/sidecars");
    let mounts = spec["containers"][0]["volumeMounts"].clone();
    let container = |name: &str, script: &str| json!({"name": name, "image": "busybox:1.37", "command": ["sh", "-c", script], "volumeMounts": mounts});
    let mut sidecar = container(
        "sidecar",
        "trap 'echo sidecar >>/ledger/sidecars; exit 0' TERM; while :; do sleep 0.2; done",
    );
    sidecar["restartPolicy"] = json!("Always");
    spec["initContainers"] = json!([sidecar, container("init", "touch /ledger/prepared")]);
    let outcomes = run(&bench, "both", "", &json!({"template": {"spec": spec}}));
    assert_each(&outcomes, ("Succeeded", "", json!(0), ""));
    for lines in lab.ledgers("sidecars") {
        assert_eq!(lines, ["main", "sidecar"]);
    }

    let mut spec = pod("true");
    spec["initContainers"] = json!([container("init", "echo no disk; exit 9")]);
    let outcomes = run(
        &bench,
        "not-prepared",
        "",
        &json!({"template": {"spec": spec}}),
    );
    assert_each(
        &outcomes,
        ("Failed", "NonZeroExitCode", json!(9), "no disk"),
    );
}

#[test]
fn a_job_of_ours_ends_by_the_rules_for_the_exit_codes_of_its_containers() {
    let lab = shared();
    let bench = lab.bench("jobs");
    let job = |name: &str, script: &str, more: Value| {
        let mut spec =
            json!({"managedBy": "carillon.dev/job-controller", "template": {"spec": pod(script)}});
        carillon_tests::lab::merge(&mut spec, &more);
        bench.apply(&object(&bench, ("batch/v1", "Job"), name, &spec));
    };
    let ended = |name: &str, condition: &str| {
        lab.until(&format!("{name} is {condition}"), || {
            let job = lab.get(&["job", name, "-n", bench.name]);
            is(&job, condition).then_some(job)
        })
    };
    let indexed = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0});
    job("indexed", "test $JOB_COMPLETION_INDEX != 2", indexed);
    let stop = json!({"backoffLimit": 6, "podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}});
    job("stop", "exit 42", stop);
    job(
        "again",
        "echo try >>/ledger/again; exit 1",
        json!({"backoffLimit": 1}),
    );

    let indexed = ended("indexed", "Failed");
    assert_eq!(indexed["status"]["completedIndexes"], "0,1,3");
    assert_eq!(indexed["status"]["failedIndexes"], "2");
    let stop = ended("stop", "Failed");
    assert_eq!(
        condition_of(&stop, "Failed").unwrap()["reason"],
        "PodFailurePolicy"
    );
    assert_eq!(stop["status"]["failed"], 1);
    let again = ended("again", "Failed");
    assert_eq!(
        condition_of(&again, "Failed").unwrap()["reason"],
        "BackoffLimitExceeded"
    );
    let tries: usize = lab.ledgers("again").iter().map(Vec::len).sum();
    assert_eq!(tries, 2);
}

#[test]
fn a_cron_job_runs_what_it_is_asked_for_once_on_each_node() {
    let lab = shared();
    let bench = lab.bench("cron");
    let template = json!({"spec": {"template": {"spec": pod("echo ran >>/ledger/cron")}}});
    let spec = json!({"schedule": "0 0 1 1 *", "broadcastJobTemplate": template});
    bench.apply(&object(
        &bench,
        ("carillon.dev/v1alpha1", "CronJob"),
        "sweep",
        &spec,
    ));
    for round in 1..=2 {
        carillon(&bench, &["trigger", "sweep", "--wait"]);
        for lines in lab.ledgers("cron") {
            assert_eq!(lines.len(), round);
        }
    }
}

#[test]
fn a_cron_job_starts_a_job_when_its_time_comes_and_none_twice() {
    let lab = shared();
    let bench = lab.bench("tick");
    let template = json!({"spec": {"template": {"spec": pod("echo ran >>/ledger/tick")}}});
    let spec = json!({"schedule": "* * * * *", "jobTemplate": template});
    let kind = ("carillon.dev/v1alpha1", "CronJob");
    bench.apply(&object(&bench, kind, "tick", &spec));
    lab.until("a run has ended well", || {
        let cron = lab.get(&["ccj", "tick", "-n", bench.name]);
        cron["status"]["lastSuccessfulTime"]
            .is_string()
            .then_some(())
    });
    carillon(&bench, &["suspend", "tick"]);
    let jobs = lab.until("what was begun has ended", || {
        let cron = lab.get(&["ccj", "tick", "-n", bench.name]);
        let jobs = lab.get(&["jobs", "-n", bench.name]);
        let jobs = jobs["items"].as_array().cloned().unwrap_or_default();
        let suspended = cron["status"]["observedGeneration"] == cron["metadata"]["generation"];
        let ended = jobs.iter().all(|job| is(job, "Complete"));
        (suspended && ended).then_some(jobs)
    });
    let ran: usize = lab.ledgers("tick").iter().map(Vec::len).sum();
    assert_eq!(ran, jobs.len(), "a pod for each minute: {jobs:?}");
}

#[test]
fn a_daemon_set_replaces_its_pods_and_waits_for_one_that_does_not_start() {
    let lab = shared();
    let bench = lab.bench("daemons");
    let set = |word: &str, command: &str| {
        let mut spec = pod(command);
        spec.as_object_mut().unwrap().remove("restartPolicy");
        spec["containers"][0]["env"] = json!([{"name": "WORD", "value": word}]);
        let update = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
        let spec = json!({
            "selector": {"matchLabels": {"app": "agent"}},
            "updateStrategy": update,
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": spec},
        });
        bench.apply(&object(
            &bench,
            ("carillon.dev/v1alpha1", "DaemonSet"),
            "agent",
            &spec,
        ));
    };
    let status = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        lab.until(what, || {
            let set = lab.get(&["cds", "agent", "-n", bench.name]);
            let seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            (seen && holds(&set["status"])).then_some(set)
        })
    };
    let runs = "echo $WORD >>/ledger/daemons; trap 'exit 0' TERM; while :; do sleep 0.2; done";
    set("first", runs);
    status("each node has a pod", &|status| {
        status["numberAvailable"] == 3
    });
    set("second", runs);
    status("each has the new one", &|status| {
        status["updatedNumberScheduled"] == 3 && status["numberAvailable"] == 3
    });
    for lines in lab.ledgers("daemons") {
        assert_eq!(lines, ["first", "second"]);
    }
    set("broken", "exit 1");
    let waits = status("the rollout waits for a pod that fails", &|status| {
        status["updatedNumberScheduled"] == 1 && status["numberAvailable"] == 2
    });
    assert_eq!(waits["status"]["waitingFor"][0]["count"], 1, "{waits}");
    carillon(&bench, &["rollout", "undo", "agent"]);
    status("all is as before", &|status| {
        status["updatedNumberScheduled"] == 3 && status["numberAvailable"] == 3
    });
}

#[test]
fn what_containers_print_is_read_node_by_node() {
    let lab = shared();
    let bench = lab.bench("logs");
    let mut spec = pod("for n in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $n; done");
    let beside = json!({"name": "beside", "image": "busybox:1.37", "command": ["echo", "beside"]});
    spec["containers"].as_array_mut().unwrap().push(beside);
    run(&bench, "prints", "", &json!({"template": {"spec": spec}}));
    let numbered = |from: u32, before: &str| -> Vec<String> {
        (from..=12).map(|n| format!("{before}line {n}")).collect()
    };
    let lines = |args: &[&str]| -> Vec<String> {
        let said = carillon(&bench, args);
        said.lines().map(str::to_owned).collect()
    };
    let ends: Vec<String> = bench
        .nodes
        .iter()
        .flat_map(|node| numbered(3, &format!("[{node}] ")))
        .collect();
    assert_eq!(lines(&["logs", "prints", "--fold=never"]), ends);
    let mut folded = vec![format!("the same on 3 nodes: {}", bench.nodes.join(", "))];
    folded.extend_from_slice(&ends[..10]);
    assert_eq!(lines(&["logs", "prints", "--fold=always"]), folded);
    assert_eq!(
        lines(&["logs", "prints", "--node", "node-1"]),
        numbered(1, "")
    );
    let each: Vec<String> = bench
        .nodes
        .iter()
        .flat_map(|node| {
            [
                format!("[{node}/main] line 12"),
                format!("[{node}/beside] beside"),
            ]
        })
        .collect();
    assert_eq!(
        lines(&[
            "logs",
            "prints",
            "--all-containers",
            "--tail=1",
            "--fold=never"
        ]),
        each
    );
    bench.kubectl(&[
        "delete",
        "pod",
        &bench.results("prints")[0]["podName"]
            .to_string()
            .replace('"', ""),
    ]);
    assert_eq!(
        lines(&["logs", "prints", "--fold=never"]),
        ends[10..],
        "those that are left"
    );

    bench.apply(&broadcast(
        &bench,
        "slow",
        r"printf 'begin \377\n'; sleep 6; echo end",
        &json!({}),
    ));
    bench.until("it has begun", || {
        let running = |pod: &&Value| pod["status"]["phase"] == "Running";
        (bench.pods("slow").iter().filter(running).count() == 3).then_some(())
    });
    assert_eq!(
        lines(&["logs", "slow", "--node", "node-0", "-f"]),
        ["begin \u{fffd}", "end"]
    );
}
