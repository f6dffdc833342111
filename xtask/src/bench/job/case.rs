//! What is run.

use std::fmt;
use std::ops::RangeInclusive;

use carillon_testbed::Fate;
use serde_json::{Value, json};

/// Name of the Job.
pub(super) const NAME: &str = "bench";
pub(super) const NAMESPACE: &str = "bench";
/// One pod of so many fails at its first run.
pub(super) const ONE_FAILS_OF: usize = 50;
/// Long enough for the pods that are to fail to be told so while they run.
const RUN_TIME: &str = "3s";

/// `spec.completionMode`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Mode {
    NonIndexed,
    Indexed,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NonIndexed => "non-indexed",
            Self::Indexed => "indexed",
        })
    }
}

/// A Job is looked at once a second, so that its end is a matter of seconds, and single ratios scatter
/// more than they differ from 1: each Job is measured so often that so many pods succeed in all.
const COMPLETIONS_IN_ALL: usize = 25_000;
const ROUNDS: RangeInclusive<usize> = 3..=9;

/// One Job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) completions: usize,
    pub(super) parallelism: usize,
    pub(super) mode: Mode,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.completions, self.mode)
    }
}

impl Case {
    /// How often it is measured.
    pub(super) fn rounds(&self) -> usize {
        let rounds = COMPLETIONS_IN_ALL / self.completions.max(1);
        rounds.clamp(*ROUNDS.start(), *ROUNDS.end())
    }

    /// How many pods fail.
    pub(super) fn failures(&self) -> usize {
        self.completions / ONE_FAILS_OF
    }

    /// The Job. It ends as Failed if one more pod fails than is meant to.
    pub(super) fn manifest(&self) -> Value {
        let mut job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "completions": self.completions,
                "parallelism": self.parallelism,
                "template": {
                    "metadata": {
                        "annotations": Fate::default().with("run-time", RUN_TIME).annotations(),
                    },
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [
                            {"name": "main", "image": "busybox:1.37", "command": ["true"]}],
                    },
                },
            },
        });
        let spec = &mut job["spec"];
        match self.mode {
            Mode::NonIndexed => spec["backoffLimit"] = json!(self.failures()),
            Mode::Indexed => {
                spec["completionMode"] = json!("Indexed");
                spec["backoffLimitPerIndex"] = json!(1);
            }
        }
        job
    }
}
