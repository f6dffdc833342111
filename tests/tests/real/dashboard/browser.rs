//! What a real browser shows. These need chromium and its driver: `cargo xtask test --only browser`.

mod changes;
mod page;
mod screenshots;

use std::time::Duration;

use carillon_testbed::{Cluster, Operator, Options};
use carillon_tests::lab::{self, Bench};
use serde_json::{Value, json};

use self::page::Page;
use super::serve::Served;

/// A cluster of its own: pages show all of it.
struct Scene {
    cluster: Cluster,
    operator: Operator,
}

fn scene(name: &'static str) -> Scene {
    let cluster = lab::cluster(name, 8);
    for node in 0..8 {
        let zone = format!("topology.kubernetes.io/zone={}", ["a", "b"][node % 2]);
        let node = format!("node-{node:04}");
        cluster
            .kubectl_ok(["label", "--overwrite", "node", &node, &zone])
            .unwrap();
    }
    cluster.kubectl_ok(["cordon", "node-0007"]).unwrap();
    let operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    Scene { cluster, operator }
}

impl Scene {
    fn bench(&self) -> Bench<'_> {
        Bench {
            cluster: &self.cluster,
            name: "default",
            nodes: (0..8).map(|n| format!("node-{n:04}")).collect(),
            node_selector: json!({}),
        }
    }
}

/// Fails on two nodes of zone b for the same reason, and on one of zone a for another.
fn three_failures() -> Value {
    let full = json!({"exit-code": 3, "message": "no space left on device"});
    json!({"node-0001": full, "node-0003": full, "node-0004": {"exit-code": 1}})
}

fn go_on() -> Value {
    json!({"failurePolicy": {"type": "Continue"}})
}

