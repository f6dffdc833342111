//! The audit: what was delivered, compared with a list of the kind's metadata.
//!
//! A watch loses an event now and then, and what is held is wrong from then on: nobody says it
//! again. So, once a period, the kind is listed while its watch goes on. What an event was about
//! since that list began is left out; the rest is judged when the watch has come to the list's
//! resourceVersion. Every event up to it has been delivered then, or is lost. A busy cluster
//! therefore raises no alarm.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use carillon_plan::Uid;
use serde::Deserialize;
use tokio::time::{Instant, sleep_until};

use super::address::Address;
use super::counters::Counters;
use super::frames::End;
use super::pages::{PageSize, Pages};
use super::sink::{Held, Listed, Sink};
use crate::transport::Transport;

/// How long the watch may take to come to the list's resourceVersion: bookmarks come about once a
/// minute.
const REACH_WITHIN: Duration = Duration::from_mins(3);
/// By what part of itself a period may be longer, so that audits do not fall together.
const JITTER: f64 = 0.2;
/// Metadata only; whole objects from a server that has no such list, of which only metadata is read.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Objects of a list that are compared at once.
const PART: usize = 500;

type Fetch = Pin<Box<dyn Future<Output = Result<Part, String>> + Send>>;

/// A part of a list.
pub(super) struct Part {
    objects: Vec<Listed>,
    rest: Rest,
}

enum Rest {
    More(Box<Pages>),
    /// That was all, and this is the list's resourceVersion.
    Over(u64),
}

/// The audits of one loop.
pub(super) struct Audit {
    /// `None`: there are none.
    period: Option<Duration>,
    due: Instant,
    running: Option<Running>,
    transport: Transport,
    address: Address,
    counters: Counters,
}

struct Running {
    stage: Stage,
    /// What events were about since the list began.
    touched: HashSet<Uid>,
    listed: HashSet<Uid>,
    /// What was not held as it was listed.
    differences: Vec<Difference>,
}

enum Stage {
    /// A part of the list is on its way.
    Listing(Fetch),
    /// The list is complete; the watch has to come to `rv`.
    Reaching { rv: u64, until: Instant },
}

/// What an audit waited for.
pub(super) enum Turn {
    Due,
    Part(Result<Part, String>),
    TooLate,
}

/// Something that is not as it was listed.
#[derive(Debug, PartialEq)]
struct Difference {
    uid: Uid,
    name: String,
    /// resourceVersion in the list; `None`: it does not exist.
    listed: Option<u64>,
    /// resourceVersion of what is held; `None`: nothing is.
    held: Option<u64>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.listed, self.held) {
            (Some(listed), Some(held)) => {
                write!(f, "resourceVersion {held} is held and {listed} exists")
            }
            (Some(_), None) => f.write_str("it exists and is not held"),
            (None, _) => f.write_str("it is held and does not exist"),
        }
    }
}

impl Audit {
    pub(super) fn new(
        period: Option<Duration>,
        transport: &Transport,
        address: &Address,
        counters: &Counters,
    ) -> Self {
        let mut audit = Self {
            period,
            due: Instant::now(),
            running: None,
            transport: transport.clone(),
            address: address.clone(),
            counters: counters.clone(),
        };
        audit.later();
        audit
    }

    /// From now on `all` objects are compared, or those that the labels select.
    pub(super) fn select(&mut self, all: bool) {
        self.address.select(all);
    }

    /// Begins a new period; a full list is as good as an audit. Whether one was under way.
    pub(super) fn later(&mut self) -> bool {
        let jitter = 1.0 + JITTER * fastrand::f64();
        self.due = Instant::now() + self.period.unwrap_or_default().mul_f64(jitter);
        self.running.take().is_some()
    }

    /// An event was about this object.
    pub(super) fn touch(&mut self, uid: Option<Uid>) {
        if let Some(running) = &mut self.running {
            running.touched.extend(uid);
        }
    }

    /// Waits for what an audit has to do next. May be dropped at any time and called again.
    pub(super) async fn turn(&mut self) -> Turn {
        match &mut self.running {
            None if self.period.is_none() => std::future::pending().await,
            None => {
                sleep_until(self.due).await;
                Turn::Due
            }
            Some(running) => match &mut running.stage {
                Stage::Listing(part) => Turn::Part(part.await),
                Stage::Reaching { until, .. } => {
                    sleep_until(*until).await;
                    Turn::TooLate
                }
            },
        }
    }

