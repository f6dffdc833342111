//! DaemonSets in `get`.

use anyhow::Result;
use carillon_api::Refused;
use carillon_plan::view::daemon_set::look::Look;
use carillon_plan::view::daemon_set::progress::{Progress, Standing};
use carillon_plan::view::daemon_set::read;
use jiff::Timestamp;
use serde_json::Value;

use super::columns::Columns;
use crate::client::Api;
use crate::render::{Cell, Screen, Table, Tone, age};

/// The progress of one. What the status of a native one does not say is looked for among its pods and nodes, if it
/// is `alone`, and if whoever asks may read them.
pub(super) async fn progress(api: &Api, object: &Value, alone: bool) -> Result<Progress> {
    let stored = read::set(object);
    let mut progress = Progress::of(&stored);
    if stored.set.native && alone {
        look(api, object, &mut progress).await?;
    }
    Ok(progress)
}

/// Looks at the pods and nodes of a native DaemonSet, if that is allowed.
pub(crate) async fn look(api: &Api, object: &Value, progress: &mut Progress) -> Result<()> {
    if let Some(nodes) = api.nodes_if_allowed().await? {
        let known = api.known(object, nodes).await?;
        if known.pods.is_some() {
            progress.look(&Look::at(&known, Timestamp::now()));
        }
    }
    Ok(())
}

pub(super) fn prefix(set: &Progress) -> &'static str {
    if set.api_version.starts_with("apps/") {
        "ds/"
    } else {
        "cds/"
    }
}

pub(super) fn table(sets: &[&Progress], columns: Columns, prefixed: bool) -> Table {
    let mut table = Table::new(&headers(columns)).cut_unless(columns.wide, &["STATUS"]);
    let now = Timestamp::now();
    for set in sets {
        let prefix = if prefixed { prefix(set) } else { "" };
        table.row(row(set, columns, prefix, now));
    }
    table
}

fn headers(columns: Columns) -> Vec<&'static str> {
    let mut headers = Vec::new();
    headers.extend(columns.namespace.then_some("NAMESPACE"));
    headers.extend(["NAME", "DESIRED", "UPDATED", "AVAILABLE", "STATUS", "AGE"]);
    if columns.wide {
        headers.extend([
            "READY",
            "MISSCHEDULED",
            "EXCUSED",
            "REFUSED",
            "REVISION",
            "IMAGE",
        ]);
    }
    headers
}

fn row(set: &Progress, columns: Columns, prefix: &str, now: Timestamp) -> Vec<Cell> {
    let mut row: Vec<Cell> = Vec::new();
    if columns.namespace {
        row.push(Cell::from(&set.namespace));
    }
    let status = Cell::new(set.headline(), tone(set));
    row.extend([
        format!("{prefix}{}", set.name).into(),
        set.desired.to_string().into(),
        format!("{}/{}", set.updated, set.desired).into(),
        set.available.to_string().into(),
        status,
        age(set.created, now).into(),
    ]);
    if columns.wide {
        let count = |nodes: &[Refused]| {
            nodes
                .iter()
                .map(|one| i64::from(one.count))
                .sum::<i64>()
                .to_string()
        };
        let image = if set.image.is_empty() {
            "-"
        } else {
            &set.image
        };
        row.extend([
            set.ready.to_string().into(),
            set.misscheduled.to_string().into(),
            count(&set.excused).into(),
            count(&set.refused).into(),
            Cell::from(set.revision.as_deref().unwrap_or("-")),
            Cell::from(image),
        ]);
    }
    row
}

pub(crate) fn tone(set: &Progress) -> Tone {
    match set.standing {
        Standing::NotStarted => Tone::Faint,
        Standing::Updating => Tone::Plain,
        Standing::Complete => Tone::Good,
        Standing::Paused | Standing::OldPodsKept | Standing::Unavailable => Tone::Care,
        Standing::Stalled => Tone::Bad,
    }
}

/// Below the only one that was asked about: nodes that it waits for, does not wait for, and leaves out.
pub(super) fn print_nodes(set: &Progress, headers: bool, screen: &mut Screen) -> Result<()> {
    let mut table = Table::new(&["NODES", "ARE", "REASON", "AMONG THEM"]).cut(&["AMONG THEM"]);
    let parts = [
        ("waited for", Tone::Plain, &set.waiting_for),
        ("excused", Tone::Care, &set.excused),
        ("refused", Tone::Faint, &set.refused),
    ];
    for (what, tone, nodes) in parts {
        for one in nodes {
            let more = if one.count as usize > one.sample.len() {
                ", …"
            } else {
                ""
            };
            table.row([
                one.count.to_string().into(),
                Cell::new(what, tone),
                Cell::from(&one.reason),
                format!("{}{more}", one.sample.join(", ")).into(),
            ]);
        }
    }
    if table.height() > 0 {
        screen.blank()?;
        screen.table(&table, headers)?;
    }
    Ok(())
}
