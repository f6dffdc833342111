//! `plan`: what manifests would do, before they are applied.

mod daemon_set;
mod said;

use anyhow::{Error, Result};
use carillon_plan::broadcast_job::BroadcastJob;
use carillon_plan::broadcast_job::family::First;
use carillon_plan::name;
use carillon_plan::node::Nodes;
use carillon_plan::pod_body::{PodPlacement, pod_body};
use carillon_plan::view::broadcast_job::outcomes;
use carillon_plan::view::broadcast_job::preview::{Preview, in_family, preview};
use carillon_plan::view::read;
use serde::Serialize;
use serde_json::{Value, json};

use self::said::{Said, ask_about_pod, print_about, print_notes};
use crate::apply::{self, Effect, run_of};
use crate::client::{Api, JOBS, name_of};
use crate::exit::{DONE, NOT_ALL};
use crate::family::family;
use crate::flags::Output;
use crate::manifest;
use crate::nodes::{example, print_finding};
use crate::render::{Cell, Format, Screen, Table, Tone, count, sample};
use crate::two_apis::{CRONS, SETS};

/// Show what manifests would do: on which nodes, on which not and why, and what the API server refuses
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is stored: the API server is asked by dry run what kubectl apply would do, and whether it would
accept one pod of the template. Of a CronJob with a broadcastJobTemplate each run is planned; of a job that
exists the changes are shown; of a DaemonSet also which nodes replace, get or lose their pod.

Exit codes: 0 every node that the job chooses (nodeSelector, affinity, nodeNames) would be served, or the
job exists already; some node has or gets a pod of the DaemonSet; 2 some would not, there is none, or the API
server refuses something; 1 error.")]
pub(crate) struct Plan {
    /// File, directory or URL (https) with BroadcastJobs, CronJobs and DaemonSets, YAML or JSON; - is standard input.
    /// Can be repeated
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// One object of the manifests.
#[derive(Serialize)]
#[serde(untagged)]
enum Planned {
    Job(JobPlan),
    Set(daemon_set::Planned),
}

impl Planned {
    fn is_good(&self, nodes_known: bool) -> bool {
        match self {
            Self::Job(job) => job.is_good(),
            Self::Set(set) => set.is_good(nodes_known),
        }
    }
}

/// A BroadcastJob, or a CronJob that starts some.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobPlan {
    /// Kind of the object.
    kind: &'static str,
    #[serde(flatten)]
    preview: Preview,
    #[serde(flatten)]
    said: Said,
}

impl JobPlan {
    /// Whether the nodes of the cluster have anything to do with it.
    fn concerns_nodes(&self) -> bool {
        let exists = matches!(self.said.apply, Effect::Changed | Effect::Unchanged);
        self.said.apply != Effect::Refused && (self.kind == CRON_JOB || !exists)
    }

    fn is_good(&self) -> bool {
        self.preview.problems.is_empty() && (!self.concerns_nodes() || self.preview.all_placed())
    }
}

const JOB: &str = "BroadcastJob";
const CRON_JOB: &str = "CronJob";

/// A DaemonSet, of carillon.dev or of apps/v1.
fn is_set(object: &Value) -> bool {
    object["kind"] == SETS.kind
}

/// What can be planned.
fn is_wanted(object: &Value) -> bool {
    object["kind"] == JOB || is_set(object) || run_of(object).is_some()
}

