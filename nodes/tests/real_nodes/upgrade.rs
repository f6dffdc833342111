//! The chart is upgraded, rolled back, removed and installed again while work is under way.

use carillon_testbed::carillon::{NAMESPACE, RELEASE, build_image, workspace};
use serde_json::json;

use crate::lab::{Lab, alone, broadcast};
use crate::work::Work;

/// The tag of an image beside that of the chart.
const NEXT: &str = "next";

#[track_caller]
fn helm(lab: &Lab, args: &[&str]) -> String {
    let done = lab.helm(args);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    said
}

fn images(lab: &Lab) -> Vec<String> {
    let pods = lab.operators();
    let image = |pod: &serde_json::Value| {
        pod["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    pods.iter().map(image).collect()
}

#[test]
fn jobs_that_run_are_carried_through_an_upgrade_and_a_rollback() {
    let lab = alone();
    lab.wait_operators();
    let next = format!("{RELEASE}:{NEXT}");
    let archive = build_image(&lab.cluster.dir().join(NEXT), &next).unwrap();
    for node in lab.nodes().all() {
        node.import(&archive).unwrap();
    }
    let chart = workspace().join("charts/carillon");
    let chart = chart.to_str().unwrap();
    let work = Work::start(&lab, "upgraded", 30, &json!({}));
    let set = format!("image.tag={NEXT}");
    helm(
        &lab,
        &[
            "upgrade",
            RELEASE,
            chart,
            "--reuse-values",
            "--set",
            &set,
            "--wait",
            "--timeout=3m",
        ],
    );
    assert_eq!(images(&lab), [next.clone(), next.clone()]);
    work.wait();
    work.assert_once();

    let work = Work::start(&lab, "rolled-back", 30, &json!({}));
    helm(&lab, &["rollback", RELEASE, "--wait", "--timeout=3m"]);
    assert!(images(&lab).iter().all(|image| *image != next));
    work.wait();
    work.assert_once();
    lab.wait_operators();
}

#[test]
fn jobs_that_run_outlive_the_release_and_the_next_one_goes_on_with_them() {
    let lab = alone();
    lab.wait_operators();
    let work = Work::start(&lab, "removed", 10, &json!({}));
    work.bench.apply(&broadcast(
        &work.bench,
        "slow",
        "sleep 15",
        &json!({"parallelism": 1}),
    ));
    work.bench.until("slow has begun", || {
        (work.bench.pods("slow").len() == 1).then_some(())
    });
    helm(&lab, &["uninstall", RELEASE, "--wait", "--timeout=3m"]);
    assert!(lab.operators().is_empty());
    lab.until("its containers have ended", || {
        (work.runs("fix") == [(1, 1); 3]).then_some(())
    });
    let fix = work.bench.get("fix");
    assert_eq!(
        fix["status"]["succeeded"], 0,
        "nobody has looked: {}",
        fix["status"]
    );
    let chart = workspace().join("charts/carillon");
    helm(
        &lab,
        &[
            "install",
            RELEASE,
            chart.to_str().unwrap(),
            "--wait",
            "--timeout=3m",
        ],
    );
    work.wait();
    work.assert_once();
    work.bench.wait("slow", "Complete");
    assert_eq!(work.bench.creations("slow").len(), 3);

    // A namespace goes while the operator is there.
    lab.kubectl(&["delete", "namespace", work.bench.name, "--timeout=2m"]);
    lab.wait_operators();
    assert_eq!(
        lab.get(&["deployment", RELEASE, "-n", NAMESPACE])["status"]["readyReplicas"],
        2
    );
}
