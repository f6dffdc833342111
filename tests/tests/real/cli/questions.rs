//! The verbs that ask: get, results, explain, plan.

use carillon_tests::lab::lab;
use serde_json::{Value, json};

use super::desk::{ask, carillon, desk, three_failures};

#[test]
fn get_says_how_far_a_job_is_and_why_it_goes_no_further() {
    let bench = desk().bench("cli-get");
    let empty = carillon(&bench, &["get"]).ended_with(0);
    assert_eq!(empty.stdout, "");
    assert_eq!(
        empty.stderr,
        "No BroadcastJobs, CronJobs or DaemonSets of carillon.dev found in cli-get namespace.\n"
    );

    let pause = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("careful", &three_failures(), &pause));
    bench.apply(&bench.job("plain", &json!({}), &json!({})));
    bench.wait("careful", "Paused");
    bench.wait("plain", "Complete");

    let table = carillon(&bench, &["get"]).ended_with(0).stdout;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| {
            line.split("   ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    // The last two are the estimate and the age.
    assert_eq!(
        rows[0],
        ["NAME", "DONE", "ACTIVE", "FAILED", "STATUS", "ETA", "AGE"]
    );
    let paused = [
        "careful",
        "2/6",
        "0",
        "1",
        "Paused: node-0001 failed (exit 3)",
        "-",
    ];
    assert_eq!(rows[1][..6], paused);
    assert_eq!(rows[2][..6], ["plain", "6/6", "0", "0", "Complete", "-"]);

    let one = carillon(&bench, &["get", "cbj/careful", "-o", "json"]).json();
    assert_eq!(
        (&one["standing"], &one["reason"], &one["refused"]),
        (&json!("Paused"), &json!("PausedByFailure"), &json!(2))
    );
    let names = carillon(&bench, &["get", "-o", "name"]).stdout;
    assert_eq!(
        names,
        "broadcastjob.carillon.dev/careful\nbroadcastjob.carillon.dev/plain\n"
    );
    let all = carillon(&bench, &["get", "-A", "-o", "json"]).json();
    let here = |job: &&Value| job["namespace"] == "cli-get";
    assert_eq!(
        all["items"].as_array().unwrap().iter().filter(here).count(),
        2
    );
    let wide = carillon(&bench, &["get", "-o", "wide", "--no-headers"]).stdout;
    assert!(
        wide.lines().all(|line| line.ends_with("busybox:1.37")),
        "{wide}"
    );
}

#[test]
fn an_estimate_is_given_while_a_job_runs() {
    let bench = desk().bench("cli-eta");
    let fates = json!({"node-0000": {"run-time": "3s"}, "*": {"run-time": "10m"}});
    bench.apply(&bench.job("long", &fates, &json!({"parallelism": 1})));
    let eta = bench.until("the first node has ended", || {
        let job = carillon(&bench, &["get", "long", "-o", "json"]).json();
        job["etaSeconds"].as_i64()
    });
    // Five of six nodes remain, one at a time; the first took at least its 3 s, and the second has begun.
    assert!((10..120).contains(&eta), "{eta}");
}

#[test]
fn results_folds_identical_outcomes_and_shows_single_attempts_on_request() {
    let bench = desk().bench("cli-results");
    let go_on = json!({"failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("fix", &three_failures(), &go_on));
    bench.wait("fix", "Complete");
    let folded = carillon(&bench, &["results", "fix"]).ended_with(0).stdout;
    let golden = "\
NODES   OUTCOME                                     AMONG THEM
2       Failed: exit 3, \"no space left on device\"   node-0001, node-0003
1       Failed: exit 1                              node-0004
3       Succeeded                                   node-0000, node-0002, node-0005
";
    assert_eq!(folded, golden);

    let failed = carillon(&bench, &["results", "fix", "--failed", "-o", "name"]).stdout;
    assert_eq!(failed, "node/node-0001\nnode/node-0003\nnode/node-0004\n");
    let wide = carillon(&bench, &["results", "fix", "-o", "wide", "--no-headers"]).stdout;
    assert_eq!(wide.lines().count(), 6);
    let node = carillon(
        &bench,
        &["results", "fix", "--node", "node-0003", "-o", "json"],
    )
    .json();
    let attempt = &node["attempts"][0];
    assert_eq!(
        (&attempt["attempt"], &attempt["exitCode"]),
        (&json!(1), &json!(3))
    );
    assert!(
        attempt["startTime"].is_string() && attempt["seconds"].is_i64(),
        "{attempt}"
    );
    let yaml = carillon(&bench, &["results", "fix", "-o", "yaml"]).stdout;
    assert!(yaml.contains("exitCode: 3"), "{yaml}");

    let nobody = carillon(&bench, &["results", "fix", "--node", "node-0006"]).ended_with(1);
    assert!(
        nobody
            .stderr
            .contains("node node-0006 has no result of fix"),
        "{nobody:?}"
    );
}

#[test]
fn explain_of_a_job_sums_to_all_nodes() {
    let bench = desk().bench("cli-explain");
    let pause = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    bench.apply(&bench.job("fix", &three_failures(), &pause));
    bench.wait("fix", "Paused");
    let golden = "\
fix: Paused: node-0001 failed (exit 3)

NODES   PLACE       REASON                  AMONG THEM                           FOR EXAMPLE
1       Succeeded                           node-0000
1       Failed      NonZeroExitCode         node-0001
4       Waiting                             node-0002, node-0003, node-0004, …
1       Refused     NodeTaintNotTolerated   node-0006                            node-0006: taint example.com/pool=gpu:NoSchedule
1       Refused     NodeUnschedulable       node-0007                            node-0007: the node is cordoned
8       in all

Next: look at what failed (kubectl carillon -n cli-explain results fix --failed), and let it go on: kubectl carillon \
-n cli-explain resume fix.
";
    assert_eq!(
        carillon(&bench, &["explain", "fix"]).ended_with(0).stdout,
        golden
    );
    let all = carillon(&bench, &["explain", "fix", "-o", "json"]).json();
    let groups = all["groups"].as_array().unwrap();
    let sum: i64 = groups
        .iter()
        .filter_map(|group| group["count"].as_i64())
        .sum();
    assert_eq!((sum, &all["nodes"]), (8, &json!(8)));
}

#[test]
fn explain_of_a_node_shows_every_check_and_what_to_write() {
    let bench = desk().bench("cli-node");
    bench.apply(&bench.job("fix", &json!({}), &json!({})));
    bench.wait("fix", "Complete");
    let golden = "\
node-0006 in fix: Refused (NodeTaintNotTolerated)

CHECK          RESULT   FOUND
nodeNames      pass     the job is for all nodes
deletion       pass     not being deleted
nodeName       pass     the template names no node
nodeSelector   pass     no label is asked for
nodeAffinity   pass     nothing is required
schedulable    pass     not cordoned
taints         FAIL     taint example.com/pool=gpu:NoSchedule
resources      pass     nothing is asked for

NodeTaintNotTolerated: taint example.com/pool=gpu:NoSchedule
  remove the taint:
      kubectl taint node node-0006 example.com/pool:NoSchedule-
  or tolerate the taint, in spec.template.spec of a new job:
      tolerations:
      - key: example.com/pool
        operator: Equal
        value: \"gpu\"
        effect: NoSchedule

Nothing was started there.

Next: nothing: the job has ended. To run it here once all checks pass: kubectl carillon -n cli-node retry fix --node node-0006.
";
    let refused = carillon(&bench, &["explain", "fix", "--node", "node-0006"]).ended_with(0);
    assert_eq!(refused.stdout, golden);
    let done = carillon(&bench, &["explain", "fix", "--node", "node/node-0000"]).ended_with(0);
    assert!(
        done.stdout.starts_with("node-0000 in fix: Succeeded\n"),
        "{}",
        done.stdout
    );
    let nowhere = carillon(&bench, &["explain", "fix", "--node", "node-0O06"]).ended_with(1);
    assert!(
        nowhere
            .stderr
            .contains("there is no node node-0O06. Did you mean node-0006"),
        "{nowhere:?}"
    );
}

#[test]
fn what_explain_says_to_write_makes_the_node_served() {
    let bench = lab().bench("cli-remedies", 2);
    let node = &bench.nodes[0];
    bench.kubectl(&["cordon", node]);
    bench.kubectl(&["taint", "node", node, "example.com/a=b:NoSchedule"]);
    bench.kubectl(&["label", "node", node, "disk=slow"]);
    let open = json!({
        "completionPolicy": {"type": "Never"},
        "failurePolicy": {"type": "Continue"},
        "template": {"spec": {"nodeSelector": {"disk": "fast"}}},
    });
    bench.apply(&bench.job("fix", &json!({}), &open));
    let explained = || carillon(&bench, &["explain", "fix", "--node", node, "-o", "json"]).json();
    assert_eq!(explained()["place"], "Refused");
    let mut commands: Vec<String> = Vec::new();
    for check in explained()["checks"].as_array().unwrap() {
        for finding in check["findings"].as_array().unwrap() {
            let remedies = finding["remedies"].as_array().unwrap();
            let on_node = remedies
                .iter()
                .find(|remedy| remedy["on"] == "Node")
                .unwrap();
            commands.push(on_node["write"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(commands.len(), 3, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        bench.kubectl(&words);
    }
    bench.until("the node is served", || {
        (explained()["place"] == "Succeeded").then_some(())
    });
}

#[test]
fn plan_says_where_a_job_would_run_before_it_is_applied() {
    let bench = desk().bench("cli-plan");
    let two = json!({"parallelism": 4});
    let job = bench.job("fix", &json!({}), &two);
    let some = ask(&bench, &["plan", "-f", "-"], &job.to_string()).ended_with(2);
    let golden = "\
fix in namespace cli-plan: 6 of 8 nodes would be served, 4 at a time, 2 rounds

NODES   PLACE     REASON                  AMONG THEM                           FOR EXAMPLE
6       served                            node-0000, node-0001, node-0002, …
1       refused   NodeTaintNotTolerated   node-0006                            node-0006: taint example.com/pool=gpu:NoSchedule
1       refused   NodeUnschedulable       node-0007                            node-0007: the node is cordoned
";
    assert!(some.stdout.starts_with(golden), "{}", some.stdout);

    let mut tolerant = job.clone();
    tolerant["spec"]["template"]["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let all = ask(
        &bench,
        &["plan", "-f", "-", "-o", "json"],
        &tolerant.to_string(),
    )
    .ended_with(0);
    let planned = all.json();
    assert_eq!(planned["items"][0]["served"].as_array().unwrap().len(), 8);
    assert_eq!(planned["items"][0]["problems"], json!([]));

    let mut one = tolerant.clone();
    one["spec"]["template"]["spec"]["nodeSelector"] =
        json!({"kubernetes.io/hostname": "node-0006"});
    let chosen = ask(&bench, &["plan", "-f", "-"], &one.to_string()).ended_with(0);
    assert!(
        chosen.stdout.contains("7       not chosen"),
        "{}",
        chosen.stdout
    );
    one["spec"]["template"]["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "typo"});
    ask(&bench, &["plan", "-f", "-"], &one.to_string()).ended_with(2);

    let stored = bench.kubectl(&["get", "cbj,pods", "-o", "name"]);
    assert_eq!(stored, "", "nothing is stored");
}

#[test]
fn plan_has_what_the_api_server_refuses_in_its_words() {
    let bench = desk().bench("cli-refused");
    let tolerate = json!({"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}});
    let job = bench.job("fix", &json!({}), &tolerate);
    let problem = |change: &dyn Fn(&mut Value)| {
        let mut object = job.clone();
        change(&mut object);
        let args = ["plan", "-f", "-", "-o", "json"];
        let answer = ask(&bench, &args, &object.to_string()).ended_with(2);
        let problems = answer.json()["items"][0]["problems"].clone();
        problems.as_array().unwrap().first().unwrap().to_string()
    };
    let typo =
        problem(&|job| job["spec"]["template"]["spec"]["containers"][0]["imgae"] = json!("x"));
    assert!(typo.contains("spec.containers[0].imgae"), "{typo}");
    let pod =
        problem(&|job| job["spec"]["template"]["spec"]["containers"][0]["name"] = json!("A_b"));
    assert!(pod.contains("spec.containers[0].name"), "{pod}");
    let rule = problem(&|job| job["spec"]["parallelism"] = json!(0));
    assert!(
        rule.contains("to start no pods set spec.paused: true"),
        "{rule}"
    );
    let unknown = problem(&|job| job["spec"]["paralelism"] = json!(1));
    assert!(unknown.contains("spec.paralelism"), "{unknown}");

    let mut huge = job.clone();
    huge["spec"]["parallelism"] = json!(99_999_999_999_i64);
    let refused = ask(&bench, &["plan", "-f", "-"], &huge.to_string()).ended_with(2);
    let first = "fix in namespace cli-refused: REFUSED, nothing would run\n\nerror: ";
    assert!(refused.stdout.starts_with(first), "{}", refused.stdout);
    assert!(!refused.stdout.contains("served"), "{}", refused.stdout);

    bench.apply(&job);
    let changed =
        problem(&|job| job["spec"]["template"]["spec"]["containers"][0]["image"] = json!("y"));
    assert!(changed.contains("is immutable"), "{changed}");
}

#[test]
fn plan_says_what_an_apply_would_change_of_a_job_that_is_there() {
    let bench = desk().bench("cli-plan-again");
    let job = bench.job(
        "fix",
        &json!({}),
        &json!({"parallelism": 3, "paused": true}),
    );
    bench.apply(&job);
    let said = |job: &Value| {
        let answer = ask(&bench, &["plan", "-f", "-"], &job.to_string());
        answer.ended_with(0).stdout
    };
    assert_eq!(
        said(&job),
        "fix in namespace cli-plan-again exists: unchanged\n"
    );
    // It makes no pods: whether one would be accepted now does not matter.
    bench.kubectl(&["create", "quota", "full", "--hard=pods=0"]);
    bench.until("the quota is in force", || {
        let used = bench.kubectl(&["get", "quota", "full", "-o=jsonpath={.status.used.pods}"]);
        (used == "0").then_some(())
    });
    let mut other = job.clone();
    other["spec"]["parallelism"] = json!(5);
    other["spec"].as_object_mut().unwrap().remove("paused");
    assert_eq!(
        said(&other),
        "fix in namespace cli-plan-again exists: it would be changed, and run nothing again\n  \
         spec.parallelism: 3 -> 5\n  spec.paused: true -> false\n"
    );
}

#[test]
fn plan_of_a_cron_job_says_where_each_run_would_go() {
    let bench = desk().bench("cli-plan-cron");
    let mut cron_job = bench.job("nightly", &json!({}), &json!({}));
    let template =
        json!({"metadata": {"labels": {"run": "nightly"}}, "spec": cron_job["spec"].take()});
    cron_job["kind"] = json!("CronJob");
    cron_job["spec"] = json!({"schedule": "0 3 * * *", "broadcastJobTemplate": template});
    let planned = ask(&bench, &["plan", "-f", "-"], &cron_job.to_string()).ended_with(2);
    let first = "each run of nightly in namespace cli-plan-cron: 6 of 8 nodes would be served, 6 at a time, 1 round\n";
    assert!(planned.stdout.starts_with(first), "{}", planned.stdout);
    cron_job["spec"]["broadcastJobTemplate"]["spec"]["parallelism"] = json!(0);
    let refused = ask(&bench, &["plan", "-f", "-"], &cron_job.to_string()).ended_with(2);
    assert!(
        refused.stdout.contains("REFUSED, nothing would run")
            && refused
                .stdout
                .contains("spec.broadcastJobTemplate.spec.parallelism"),
        "{}",
        refused.stdout
    );
}

#[test]
fn plan_reads_several_documents_and_leaves_out_other_kinds() {
    let bench = desk().bench("cli-files");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let example = folder.join("broadcastjob-minimal.yaml");
    let two = std::fs::read_to_string(&example).unwrap();
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";
    let text = format!("{config}---\n{two}\n---\n{}", two.replace("hello", "again"));
    let both = ask(&bench, &["plan", "-f", "-", "-o", "json"], &text).ended_with(2);
    assert_eq!(both.json()["items"][1]["job"], "again");
    assert!(
        both.stderr.contains("ConfigMap settings is not looked at"),
        "{both:?}"
    );

    let none = ask(&bench, &["plan", "-f", "-"], config).ended_with(1);
    assert!(none.stderr.contains("has no BroadcastJob"), "{none:?}");
    let file = carillon(&bench, &["plan", "-f", "no-such-file.yaml"]).ended_with(1);
    assert!(file.stderr.contains("no-such-file.yaml"), "{file:?}");
}
