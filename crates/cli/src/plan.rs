//! `plan`: what manifests would do, before they are applied.

use anyhow::{Error, Result};
use carillon_plan::broadcast_job::Job;
use carillon_plan::broadcast_job::family::First;
use carillon_plan::name;
use carillon_plan::node::Nodes;
use carillon_plan::pod_body::{PodPlacement, pod_body};
use carillon_plan::view::preview::{Preview, in_family, preview};
use carillon_plan::view::{outcomes, read};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{Format, Output};
use crate::client::{Api, JOBS, PODS, code, name_of};
use crate::explain::{example, print_finding};
use crate::family::family;
use crate::render::{Cell, Screen, Table, Tone, count, sample};
use crate::{DONE, NOT_ALL, manifest, problem};

/// Show what manifests would do: which nodes, which not and why, and what the API server refuses
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is stored: the API server is asked by dry run whether it would accept each job, and one pod
of its template.

Exit codes: 0 every node that the job chooses (nodeSelector, affinity, nodeNames) would be served; 2 some
would not, there is none, or the API server refuses something; 1 error.")]
pub(crate) struct Plan {
    /// File with BroadcastJobs, YAML or JSON; - is standard input. Can be repeated
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// One job of the manifests.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    #[serde(flatten)]
    preview: Preview,
    /// What could not be asked, and what else is worth knowing.
    notes: Vec<String>,
}

pub(crate) async fn run(mut api: Api, args: &Plan, screen: &mut Screen) -> Result<u8> {
    let mut objects = Vec::new();
    for file in &args.filename {
        objects.extend(manifest::read(file, "BroadcastJob", screen)?);
    }
    let nodes = api.nodes().await?;
    let chosen = api.namespace.clone();
    let mut planned = Vec::new();
    for mut object in objects {
        api.namespace = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => namespace.to_owned(),
            None => chosen.clone(),
        };
        object["metadata"]["namespace"] = json!(api.namespace);
        planned.push(plan_one(&api, &object, &nodes).await?);
    }
    let format = args.output.output;
    if !screen.documents(format, &planned, false)? {
        for (at, one) in planned.iter().enumerate() {
            if at > 0 && format != Some(Format::Name) {
                screen.blank()?;
            }
            print(one, format, !args.output.no_headers, screen)?;
        }
    }
    let mut previews = planned.iter().map(|one| &one.preview);
    Ok(if previews.all(Preview::all_placed) {
        DONE
    } else {
        NOT_ALL
    })
}

async fn plan_one(api: &Api, object: &Value, nodes: &Nodes) -> Result<Planned> {
    let stored = read::job(object);
    let mut planned = Planned {
        preview: preview(&stored, nodes),
        notes: Vec::new(),
    };
    let accepted = ask_about_job(api, object, &mut planned).await?;
    if let Some(retry_of) = &stored.job.retry_of {
        ask_about_family(api, (&stored.job, retry_of), nodes, &mut planned).await;
    }
    // Without an answer about the job, there may still be one about its pods.
    ask_about_pod(
        api,
        accepted.as_ref().unwrap_or(object),
        nodes,
        &mut planned,
    )
    .await?;
    Ok(planned)
}

/// What the family of a retry leaves to do for it.
async fn ask_about_family(
    api: &Api,
    (job, retry_of): (&Job, &First),
    nodes: &Nodes,
    planned: &mut Planned,
) {
    let asked = async {
        let Some(first) = api.job_if_any(&retry_of.name).await? else {
            return Ok((None, Vec::new()));
        };
        let mut members = family(api, &first).await?.members;
        // It may have been applied already.
        let name = &job.owner.name;
        members.retain(|member| member.stored.job.owner.name != *name || name.is_empty());
        Ok::<_, Error>((Some(read::job(&first).job), members))
    };
    match asked.await {
        Ok((first, members)) => {
            in_family(&mut planned.preview, job, first.as_ref(), &members, nodes);
        }
        Err(error) => planned.notes.push(format!(
            "what {} and its retries have done is not known: {error}",
            retry_of.name
        )),
    }
}