    /// The audit under way, if a watch that has come to `rv` has come far enough for it.
    fn finished(&mut self, rv: u64) -> Option<Running> {
        let enough =
            |stage: &Stage| matches!(stage, Stage::Reaching { rv: listed, .. } if rv >= *listed);
        self.running.take_if(|running| enough(&running.stage))
    }

    /// Does what was waited for.
    pub(super) fn go_on<K>(&mut self, turn: Turn, size: PageSize, sink: &impl Sink<K>) {
        let outcome = match turn {
            Turn::Due => {
                let pages = Pages::new(&self.transport, &self.address, METADATA, size);
                self.running = Some(Running {
                    stage: Stage::Listing(Box::pin(part(Box::new(pages)))),
                    touched: HashSet::new(),
                    listed: HashSet::new(),
                    differences: Vec::new(),
                });
                Ok(())
            }
            Turn::Part(part) => part.map(|part| self.compare(part, sink)),
            Turn::TooLate => {
                self.give_up("the watch did not come to the list's resourceVersion");
                return;
            }
        };
        if let Err(error) = outcome {
            self.later();
            self.counters.audits.failed.inc();
            tracing::warn!(kind = self.counters.kind, path = %self.address, %error, "audit failed");
        }
    }

    /// Abandons the audit under way, if there is one.
    pub(super) fn give_up(&mut self, why: &str) {
        if self.later() {
            self.counters.audits.given_up.inc();
            tracing::info!(
                kind = self.counters.kind,
                path = %self.address,
                why,
                "audit given up"
            );
        }
    }

    /// Compares a part of the list with what is held, and asks for the next one.
    fn compare<K>(&mut self, next: Part, sink: &impl Sink<K>) {
        let Some(running) = &mut self.running else {
            return;
        };
        running.stage = match next.rest {
            Rest::More(pages) => Stage::Listing(Box::pin(part(pages))),
            Rest::Over(rv) => Stage::Reaching {
                rv,
                until: Instant::now() + REACH_WITHIN,
            },
        };
        for metadata in next.objects {
            let Some(uid) = metadata.uid() else { continue };
            running.listed.insert(uid);
            let listed = metadata.rv();
            let held = match sink.holds(&metadata) {
                Held::At(held) if held == listed => continue,
                Held::LeftOut => continue,
                Held::At(held) => Some(held),
                Held::Nothing => None,
            };
            running.differences.push(Difference {
                uid,
                name: metadata.name,
                listed: Some(listed),
                held,
            });
        }
    }

    /// Ends the audit under way if the watch has come far enough. A difference leads to a new list.
    pub(super) fn end<K>(&mut self, rv: u64, sink: &impl Sink<K>) -> Result<(), End> {
        let Some(running) = self.finished(rv) else {
            return Ok(());
        };
        let Running {
            touched,
            listed,
            mut differences,
            ..
        } = running;
        differences.retain(|difference| !touched.contains(&difference.uid));
        sink.each_held(&mut |name, uid, held| {
            if !listed.contains(&uid) && !touched.contains(&uid) {
                differences.push(Difference {
                    uid,
                    name: name.to_owned(),
                    listed: None,
                    held: Some(held),
                });
            }
        });
        self.later();
        let Some(first) = differences.first() else {
            self.counters.audits.clean.inc();
            tracing::debug!(
                kind = self.counters.kind,
                path = %self.address,
                listed = listed.len(),
                "audit found no difference"
            );
            return Ok(());
        };
        self.counters.audits.different.inc();
        let count = differences.len();
        self.counters.audit_differences.inc_by(count as u64);
        tracing::warn!(
            kind = self.counters.kind,
            path = %self.address,
            count,
            name = first.name,
            uid = %first.uid,
            difference = %first,
            "the cache was not as the cluster is: an event was lost"
        );
        Err(End::Relist("an audit found a difference"))
    }
}

/// Reads on until there is something to compare.
async fn part(mut pages: Box<Pages>) -> Result<Part, String> {
    let mut objects = Vec::new();
    loop {
        let each = |item: &[u8]| {
            let item: Item = serde_json::from_slice(item).map_err(|e| e.to_string())?;
            objects.push(item.metadata);
            Ok(())
        };
        let rest = match pages.advance(each).await? {
            Some(rv) => Rest::Over(rv),
            None if objects.len() < PART => continue,
            None => Rest::More(pages),
        };
        return Ok(Part { objects, rest });
    }
}

#[derive(Deserialize)]
struct Item {
    metadata: Listed,
}
