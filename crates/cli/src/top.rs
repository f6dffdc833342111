//! `top`: the nodes of an object as squares on a terminal, live.

pub(crate) mod draw;
pub(crate) mod grid;
pub(crate) mod view;
mod words;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use carillon_dashboard::cluster::{BROADCAST_JOBS, Cluster, DAEMON_SETS, JOBS, NATIVE_DAEMON_SETS};
use carillon_dashboard::page::{self, Address, ObjectAddress, Page};
use carillon_plan::printable::lines;
use clap::Parser;
use clap_complete::ArgValueCandidates;
use crossterm::event::{Event, EventStream, KeyEvent};
use futures::StreamExt;
use jiff::Timestamp;
use ratatui::DefaultTerminal;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::draw::Paint;
use self::view::{Effect, Popup, View};
use crate::client::Api;
use crate::exit::DONE;
use crate::flags::Global;
use crate::names::short_name;
use crate::render::Screen;
use crate::target::{Found, Target, target};
use crate::{candidates, explain};

/// How often it looks whether something has changed, and how long keys are waited for at most.
const TICK: Duration = Duration::from_millis(250);
/// The first answer of the API server is waited for so long.
const FIRST: Duration = Duration::from_secs(30);

/// Watch all nodes of a BroadcastJob or a DaemonSet as squares on a terminal, or all objects
#[derive(Debug, clap::Args)]
#[command(after_help = "\
One square is one node: ■ done, ▸ active, ✖ failed, · waiting, ○ left out. When there are more nodes than signs, a
sign is two nodes, told apart by colour. The line below the squares says what decides the node under the cursor; enter
explains it. Press ? for all keys. It changes nothing.

Where standard output is no terminal, a line is printed for each change, until the object has come to its end or
waits for a person.

Examples:
  kubectl carillon top
  kubectl carillon top patch-kernel
  kubectl carillon top ds/agent -n monitoring --group-by topology.kubernetes.io/zone")]
pub(crate) struct Top {
    /// Name of a BroadcastJob or else of a DaemonSet, also as cbj/NAME, cds/NAME or ds/NAME (one of apps/v1); all
    /// objects when absent
    #[arg(value_name = "JOB|SET", value_parser = target,
          add = ArgValueCandidates::new(candidates::jobs_and_sets))]
    target: Option<Target>,
    /// Group nodes by the values of this label
    #[arg(long, value_name = "LABEL", requires = "target")]
    group_by: Option<String>,
}

pub(crate) fn run(global: &Global, args: &Top, screen: &mut Screen) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(watch(global, args, screen));
    // Threads that read keys or names of hosts may be blocked.
    runtime.shutdown_background();
    ended
}

async fn watch(global: &Global, args: &Top, screen: &mut Screen) -> Result<u8> {
    let api = Api::connect(&global.target()).await?;
    let at = match &args.target {
        None => Address::Overview,
        Some(target) => Address::Object(found(target, &api, args.group_by.as_deref()).await?),
    };
    // Without a name it shows what `dashboard` does: all namespaces, unless one is named.
    let namespace = match &at {
        Address::Object(at) => Some(at.namespace.clone()),
        _ => global.namespace.clone(),
    };
    let flags = global.repeated_without_namespace();
    let cluster = Cluster::new(api.watching(), namespace, flags);
    match screen.paint() {
        Some((color, unicode)) => {
            let mut terminal = ratatui::try_init().context("opening the terminal")?;
            let ended = on_terminal(
                &mut terminal,
                (&api, global),
                &cluster,
                at,
                Paint { color, unicode },
            );
            let ended = ended.await;
            ratatui::restore();
            ended?;
        }
        None => in_lines(&cluster, &at, screen).await?,
    }
    Ok(DONE)
}

