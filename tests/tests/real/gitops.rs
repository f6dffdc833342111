//! What Flux, Helm and Argo CD make of our kinds: kstatus itself, and the scripts of `docs/argocd/argocd-cm.yaml` in the
//! Lua that Argo CD has, on stored objects of every state.

mod actions;
mod argo;
mod columns;
mod states;

use std::io::Write;
use std::process::{Command, Stdio};

use carillon_testbed::tools;
use serde_json::{Value, json};

use self::states::{State, states};

/// What the tools answer to these questions, in order.
fn ask(questions: &Value) -> Vec<Value> {
    let mut command = Command::new(tools::gitops().unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(questions.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What Lua returns for a script on an object.
fn run(script: &str, object: &Value) -> Value {
    let [answer] = &ask(&json!([{"script": script, "object": object}]))[..] else {
        panic!("no answer");
    };
    assert_eq!(answer["error"], Value::Null, "{script}");
    answer.clone()
}

#[test]
fn kstatus_calls_each_state_what_the_page_says() {
    let questions: Vec<Value> = states()
        .iter()
        .map(|s| json!({"object": s.object}))
        .collect();
    let answers = ask(&json!(questions));
    let found: Vec<(&str, &str)> = states()
        .iter()
        .zip(&answers)
        .map(|(state, answer)| (state.name, answer["Status"].as_str().unwrap_or("none")))
        .collect();
    let expected: Vec<_> = states().iter().map(|s| (s.name, s.kstatus)).collect();
    assert_eq!(found, expected);
}

#[test]
fn no_object_is_stalled_and_reconciling_at_once() {
    for State { name, object, .. } in states() {
        let is = |type_: &str| carillon_tests::lab::is(object, type_);
        assert!(!(is("Stalled") && is("Reconciling")), "{name}: {object}");
    }
}

#[test]
fn the_health_check_of_argo_cd_calls_each_state_what_the_page_says() {
    for state in states() {
        let kind = state.object["kind"].as_str().unwrap();
        // Of what is being deleted Argo CD says by itself that it is Progressing.
        let Some(expected) = state.health else {
            assert!(state.object["metadata"]["deletionTimestamp"].is_string());
            continue;
        };
        let health = run(&argo::health(kind), &state.object);
        assert_eq!(health["status"], expected, "{}: {health}", state.name);
        let message = health["message"].as_str().unwrap_or_default();
        if expected == "Degraded" {
            let stalled = carillon_tests::lab::condition_of(&state.object, "Stalled").unwrap();
            let (reason, words) = (&stalled["reason"], &stalled["message"]);
            let said = format!("{}: {}", reason.as_str().unwrap(), words.as_str().unwrap());
            assert_eq!(message, said, "{}", state.name);
        }
    }
}

#[test]
fn argo_cd_offers_in_each_state_the_actions_that_make_sense() {
    for state in states() {
        let kind = state.object["kind"].as_str().unwrap();
        let offered = argo::offered(kind, &state.object);
        assert_eq!(offered, state.actions, "{}", state.name);
    }
}
