//! Which objects a kind reads, and as what rows.

use std::fmt::{self, Debug};

use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use super::irreproducible::Irreproducible;
use crate::args::Config;
use crate::flight_recorder::Decision;
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::parts::Parts;
use crate::store::{Queues, Row, Store, StoreSink, Tables};
use crate::transport::{Watches, gathering};
use crate::watch::{self, Source};

/// Objects of a kind that are read, and as what.
#[derive(Clone, Copy)]
pub struct Read {
    /// Their kind.
    pub kind: Kind,
    /// Whether this is a part of what whoever serves them reads, who then reads for both.
    pub is_part: bool,
    /// The label of those that are read, where some may be enough; empty: all are.
    pub label: &'static str,
    /// Starts to watch those with a label, or all.
    pub start: fn(&Watching<'_>, &str, &mut Parts) -> watch::Handle,
    /// Enters one that a decision was made from.
    pub(super) enter: fn(&mut Tables, Value, &Decision) -> Result<(), Irreproducible>,
}

impl Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Read of {}", self.kind.word())
    }
}

impl Read {
    /// All that a planner may ask about them.
    pub const fn of<R: Row>() -> Self {
        Self {
            kind: R::KIND,
            is_part: false,
            label: R::LABEL,
            start: |watching, label, parts| watching.start::<R>(label, parts),
            enter: enter::<R>,
        }
    }

    /// A part of that.
    pub const fn part<R: Row>() -> Self {
        Self {
            is_part: true,
            ..Self::of::<R>()
        }
    }
}

/// Which of the objects that have a label are needed.
#[derive(Debug)]
pub enum Selects {
    /// Those with the label.
    Labelled,
    /// All of them.
    All,
    /// All of them once this is true.
    AllOnce(Receiver<bool>),
}

/// What watches are started with.
#[derive(Debug)]
pub struct Watching<'a> {
    /// To the API server.
    pub transports: Watches,
    /// Where rows are entered.
    pub store: Store,
    /// Which controllers are woken.
    pub queues: Queues,
    /// The flags.
    pub config: &'a Config,
    /// Counts what is read.
    pub metrics: &'a Metrics,
    /// Ends the watches.
    pub shutdown: &'a CancellationToken,
}

impl Watching<'_> {
    fn start<R: Row>(&self, label: &str, parts: &mut Parts) -> watch::Handle {
        let kind = R::KIND.word();
        let (group, version) = R::KIND.group_version();
        let source = Source {
            kind,
            group,
            version,
            plural: R::KIND.plural(),
            labels: label.to_owned(),
            audit_period: self.config.cache_audit_period,
        };
        let namespaces: &[String] = if R::KIND.is_namespaced() {
            &self.config.namespaces
        } else {
            &[]
        };
        let batch = gathering(self.config.job_sync_batch_period);
        let (handle, loops) = watch::prepare::<R, _>(
            self.transports.at(R::PACE),
            &source,
            namespaces,
            |namespace| StoreSink::new(&self.store, &self.queues, batch, namespace),
            self.metrics,
        );
        for watch in loops {
            let shutdown = self.shutdown.clone();
            let name = format!("the watch of {kind}");
            parts.start_fallible(name, watch.run(shutdown));
        }
        handle
    }
}

fn enter<R: Row>(
    tables: &mut Tables,
    object: Value,
    decision: &Decision,
) -> Result<(), Irreproducible> {
    let kind = R::KIND.word();
    let object: R =
        serde_json::from_value(object).map_err(|error| Irreproducible::Object { kind, error })?;
    let found = object.resource_version().unwrap_or(0);
    let seen = decision.seen.get(kind).copied().unwrap_or(0);
    if found > seen {
        return Err(Irreproducible::Newer { kind, found, seen });
    }
    object.enter(tables, &mut Vec::new());
    Ok(())
}
