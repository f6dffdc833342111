//! `kubectl carillon dashboard`: who is answered, and what a browser shows.

mod browser;
pub(crate) mod serve;

use carillon_testbed::http;
use carillon_tests::lab::lab;
use serde_json::json;

use self::serve::{Served, post};

#[test]
fn only_who_has_the_address_is_answered_and_nobody_may_frame_it() {
    let served = Served::start(&lab().cluster, &[]);
    let page = http::get(served.port, &served.path).unwrap();
    assert_eq!(page.status, 200);
    let script = http::get(served.port, &format!("{}app.js", served.path)).unwrap();
    assert_eq!(script.status, 200);
    for path in [
        "/",
        "/app.js",
        "/api/stream",
        "/0123456789abcdef0123456789abcdef/",
    ] {
        assert_eq!(http::get(served.port, path).unwrap().status, 404, "{path}");
    }
    let head = served.raw(
        "GET",
        "",
        &[("host", &format!("127.0.0.1:{}", served.port))],
        "",
    );
    for header in [
        "content-security-policy: default-src 'none';",
        "referrer-policy: no-referrer",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(head.contains(header), "{header} is not in {head}");
    }
    // A name of somebody else's that leads to this machine, and a page of another origin.
    let foreign = served.raw("GET", "", &[("host", "evil.example")], "");
    assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");
    let ours = format!("127.0.0.1:{}", served.port);
    let headers = [("host", &*ours), ("origin", "http://evil.example")];
    let foreign = served.raw("GET", "api/stream", &headers, "");
    assert!(foreign.starts_with("HTTP/1.1 403"), "{foreign}");
}

#[test]
fn without_actions_nothing_is_changed_whoever_asks() {
    let bench = lab().bench("dashboard-read", 1);
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    bench.wait("fix", "Paused");
    let served = Served::start(&lab().cluster, &[]);
    let refused = post(&served, &bench.get("fix"), "resume");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(refused.contains("started without --actions"), "{refused}");
    assert_eq!(bench.get("fix")["spec"]["paused"], true);
}

#[test]
fn an_action_holds_for_the_object_that_was_looked_at_and_for_who_may_do_it() {
    let bench = lab().bench("dashboard-act", 1);
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    bench.wait("fix", "Paused");
    let served = Served::start(&lab().cluster, &["--actions"]);
    let mut other = bench.get("fix");
    other["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let refused = post(&served, &other, "resume");
    assert!(
        refused.contains("another of this name is there"),
        "{refused}"
    );
    let mut older = bench.get("fix");
    older["metadata"]["generation"] = json!(0);
    let refused = post(&served, &older, "resume");
    assert!(refused.contains("was changed by somebody"), "{refused}");
    assert_eq!(bench.get("fix")["spec"]["paused"], true);
    // Who may only look is refused by the API server's own word.
    let viewer = serve::viewer(&bench);
    let looking = Served::of_user(&viewer, &["--actions", "-n", bench.name]);
    let refused = post(&looking, &bench.get("fix"), "resume");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(refused.contains("you may not change"), "{refused}");
    let done = post(&served, &bench.get("fix"), "resume");
    assert!(done.starts_with("HTTP/1.1 200"), "{done}");
    assert!(
        done.contains("broadcastjob.carillon.dev/fix resumed"),
        "{done}"
    );
    bench.wait("fix", "Complete");
}

#[test]
fn where_one_namespace_is_shown_nothing_is_changed_in_another() {
    let bench = lab().bench("dashboard-elsewhere", 1);
    bench.apply(&bench.job("fix", &json!({}), &json!({"paused": true})));
    bench.wait("fix", "Paused");
    let served = Served::start(&lab().cluster, &["--actions", "-n", "default"]);
    let refused = post(&served, &bench.get("fix"), "resume");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(
        refused.contains("only namespace default is shown"),
        "{refused}"
    );
    assert_eq!(bench.get("fix")["spec"]["paused"], true);
}

#[test]
fn who_may_not_list_nodes_is_told_so_and_not_that_a_node_is_gone() {
    let bench = lab().bench("dashboard-node", 1);
    bench.apply(&bench.job("fix", &json!({}), &json!({})));
    bench.wait("fix", "Complete");
    let host = |served: &Served| format!("127.0.0.1:{}", served.port);
    let ask = |served: &Served| {
        let (name, node) = (bench.name, &bench.nodes[0]);
        let query =
            format!("resource=broadcastjobs.carillon.dev&namespace={name}&name=fix&node={node}");
        let path = format!("api/node?{query}");
        served.raw("GET", &path, &[("host", &host(served))], "")
    };
    let viewer = serve::viewer(&bench);
    let looking = Served::of_user(&viewer, &["-n", bench.name]);
    let refused = ask(&looking);
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(refused.contains("you may not list nodes"), "{refused}");
    let explained = ask(&Served::start(&lab().cluster, &[]));
    assert!(explained.starts_with("HTTP/1.1 200"), "{explained}");
    assert!(explained.contains("Succeeded"), "{explained}");
}