const JOB: &str = "#/broadcastjobs.carillon.dev/default/fix";

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn after_a_run_with_failures_the_page_shows_every_node_and_what_came_out_there() {
    let scene = scene("web-failures");
    let bench = scene.bench();
    bench.apply(&bench.job("fix", &three_failures(), &go_on()));
    bench.wait("fix", "Complete");
    let served = Served::start(&scene.cluster, &[]);
    Page::open(&served, "", async |page| {
        page.until(
            "the job is in the table",
            "document.querySelector('tbody tr')?.innerText ?? ''",
            |row| {
                row.as_str()
                    .is_some_and(|row| row.contains("fix") && row.contains("4/8"))
            },
        )
        .await;
        page.click("tbody tr a").await;
        let total = "document.querySelector('#total')?.textContent";
        page.until_is("all nodes are counted", total, "8 nodes")
            .await;
        let counts =
            "[...document.querySelectorAll('.chip')].map(chip => chip.innerText.trim()).join('; ')";
        let counted = "4 done; 0 active; 3 failed; 0 waiting; 1 left out";
        page.until_is("each has one colour", counts, counted).await;
        let failures = page.text("#failures + .scroll").await;
        assert!(
            failures.contains("exit 3, \"no space left on device\""),
            "{failures}"
        );
        assert!(
            failures.contains("topology.kubernetes.io/zone=b"),
            "two of zone b share it: {failures}"
        );
        // By keyboard: to the next failed node, and its explanation.
        page.keys("#grid", "n").await;
        let spoken = page.text_content("#spoken").await;
        assert!(
            spoken.contains("node-0001") && spoken.contains("exit 3"),
            "{spoken}"
        );
        page.keys("#grid", "\u{e007}").await;
        let explained = "document.querySelector('#explained')?.textContent";
        page.until_is("Enter explains it", explained, "node-0001")
            .await;
        let address = page.eval("location.hash").await;
        assert!(
            address.as_str().unwrap().contains("node=node-0001"),
            "{address}"
        );
        let side = page.text("#node").await;
        assert!(
            side.contains("no space left on device") && side.contains("logs fix --node node-0001"),
            "{side}"
        );
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn a_job_that_waits_for_a_person_is_resumed_by_a_click() {
    let scene = scene("web-resume");
    let bench = scene.bench();
    let pause = json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}});
    let fates = json!({"node-0001": {"exit-code": 3, "message": "no space left"}});
    bench.apply(&bench.job("fix", &fates, &pause));
    bench.wait("fix", "Paused");
    let reading = Served::start(&scene.cluster, &[]);
    let resume = "document.querySelector('[data-verb=resume]')";
    Page::open(&reading, JOB, async |page| {
        page.until(
            "the button is there",
            &format!("{resume} !== null"),
            |there| *there == true,
        )
        .await;
        let disabled = page.eval(&format!("{resume}.disabled")).await;
        assert_eq!(disabled, true, "without --actions nothing can be pressed");
    });
    let served = Served::start(&scene.cluster, &["--actions"]);
    Page::open(&served, JOB, async |page| {
        page.until(
            "it can be pressed",
            &format!("{resume}?.disabled"),
            |disabled| *disabled == false,
        )
        .await;
        let headline = "document.querySelector('#headline').textContent";
        let paused = "Paused: node-0001 failed (exit 3)";
        page.until_is("it says why", headline, paused).await;
        let next = page.text("#next").await;
        let command = "kubectl carillon -n default resume fix";
        assert!(
            next.starts_with("Next: ") && next.contains(command),
            "{next}"
        );
        page.click("[data-verb=resume]").await;
        page.accept().await;
        let said = "document.querySelector('.said')?.textContent";
        page.until("it says what was done", said, |said| {
            said.as_str()
                .is_some_and(|said| said.contains("fix resumed"))
        })
        .await;
        page.until_is(
            "the job goes on to its end",
            headline,
            "Complete: 1 node failed",
        )
        .await;
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn a_page_that_is_loaded_again_shows_the_same_and_goes_on() {
    let scene = scene("web-reload");
    let bench = scene.bench();
    bench.apply(&bench.job("fix", &json!({"node-0002": {"fate": "hang"}}), &json!({})));
    let served = Served::start(&scene.cluster, &[]);
    let counts = "[...document.querySelectorAll('.chip b')].map(n => n.textContent).join(' ')";
    let filtered = format!("{JOB}?state=active&group=topology.kubernetes.io%2Fzone");
    Page::open(&served, &filtered, async |page| {
        page.until_is("one node is at work", counts, "6 1 0 0 1")
            .await;
        let shown = "carillon.view.grid.shown.map(at => carillon.view.grid.nodes[at]).join()";
        page.until_is("the filter of the address holds", shown, "node-0002")
            .await;
        page.reload().await;
        page.until_is("the same after a reload", counts, "6 1 0 0 1")
            .await;
        page.until_is("the filter is kept", shown, "node-0002")
            .await;
        let groups = "carillon.view.grid.groups.map(group => group.join(':')).join()";
        page.until_is("nodes are grouped by zone", groups, "a:4,b:4")
            .await;
        page.keys("#label", "topology.kubernetes.io/zone=a\u{e007}")
            .await;
        let told = "document.querySelector('#shown')?.textContent";
        page.until_is("one zone is drawn", told, "1 of 8 shown")
            .await;
        page.until_is("all nodes are counted", counts, "6 1 0 0 1")
            .await;
        bench.kubectl(&["delete", "cbj", "fix"]);
        let gone = "document.querySelector('main').innerText.trim()";
        page.until_is(
            "the job goes",
            gone,
            "There is no BroadcastJob fix in namespace default.",
        )
        .await;
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn what_a_container_has_written_never_becomes_markup() {
    let scene = scene("web-hostile");
    let bench = scene.bench();
    let hostile = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u{202e}txt";
    let fates = json!({"node-0001": {"exit-code": 1, "message": hostile}});
    bench.apply(&bench.job("fix", &fates, &go_on()));
    bench.wait("fix", "Complete");
    let served = Served::start(&scene.cluster, &[]);
    Page::open(&served, &format!("{JOB}?node=node-0001"), async |page| {
        let explained = "document.querySelector('#explained')?.textContent";
        page.until_is("the node is explained", explained, "node-0001")
            .await;
        let side = page.text("#node").await;
        assert!(
            side.contains("<img src=x onerror="),
            "it is shown as it was written: {side}"
        );
        assert!(
            !side.contains('\u{202e}'),
            "nothing turns text around: {side}"
        );
        let failures = page.text("#failures + .scroll").await;
        assert!(failures.contains("<script>"), "{failures}");
        let made = page
            .eval("document.querySelectorAll('img, main script, #node script').length")
            .await;
        assert_eq!(made, 0);
        assert_eq!(page.eval("document.title").await, "fix · Carillon");
        // Nor could a script of ours write markup by mistake.
        let written = page
            .eval(
                "(() => { try { document.body.innerHTML = 'x'; } catch { return 'refused'; } })()",
            )
            .await;
        assert_eq!(written, "refused");
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn a_page_outlives_a_restart_of_the_api_server() {
    let scene = scene("web-restart");
    let bench = scene.bench();
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    bench.wait("fix", "Paused");
    let served = Served::start(&scene.cluster, &[]);
    Page::open(&served, JOB, async |page| {
        let headline = "document.querySelector('#headline')?.textContent";
        page.until_is("it is shown", headline, "Paused: spec.paused is true")
            .await;
        scene.cluster.kill_apiserver().unwrap();
        let link = "document.querySelector('#link').textContent";
        page.until(
            "it says that the API server does not answer",
            link,
            |link| {
                link.as_str()
                    .is_some_and(|link| link.contains("does not answer"))
            },
        )
        .await;
        scene.cluster.start_apiserver().unwrap();
        bench.patch("fix", &json!({"spec": {"paused": false}}));
        page.until_is("it goes on by itself", headline, "Complete")
            .await;
        page.until_is("and says that it is live", link, "live")
            .await;
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn the_page_asks_the_operator_what_it_decided_and_says_why_nobody_could_be_asked() {
    let scene = scene("web-decisions");
    let bench = scene.bench();
    bench.apply(&bench.job("fix", &three_failures(), &go_on()));
    bench.wait("fix", "Complete");
    let asked = "document.querySelector('#ask')?.parentElement.parentElement.innerText ?? ''";
    let says = |words: &'static str| {
        move |told: &Value| told.as_str().is_some_and(|told| told.contains(words))
    };
    let alone = Served::start(&scene.cluster, &[]);
    Page::open(&alone, JOB, async |page| {
        page.until("the button is there", asked, says("Ask the operator"))
            .await;
        page.click("#ask").await;
        let hint = "Name its namespace with --operator-namespace";
        page.until("it says whom it looked for", asked, says(hint))
            .await;
    });
    let address = format!("--debug-address=127.0.0.1:{}", scene.operator.debug_port);
    let served = Served::start(&scene.cluster, &[&address]);
    Page::open(&served, JOB, async |page| {
        page.until("the button is there", asked, says("Ask the operator"))
            .await;
        page.keys("#ask", "\u{e007}").await;
        page.until("pods were created", asked, says("create pod ×7: "))
            .await;
        page.until("it can be asked again", asked, says("Ask again"))
            .await;
        let focused = "document.activeElement?.id";
        page.until_is("the button keeps the focus", focused, "ask")
            .await;
        let spoken = page.text_content("#spoken").await;
        assert!(spoken.ends_with(" decisions"), "{spoken}");
        // Another job of this name: what was said of the one before is not true of it.
        bench.kubectl(&["delete", "cbj", "fix"]);
        bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
        page.until("nothing is said of the new one yet", asked, |told| {
            let told = told.as_str().unwrap_or_default();
            told.contains("Ask the operator") && !told.contains("create pod")
        })
        .await;
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn a_page_is_usable_at_four_hundred_pixels() {
    let scene = scene("web-narrow");
    let bench = scene.bench();
    bench.apply(&bench.job("fix", &three_failures(), &go_on()));
    bench.wait("fix", "Complete");
    let served = Served::start(&scene.cluster, &[]);
    Page::open(&served, JOB, async |page| {
        page.resize(400, 800).await;
        page.until_is(
            "it is shown",
            "document.querySelector('#total')?.textContent",
            "8 nodes",
        )
        .await;
        let wide = "[...document.querySelectorAll('body *')].filter(one => \
            one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll')) \
            .map(one => one.tagName + '.' + one.className).join()";
        page.until_is("nothing sticks out to the right", wide, "")
            .await;
    });
}

/// How long a page may take, on a machine that has more to do.
const LIMIT: Duration = Duration::from_secs(90);
