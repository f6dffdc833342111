//! `uninstall`: what of ours stays in a cluster, and taking it off.

mod operator;

use anyhow::{Error, Result, anyhow, bail};
use carillon_plan::job::MANAGED_BY;
use carillon_plan::view::uninstall::{Held, Kind, Leftovers, Unserved};
use clap::ArgGroup;
use futures::StreamExt;
use futures::stream;

use self::operator::{Lease, Living};
use crate::client::{Answer, Api, code};
use crate::exit::{DONE, NOT_ALL};
use crate::flags::{DryRun, Global};
use crate::problem;
use crate::render::{Cell, SAMPLE, Screen, Table, Tone, count, sample};

/// How often an object that changes meanwhile is read again.
const TRIES: usize = 5;
/// Objects that are changed side by side.
const AT_A_TIME: usize = 16;
/// Objects whose refusal is told in words; the rest is counted.
const TOLD: usize = 5;

/// What stays when Carillon goes: finalizers that only it takes off, and Jobs that only it serves
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Carillon keeps BroadcastJobs, Jobs and pods from being removed until what came of them is stored. Without
an operator nobody takes these finalizers off, and what is deleted (also a namespace) waits for ever.

Looks through all namespaces, or one with -n. Exit codes: 0 nothing stays, 1 error, 2 something does.

Examples:
  kubectl carillon uninstall --check
  helm uninstall carillon -n carillon-system && kubectl carillon uninstall --release")]
#[allow(clippy::struct_excessive_bools)]
// they are flags
// The group that is derived has every flag in it: one of `--lease` alone would do.
#[group(skip)]
#[command(group = ArgGroup::new("what").required(true).multiple(false).args(["check", "release"]))]
pub(crate) struct Uninstall {
    /// Only say what is held, and what to do
    #[arg(long)]
    check: bool,
    /// Take our finalizers off, and no other. Can be repeated, also after an interruption
    #[arg(long)]
    release: bool,
    /// Then also delete the Jobs that have not ended and that only Carillon serves, with their pods
    #[arg(long, requires = "release", conflicts_with = "check")]
    delete_jobs: bool,
    /// With --release: change nothing; say what would be done, and whether the API server would accept it
    #[arg(long, requires = "release", conflicts_with = "check")]
    dry_run: bool,
    /// Also while an operator leads, which may put finalizers on again, or where no lease tells
    #[arg(long, requires = "release", conflicts_with = "check")]
    force: bool,
    /// The operator's lease. When absent, the one that the chart has noted in the CRDs; without that, any
    /// whose name has "carillon" in it. One that is named has to exist
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = operator::lease)]
    lease: Option<Lease>,
}

pub(crate) async fn run(
    api: &Api,
    global: &Global,
    args: &Uninstall,
    screen: &mut Screen,
) -> Result<u8> {
    // Whatever the flags let pass: what is not asked for is not done.
    if args.check == args.release {
        bail!("write --check or --release, and not both");
    }
    let namespace = global.namespace.as_deref();
    let (mut lease, mut living) = (args.lease.clone(), Living::Unknown);
    if !args.force {
        if lease.is_none() {
            lease = operator::of_installation(api).await?;
        }
        living = operator::living(api, lease.as_ref(), screen).await?;
        if let (Some(named), Living::Unknown) = (&args.lease, &living) {
            return Err(operator::no_such_lease(api, named).await);
        }
    }
    let doubt = match lease {
        Some(_) => "",
        None => ". If that is somebody else's lease, name the operator's with --lease",
    };
    if let (true, Living::Led { lease, holder }) = (args.release, &living) {
        bail!(
            "{holder} leads with the lease {lease}: it releases by itself what is deleted, and puts \
             finalizers on what it starts. Uninstall it first, or add --force{doubt}"
        );
    }
    let found = api.leftovers(namespace).await?;
    if args.check {
        return check(&found, &living, screen);
    }
    let dry = DryRun {
        dry_run: args.dry_run,
    };
    let mut refused = release(api, &found, dry, screen).await?;
    if args.delete_jobs {
        refused.extend(delete(api, &found, dry, screen).await?);
    }
    if !refused.is_empty() {
        return Err(in_words(&refused));
    }
    if args.dry_run && !found.is_empty() {
        return Ok(NOT_ALL);
    }
    // Others write, too: what counts is what is there now.
    let left = if found.is_empty() {
        found
    } else {
        api.leftovers(namespace).await?
    };
    report(&left, screen)
}

