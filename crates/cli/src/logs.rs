//! `logs`: what the containers of a job have printed, node by node.

use std::io::IsTerminal;
use std::ops::ControlFlow;

use anyhow::{Result, bail};
use carillon_plan::Uid;
use carillon_plan::printable::quoted;
use carillon_plan::record::Record;
use carillon_plan::view::broadcast_job::alike::{Alike, Fold};
use carillon_plan::view::broadcast_job::family::Members;
use serde_json::Value;

use crate::attempts::Attempts;
use crate::client::logs::{LogOptions, Reading};
use crate::client::{Api, Asked};
use crate::exit::{DONE, ERROR};
use crate::render::{Screen, Tone, count, sample};

/// Lines of each container, where there are many.
const TAIL: u32 = 10;
/// Names of nodes whose logs are alike.
const NAMES: usize = 10;
/// Longer logs are printed each for itself.
const MOST_LINES: u32 = 100;
/// So much of logs that differ is kept before it is printed.
const MOST_BYTES: usize = 64 << 20;

/// When logs that are alike are printed once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
enum FoldWhen {
    #[default]
    Auto,
    Always,
    Never,
}

/// Print the logs of a job's pods, node by node
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of each node that has a result: its last attempt, in the order of the nodes' names. On a terminal, logs that differ
only in numbers and in the names of node and pod are printed once, with all nodes. Pods that are gone have no log:
their last words stand in their results. It needs the right to get pods and pods/log. It ends with 1 when a log could
not be read, or all pods are gone.

Examples:
  # The end of each log, with the name of the node before each line
  kubectl carillon logs fix-kernel

  # Of each node for itself
  kubectl carillon logs fix-kernel --fold=never

  # Only of the nodes that have failed, all of it
  kubectl carillon logs fix-kernel --failed --tail=-1

  # All attempts on one node; follow the last one
  kubectl carillon logs fix-kernel --node node-0003 -f")]
pub(crate) struct Logs {
    #[command(flatten)]
    attempts: Attempts,
    /// Of this container; that of the annotation kubectl.kubernetes.io/default-container, or the first, when absent
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_containers")]
    container: Option<String>,
    /// Of all containers, init containers first
    #[arg(long)]
    all_containers: bool,
    #[command(flatten)]
    lines: Lines,
    /// Go on with the last attempt until its container has ended
    #[arg(short, long, requires = "node", conflicts_with_all = ["all_containers", "previous"])]
    follow: bool,
}

/// Which lines of a log, and how they are printed.
#[derive(Debug, clap::Args)]
struct Lines {
    /// Of the containers before their last restart
    #[arg(short, long)]
    previous: bool,
    /// Lines from the end of each log, -1 for all; all with --node, else 10, when absent
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    tail: Option<i32>,
    /// The time before each line
    #[arg(long)]
    timestamps: bool,
    /// Print logs that differ only in numbers and names once: auto means on a terminal. Never more than 100 lines of each
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    fold: FoldWhen,
}

/// What became of the logs of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    Read,
    NotRead,
    Gone,
    /// Nobody reads what is printed.
    Unwanted,
}

pub(crate) async fn run(api: &Api, args: &Logs, screen: &mut Screen) -> Result<u8> {
    let members = args.attempts.members(api).await?;
    let members = Members::read(&members);
    let records = args.attempts.of(&members)?;
    if records.is_empty() {
        screen.aside(&args.attempts.none_found(&members));
        return Ok(DONE);
    }
    let jobs: Vec<Uid> = members.all().map(|(job, _)| job.meta.owner.uid).collect();
    let last = records.len() - 1;
    let several = last > 0;
    let mut outcomes = Vec::new();
    let mut fold = folds(args, std::io::stdout().is_terminal()).then(Fold::default);
    for (index, record) in records.iter().enumerate() {
        let attempt = Attempt {
            record,
            jobs: &jobs,
            several,
            follow: args.follow && index == last,
        };
        match of_attempt(api, args, &attempt, fold.as_mut(), screen).await? {
            Outcome::Unwanted => return Ok(DONE),
            outcome => outcomes.push(outcome),
        }
        if let Some(fold) = &mut fold
            && (index == last || fold.bytes() > MOST_BYTES)
            && print_alike(&fold.take(), screen)?.is_break()
        {
            return Ok(DONE);
        }
    }
    let all_gone = outcomes.iter().all(|outcome| *outcome == Outcome::Gone);
    if all_gone && outcomes.len() > 1 {
        screen.hint_aside(
            "All of these pods are gone: `kubectl carillon results` has their last words.",
        );
    }
    let failed = all_gone || outcomes.contains(&Outcome::NotRead);
    Ok(if failed { ERROR } else { DONE })
}

