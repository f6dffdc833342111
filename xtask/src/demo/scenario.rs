//! What the demo runs: examples as they are committed, what becomes of some of their pods, and the
//! outcome this must have.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use carillon_testbed::Fate;
use carillon_testbed::carillon::workspace;
use carillon_testbed::fate;
use serde_json::{Value, json};

/// Nodes that are cordoned.
pub(crate) const CORDONED: [&str; 2] = ["node-0001", "node-0002"];
/// Nodes of the pool that `gpu-check` is for, tainted so that nothing else runs there.
pub(crate) const POOL: [&str; 4] = ["node-0003", "node-0004", "node-0005", "node-0006"];
/// Label, and key and value of the taint, of the pool.
pub(crate) const POOL_LABEL: (&str, &str) = ("example.com/pool", "gpu");
/// The scripted failures need this many nodes.
pub(crate) const FEWEST_NODES: usize = 20;

/// One example and its outcome.
#[derive(Debug)]
pub(crate) struct Scene {
    /// `examples/broadcastjob-<file>.yaml`.
    file: &'static str,
    /// Scripted ends of single pods.
    fates: Vec<(&'static str, Fate)>,
    /// Whether the failed node pauses the job, and we resume it.
    pub(crate) resume: bool,
    /// What must be in the status at the end.
    pub(crate) expected: Outcome,
}

/// The part of a status that is known in advance.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) phase: String,
    pub(crate) succeeded: usize,
    pub(crate) failed: usize,
    /// Nodes left out, by reason.
    pub(crate) refused: BTreeMap<String, usize>,
}

impl Outcome {
    /// What a BroadcastJob says of itself.
    pub(crate) fn of(job: &Value) -> Self {
        let status = &job["status"];
        let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
        let refused = status["refused"].as_array().into_iter().flatten();
        let refused = refused.map(|one| {
            (
                one["reason"].as_str().unwrap_or("").to_owned(),
                number(&one["count"]),
            )
        });
        Self {
            phase: status["phase"].as_str().unwrap_or("").to_owned(),
            succeeded: number(&status["succeeded"]),
            failed: number(&status["failed"]),
            refused: refused.collect(),
        }
    }

    /// `NodeUnschedulable 2, NodeTaintNotTolerated 4`.
    pub(crate) fn refused_text(&self) -> String {
        let reasons = self
            .refused
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"));
        reasons.collect::<Vec<_>>().join(", ")
    }
}

impl Scene {
    /// The example as JSON with our fates in its pods' annotations.
    pub(crate) fn manifest(&self) -> Result<Value> {
        let path = workspace().join(format!("examples/broadcastjob-{}.yaml", self.file));
        let what = || format!("example {}", self.file);
        let text = fs::read_to_string(&path).with_context(what)?;
        let mut job: Value = serde_saphyr::from_str(&text).with_context(what)?;
        if !self.fates.is_empty() {
            let table = fate::table(self.fates.iter().cloned());
            job["spec"]["template"]["metadata"]["annotations"][fate::FATES] = json!(table);
        }
        Ok(job)
    }
}

/// The demo on this many nodes.
pub(crate) fn scenes(nodes: usize) -> Vec<Scene> {
    let (cordoned, pool) = (CORDONED.len(), POOL.len());
    let open = nodes - cordoned - pool;
    let scene = |file, fates, expected| Scene {
        file,
        fates,
        resume: false,
        expected,
    };
    let outcome = |phase: &str, succeeded, failed, refused: &[(&str, usize)]| Outcome {
        phase: phase.to_owned(),
        succeeded,
        failed,
        refused: refused
            .iter()
            .map(|(reason, count)| ((*reason).to_owned(), *count))
            .collect(),
    };
    let tainted = ("NodeTaintNotTolerated", pool);
    let both = [("NodeUnschedulable", cordoned), tainted];
    vec![
        scene("minimal", vec![], outcome("completed", open, 0, &both)),
        scene(
            "continue-on-failure",
            vec![
                // Restarted twice, and then well: below the limit of three.
                ("node-0008", Fate::exits(1, "not yet").with("restarts", 2)),
                (
                    "node-0009",
                    Fate::crash_loops(7).with("message", "no route to the inventory"),
                ),
            ],
            outcome("completed", open - 1, 1, &both),
        ),
        scene(
            "control-plane-and-cordoned",
            vec![(
                "node-0010",
                Fate::exits(1, "cat: /host-etc/os-release: I/O error"),
            )],
            outcome("completed", open + cordoned - 1, 1, &[tainted]),
        ),
        scene(
            "deadline-and-ttl",
            vec![
                ("node-0011", Fate::default().with("run-time", "6s")),
                ("node-0012", Fate::default().with("run-time", "9s")),
            ],
            outcome("completed", open, 0, &both),
        ),
        scene(
            "image-prepull",
            vec![("node-0013", Fate::default().with("start-delay", "8s"))],
            outcome("completed", open, 0, &both),
        ),
        Scene {
            resume: true,
            ..scene(
                "kernel-patch",
                vec![(
                    "node-0014",
                    Fate::exits(2, "example_module is in use, reboot needed"),
                )],
                outcome("completed", open - 1, 1, &both),
            )
        },
        // One node more, that joins when the others are done.
        scene("never-ends", vec![], outcome("running", open + 1, 0, &both)),
        scene(
            "node-pool",
            // The last to end, so that the job's end stops no other.
            vec![(
                POOL[3],
                Fate::exits(3, "no GPU device").with("run-time", "4s"),
            )],
            outcome(
                "failed",
                pool - 1,
                1,
                &[("NodeSelectorMismatch", nodes - pool)],
            ),
        ),
        scene(
            "parallelism-percent",
            vec![],
            outcome("completed", open, 0, &both),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_has_an_example_and_its_own_name() {
        let scenes = scenes(FEWEST_NODES);
        let mut names: Vec<String> = scenes
            .iter()
            .map(|scene| scene.manifest().unwrap()["metadata"]["name"].to_string())
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), scenes.len());
    }

    #[test]
    fn fates_are_in_the_annotations_of_the_pods() {
        let scenes = scenes(FEWEST_NODES);
        let scene = scenes
            .iter()
            .find(|scene| scene.file == "kernel-patch")
            .unwrap();
        let job = scene.manifest().unwrap();
        let table = &job["spec"]["template"]["metadata"]["annotations"][fate::FATES];
        assert!(table.as_str().unwrap().contains("reboot needed"), "{table}");
    }
}
