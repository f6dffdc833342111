//! The last decisions of an operator about an object, in words: what its debug page `/debug/flights` says.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An operator keeps so many of an object.
const MOST: usize = 16;

/// A decision.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was made.
    pub time: Timestamp,
    /// Which operator says so: namespace and name of its pod, or its address.
    pub told_by: String,
    /// What was to be done, in order; empty: nothing.
    pub steps: Vec<String>,
    /// What became of it.
    pub outcome: String,
    /// It did not go well.
    pub bad: bool,
    /// How many decisions to do nothing came right before it.
    pub repeated: u64,
    /// When it looks again at the latest, if nothing changes before.
    pub wake: Option<Timestamp>,
    /// resourceVersion of the object that it was made from.
    pub resource_version: u64,
}

/// What the debug page has of a decision. A field that it does not have, as of another version, says nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told {
    repeated: u64,
    now: Option<Timestamp>,
    resource_version: u64,
    steps: Vec<Step>,
    all_steps: Option<usize>,
    wake: Option<Timestamp>,
    refused: Option<String>,
    outcome: Option<Outcome>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Step {
    actions: Vec<Acts>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Acts {
    action: String,
    count: usize,
    names: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outcome {
    writes: usize,
    failed: Option<String>,
    conflict: bool,
    expired: bool,
    stopped: bool,
}

/// What operators have answered about an object.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// The decisions, the last one first.
    pub decisions: Vec<Decision>,
    /// Which operators have answered.
    pub asked: Vec<String>,
    /// Those that did not, and why.
    pub silent: Vec<String>,
    /// Decisions of another version, which cannot be read.
    pub unreadable: usize,
}

impl Answers {
    /// Adds what an operator has on its debug page about the object with this uid.
    pub fn add(&mut self, told_by: String, page: &Value, uid: &str) {
        let objects = page["objects"].as_array().into_iter().flatten();
        let own = objects.filter(|object| object["uid"] == uid);
        let all = own.filter_map(|object| object["decisions"].as_array());
        // The last ones stand last.
        for told in all.flat_map(|all| all.iter().rev().take(MOST)) {
            match decision(told, &told_by) {
                Some(decision) => self.decisions.push(decision),
                None => self.unreadable += 1,
            }
        }
        self.asked.push(told_by);
        self.decisions
            .sort_by_key(|decision| std::cmp::Reverse(decision.time));
    }
}

fn decision(told: &Value, told_by: &str) -> Option<Decision> {
    let told = Told::deserialize(told).ok()?;
    let time = told.now?;
    let (outcome, bad) = outcome(&told);
    let mut steps: Vec<String> = told
        .steps
        .iter()
        .flat_map(|step| &step.actions)
        .map(acts)
        .collect();
    let more = told.all_steps.unwrap_or_default();
    if let Some(more) = more.checked_sub(told.steps.len()).filter(|more| *more > 0) {
        steps.push(format!("{more} more steps"));
    }
    Some(Decision {
        time,
        told_by: told_by.to_owned(),
        steps,
        outcome,
        bad,
        repeated: told.repeated,
        wake: told.wake,
        resource_version: told.resource_version,
    })
}

/// `create pod fix-1x2 on n1`, `create pod ×10: fix-1x2 on n1, …`.
fn acts(acts: &Acts) -> String {
    let word = acts.action.replace('_', " ");
    let names = acts.names.join(", ");
    let more = if acts.count > acts.names.len() {
        ", …"
    } else {
        ""
    };
    match (acts.count, names.is_empty()) {
        (0 | 1, true) => word,
        (0 | 1, false) => format!("{word} {names}"),
        (count, true) => format!("{word} ×{count}"),
        (count, false) => format!("{word} ×{count}: {names}{more}"),
    }
}

/// In words, and whether that is bad.
fn outcome(told: &Told) -> (String, bool) {
    if let Some(why) = &told.refused {
        return (format!("refused by the interlock: {why}"), true);
    }
    if told.steps.is_empty() {
        return ("nothing to do".to_owned(), false);
    }
    let Some(outcome) = &told.outcome else {
        return ("under way".to_owned(), false);
    };
    let mut words = vec![match outcome.writes {
        1 => "1 write".to_owned(),
        writes => format!("{writes} writes"),
    }];
    words.extend(outcome.failed.as_ref().map(|why| format!("failed: {why}")));
    let rest = [
        (
            outcome.conflict,
            "the state had changed meanwhile: it decides again",
        ),
        (
            outcome.expired,
            "it took too long: what was left is decided again",
        ),
        (outcome.stopped, "later steps were left out"),
    ];
    let rest = rest.iter().filter(|(is, _)| *is);
    words.extend(rest.map(|(_, word)| (*word).to_owned()));
    (words.join("; "), outcome.failed.is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(decisions: &Value) -> Value {
        json!({"objects": [
            {"uid": "other", "decisions": [{"now": "2026-01-01T00:00:00Z"}]},
            {"uid": "u", "decisions": decisions},
        ]})
    }

    fn told(pages: &[Value]) -> Vec<Decision> {
        let mut answers = Answers::default();
        for page in pages {
            answers.add("here".to_owned(), page, "u");
        }
        answers.decisions
    }

    #[test]
    fn a_decision_says_what_was_to_be_done_and_what_became_of_it() {
        let decided = json!([
            {"now": "2026-01-01T00:00:00Z", "resourceVersion": 7, "wake": "2026-01-01T00:01:00Z",
             "steps": [
                {"actions": [{"action": "write_slice", "count": 1, "names": ["slice fix-0"]}]},
                {"actions": [{"action": "create_pod", "count": 3, "names": ["a on n1", "b on n2"]},
                             {"action": "confirm_job", "count": 1}]},
             ],
             "allSteps": 5,
             "outcome": {"writes": 4, "created": 3}},
            {"now": "2026-01-01T00:00:02Z", "steps": [], "repeated": 3},
        ]);
        let told = told(&[page(&decided)]);
        assert_eq!(
            (told[0].steps.len(), &*told[0].outcome),
            (0, "nothing to do")
        );
        assert_eq!(told[0].repeated, 3);
        assert_eq!(
            told[1].steps,
            [
                "write slice slice fix-0",
                "create pod ×3: a on n1, b on n2, …",
                "confirm job",
                "3 more steps"
            ]
        );
        assert_eq!((&*told[1].outcome, told[1].bad), ("4 writes", false));
        assert_eq!(told[1].wake, "2026-01-01T00:01:00Z".parse().ok());
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn what_went_wrong_is_said() {
        let step = json!([{"actions": [{"action": "delete_pod", "count": 2}]}]);
        let cases = [
            (
                json!({"now": "2026-01-01T00:00:00Z", "steps": step}),
                ("under way", false),
            ),
            (
                json!({"now": "2026-01-01T00:00:00Z", "steps": step, "refused": "it deletes a pod that ended"}),
                (
                    "refused by the interlock: it deletes a pod that ended",
                    true,
                ),
            ),
            (
                json!({"now": "2026-01-01T00:00:00Z", "steps": step, "outcome": {"writes": 1, "failed": "delete_pod: 403", "stopped": true}}),
                (
                    "1 write; failed: delete_pod: 403; later steps were left out",
                    true,
                ),
            ),
            (
                json!({"now": "2026-01-01T00:00:00Z", "steps": step, "outcome": {"writes": 0, "conflict": true}}),
                (
                    "0 writes; the state had changed meanwhile: it decides again",
                    false,
                ),
            ),
        ];
        for (decided, expected) in cases {
            let told = told(&[page(&json!([decided]))]);
            assert_eq!((&*told[0].outcome, told[0].bad), expected, "{decided}");
            assert_eq!(told[0].steps, ["delete pod ×2"]);
        }
    }

    #[test]
    fn decisions_of_two_operators_are_told_in_the_order_of_time_and_what_cannot_be_read_is_counted()
    {
        let older = page(&json!([{"now": "2026-01-01T00:00:01Z"}, {"now": 7}, "x", {}]));
        let newer =
            page(&json!([{"now": "2026-01-01T00:00:00Z"}, {"now": "2026-01-01T00:00:02Z"}]));
        let mut answers = Answers::default();
        answers.add("a".to_owned(), &older, "u");
        answers.add("b".to_owned(), &newer, "u");
        answers.add("c".to_owned(), &json!("x"), "u");
        answers.add("d".to_owned(), &page(&json!(3)), "u");
        let told: Vec<String> = answers
            .decisions
            .iter()
            .map(|one| format!("{} {}", one.told_by, one.time))
            .collect();
        assert_eq!(
            told,
            [
                "b 2026-01-01T00:00:02Z",
                "a 2026-01-01T00:00:01Z",
                "b 2026-01-01T00:00:00Z"
            ]
        );
        assert_eq!((answers.unreadable, answers.asked.len()), (3, 4));
    }

    #[test]
    fn an_operator_that_tells_without_end_fills_no_screen() {
        let one = json!({"now": "2026-01-01T00:00:01Z"});
        let told = told(&[page(&json!(vec![one; 1000]))]);
        assert_eq!(told.len(), MOST);
    }
}