pub(crate) async fn run(mut api: Api, args: &Plan, screen: &mut Screen) -> Result<u8> {
    let mut objects = Vec::new();
    for file in &args.filename {
        let what = "BroadcastJob or DaemonSet, and no CronJob with a broadcastJobTemplate";
        objects.extend(manifest::read(file, what, is_wanted, screen).await?);
    }
    let nodes = api.nodes_if_allowed().await?;
    let chosen = api.namespace.clone();
    let mut planned = Vec::new();
    for mut object in objects {
        api.namespace = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => namespace.to_owned(),
            None => chosen.clone(),
        };
        object["metadata"]["namespace"] = json!(api.namespace);
        planned.push(if is_set(&object) {
            Planned::Set(daemon_set::plan_one(&api, &object, nodes.as_ref(), screen).await?)
        } else {
            Planned::Job(plan_one(&api, &object, nodes.as_ref()).await?)
        });
    }
    let format = args.output.output;
    if !screen.documents(format, &planned, false)? {
        for (at, one) in planned.iter().enumerate() {
            if at > 0 && format != Some(Format::Name) {
                screen.blank()?;
            }
            let how = (format, !args.output.no_headers);
            match one {
                Planned::Job(job) => print(job, nodes.is_some(), how, screen)?,
                Planned::Set(set) => daemon_set::print(set, nodes.is_some(), how, screen)?,
            }
        }
    }
    Ok(if planned.iter().all(|one| one.is_good(nodes.is_some())) {
        DONE
    } else {
        NOT_ALL
    })
}

async fn plan_one(api: &Api, object: &Value, nodes: Option<&Nodes>) -> Result<JobPlan> {
    let of_run = run_of(object);
    let (kind, of) = match of_run {
        Some(_) => (CRON_JOB, CRONS.carillon),
        None => (JOB, JOBS),
    };
    let stored = read::job(of_run.as_ref().unwrap_or(object));
    let nothing = Nodes::new();
    let known = nodes.unwrap_or(&nothing);
    let answer = apply::ask(api, of, kind, object).await?;
    let mut planned = JobPlan {
        kind,
        preview: preview(&stored, known),
        said: Said {
            apply: answer.effect,
            changes: answer.changes,
            notes: Vec::new(),
        },
    };
    if answer.effect == Effect::NotAllowed {
        planned.said.notes.push(format!(
            "whether the API server would accept it was not asked: you may not create {kind}s in this namespace"
        ));
    }
    if let Some(stored) = &answer.stored {
        // With generateName, one such as it would get.
        planned.preview.job = name_of(stored);
    }
    if !answer.problems.is_empty() {
        // It says what was found here, too, and of what cannot be read as written nothing is known.
        planned.preview = Preview {
            problems: answer.problems,
            ..preview(&stored, &nothing)
        };
    } else if let Some(retry_of) = &stored.job.retry_of
        && planned.concerns_nodes()
    {
        ask_about_family(api, (&stored.job, retry_of), known, &mut planned).await;
    }
    if planned.said.apply != Effect::Refused && !planned.concerns_nodes() {
        return Ok(planned);
    }
    // Without an answer about the job, there may still be one about its pods.
    let accepted = answer
        .stored
        .map(|stored| run_of(&stored).unwrap_or(stored));
    let job = accepted.as_ref().or(of_run.as_ref()).unwrap_or(object);
    ask_about_template(api, job, known, &mut planned).await?;
    if !planned.preview.problems.is_empty() {
        planned.said.apply = Effect::Refused;
    }
    Ok(planned)
}

/// What the family of a retry leaves to do for it.
async fn ask_about_family(
    api: &Api,
    (job, retry_of): (&BroadcastJob, &First),
    nodes: &Nodes,
    planned: &mut JobPlan,
) {
    let asked = async {
        let Some(first) = api.job_if_any(&retry_of.name).await? else {
            return Ok((None, Vec::new()));
        };
        let mut members = family(api, &first).await?.members;
        // It may have been applied already.
        let name = &job.meta.owner.name;
        members.retain(|member| member.stored.job.meta.owner.name != *name || name.is_empty());
        Ok::<_, Error>((Some(read::job(&first).job), members))
    };
    match asked.await {
        Ok((first, members)) => {
            in_family(&mut planned.preview, job, first.as_ref(), &members, nodes);
        }
        Err(error) => planned.said.notes.push(format!(
            "what {} and its retries have done is not known: {error}",
            retry_of.name
        )),
    }
}

