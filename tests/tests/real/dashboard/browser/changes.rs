//! What a page does when what it shows changes under the hands of a person.

use std::process::Command;

use carillon_testbed::carillon::{Profile, Program, build};
use carillon_tests::lab::Bench;
use serde_json::json;

use super::super::serve::Served;
use super::page::Page;
use super::{JOB, go_on, scene};

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn a_page_that_changes_keeps_the_focus_and_is_never_blank() {
    let scene = scene("web-focus");
    let bench = scene.bench();
    let fails = json!({"exit-code": 3, "run-time": "4s"});
    bench.apply(&bench.job("fix", &json!({"node-0001": fails}), &go_on()));
    bench.wait("fix", "Complete");
    let served = Served::start(&scene.cluster, &[]);
    Page::open(&served, JOB, async |page| {
        let headline = "document.querySelector('#headline')?.textContent";
        page.until_is("it is shown", headline, "Complete: 1 node failed")
            .await;
        let watch = "(window.blank = 0, new MutationObserver(() => { \
            if (!document.querySelector('#headline')) window.blank += 1; \
            }).observe(document.querySelector('main'), {childList: true}), 0)";
        page.eval(watch).await;
        retry(&bench);
        let link = "document.querySelector('main a[href*=\"/default/fix-\"]')";
        let is_there = format!("{link} !== null");
        page.until("the retry is listed", &is_there, |is| *is == true)
            .await;
        page.eval(&format!("{link}.focus()")).await;
        let row = format!("{link}?.closest('tr').innerText ?? ''");
        page.until("the retry ends", &row, |row| {
            row.as_str().is_some_and(|row| row.contains("Complete"))
        })
        .await;
        let focused = page
            .eval("document.activeElement.getAttribute('href') ?? ''")
            .await;
        assert!(
            focused.as_str().unwrap().contains("/default/fix-"),
            "the focus went to {focused}"
        );
        assert_eq!(page.eval("window.blank").await, 0, "the page was blank");
        page.goto(&served, "#/").await;
        let rows = "document.querySelector('tbody')?.innerText ?? ''";
        let has = |name: &'static str| {
            move |rows: &serde_json::Value| rows.as_str().is_some_and(|rows| rows.contains(name))
        };
        page.until("all objects are listed", rows, has("fix")).await;
        let age = "[...document.querySelectorAll('th button')].at(-1)";
        page.eval(&format!("{age}.focus()")).await;
        bench.apply(&bench.job("second", &json!({}), &json!({})));
        page.until("the next job is listed", rows, has("second"))
            .await;
        assert_eq!(page.eval("document.activeElement.textContent").await, "Age");
    });
}

#[test]
#[ignore = "needs chromium: cargo xtask test --only browser"]
fn results_that_this_version_cannot_read_are_told_and_no_square_is_made_up() {
    let scene = scene("web-unreadable");
    let bench = scene.bench();
    bench.apply(&bench.job("fix", &json!({}), &json!({})));
    bench.wait("fix", "Complete");
    let served = Served::start(&scene.cluster, &[]);
    Page::open(&served, &format!("{JOB}?node=node-0001"), async |page| {
        let total = "document.querySelector('#total')?.textContent ?? ''";
        page.until_is("all nodes are counted", total, "8 nodes")
            .await;
        let slice = bench.kubectl(&["get", "nrs", "-o", "name"]);
        let store = |state: &str| {
            let patch = json!([{"op": "replace", "path": "/results/0/state", "value": state}]);
            let patch = patch.to_string();
            bench.kubectl(&["patch", slice.trim(), "--type=json", "-p", &patch]);
        };
        store("Teleported");
        let notice = "document.querySelector('#notice').innerText";
        page.until("it says what it cannot read", notice, |notice| {
            let notice = notice.as_str().unwrap_or_default();
            notice.contains("NodeResultSlice fix-") && notice.contains("this version cannot read")
        })
        .await;
        page.until_is("it counts nothing", total, "").await;
        let grids = "document.querySelectorAll('#grid').length";
        page.until("it draws nothing", grids, |grids| *grids == 0)
            .await;
        store("Succeeded");
        page.until_is("all nodes are counted again", total, "8 nodes")
            .await;
        page.until("and drawn", "carillon.view.grid?.nodes.length", |drawn| {
            *drawn == 8
        })
        .await;
        // While nobody sees the tab it follows nothing.
        page.eval(&seen(false)).await;
        store("Teleported");
        page.eval(&seen(true)).await;
        page.until_is("what was counted before is gone", total, "")
            .await;
        page.until("and what was drawn", grids, |grids| *grids == 0)
            .await;
        page.reload().await;
        let side = "document.querySelector('#node').innerText";
        page.until("nor does it explain a node", side, |side| {
            side.as_str()
                .is_some_and(|side| side.contains("this version cannot read"))
        })
        .await;
    });
}

/// Somebody goes to another tab, or comes back.
fn seen(is: bool) -> String {
    format!(
        "Object.defineProperty(document, 'hidden', {{value: {}, configurable: true}}), \
         document.dispatchEvent(new Event('visibilitychange'))",
        !is
    )
}

fn retry(bench: &Bench<'_>) {
    let program = build(Program::Cli, Profile::Dev).unwrap();
    let mut command = Command::new(program);
    command.env("KUBECONFIG", bench.cluster.kubeconfig());
    let args = ["-n", bench.name, "retry", "--failed", "cbj/fix"];
    let answer = command.args(args).output().unwrap();
    assert!(answer.status.success(), "{answer:?}");
}
