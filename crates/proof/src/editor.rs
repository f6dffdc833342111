//! A user who edits what is served: each field that may change, at any time, from a seed.

use carillon_sim::Actor;
use carillon_sim::actors::Component;
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::monkey;
use crate::scenario::{Subject, View};

/// The longest pause between two edits.
const LONGEST_PAUSE_MS: i64 = 8_000;
/// How often somebody looks after a job that failures have paused.
const LOOKS_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The editor.
#[derive(Debug)]
pub struct Editor {
    actor: Actor,
    rng: Rng,
    subject: Subject,
    next: Timestamp,
    until: Timestamp,
    /// Times are judged by this machine's clock, which is right.
    clocks_are_right: bool,
}

impl Editor {
    /// One that knows what is served, and stops at `until`.
    pub fn new(
        actor: Actor,
        subject: Subject,
        seed: u64,
        until: Timestamp,
        clocks_are_right: bool,
    ) -> Self {
        let next = actor.server().now();
        Self {
            actor,
            rng: Rng::with_seed(seed ^ 0x0065_6469_746f_7200),
            subject,
            next,
            until,
            clocks_are_right,
        }
    }

    fn edit(&mut self) {
        let actor = self.actor.clone();
        let view = View::new(&actor);
        match self.subject {
            Subject::BroadcastJob => self.edit_broadcast_job(&view),
            Subject::Job | Subject::NativeJob => self.edit_job(&view),
            _ => self.edit_cron_job(&view),
        }
    }

    fn edit_broadcast_job(&mut self, view: &View<'_>) {
        let rng = &mut self.rng;
        // What would run a node twice is refused by the CRD's rules, which are not simulated.
        let spec = view
            .job()
            .map(|job| job["spec"].clone())
            .unwrap_or_default();
        let once = spec["execution"] == "AtMostOnce";
        let restarts = spec["template"]["spec"]["restartPolicy"] == "OnFailure";
        let spec = match rng.u32(0..12) {
            0 => json!({"parallelism": rng.u32(1..=4)}),
            1 => json!({"parallelism": format!("{}%", rng.u32(1..=100))}),
            2 => json!({"parallelism": null}),
            3 => {
                json!({"failurePolicy": {"type": one(rng, &["FailFast", "Continue", "Pause"])}})
            }
            4 => json!({"failurePolicy": {"maxFailed": rng.u32(0..=3)}}),
            5 => json!({"failurePolicy": {"maxFailed": format!("{}%", rng.u32(0..=100))}}),
            6 if !once => json!({"backoffLimitPerNode": rng.u32(0..=2)}),
            7 => {
                json!({"noEligibleNodes": one(rng, &["Wait", "Complete", "Fail"])})
            }
            8 => json!({"nodeLostTimeoutSeconds": one(rng, &[60, 300])}),
            9 if self.clocks_are_right => {
                json!({"podStartDeadlineSeconds": one(rng, &[Value::Null, json!(60)])})
            }
            10 if !once && !restarts => json!({"podFailurePolicy": rules(rng)}),
            _ => return self.ask_for_retries(view),
        };
        view.edit_job(spec);
    }

    /// Names of pods that were recorded, also of those that succeeded or whose attempts are not the last; or
    /// none any more.
    fn ask_for_retries(&mut self, view: &View<'_>) {
        let slices = view.slices();
        let records = slices
            .iter()
            .filter_map(|slice| slice["results"].as_array());
        let pods = records
            .flatten()
            .filter_map(|record| record["pod"].as_str());
        let pods: Vec<&str> = pods.filter(|_| self.rng.u32(0..3) == 0).collect();
        let value = match self.rng.u32(0..6) {
            0 => Value::Null,
            1 => json!("node-0/1"),
            _ => json!(pods.join(",")),
        };
        view.patch_job(&json!({"metadata": {"annotations": {"carillon.dev/retry": value}}}));
    }