/// Says what is held, and what to do.
fn check(found: &Leftovers, living: &Living, screen: &mut Screen) -> Result<u8> {
    if found.is_empty() {
        screen.line("Nothing is held.")?;
        if let Living::Led { lease, holder } = living {
            screen.aside(&format!(
                "{holder} leads with the lease {lease}: what it starts from now on is held again."
            ));
        }
        return Ok(DONE);
    }
    show(found, screen)?;
    screen.blank()?;
    match living {
        Living::Led { lease, holder } => {
            screen.aside(&format!(
                "{holder} leads with the lease {lease}, and all this changes as it goes on."
            ));
            screen.text(
                "While it runs it releases what is deleted:\n    \
                 kubectl delete cronjobs.carillon.dev,broadcastjobs.carillon.dev --all --all-namespaces --wait\n\
                 Or uninstall it, and take off what is left: kubectl carillon uninstall --release\n",
            )?;
        }
        Living::Unknown | Living::Gone => screen.text(
            "No operator that leads was found, and nobody else takes these finalizers off. Install it \
             again, or: kubectl carillon uninstall --release\n",
        )?,
    }
    unserved(found, screen)?;
    Ok(NOT_ALL)
}

/// Says what stays after a release.
fn report(left: &Leftovers, screen: &mut Screen) -> Result<u8> {
    if left.is_empty() {
        screen.line("Nothing is held.")?;
        return Ok(DONE);
    }
    if !left.held.is_empty() {
        show(left, screen)?;
        screen.aside("This has come meanwhile: see that no operator runs, and release again.");
    }
    unserved(left, screen)?;
    Ok(NOT_ALL)
}

/// A line for each namespace, kind and finalizer.
fn show(found: &Leftovers, screen: &mut Screen) -> Result<()> {
    let mut table = Table::new(&[
        "NAMESPACE",
        "KIND",
        "HELD BY",
        "OBJECTS",
        "DELETED",
        "FOR EXAMPLE",
    ]);
    for ((namespace, kind, finalizer), held) in found.groups() {
        let deleted = held.iter().filter(|held| held.deleted).count();
        table.row([
            namespace.into(),
            kind.name().into(),
            finalizer.into(),
            held.len().to_string().into(),
            Cell::new(
                deleted.to_string(),
                if deleted > 0 { Tone::Bad } else { Tone::Plain },
            ),
            sample(&names(&held), SAMPLE).into(),
        ]);
    }
    let managed = format!("spec.managedBy {MANAGED_BY}");
    for (namespace, jobs) in found.unserved_by_namespace() {
        let names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
        table.row([
            namespace.into(),
            Kind::Job.name().into(),
            (&managed).into(),
            jobs.len().to_string().into(),
            "0".into(),
            sample(&names, SAMPLE).into(),
        ]);
    }
    screen.table(&table, true)
}

/// Says what becomes of Jobs that nobody goes on with.
fn unserved(found: &Leftovers, screen: &mut Screen) -> Result<()> {
    if found.unserved.is_empty() {
        return Ok(());
    }
    let jobs = count(found.unserved.len(), "Job");
    screen.text(&format!(
        "Without Carillon nobody goes on with {jobs} that {} spec.managedBy {MANAGED_BY}. It cannot be \
         changed: delete what still has to run (--release --delete-jobs) and create it without that.\n",
        if found.unserved.len() == 1 { "has" } else { "have" }
    ))
}