/// Whether the API server would store the job; gives it as it would be stored.
async fn ask_about_job(api: &Api, object: &Value, planned: &mut Planned) -> Result<Option<Value>> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut asked = api.create(JOBS, true, object).await;
    if let Err(error) = &asked
        && code(error) == Some(409)
    {
        planned.notes.push(format!(
            "BroadcastJob {name} exists already: kubectl apply would change it, and run nothing again"
        ));
        asked = api.could_apply(name, object).await;
    }
    match asked {
        Ok(stored) => {
            // With generateName, one such as it would get.
            planned.preview.job = name_of(&stored);
            Ok(Some(stored))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Err(api
            .explain(kube::Error::Api(status), "asking about the job")
            .await),
        Err(kube::Error::Api(status)) => {
            // It says what was found here, too.
            planned.preview.problems = vec![problem::words(&status)];
            Ok(None)
        }
        Err(error) => Err(api.explain(error, "asking about the job").await),
    }
}

/// Whether the API server would accept a pod of the template.
async fn ask_about_pod(
    api: &Api,
    object: &Value,
    nodes: &Nodes,
    planned: &mut Planned,
) -> Result<()> {
    let job = read::job(object).job;
    let first = planned.preview.served.first().map(String::as_str);
    let node = first.or_else(|| nodes.keys().next().map(|name| &**name));
    let node = node.unwrap_or("any");
    let pod = name::pod(&job.owner.name, job.owner.uid, node, 0);
    let body = pod_body(
        &job.template.value(),
        &job.owner,
        &pod,
        node,
        PodPlacement::Scheduler,
    );
    match api.create(PODS, true, &with_kind(body)).await {
        Ok(_) => Ok(()),
        // The operator creates the pods; whoever plans need not be allowed to.
        Err(kube::Error::Api(status))
            if status.code == 403 && status.message.contains("cannot create resource") =>
        {
            planned.notes.push(
                "the template was not checked: you may not create pods in this namespace"
                    .to_owned(),
            );
            Ok(())
        }
        Err(kube::Error::Api(status)) => {
            let words = problem::words(&status).replace(&format!("Pod \"{pod}\" "), "the pod ");
            planned
                .preview
                .problems
                .push(format!("spec.template: {words}"));
            Ok(())
        }
        Err(error) => Err(api.explain(error, "asking about a pod").await),
    }
}

fn with_kind(mut pod: Value) -> Value {
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod
}

fn print(one: &Planned, format: Option<Format>, headers: bool, screen: &mut Screen) -> Result<()> {
    let preview = &one.preview;
    if format == Some(Format::Name) {
        for node in &preview.served {
            screen.line(&format!("node/{node}"))?;
        }
        return Ok(());
    }
    let rounds = match preview.rounds {
        0 => String::new(),
        rounds => format!(
            ", {} at a time, {}",
            preview.at_a_time,
            count(rounds, "round")
        ),
    };
    screen.line(&format!(
        "{} in namespace {}: {} of {} would be served{rounds}",
        preview.job,
        preview.namespace,
        preview.served.len(),
        count(preview.nodes, "node"),
    ))?;
    screen.blank()?;
    let shown = if format == Some(Format::Wide) {
        usize::MAX
    } else {
        outcomes::SAMPLE
    };
    let mut table = Table::new(&["NODES", "PLACE", "REASON", "AMONG THEM", "FOR EXAMPLE"]);
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
    for problem in &preview.problems {
        screen.blank()?;
        screen.painted(&[(Tone::Bad, "error:"), (Tone::Plain, &format!(" {problem}"))])?;
    }
    for note in &one.notes {
        screen.blank()?;
        screen.line(&format!("note: {note}"))?;
    }
    Ok(())
}