/// Whether the API server would accept a pod of the template.
async fn ask_about_template(
    api: &Api,
    object: &Value,
    nodes: &Nodes,
    planned: &mut JobPlan,
) -> Result<()> {
    let job = read::job(object).job;
    let first = planned.preview.served.first().map(String::as_str);
    let node = first.or_else(|| nodes.keys().next().map(|name| &**name));
    let node = node.unwrap_or("any");
    let pod = name::pod(&job.meta.owner.name, job.meta.owner.uid, node, 0);
    let body = pod_body(
        &job.template.value(),
        &job.meta.owner,
        &pod,
        node,
        PodPlacement::Scheduler,
    );
    let (problems, unchecked) = ask_about_pod(api, &with_kind(body)).await?;
    // Of a template that the object itself is refused for, the same is not said twice.
    for problem in problems {
        if !planned
            .preview
            .problems
            .iter()
            .any(|said| said.ends_with(&problem))
        {
            planned.preview.problems.push(problem);
        }
    }
    planned.said.notes.extend(unchecked);
    Ok(())
}

fn with_kind(mut pod: Value) -> Value {
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod
}

/// What the manifest comes to, in a line.
fn headline(one: &JobPlan, nodes_known: bool) -> String {
    let preview = &one.preview;
    let each_run = if one.kind == CRON_JOB {
        "each run of "
    } else {
        ""
    };
    let subject = format!(
        "{each_run}{} in namespace {}",
        preview.job, preview.namespace
    );
    let nodes = match preview.rounds {
        _ if !nodes_known => "which nodes would be served is not known".to_owned(),
        0 => format!("0 of {} would be served", count(preview.nodes, "node")),
        rounds => format!(
            "{} of {} would be served, {} at a time, {}",
            preview.served.len(),
            count(preview.nodes, "node"),
            preview.at_a_time,
            count(rounds, "round")
        ),
    };
    match one.said.apply {
        Effect::Refused => format!("{subject}: REFUSED, nothing would run"),
        Effect::Changed if one.kind == JOB => {
            format!("{subject} exists: it would be changed, and run nothing again")
        }
        Effect::Unchanged if one.kind == JOB => format!("{subject} exists: unchanged"),
        Effect::Changed => format!("{subject}, which exists and would be changed: {nodes}"),
        Effect::Unchanged => format!("{subject}, which exists and stays unchanged: {nodes}"),
        Effect::Created | Effect::NotAllowed => format!("{subject}: {nodes}"),
    }
}

fn print(
    one: &JobPlan,
    nodes_known: bool,
    (format, headers): (Option<Format>, bool),
    screen: &mut Screen,
) -> Result<()> {
    let preview = &one.preview;
    if format == Some(Format::Name) {
        for node in preview.served.iter().filter(|_| one.concerns_nodes()) {
            screen.line(&format!("node/{node}"))?;
        }
        return Ok(());
    }
    screen.line(&headline(one, nodes_known))?;
    print_about(&preview.problems, &one.said.changes, screen)?;
    if one.concerns_nodes() && nodes_known {
        screen.blank()?;
        print_nodes(preview, format == Some(Format::Wide), headers, screen)?;
    }
    print_notes(&one.said.notes, nodes_known, screen)
}

fn print_nodes(preview: &Preview, wide: bool, headers: bool, screen: &mut Screen) -> Result<()> {
    let shown = if wide { usize::MAX } else { outcomes::SAMPLE };
    let mut table = Table::new(&["NODES", "PLACE", "REASON", "AMONG THEM", "FOR EXAMPLE"])
        .cut_unless(wide, &["AMONG THEM", "FOR EXAMPLE"]);
    if !preview.served.is_empty() {
        table.row([
            preview.served.len().to_string().into(),
            Cell::new("served", Tone::Good),
            "".into(),
            sample(&preview.served, shown).into(),
            "".into(),
        ]);
    }
    for refused in &preview.refused {
        table.row([
            refused.count.to_string().into(),
            if refused.asked_for {
                Cell::new("refused", Tone::Care)
            } else {
                Cell::new("not chosen", Tone::Faint)
            },
            Cell::from(refused.finding.reason),
            sample(&refused.nodes, shown).into(),
            example(&refused.finding.text, &refused.nodes).into(),
        ]);
    }
    screen.table(&table, headers)?;
    for refused in preview.refused.iter().filter(|refused| refused.asked_for) {
        print_finding(&refused.finding, "spec.template.spec", screen)?;
    }
    Ok(())
}
