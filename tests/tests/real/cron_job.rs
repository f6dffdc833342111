//! What users of CronJob see, on a real control plane.

use carillon_tests::lab::{Bench, condition_of, is, lab};
use serde_json::{Value, json};

/// A CronJob whose runs are Jobs on the nodes of a bench.
fn cron(bench: &Bench<'_>, name: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": bench.name},
        "spec": {
            "schedule": "0 0 1 1 *",
            "jobTemplate": {"spec": {"template": {
                "metadata": {"annotations": {"testbed.carillon.dev/fates": "{}"}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"bench": bench.name},
                    "containers": [{"name": "main", "image": "busybox:1.37"}],
                },
            }}},
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn get(bench: &Bench<'_>, name: &str) -> Value {
    let text = bench.kubectl(&["get", "cronjobs.carillon.dev", name, "-o", "json"]);
    serde_json::from_str(&text).unwrap()
}

fn patch(bench: &Bench<'_>, name: &str, patch: &Value) {
    let patch = patch.to_string();
    bench.kubectl(&["patch", "ccj", name, "--type=merge", "-p", &patch]);
}

fn run_now(bench: &Bench<'_>, name: &str, word: &str) {
    let cron = get(bench, name);
    let uid = cron["metadata"]["uid"].as_str().unwrap();
    write_request(bench, name, &format!("{uid}/{word}"));
}

fn write_request(bench: &Bench<'_>, name: &str, value: &str) {
    bench.kubectl(&[
        "annotate",
        "--overwrite",
        "ccj",
        name,
        &format!("carillon.dev/run-now={value}"),
    ]);
}

/// Names of the children of a kind that were ever created, from the API server's own record.
fn created(bench: &Bench<'_>, resource: &str) -> Vec<String> {
    let requests = bench.requests().into_iter();
    requests
        .filter(|e| e.resource == resource && e.subresource.is_empty() && e.verb == "create")
        .filter(|e| e.is_stored_write() && e.user_agent.starts_with("carillon"))
        .map(|event| event.name)
        .collect()
}

fn jobs(bench: &Bench<'_>) -> Vec<Value> {
    let list: Value = serde_json::from_str(&bench.kubectl(&["get", "jobs", "-o", "json"])).unwrap();
    list["items"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_run_on_request_starts_one_job_for_each_word_and_is_recorded_when_it_has_ended() {
    let bench = lab().bench("cron-run-now", 1);
    bench.apply(&cron(&bench, "report", &json!({})));
    bench.until("the next run is told", || {
        get(&bench, "report")["status"]["nextScheduleTime"]
            .is_string()
            .then_some(())
    });
    for (round, value) in ["first", "second"].into_iter().enumerate() {
        run_now(&bench, "report", value);
        let cron = bench.until("a run was started and has ended", || {
            let cron = get(&bench, "report");
            let ran = cron["status"]["handledRunNow"]
                .as_array()
                .map_or(0, Vec::len);
            let over = cron["status"]["active"].is_null();
            (ran == round + 1 && over && cron["status"]["lastSuccessfulTime"].is_string())
                .then_some(cron)
        });
        assert_eq!(cron["status"]["handledRunNow"][round], value);
        assert!(cron["status"]["lastScheduleTime"].is_null());
    }
    // The same word again is no new request.
    run_now(&bench, "report", "second");
    run_now(&bench, "report", "third");
    bench.until("the third run was started", || {
        (created(&bench, "jobs").len() >= 3).then_some(())
    });
    assert_eq!(created(&bench, "jobs").len(), 3);
    bench.until("no job is held any more", || {
        let held = |job: &Value| {
            job["metadata"]["finalizers"]
                .to_string()
                .contains("carillon.dev")
        };
        (!jobs(&bench).iter().any(held)).then_some(())
    });
    let events = bench.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
    for reason in ["SuccessfulCreate", "SawCompletedJob"] {
        assert!(events.contains(reason), "{reason}: {events}");
    }
}

#[test]
fn a_tick_starts_one_job_named_after_its_minute_and_told_its_time() {
    let bench = lab().bench("cron-tick", 1);
    bench.apply(&cron(&bench, "beat", &json!({"schedule": "@every 1s"})));
    let cron = bench.until("a run was recorded", || {
        let cron = get(&bench, "beat");
        cron["status"]["lastScheduleTime"]
            .is_string()
            .then_some(cron)
    });
    bench.kubectl(&[
        "patch",
        "ccj",
        "beat",
        "--type=merge",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ]);
    let job = jobs(&bench).into_iter().next().unwrap();
    let scheduled =
        &job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(scheduled, &cron["status"]["lastScheduleTime"]);
    let time: jiff::Timestamp = scheduled.as_str().unwrap().parse().unwrap();
    let minutes = time.as_second() / 60;
    assert_eq!(job["metadata"]["name"], format!("beat-{minutes}"));
    assert_eq!(
        job["metadata"]["ownerReferences"][0]["uid"],
        cron["metadata"]["uid"]
    );
    let pod_template = &job["spec"]["template"]["metadata"]["annotations"];
    assert_eq!(
        &pod_template["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        scheduled
    );
    let cron = bench.until("it is suspended", || {
        let cron = get(&bench, "beat");
        let scheduled = condition_of(&cron, "Scheduled")?;
        (scheduled["reason"] == "Suspended").then_some(cron)
    });
    assert!(cron["status"]["nextScheduleTime"].is_null());
}

#[test]
fn a_cron_that_broadcasts_runs_on_every_node_and_keeps_as_many_runs_as_its_limits_say() {
    let bench = lab().bench("cron-broadcast", 3);
    let template = bench.job("unused", &json!({}), &json!({}))["spec"].clone();
    let mut object = cron(
        &bench,
        "patch",
        &json!({"broadcastJobTemplate": {"spec": template}, "successfulJobsHistoryLimit": 1}),
    );
    object["spec"]
        .as_object_mut()
        .unwrap()
        .remove("jobTemplate");
    bench.apply(&object);
    for value in ["one", "two"] {
        run_now(&bench, "patch", value);
        bench.until(&format!("run {value} has ended"), || {
            let cron = get(&bench, "patch");
            let ran = cron["status"]["handledRunNow"].to_string().contains(value);
            (ran && cron["status"]["active"].is_null()).then_some(())
        });
    }
    assert_eq!(created(&bench, "broadcastjobs").len(), 2);
    let left = bench.until("one run is kept", || {
        let text = bench.kubectl(&["get", "cbj", "-o", "json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        (items.len() == 1).then(|| items[0].clone())
    });
    assert_eq!(left["status"]["done"], "3/3");
    bench.kubectl(&["delete", "ccj", "patch", "--timeout=60s"]);
    bench.until("nothing is left of it", || {
        let left = bench.kubectl(&["get", "cbj,nrs,pods", "-o", "name"]);
        left.trim().is_empty().then_some(())
    });
}

#[test]
fn forbid_lets_a_run_wait_for_the_one_before_and_replace_stops_it() {
    let bench = lab().bench("cron-policies", 1);
    let fates = json!({"*": {"run-time": "10m"}}).to_string();
    for policy in ["Forbid", "Replace"] {
        let name = policy.to_lowercase();
        let mut object = cron(&bench, &name, &json!({"concurrencyPolicy": policy}));
        let template = &mut object["spec"]["jobTemplate"]["spec"]["template"];
        template["metadata"]["annotations"]["testbed.carillon.dev/fates"] = json!(fates);
        bench.apply(&object);
        run_now(&bench, &name, "one");
        bench.until("the first one runs", || {
            (get(&bench, &name)["status"]["active"][0]["uid"].is_string()).then_some(())
        });
        run_now(&bench, &name, "two");
    }
    let of = |name: &str| -> Vec<String> {
        let created = created(&bench, "jobs").into_iter();
        created.filter(|job| job.starts_with(name)).collect()
    };
    bench.until("the second one has taken the place of the first", || {
        let cron = get(&bench, "replace");
        let active = cron["status"]["active"].as_array()?;
        let ran = cron["status"]["handledRunNow"].as_array()?;
        (ran.len() == 2 && active.len() == 1).then_some(())
    });
    assert_eq!(of("replace").len(), 2);
    bench.until("the wait is told", || {
        let events = bench.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]);
        events.contains("JobAlreadyActive").then_some(())
    });
    assert_eq!(of("forbid").len(), 1);
    bench.kubectl(&["delete", "job", &of("forbid")[0], "--timeout=60s"]);
    bench.until("the second one runs after the first", || {
        (of("forbid").len() == 2).then_some(())
    });
}

#[test]
fn what_cannot_run_says_so_at_once() {
    let bench = lab().bench("cron-stalled", 1);
    let no_image = json!({"spec": {"template": {"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i", "imagePullPolicy": "Sometimes"}]}}}});
    for (name, spec, reason) in [
        (
            "nowhere",
            json!({"timeZone": "Europe/Atlantis"}),
            "UnknownTimeZone",
        ),
        ("never", json!({"schedule": "0 0 31 2 *"}), "NeverFires"),
        (
            "template",
            json!({"jobTemplate": no_image}),
            "InvalidTemplate",
        ),
    ] {
        bench.apply(&cron(&bench, name, &spec));
        let cron = bench.until(&format!("{name} is stalled"), || {
            let cron = get(&bench, name);
            is(&cron, "Stalled").then_some(cron)
        });
        let stalled = condition_of(&cron, "Stalled").unwrap();
        assert_eq!(stalled["reason"], reason, "{stalled}");
        assert!(!stalled["message"].as_str().unwrap().is_empty());
        let shown = bench.kubectl(&["get", "ccj", name]);
        assert!(shown.contains(&format!("Stalled: {reason}")), "{shown}");
    }
    // Mended, it goes on.
    patch(
        &bench,
        "never",
        &json!({"spec": {"schedule": "0 0 30 1 *"}}),
    );
    bench.until("it is scheduled", || {
        let cron = get(&bench, "never");
        (is(&cron, "Scheduled") && !is(&cron, "Stalled")).then_some(())
    });
}

/// It is stalled because its template has the field `comand`.
#[track_caller]
fn assert_misspelt(object: &Value) {
    let stalled = condition_of(object, "Stalled").unwrap_or_default();
    assert_eq!(stalled["reason"], "InvalidTemplate", "{stalled}");
    let told = stalled["message"].as_str().unwrap_or_default();
    assert!(
        told.contains("unknown field") && told.contains("comand"),
        "{told}"
    );
}

/// The CRD keeps fields that it does not know, and the API server drops those that Jobs do not have.
#[test]
fn a_misspelt_field_of_a_job_template_is_told_and_no_run_starts_until_it_is_mended() {
    let bench = lab().bench("cron-misspelt", 1);
    let mut object = cron(&bench, "bad", &json!({}));
    let pod = &mut object["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    pod["containers"][0]["comand"] = json!(["true"]);
    bench.apply(&object);
    let found = bench.until("it is stalled", || {
        let cron = get(&bench, "bad");
        is(&cron, "Stalled").then_some(cron)
    });
    assert_misspelt(&found);
    // Somebody asks for a run all the same: the API server is asked again whether it takes one.
    let asked = || {
        let requests = bench.requests().into_iter();
        requests
            .filter(|event| event.resource == "jobs" && event.dry_run)
            .count()
    };
    let before = asked();
    run_now(&bench, "bad", "now");
    bench.until("it is asked again", || (asked() > before).then_some(()));
    assert!(created(&bench, "jobs").is_empty());
    let container = json!({"name": "main", "image": "busybox:1.37", "command": ["true"]});
    let pod = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    patch(&bench, "bad", &json!({"spec": {"jobTemplate": pod}}));
    bench.until("it runs once it is mended", || {
        let cron = get(&bench, "bad");
        let ran = cron["status"]["handledRunNow"] == json!(["now"]);
        let there = !created(&bench, "jobs").is_empty();
        (ran && there && !is(&cron, "Stalled")).then_some(())
    });
    assert_eq!(created(&bench, "jobs").len(), 1);
    let pod = &jobs(&bench)[0]["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["command"], json!(["true"]));
}

#[test]
fn a_misspelt_field_that_comes_together_with_a_request_for_a_run_is_told_and_nothing_runs() {
    let bench = lab().bench("cron-misspelt-now", 1);
    bench.apply(&cron(&bench, "good", &json!({})));
    let uid = bench.until("it is looked at", || {
        let cron = get(&bench, "good");
        let seen = cron["status"]["observedGeneration"] == cron["metadata"]["generation"];
        seen.then(|| {
            cron["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
    });
    let pods = |command: &str| {
        let container = json!({"name": "main", "image": "busybox:1.37", command: ["true"]});
        json!({"jobTemplate": {"spec": {"template": {"spec": {"containers": [container]}}}}})
    };
    let request = json!({"annotations": {"carillon.dev/run-now": format!("{uid}/now")}});
    let edit = json!({"metadata": request, "spec": pods("comand")});
    patch(&bench, "good", &edit);
    let found = bench.until("it is stalled", || {
        let cron = get(&bench, "good");
        is(&cron, "Stalled").then_some(cron)
    });
    assert_misspelt(&found);
    assert!(created(&bench, "jobs").is_empty());
    patch(&bench, "good", &json!({"spec": pods("command")}));
    bench.until("it runs once it is mended", || {
        (!created(&bench, "jobs").is_empty()).then_some(())
    });
    assert_eq!(created(&bench, "jobs").len(), 1);
}

/// A BroadcastJob keeps such a field, too, so that only the run can tell.
#[test]
fn a_misspelt_field_of_a_broadcast_job_template_is_told_by_the_run_before_its_first_pod() {
    let bench = lab().bench("cron-misspelt-run", 1);
    let mut template = bench.job("unused", &json!({}), &json!({}))["spec"].clone();
    template["template"]["spec"]["containers"][0]["comand"] = json!(["true"]);
    let more = json!({"broadcastJobTemplate": {"spec": template}});
    let mut object = cron(&bench, "bad", &more);
    object["spec"]
        .as_object_mut()
        .unwrap()
        .remove("jobTemplate");
    bench.apply(&object);
    run_now(&bench, "bad", "now");
    let run = bench.until("its run is stalled", || {
        let text = bench.kubectl(&["get", "cbj", "-o", "json"]);
        let list: Value = serde_json::from_str(&text).unwrap();
        let run = list["items"].get(0).cloned()?;
        is(&run, "Stalled").then_some(run)
    });
    assert_misspelt(&run);
    assert_eq!(created(&bench, "broadcastjobs").len(), 1);
    assert!(created(&bench, "pods").is_empty());
}

#[test]
fn a_request_that_came_along_with_a_copy_starts_nothing_and_one_that_cannot_be_read_is_told() {
    let bench = lab().bench("cron-copied", 1);
    let request =
        |name: &str| get(&bench, name)["metadata"]["annotations"]["carillon.dev/run-now"].clone();
    bench.apply(&cron(&bench, "report", &json!({"suspend": true})));
    run_now(&bench, "report", "first");
    bench.until("the original has run", || {
        let cron = get(&bench, "report");
        (cron["status"]["handledRunNow"] == json!(["first"])).then_some(())
    });
    // As from `kubectl get -o yaml`, under another name and under the same one, as a backup does it.
    let ran = created(&bench, "jobs").len();
    let annotations = json!({"carillon.dev/run-now": request("report")});
    bench.kubectl(&["delete", "ccj", "report"]);
    for name in ["copy", "report"] {
        let mut copy = cron(&bench, name, &json!({"suspend": true}));
        copy["metadata"]["annotations"] = annotations.clone();
        bench.apply(&copy);
        bench.until("it was looked at", || {
            let cron = get(&bench, name);
            let looked = cron["status"]["observedGeneration"] == cron["metadata"]["generation"];
            looked.then_some(())
        });
        assert_eq!(request(name), annotations["carillon.dev/run-now"]);
    }
    // What starts after it was seen: had the copied requests been for them, they would have run by now.
    run_now(&bench, "report", "second");
    bench.until("a request of its own is served", || {
        let cron = get(&bench, "report");
        (cron["status"]["handledRunNow"] == json!(["second"])).then_some(())
    });
    let names = created(&bench, "jobs");
    assert_eq!(names.len(), ran + 1, "{names:?}");
    assert!(get(&bench, "copy")["status"]["handledRunNow"].is_null());

    write_request(&bench, "copy", "today");
    let message = bench.until("it is told that it cannot be read", || {
        let cron = get(&bench, "copy");
        let ignored = condition_of(&cron, "RequestIgnored")?;
        (ignored["status"] == "True").then(|| ignored["message"].as_str().unwrap().to_owned())
    });
    let uid = get(&bench, "copy")["metadata"]["uid"].clone();
    let uid = uid.as_str().unwrap();
    assert!(message.contains(&format!("write {uid}/WORD")), "{message}");
    // What it says to write is what works.
    write_request(&bench, "copy", &format!("{uid}/today"));
    bench.until("it runs", || {
        let cron = get(&bench, "copy");
        (cron["status"]["handledRunNow"] == json!(["today"])).then_some(())
    });
}
