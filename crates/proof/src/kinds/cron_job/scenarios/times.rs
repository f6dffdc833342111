//! Clocks, zones and intervals.

use serde_json::{Value, json};

use super::fixtures::{after, minutes, plain};
use crate::scenario::{Jump, Same, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    [rhythms(), zones(), changes_of_the_clock(), wrong_clocks()].concat()
}

fn rhythms() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "jitterSeconds": 50}),
            ends: minutes(5),
            ..plain("runs come a little later than scheduled")
        },
        Scenario {
            spec: json!({"schedule": "@every 50s"}),
            // It would go on for ever.
            script: vec![after(190, |view| view.edit_cron(json!({"suspend": true})))],
            ..plain("runs come at intervals")
        },
        Scenario {
            spec: json!({"schedule": "@every 50s", "startingDeadlineSeconds": 10}),
            script: vec![after(190, |view| view.edit_cron(json!({"suspend": true})))],
            // A crash may take longer than that.
            same: Same::Condition,
            ..plain("runs come at intervals and only in time")
        },
    ]
}

fn zones() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "timeZone": "Mars/Olympus_Mons"}),
            script: vec![after(90, |view| {
                view.edit_cron(json!({"timeZone": "Etc/UTC"}));
            })],
            ..plain("nobody knows its time zone until that is mended")
        },
        Scenario {
            spec: json!({"schedule": "1-3 0 31 2 *"}),
            script: vec![after(90, |view| {
                view.edit_cron(json!({"schedule": "2-3 0 * * *"}));
            })],
            ..plain("its times never come until that is mended")
        },
    ]
}

/// In Berlin, where 2026-10-25 has the hour from two to three twice, and 2026-03-29 not at all.
fn changes_of_the_clock() -> Vec<Scenario> {
    let twice = |policy: &str| -> Value {
        json!({
            "schedule": "0,1,58,59 2 * * *", "timeZone": "Europe/Berlin", "dstPolicy": policy,
        })
    };
    let never = |policy: &str| -> Value {
        json!({
            "schedule": "1,30,59 1-3 * * *", "timeZone": "Europe/Berlin", "dstPolicy": policy,
        })
    };
    let autumn = "2026-10-25T00:57:00Z";
    let spring = "2026-03-29T00:57:30Z";
    vec![
        Scenario {
            begin: autumn,
            spec: twice("AsWritten"),
            ends: minutes(6),
            ..plain("the clock is set back and shows times again")
        },
        Scenario {
            begin: autumn,
            spec: twice("Once"),
            ends: minutes(6),
            ..plain("the clock is set back and times count once")
        },
        Scenario {
            begin: spring,
            spec: never("AsWritten"),
            ends: minutes(6),
            ..plain("the clock is set forward and leaves times out")
        },
        Scenario {
            begin: spring,
            spec: never("Once"),
            ends: minutes(6),
            ..plain("the clock is set forward and what it leaves out is run once")
        },
    ]
}

fn wrong_clocks() -> Vec<Scenario> {
    let jumps = |jumps: &[(u64, i64)]| {
        let jump = |&(at, ahead): &(u64, i64)| Jump { at, ahead };
        jumps.iter().map(jump).collect()
    };
    vec![
        Scenario {
            spec: json!({"schedule": "1-6 0 * * *"}),
            jumps: jumps(&[(90, 150), (200, 0)]),
            ends: minutes(7),
            ..plain("the clock of the operator goes forward and then back")
        },
        Scenario {
            spec: json!({"schedule": "1-4 0 * * *"}),
            jumps: jumps(&[(90, -90), (200, 0)]),
            ends: minutes(6),
            ..plain("the clock of the operator goes back and then forward")
        },
        Scenario {
            spec: json!({
                "schedule": "1-4 0 * * *", "successfulJobsHistoryLimit": 0,
                "concurrencyPolicy": "Forbid",
            }),
            jumps: jumps(&[(150, -120), (330, 0)]),
            ends: minutes(7),
            ..plain("the clock of the operator goes back over ticks of which nothing is left")
        },
    ]
}
