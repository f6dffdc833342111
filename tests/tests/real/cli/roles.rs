//! Each verb goes as far as the rights of its user: with the roles of the chart for people.

use serde_json::json;

use super::cron_jobs::cron;
use super::desk::{Answer, command, desk, finish};
use crate::chart::render::{find, render};

const ROLES: [&str; 3] = ["carillon-view", "carillon-edit", "carillon-view-nodes"];

/// What a verb ends with for whoever has one of these roles, and what it says.
struct Case {
    args: &'static [&'static str],
    view: (i32, &'static str),
    edit: (i32, &'static str),
    edit_and_nodes: (i32, &'static str),
}

const NO_NODES: &str = "carillon-view-nodes";
const FORBIDDEN: &str = "Ask for a RoleBinding to the ClusterRole carillon-edit";

const CASES: [Case; 12] = [
    same(&["get"], 0, "done"),
    same(&["get", "done", "-o", "wide"], 0, "done"),
    same(&["results", "done"], 0, "Succeeded"),
    same(&["wait", "done"], 0, "Complete"),
    same(&["next", "report"], 0, "report"),
    same(&["calendar", "report"], 0, "report"),
    Case {
        args: &["explain", "done"],
        view: (0, NO_NODES),
        edit: (0, NO_NODES),
        edit_and_nodes: (0, "NodeUnschedulable"),
    },
    Case {
        args: &["explain", "done", "--node", "node-0007"],
        view: (0, NO_NODES),
        edit: (0, NO_NODES),
        edit_and_nodes: (0, "cordoned"),
    },
    Case {
        args: &["plan", "-f", "-"],
        view: (2, "you may not create BroadcastJobs"),
        edit: (2, NO_NODES),
        edit_and_nodes: (2, "6 of 8 nodes would be served"),
    },
    same(&["pause", "paused"], 0, "is paused already"),
    changes(&["trigger", "report"], "runs job.batch/report-"),
    changes(&["suspend", "report"], "suspended"),
];

const fn same(args: &'static [&'static str], code: i32, says: &'static str) -> Case {
    let all = (code, says);
    Case {
        args,
        view: all,
        edit: all,
        edit_and_nodes: all,
    }
}

const fn changes(args: &'static [&'static str], says: &'static str) -> Case {
    let done = (0, says);
    Case {
        args,
        view: (1, FORBIDDEN),
        edit: done,
        edit_and_nodes: done,
    }
}

#[test]
fn each_verb_does_what_the_roles_of_the_chart_allow_and_says_what_is_missing() {
    let bench = desk().bench("cli-roles");
    let cluster = bench.cluster;
    let chart = render(&[]);
    for role in ROLES {
        let role = find(&chart, "ClusterRole", role).to_string();
        cluster.kubectl_stdin(["apply", "-f", "-"], &role).unwrap();
    }
    bench.apply(&bench.job("done", &json!({}), &json!({})));
    bench.wait("done", "Complete");
    let paused = bench.job("paused", &json!({}), &json!({"paused": true}));
    bench.apply(&paused);
    let manifest = bench.job("new", &json!({}), &json!({})).to_string();

    let users: [(&str, &[&str], bool); 3] = [
        ("viewer", &["carillon-view"], false),
        ("editor", &["carillon-edit"], false),
        ("planner", &["carillon-edit"], true),
    ];
    let mut wrong = Vec::new();
    for (user, roles, sees_nodes) in users {
        bench.apply(&cron(&bench, "report", &json!({}), &json!({})));
        bench.kubectl(&["create", "serviceaccount", user]);
        let account = format!("--serviceaccount={}:{user}", bench.name);
        for role in roles {
            let role = format!("--clusterrole={role}");
            bench.kubectl(&["create", "rolebinding", user, &role, &account]);
        }
        if sees_nodes {
            let role = "--clusterrole=carillon-view-nodes";
            bench.kubectl(&["create", "clusterrolebinding", "cli-roles", role, &account]);
        }
        let token = bench.kubectl(&["create", "token", user]);
        let kubeconfig = cluster.kubeconfig_for_token(&token, user).unwrap();
        for case in &CASES {
            let (code, says) = match user {
                "viewer" => case.view,
                "editor" => case.edit,
                _ => case.edit_and_nodes,
            };
            let mut carillon = command(cluster, bench.name);
            carillon.env("KUBECONFIG", &kubeconfig).args(case.args);
            let answer = finish(carillon, &manifest);
            if answer.code != code || !said(&answer).contains(says) {
                wrong.push(format!(
                    "{user} {:?}: expected {code} {says:?}: {answer:?}",
                    case.args
                ));
            }
        }
        bench.kubectl(&["delete", "ccj", "report"]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn said(answer: &Answer) -> String {
    format!("{}{}", answer.stdout, answer.stderr)
}