/// Whether logs that are alike are printed once: for people, who look at a terminal. A pipe gets each.
fn folds(args: &Logs, terminal: bool) -> bool {
    let short = tail(args).is_some_and(|lines| lines <= MOST_LINES);
    let wanted = match args.lines.fold {
        FoldWhen::Auto => terminal,
        FoldWhen::Always => true,
        FoldWhen::Never => false,
    };
    short && args.attempts.node.is_none() && wanted
}

fn print_alike(all: &[Alike], screen: &mut Screen) -> Result<ControlFlow<()>> {
    for alike in all {
        if alike.nodes.len() > 1 {
            let nodes = count(alike.nodes.len(), "node");
            let (same, names) = ("the same on ", sample(&alike.nodes, NAMES));
            screen.painted(&[(Tone::Faint, &format!("{same}{nodes}: {names}"))])?;
        }
        for (label, line) in &alike.lines {
            screen.painted(&[(Tone::Care, label), (Tone::Plain, line)])?;
        }
        if screen.is_closed() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// An attempt whose logs are wanted.
struct Attempt<'a> {
    record: &'a Record,
    /// The jobs whose pod it may be.
    jobs: &'a [Uid],
    /// It is not the only one.
    several: bool,
    follow: bool,
}

impl Attempt<'_> {
    /// What stands before each line.
    fn label(&self, args: &Logs, container: &str) -> String {
        let node = &self.record.node;
        if args.all_containers {
            format!("[{node}/{container}] ")
        } else if args.attempts.node.is_none() {
            format!("[{node}] ")
        } else if self.several {
            format!("[attempt {}] ", self.record.attempt)
        } else {
            String::new()
        }
    }
}