    /// A node whose pods fail by themselves is tried for ever, as long as that is to be ignored.
    fn stop_ignoring(&self) {
        let view = View::new(&self.actor);
        let rules = view.job();
        let rules = rules.map(|job| job["spec"]["podFailurePolicy"]["rules"].clone());
        let rules = rules.unwrap_or_default();
        let mut rules = rules.as_array().into_iter().flatten();
        let ignores = |rule: &Value| rule["action"] == "Ignore" && !rule["onExitCodes"].is_null();
        if self.subject == Subject::BroadcastJob && rules.any(ignores) {
            view.edit_job(json!({"podFailurePolicy": null}));
        }
    }

    fn edit_job(&mut self, view: &View<'_>) {
        let rng = &mut self.rng;
        view.edit_job(match rng.u32(0..6) {
            0 => json!({"parallelism": rng.u32(0..=5)}),
            1 => json!({"backoffLimit": rng.u32(0..=8)}),
            2 => json!({"maxFailedIndexes": rng.u32(0..=3)}),
            3 => json!({"suspend": rng.bool()}),
            4 => json!({"activeDeadlineSeconds": 3_000}),
            _ => {
                let size = rng.u32(1..=5);
                json!({"parallelism": size, "completions": size})
            }
        });
    }

    fn edit_cron_job(&mut self, view: &View<'_>) {
        let rng = &mut self.rng;
        // As above: the CRD refuses to start all missed runs only to replace them.
        let spec = view
            .cron()
            .map(|cron| cron["spec"].clone())
            .unwrap_or_default();
        let (all, replaces) = (
            spec["missedRunPolicy"] == "All",
            spec["concurrencyPolicy"] == "Replace",
        );
        let concurrency: &[&str] = if all {
            &["Allow", "Forbid"]
        } else {
            &["Allow", "Forbid", "Replace"]
        };
        let missed: &[&str] = if replaces {
            &["Latest", "Skip"]
        } else {
            &["Latest", "All", "Skip"]
        };
        let deadline = one(rng, &[Value::Null, json!(30), json!(300)]);
        view.edit_cron(match rng.u32(0..8) {
            0 => json!({"concurrencyPolicy": one(rng, concurrency)}),
            1 => json!({"schedule": one(rng, &["1-9 0 * * *", "*/2 0 * * *", "9 0 * * *"])}),
            2 => json!({"timeZone": one(rng, &[Value::Null, json!("Etc/UTC")])}),
            3 => json!({"startingDeadlineSeconds": deadline}),
            4 => json!({"successfulJobsHistoryLimit": rng.u32(0..=3)}),
            5 => json!({"failedJobsHistoryLimit": rng.u32(0..=3)}),
            // Fields of ours: pruned, or refused, where it is another kind.
            6 => json!({"missedRunPolicy": one(rng, missed)}),
            _ => json!({"jitterSeconds": rng.u32(0..=30)}),
        });
    }
}

fn one<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(0..of.len())].clone()
}

/// Rules of a pod failure policy, or none.
fn rules(rng: &mut Rng) -> Value {
    let action = one(rng, &["Count", "Ignore", "FailNode", "FailJob"]);
    let rule = if rng.bool() {
        json!({"action": action, "onExitCodes": {"operator": "In", "values": [3]}})
    } else {
        json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]})
    };
    one(rng, &[Value::Null, json!({"rules": [rule]})])
}

impl Component for Editor {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        if now < self.until {
            if self.next <= now {
                self.edit();
                self.next = now + SignedDuration::from_millis(self.rng.i64(200..LONGEST_PAUSE_MS));
            }
            return Some(self.next.min(self.until));
        }
        if self.next < self.until + LOOKS_AGAIN {
            if self.subject.is_job() {
                monkey::mend_job(&self.actor);
            }
            self.stop_ignoring();
            self.next = self.until + LOOKS_AGAIN;
        }
        let actor = self.actor.clone();
        let view = View::new(&actor);
        if self.next <= now && view.is("Paused") {
            view.resume(&self.rng.u64(..).to_string());
        }
        if self.next <= now {
            self.next = now + LOOKS_AGAIN;
        }
        (!view.has_ended()).then_some(self.next)
    }
}
