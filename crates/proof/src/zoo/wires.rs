//! Bugs of the client: what is written without saying which version is meant, sent again, or
//! believed.

use serde_json::{Value, json};

use super::cases::{at, calm, under};
use super::mutant::Mutant;
use crate::blow::Blow;
use crate::case::Case;
use crate::disturbance::{AtWrite, Disturbance};
use crate::wire::{Message, Wire};

pub(super) fn mutants() -> Vec<Mutant> {
    let rewrites = |rewrites: fn(&mut Message)| Wire {
        rewrites: Some(rewrites),
        ..Wire::default()
    };
    vec![
        Mutant::new(
            "pods are deleted by name",
            "Sieve: stale deletes, without uid",
            &["S11"],
            vec![calm("the deadline passes while a pod hangs")],
        )
        .speaks(rewrites(|message| {
            without(message, "DELETE", "pods", &["preconditions", "uid"]);
        })),
        Mutant::new(
            "pods are deleted whatever has become of them",
            "Sieve: stale deletes, without resourceVersion",
            &["S11"],
            vec![calm("the deadline passes while a pod hangs")],
        )
        .speaks(rewrites(|message| {
            without(
                message,
                "DELETE",
                "pods",
                &["preconditions", "resourceVersion"],
            );
        })),
        Mutant::new(
            "slices are written over whatever is there",
            "Sieve: updates without resourceVersion",
            &["S11"],
            vec![calm("every node succeeds")],
        )
        .speaks(rewrites(|message| {
            let slices = "noderesultslices";
            without(message, "PATCH", slices, &["metadata", "resourceVersion"]);
        })),
        Mutant::new(
            "the status is written over whatever is there",
            "Sieve: updates without resourceVersion; kruise D11",
            &["S11"],
            vec![calm("every node succeeds")],
        )
        .speaks(rewrites(|message| {
            without(message, "PATCH", "status", &["metadata", "resourceVersion"]);
        })),
        Mutant::new(
            "a refused write of the status is taken for done",
            "kruise D11",
            &["L1"],
            vec![refused(
                "a job without nodes fails where that is asked for",
                &[3, 4],
            )],
        )
        .speaks(Wire {
            believes: Some(|message| message.is_for("status")),
            ..Wire::default()
        }),
        Mutant::new(
            "a refused deletion of a job whose time is over is taken for done",
            "kruise D14",
            &["L1"],
            vec![refused(
                "the time to live removes the job and all of it",
                &[22],
            )],
        )
        .speaks(Wire {
            believes: Some(|message| message.method == "DELETE"),
            ..Wire::default()
        }),
        Mutant::new(
            "a creation without an answer is sent again under another name",
            "kube-rs default retry repeats POST; kruise D7",
            &["S1"],
            vec![at("every node succeeds", 3, Blow::LoseReply)],
        )
        .speaks(Wire {
            repeats: Some(again),
            ..Wire::default()
        }),
    ]
}

/// These writes are refused.
fn refused(scenario: &str, writes: &[usize]) -> Case {
    let at = |write: &usize| AtWrite {
        write: *write,
        blow: Blow::Refuse,
    };
    let refusals = Disturbance {
        at: writes.iter().map(at).collect(),
        ..Disturbance::none(1)
    };
    under(scenario, refusals)
}

pub(super) fn without(message: &mut Message, method: &str, plural: &str, path: &[&str; 2]) {
    if message.method == method
        && message.is_for(plural)
        && let Some(Value::Object(parent)) = message.body.get_mut(path[0])
    {
        parent.remove(path[1]);
    }
}

fn again(message: &Message) -> Option<Message> {
    let mut again = message.clone();
    let name = message.body["metadata"]["name"].as_str()?;
    again.body["metadata"]["name"] = json!(format!("{name}-{:04x}", fastrand::u16(..)));
    (message.method == "POST" && message.is_for("pods")).then_some(again)
}