/// Prints the logs of an attempt.
async fn of_attempt(
    api: &Api,
    args: &Logs,
    attempt: &Attempt<'_>,
    fold: Option<&mut Fold>,
    screen: &mut Screen,
) -> Result<Outcome> {
    let record = attempt.record;
    let name = format!(
        "{} (attempt {}, pod {})",
        record.node, record.attempt, record.pod
    );
    let pod = match api.pod(&record.pod).await {
        Ok(Asked::Found(pod)) if is_of(&pod, record, attempt.jobs) => pod,
        Ok(Asked::Found(_) | Asked::Missing) => {
            let words = if record.message.is_empty() {
                String::new()
            } else {
                format!("; its last words: {}", quoted(&record.message))
            };
            screen.aside(&format!("{name}: the pod is gone{words}"));
            return Ok(Outcome::Gone);
        }
        Ok(Asked::NotAllowed) => bail!("{name}: {}", not_allowed(api, "pods")),
        Err(error) => {
            screen.aside(&format!("{name}: {error:#}"));
            return Ok(Outcome::NotRead);
        }
    };
    let containers = match containers(&pod, args) {
        Ok(containers) => containers,
        Err(error) => {
            screen.aside(&format!("{name}: {error:#}"));
            return Ok(Outcome::NotRead);
        }
    };
    let mut outcome = Outcome::Read;
    let mut kept = Vec::new();
    for container in containers {
        let options = LogOptions {
            container: &container,
            previous: args.lines.previous,
            timestamps: args.lines.timestamps,
            tail: tail(args),
            follow: attempt.follow,
        };
        let label = attempt.label(args, &container);
        let line = |line: &str| {
            if fold.is_some() {
                kept.push((label.clone(), line.to_owned()));
                return Ok(ControlFlow::Continue(()));
            }
            screen.painted(&[(Tone::Care, &label), (Tone::Plain, line)])?;
            Ok(if screen.is_closed() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        };
        match api.log(&record.pod, &options, line).await? {
            Reading::Done => {}
            Reading::Unwanted => return Ok(Outcome::Unwanted),
            Reading::NotAllowed => bail!("{name}: {}", not_allowed(api, "pods/log")),
            Reading::Failed(why) => {
                screen.aside(&format!("{name}: {why}"));
                outcome = Outcome::NotRead;
            }
        }
    }
    if let Some(fold) = fold
        && !kept.is_empty()
    {
        fold.add(&record.node, &record.pod, kept);
    }
    Ok(outcome)
}

fn not_allowed(api: &Api, what: &str) -> String {
    format!(
        "you may not read {what} in namespace {}; the role `view` of Kubernetes allows it",
        api.namespace
    )
}

/// A later pod of that name is another one. Before the operator has seen its pod, the pod's word for whose it is counts.
fn is_of(pod: &Value, record: &Record, jobs: &[Uid]) -> bool {
    let meta = &pod["metadata"];
    if let Some(uid) = record.pod_uid {
        return meta["uid"] == uid.to_string();
    }
    let mut owners = meta["ownerReferences"].as_array().into_iter().flatten();
    let of_job = |owner: &Value| {
        owner["controller"] == true && jobs.iter().any(|job| owner["uid"] == job.to_string())
    };
    owners.any(of_job)
}

/// Names of the containers that are meant.
fn containers(pod: &Value, args: &Logs) -> Result<Vec<String>> {
    let names = |field: &str| -> Vec<String> {
        let all = pod["spec"][field].as_array().into_iter().flatten();
        let names = all.filter_map(|container| container["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let (init, main) = (names("initContainers"), names("containers"));
    let all = || init.iter().chain(&main);
    if args.all_containers {
        return Ok(all().cloned().collect());
    }
    if let Some(wanted) = &args.container {
        if all().any(|name| name == wanted) {
            return Ok(vec![wanted.clone()]);
        }
        let there: Vec<&str> = all().map(String::as_str).collect();
        bail!(
            "no container {wanted} in the pod; there are: {}",
            there.join(", ")
        );
    }
    let default = &pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"];
    let default = default.as_str().filter(|name| all().any(|one| one == name));
    Ok(default
        .map(str::to_owned)
        .or_else(|| main.first().cloned())
        .into_iter()
        .collect())
}

/// How many lines of each log; all of them when `None`.
fn tail(args: &Logs) -> Option<u32> {
    match args.lines.tail {
        Some(lines) => u32::try_from(lines).ok(),
        None if args.attempts.node.is_some() => None,
        None => Some(TAIL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        logs: Logs,
    }

    fn logs(args: &[&str]) -> Logs {
        let args = ["logs", "fix"].iter().chain(args);
        Command::try_parse_from(args).expect("arguments").logs
    }

    #[test]
    fn the_container_is_the_one_named_or_the_default_or_the_first() {
        let pod = |annotations: Value| {
            json!({
                "metadata": {"annotations": annotations},
                "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "a"}, {"name": "b"}]},
            })
        };
        let by_annotation = json!({"kubectl.kubernetes.io/default-container": "b"});
        for (args, annotations, expected) in [
            (&[][..], json!({}), &["a"][..]),
            (&[], by_annotation.clone(), &["b"]),
            (&["-c", "init"], by_annotation, &["init"]),
            (&["--all-containers"], json!({}), &["init", "a", "b"]),
            (
                &[],
                json!({"kubectl.kubernetes.io/default-container": "gone"}),
                &["a"],
            ),
        ] {
            let found = containers(&pod(annotations), &logs(args)).expect("containers");
            assert_eq!(found, expected, "{args:?}");
        }
        let error =
            containers(&pod(json!({})), &logs(&["-c", "c"])).expect_err("none of that name");
        assert!(
            error.to_string().ends_with("there are: init, a, b"),
            "{error}"
        );
    }

    #[test]
    fn a_pod_is_the_one_that_was_seen_or_one_that_a_job_controls() {
        let (job, other) = (uid(1), uid(2));
        let pod = |owner: Option<Uid>, controls: bool| {
            let owners =
                owner.map(|owner| json!({"uid": owner.to_string(), "controller": controls}));
            let owners: Vec<Value> = owners.into_iter().collect();
            json!({"metadata": {"uid": uid(9).to_string(), "ownerReferences": owners}})
        };
        for (seen, pod, expected) in [
            (Some(uid(9)), pod(None, false), true),
            (Some(uid(8)), pod(Some(job), true), false),
            (None, pod(Some(job), true), true),
            (None, pod(Some(job), false), false),
            (None, pod(Some(other), true), false),
            (None, pod(None, true), false),
        ] {
            let record = Record {
                pod_uid: seen,
                ..Record::default()
            };
            assert_eq!(is_of(&pod, &record, &[job]), expected, "{seen:?} {pod}");
        }
    }

    fn uid(n: u8) -> Uid {
        let text = format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}");
        text.parse().expect("a uid")
    }

    #[test]
    fn logs_are_folded_unless_each_is_asked_for_or_they_are_long() {
        for (args, expected) in [
            (&[][..], true),
            (&["--failed"], true),
            (&["--tail=100"], true),
            (&["--tail=101"], false),
            (&["--tail=-1"], false),
            (&["--node", "n", "--tail=5"], false),
            (&["--fold=never"], false),
        ] {
            assert_eq!(folds(&logs(args), true), expected, "{args:?}");
        }
        // Who searches a pipe for a node is to find it.
        assert!(!folds(&logs(&[]), false) && folds(&logs(&["--fold=always"]), false));
    }

    #[test]
    fn many_logs_are_short_and_one_is_whole_unless_told_otherwise() {
        for (args, expected) in [
            (&[][..], Some(10)),
            (&["--node", "n"], None),
            (&["--tail=3"], Some(3)),
            (&["--tail=-1"], None),
            (&["--node", "n", "--tail", "0"], Some(0)),
        ] {
            assert_eq!(tail(&logs(args)), expected, "{args:?}");
        }
    }
}
