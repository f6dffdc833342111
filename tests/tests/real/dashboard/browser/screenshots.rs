//! Pictures of the pages for the docs, of a cluster where everything happens.

use std::fs;
use std::process::Command;

use carillon_testbed::carillon::{Profile, Program, build, workspace};
use carillon_testbed::{Cluster, Operator, Options};
use carillon_tests::lab::{self, Bench};
use serde_json::{Value, json};

use super::super::serve::Served;
use super::page::Page;

const NODES: usize = 240;
/// Set, the pictures are written where the docs show them.
const WRITE: &str = "CARILLON_WRITE_SCREENSHOTS";

const PAGES: [(&str, &str, &str); 5] = [
    (
        "objects",
        "#/",
        "document.querySelectorAll('tbody tr').length == 11",
    ),
    (
        "broadcastjob",
        "#/broadcastjobs.carillon.dev/default/patch-kernel?group=topology.kubernetes.io%2Fzone",
        "document.querySelectorAll('#failures + .scroll tbody tr').length == 2",
    ),
    (
        "daemonset",
        "#/daemonsets.carillon.dev/default/log-agent?group=topology.kubernetes.io%2Fzone",
        "document.querySelector('#total')?.textContent == '240 nodes'",
    ),
    (
        "cronjob",
        "#/cronjobs.carillon.dev/default/rotate-keys",
        "document.querySelectorAll('.run').length > 3",
    ),
    (
        "runs",
        "#/runs",
        "document.querySelectorAll('.run').length > 3",
    ),
];

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn each_page_is_drawn_in_light_and_in_dark() {
    let cluster = cluster();
    let _operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    let bench = Bench {
        cluster: &cluster,
        name: "default",
        nodes: Vec::new(),
        node_selector: json!({}),
    };
    everything(&bench);
    let served = Served::start(&cluster, &[]);
    Page::open(&served, "", async |page| {
        for (name, address, shown) in PAGES {
            page.resize(1180, 760).await;
            page.goto(&served, address).await;
            page.until(name, shown, |shown| *shown == true).await;
            let painted = "!document.querySelector('#grid') || carillon.view.grid.frames > 1";
            page.until("the grid is painted", painted, |painted| *painted == true)
                .await;
            for scheme in ["light", "dark"] {
                page.dark(scheme == "dark").await;
                let ground = "getComputedStyle(document.body).backgroundColor";
                let expected = if scheme == "dark" {
                    "rgb(20, 23, 26)"
                } else {
                    "rgb(255, 255, 255)"
                };
                page.until_is(scheme, ground, expected).await;
                save(&format!("{name}-{scheme}"), &page.picture().await);
            }
        }
    });
    if std::env::var_os(WRITE).is_some() {
        fs::write(workspace().join(MADE_FROM), digest() + "\n").unwrap();
    }
}

/// Files of the page, of which the pictures are.
const ASSETS: &str = "crates/dashboard/src/assets";
const MADE_FROM: &str = "docs/dashboard/made-from.txt";

#[test]
fn the_pictures_in_the_docs_are_of_the_pages_as_they_are_now() {
    let made_from = fs::read_to_string(workspace().join(MADE_FROM)).unwrap_or_default();
    assert_eq!(
        made_from.trim(),
        digest(),
        "make them again: {WRITE}=1 cargo xtask test --only browser"
    );
    for (name, ..) in PAGES {
        for scheme in ["light", "dark"] {
            let picture = workspace().join(format!("docs/dashboard/{name}-{scheme}.png"));
            assert!(picture.is_file(), "{}", picture.display());
        }
    }
}

/// Of all files of the page; FNV-1a, as it only has to notice a change.
fn digest() -> String {
    let files = fs::read_dir(workspace().join(ASSETS)).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let bytes = files.iter().flat_map(|file| fs::read(file).unwrap());
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{digest:016x}")
}

fn save(name: &str, picture: &[u8]) {
    assert!(picture.starts_with(b"\x89PNG"), "{name} is a picture");
    if std::env::var_os(WRITE).is_some() {
        let dir = workspace().join("docs/dashboard");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{name}.png")), picture).unwrap();
    }
}

fn cluster() -> Cluster {
    let cluster = lab::cluster("web-pictures", 0);
    for zone in ["eu-1a", "eu-1b", "eu-1c"] {
        let labels = [("topology.kubernetes.io/zone", zone)];
        cluster.add_nodes(NODES / 3, &labels, &[]).unwrap();
    }
    cluster
}

/// A job with failures at work, a rollout, a job that waits for a person, runs of CronJobs.
fn everything(bench: &Bench<'_>) {
    for node in ["node-0011", "node-0090"] {
        bench.kubectl(&["cordon", node]);
    }
    let full = json!({"exit-code": 3, "message": "no space left on device"});
    let mut fates = json!({"node-0150": {"exit-code": 1, "message": "kernel image not found"}});
    for node in [82, 95, 103, 117, 131] {
        fates[format!("node-{node:04}")] = full.clone();
    }
    for node in 170..240 {
        fates[format!("node-{node:04}")] = json!({"fate": "hang"});
    }
    let go_on = json!({"failurePolicy": {"type": "Continue"}, "parallelism": 40});
    bench.apply(&bench.job("patch-kernel", &fates, &go_on));
    let pause = json!({"failurePolicy": {"type": "Pause"}, "parallelism": 1});
    bench.apply(&bench.job("rotate-certificates", &json!({"node-0002": full}), &pause));
    bench.apply(&bench.job("collect-inventory", &json!({}), &json!({})));
    let agent = |image: &str| {
        json!({
            "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
            "metadata": {"name": "log-agent", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "log-agent"}},
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": 8, "partition": 120}},
                "template": {"metadata": {"labels": {"app": "log-agent"}},
                    "spec": {"containers": [{"name": "agent", "image": image}]}},
            },
        })
    };
    bench.apply(&agent("log-agent:2.3"));
    bench.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "cds/log-agent",
        "--timeout=180s",
    ]);
    bench.apply(&agent("log-agent:2.4"));
    bench.apply(&cron("rotate-keys", "*/15 * * * *", "Europe/Zurich"));
    bench.apply(&cron("close-books", "30 2 1 * *", "America/New_York"));
    for _ in 0..5 {
        // Each is on request, so that nobody has to wait for the clock.
        trigger(bench, "rotate-keys");
    }
    bench.wait("collect-inventory", "Complete");
    bench.wait("rotate-certificates", "Paused");
}

fn trigger(bench: &Bench<'_>, cron: &str) {
    let program = build(Program::Cli, Profile::Dev).unwrap();
    let mut command = Command::new(program);
    command.env("KUBECONFIG", bench.cluster.kubeconfig());
    let args = [
        "-n",
        bench.name,
        "trigger",
        cron,
        "--wait",
        "--timeout",
        "2m",
    ];
    let answer = command.args(args).output().unwrap();
    assert!(answer.status.success(), "{answer:?}");
}

fn cron(name: &str, schedule: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedule": schedule, "timeZone": zone, "concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": 10,
            "jobTemplate": {"spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.37"}],
            }}}},
        },
    })
}
