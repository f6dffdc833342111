//! What is simulated, and how one sees how far it is.

use anyhow::{Result, bail};
use carillon_plan::node::Nodes;
use carillon_plan::record::Slice;
use carillon_plan::view::broadcast_job::family::Relative;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::progress::{Progress, Standing};
use carillon_plan::view::broadcast_job::squares::squares;
use carillon_plan::view::daemon_set::progress as daemon_set;
use carillon_plan::view::daemon_set::read::set;
use carillon_plan::view::read;
use carillon_plan::view::squares::Class;
use jiff::Timestamp;
use serde_json::Value;

use crate::report::Sample;

/// The kinds that can be simulated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Subject {
    BroadcastJob,
    DaemonSet,
    NativeDaemonSet,
    Job,
}

/// How far it is.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) sample: Sample,
    pub(crate) headline: String,
    /// It has come to its end.
    pub(crate) ended: bool,
    pub(crate) good: bool,
}

impl Subject {
    pub(crate) fn of(object: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        Ok(match (&*version, &*kind) {
            ("carillon.dev/v1alpha1", "BroadcastJob") => Self::BroadcastJob,
            ("carillon.dev/v1alpha1", "DaemonSet") => Self::DaemonSet,
            ("apps/v1", "DaemonSet") => Self::NativeDaemonSet,
            ("batch/v1", "Job") => Self::Job,
            _ => bail!(
                "{kind} of {version:?} cannot be simulated: BroadcastJob, DaemonSet and Job can"
            ),
        })
    }

    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::BroadcastJob => "broadcastjobs.carillon.dev",
            Self::DaemonSet => "daemonsets.carillon.dev",
            Self::NativeDaemonSet => "daemonsets.apps",
            Self::Job => "jobs.batch",
        }
    }

    /// How the operator is told to serve it.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::BroadcastJob => &["--controllers=broadcastjob"],
            Self::DaemonSet => &["--controllers=daemonset"],
            Self::NativeDaemonSet => &["--controllers=daemonset", "--serve-native=daemonsets"],
            Self::Job => &["--controllers=job", "--serve-native=jobs"],
        }
    }

    /// Whether its pods end by themselves.
    pub(crate) fn pods_end(self) -> bool {
        matches!(self, Self::BroadcastJob | Self::Job)
    }

    /// Names of the nodes that nothing is done on.
    pub(crate) fn left_out(self, object: &Value, slices: &[Slice], nodes: &Nodes) -> Vec<String> {
        if self != Self::BroadcastJob {
            return Vec::new();
        }
        let stored = read::job(object);
        let family = [Relative::new(stored.clone(), slices.to_vec())];
        let squares = squares(&family, &stored.job, nodes).into_iter();
        let left_out = squares.filter(|square| square.look.class == Class::LeftOut);
        left_out.map(|square| square.node).collect()
    }

    /// How far it is. Without records there is no estimate of a BroadcastJob's end.
    pub(crate) fn look(self, object: &Value, ledger: &Ledger<'_>, now: Timestamp) -> Look {
        match self {
            Self::BroadcastJob => broadcast_job(object, ledger, now),
            Self::DaemonSet | Self::NativeDaemonSet => of_set(object),
            Self::Job => job(object),
        }
    }
}

fn broadcast_job(object: &Value, ledger: &Ledger<'_>, now: Timestamp) -> Look {
    let stored = read::job(object);
    let progress = Progress::of(&stored, ledger).estimated(&stored, ledger, now);
    let (failed, active) = (i64::from(progress.failed), i64::from(progress.active));
    let done = i64::from(progress.succeeded);
    // A job that never completes has done all that it can do now.
    let idle = progress.desired > 0 && progress.done == progress.desired && active == 0;
    let never = object["spec"]["completionPolicy"]["type"] == "Never";
    let complete = progress.standing == Standing::Complete || never && idle;
    Look {
        sample: Sample {
            done,
            active,
            failed,
            waiting: (i64::from(progress.desired) - done - failed - active).max(0),
            refused: i64::from(progress.refused),
            eta: progress.eta,
            ..Sample::default()
        },
        headline: progress.headline(),
        ended: complete || progress.standing.has_ended(),
        good: complete && failed == 0 && progress.desired > 0,
    }
}

fn of_set(object: &Value) -> Look {
    let progress = daemon_set::Progress::of(&set(object));
    let done = i64::from(progress.updated.min(progress.available));
    let active = i64::from(progress.current) - done;
    let refused: i32 = progress.refused.iter().map(|refused| refused.count).sum();
    let complete = progress.standing == daemon_set::Standing::Complete;
    let headline = if complete && progress.desired == 0 {
        "Complete: no node should have a pod".to_owned()
    } else {
        progress.headline()
    };
    Look {
        sample: Sample {
            done,
            active,
            waiting: i64::from(progress.desired) - done - active,
            refused: i64::from(refused),
            ..Sample::default()
        },
        headline,
        ended: complete,
        good: complete && progress.desired > 0,
    }
}

fn job(object: &Value) -> Look {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let (done, active) = (count(&status["succeeded"]), count(&status["active"]));
    let total = spec["completions"].as_i64().unwrap_or(1);
    let ended = |type_: &str| {
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|c| c["type"] == type_ && c["status"] == "True");
        let message = |c: &Value| c["message"].as_str().unwrap_or_default().to_owned();
        found.next().map(message)
    };
    let (complete, failed) = (ended("Complete"), ended("Failed"));
    let headline = match (&complete, &failed) {
        (Some(_), _) => "Complete".to_owned(),
        (_, Some(why)) => format!("Failed: {why}"),
        _ if spec["suspend"] == true => "Suspended".to_owned(),
        _ => "Running".to_owned(),
    };
    Look {
        sample: Sample {
            done,
            active,
            failed: count(&status["failed"]),
            waiting: (total - done - active).max(0),
            ..Sample::default()
        },
        headline,
        ended: complete.is_some() || failed.is_some(),
        good: complete.is_some(),
    }
}