fn names(held: &[&Held]) -> Vec<String> {
    held.iter().map(|held| held.name.clone()).collect()
}

/// Objects that the API server did not release, and why.
type Refused = Vec<(String, kube::Error)>;

/// Takes every finalizer off, and says where.
async fn release(
    api: &Api,
    found: &Leftovers,
    dry: DryRun,
    screen: &mut Screen,
) -> Result<Refused> {
    let mut refused = Vec::new();
    for ((namespace, kind, finalizer), held) in found.groups() {
        let answers: Vec<_> = stream::iter(held)
            .map(|held| async move { (held, release_one(api, found, (held, dry)).await) })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let mut done = Vec::new();
        for (held, answer) in answers {
            match answer {
                Ok(true) => done.push(held.name.clone()),
                // Somebody else has done it, or it is gone.
                Ok(false) => {}
                Err(error) => {
                    let object = format!("{} {namespace}/{}", kind.name(), held.name);
                    refused.push((object, error));
                }
            }
        }
        if !done.is_empty() {
            done.sort();
            let objects = count(done.len(), kind.name());
            let names = sample(&done, SAMPLE);
            screen.line(&format!(
                "{namespace}: {finalizer} taken off {objects}: {names}{}",
                dry.mark()
            ))?;
        }
    }
    Ok(refused)
}

/// Takes a finalizer off; whether it was there.
async fn release_one(api: &Api, found: &Leftovers, (first, dry): (&Held, DryRun)) -> Answer<bool> {
    let mut held = first.clone();
    let mut tries = 0;
    loop {
        tries += 1;
        let error = match api.release(&held, dry.dry_run).await {
            Ok(()) => return Ok(true),
            Err(error) if code(&error) == Some(404) => return Ok(false),
            Err(error) => error,
        };
        // The list was changed meanwhile, or the object was.
        if !matches!(code(&error), Some(409 | 422)) || tries == TRIES {
            return Err(error);
        }
        let now = match api.read(&held).await {
            Ok(now) => now,
            Err(error) if code(&error) == Some(404) => return Ok(false),
            Err(error) => return Err(error),
        };
        match found.again(&held, &now) {
            Some(now) => held = now,
            None => return Ok(false),
        }
    }
}

/// Deletes the Jobs that nobody goes on with.
async fn delete(api: &Api, found: &Leftovers, dry: DryRun, screen: &mut Screen) -> Result<Refused> {
    let mut refused = Vec::new();
    for (namespace, jobs) in found.unserved_by_namespace() {
        let answers: Vec<(&Unserved, Answer<()>)> = stream::iter(jobs)
            .map(|job| async move { (job, api.delete_unserved(job, dry.dry_run).await) })
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let mut done = Vec::new();
        for (job, answer) in answers {
            match answer {
                Ok(()) => done.push(job.name.clone()),
                Err(error) if code(&error) == Some(404) => {}
                Err(error) => refused.push((format!("Job {namespace}/{}", job.name), error)),
            }
        }
        if !done.is_empty() {
            done.sort();
            let (jobs, names) = (count(done.len(), "Job"), sample(&done, SAMPLE));
            let mark = dry.mark();
            screen.line(&format!("{namespace}: {jobs} deleted: {names}{mark}"))?;
        }
    }
    Ok(refused)
}

fn in_words(refused: &[(String, kube::Error)]) -> Error {
    let told = refused
        .iter()
        .take(TOLD)
        .map(|(object, error)| match error {
            kube::Error::Api(status) => format!("{object}: {}", problem::words(status)),
            other => format!("{object}: {other}"),
        });
    let mut lines: Vec<String> = told.collect();
    if let more @ 1.. = refused.len().saturating_sub(TOLD) {
        lines.push(format!("and {more} more"));
    }
    lines.push("The rest is done; try these again with the same command".to_owned());
    anyhow!(lines.join("\n"))
}