async fn found(target: &Target, api: &Api, group: Option<&str>) -> Result<ObjectAddress> {
    let (resource, object) = match target.find(api).await? {
        Found::Job(object) => (BROADCAST_JOBS, object),
        Found::Set(object) if object["apiVersion"] == "apps/v1" => (NATIVE_DAEMON_SETS, object),
        Found::Set(object) => (DAEMON_SETS, object),
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let at = ObjectAddress::new(resource, text("namespace"), text("name"));
    Ok(ObjectAddress {
        group: group.unwrap_or_default().to_owned(),
        ..at
    })
}

/// Draws until somebody quits.
async fn on_terminal(
    terminal: &mut DefaultTerminal,
    asked: (&Api, &Global),
    cluster: &Cluster,
    at: Address,
    paint: Paint,
) -> Result<()> {
    let mut view = View::new(at);
    let mut changes = cluster.changes();
    let mut keys = EventStream::new();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ended = std::pin::pin!(terminated());
    changes.mark_changed();
    let mut loaded = None;
    loop {
        let mut grid = None;
        let now = Timestamp::now();
        terminal.draw(|frame| grid = Some(draw::draw(frame, &view, paint, now)))?;
        let grid = grid.context("nothing was drawn")?;
        let effect = loop {
            tokio::select! {
                key = keys.next() => match key.context("the terminal is closed")?? {
                    Event::Key(key) => break view.on_key(key, &grid),
                    Event::Resize(..) => break Effect::None,
                    _ => {}
                },
                _ = ticks.tick() => {
                    // Times go on though nothing changes.
                    let second = loaded.is_none_or(|at: Instant| at.elapsed() >= Duration::from_secs(1));
                    if changes.has_changed()? || second {
                        break Effect::Load;
                    }
                }
                () = &mut ended => break Effect::Quit,
            }
        };
        match effect {
            Effect::Quit => return Ok(()),
            Effect::None => {}
            Effect::Load => {
                changes.mark_unchanged();
                loaded = Some(Instant::now());
                cluster.sweep();
                view.show(page::make(cluster, &view.at, now));
                view.pace = page::pace(cluster, &view.at);
            }
            Effect::Explain(at, node) => {
                // Whoever presses a key meanwhile waits no longer.
                let text = tokio::select! {
                    text = timeout(FIRST, explained(asked, &at, &node)) => text.unwrap_or_else(|_| Err(silent())),
                    key = pressed(&mut keys) => {
                        if view.on_key(key?, &grid) == Effect::Quit {
                            return Ok(());
                        }
                        continue;
                    }
                    () = &mut ended => return Ok(()),
                };
                let text = text.unwrap_or_else(|error| format!("{error:#}"));
                view.popup = Some(Popup {
                    title: lines(&node).into_owned(),
                    text: lines(&text).into_owned(),
                    scroll: 0,
                });
            }
        }
    }
}

/// The next key.
async fn pressed(keys: &mut EventStream) -> Result<KeyEvent> {
    loop {
        if let Event::Key(key) = keys.next().await.context("the terminal is closed")?? {
            return Ok(key);
        }
    }
}

fn silent() -> anyhow::Error {
    let seconds = FIRST.as_secs();
    anyhow::anyhow!("the API server has not answered within {seconds}s")
}

/// Until the process is asked to end: a terminal that is left as it is cannot be used.
pub(crate) async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [
            SignalKind::terminate(),
            SignalKind::interrupt(),
            SignalKind::hangup(),
            SignalKind::quit(),
        ];
        let asked = kinds.into_iter().filter_map(|kind| signal(kind).ok());
        let mut asked: futures::stream::FuturesUnordered<_> = asked
            .map(|mut signal| async move { signal.recv().await })
            .collect();
        if asked.next().await.is_some() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// The command that a person would type.
#[derive(Debug, Parser)]
struct Typed {
    #[command(flatten)]
    explain: explain::Explain,
}

/// What `explain` says of a node.
async fn explained(
    (api, global): (&Api, &Global),
    at: &ObjectAddress,
    node: &str,
) -> Result<String> {
    if at.resource == JOBS {
        bail!("the indexes of a Job are explained by their pods");
    }
    let name = format!("{}/{}", short_name(at.resource), at.name);
    let flags = Global {
        namespace: Some(at.namespace.clone()),
        ..global.clone()
    };
    let words = ["explain", &name, "--node", node];
    let typed = Typed::try_parse_from(words)?;
    let mut screen = Screen::kept(flags.repeated());
    explain::run(
        &api.only_of(&at.namespace, None),
        &typed.explain,
        &mut screen,
    )
    .await?;
    Ok(screen.into_kept())
}

/// Prints a line for each change: of one object until it has come to its end, of all objects one each.
async fn in_lines(cluster: &Cluster, at: &Address, screen: &mut Screen) -> Result<()> {
    let mut changes = cluster.changes();
    let read = timeout(FIRST, async {
        loop {
            let page = page::make(cluster, at, Timestamp::now());
            if !is_loading(&page) {
                return Ok(page);
            }
            changes.changed().await?;
        }
    });
    let mut page: Page = match read.await {
        Ok(page) => {
            page.map_err(|error: tokio::sync::watch::error::RecvError| anyhow::anyhow!(error))?
        }
        Err(_) => return Err(silent()),
    };
    if *at == Address::Overview {
        let mut view = View::new(at.clone());
        view.show(page);
        for row in view.rows() {
            screen.line(&format!("{}  {}", words::name(row), words::state(row)))?;
        }
        return Ok(());
    }
    let mut said = String::new();
    loop {
        let head = &page.head;
        if head["page"] == "missing" {
            bail!("it is not there any more");
        }
        let line = line(head);
        if line != said {
            screen.line(&line)?;
            said = line;
        }
        if screen.is_closed() || has_ended(head) {
            return Ok(());
        }
        changes.changed().await?;
        tokio::time::sleep(TICK).await;
        page = page::make(cluster, at, Timestamp::now());
    }
}

fn is_loading(page: &Page) -> bool {
    page.head["page"] == "loading" || page.head["loading"] == true
}

/// How far an object is. What the clock alone changes is not in it.
fn line(head: &Value) -> String {
    let mut still = head.clone();
    still["progress"] = Value::Null;
    let summary = words::summary(&still);
    let headline = head["headline"].as_str().unwrap_or_default();
    format!(
        "{}: {headline}; {summary}",
        head["name"].as_str().unwrap_or_default()
    )
}

/// Whether nothing more is going to happen by itself.
fn has_ended(head: &Value) -> bool {
    let standing = head["progress"]["standing"].as_str().unwrap_or_default();
    ["Complete", "Failed", "Stalled", "Paused"].contains(&standing)
}
