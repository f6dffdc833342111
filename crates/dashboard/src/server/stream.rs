//! Pages as they change, by server-sent events.
//!
//! `head` has everything but the squares, `change` what of it is another now, as a merge patch. `fleet` has the nodes
//! and groups, when these change; `looks` adds to the numbered ways a square can look; `squares` says which square
//! looks how now.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use carillon_plan::view::squares::Look;
use futures::Stream;
use futures::stream;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::State as Server;
use crate::cluster::Resource;
use crate::page::{self, Address, Fleet, ObjectAddress, Page};

/// So many ways to look are numbered before it is begun anew, or two for each square.
const LOOKS_AT_LEAST: usize = 1000;
/// A page is made no more often than this.
const EVERY: Duration = Duration::from_millis(250);
/// And no more often than takes this share of the time.
const SHARE: u32 = 5;
/// Without a change a page is made again after this: what depends on the time has changed.
const AT_LEAST: Duration = Duration::from_secs(5);

/// The pages that somebody looks at, each made once for all who do. One that takes long holds no other up.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<HashMap<Address, Arc<Shared>>>);

/// Locked while it is made.
type Shared = Mutex<Option<Arc<Made>>>;

#[derive(Debug)]
struct Made {
    page: Page,
    version: u64,
    at: Instant,
    took: Duration,
}

impl Pages {
    /// The page as of a version of the cluster, or a later one.
    fn get(&self, address: &Address, version: u64, page: impl FnOnce() -> Page) -> Arc<Made> {
        let shared = {
            let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pages.retain(|_, shared| is_wanted(shared));
            pages.entry(address.clone()).or_default().clone()
        };
        let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |made: &&Arc<Made>| made.version >= version && made.at.elapsed() < AT_LEAST;
        if let Some(made) = kept.as_ref().filter(fresh) {
            return made.clone();
        }
        let started = Instant::now();
        let page = page();
        let made = Arc::new(Made {
            page,
            version,
            at: Instant::now(),
            took: started.elapsed(),
        });
        *kept = Some(made.clone());
        made
    }
}

/// Somebody has it, or had it a moment ago.
fn is_wanted(shared: &Arc<Shared>) -> bool {
    let recent = |made: &Arc<Made>| made.at.elapsed() < 2 * AT_LEAST;
    Arc::strong_count(shared) > 1
        || shared
            .try_lock()
            .is_ok_and(|kept| kept.as_ref().is_some_and(recent))
}

#[derive(Deserialize)]
pub(super) struct StreamQuery {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    group: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    zone: String,
}

impl StreamQuery {
    fn address(self) -> Option<Address> {
        match self.resource.as_str() {
            "" => Some(Address::Overview),
            "runs" => Some(Address::Runs),
            name => Some(Address::Object(ObjectAddress {
                resource: Resource::of_name(name)?,
                namespace: self.namespace,
                name: self.name,
                group: self.group,
                label: self.label,
                zone: self.zone,
            })),
        }
    }
}

pub(super) async fn stream(
    State(server): State<Arc<Server>>,
    Query(query): Query<StreamQuery>,
) -> Response {
    let resource = query.resource.clone();
    let Some(address) = query.address() else {
        let why = format!("there is no page of {resource:?}");
        return (axum::http::StatusCode::NOT_FOUND, why).into_response();
    };
    Sse::new(events(server, address))
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn events(server: Arc<Server>, address: Address) -> impl Stream<Item = Result<Event, Infallible>> {
    let changes = server.cluster.changes();
    let sent = Sent::new(server.act.is_some());
    let start = (
        server,
        address,
        changes,
        sent,
        Vec::<Event>::new().into_iter(),
    );
    stream::unfold(
        start,
        |(server, address, mut changes, mut sent, mut ready)| async move {
            loop {
                if let Some(event) = ready.next() {
                    return Some((Ok(event), (server, address, changes, sent, ready)));
                }
                if let Some(wait) = sent.wait {
                    // The sender lives as long as the cluster, which the server holds.
                    let _ = tokio::time::timeout(AT_LEAST, changes.changed()).await;
                    tokio::time::sleep(wait).await;
                }
                let version = *changes.borrow_and_update();
                let making = (server.clone(), address.clone());
                let made = tokio::task::spawn_blocking(move || {
                    let (server, address) = making;
                    server.pages.get(&address, version, || {
                        page::make(&server.cluster, &address, Timestamp::now())
                    })
                });
                let made = made.await.ok()?;
                sent.wait = Some(EVERY.max(made.took * SHARE));
                ready = sent.events(&made.page).into_iter();
            }
        },
    )
}

/// What a reader has been sent.
#[derive(Debug)]
struct Sent {
    acts: bool,
    head: Value,
    groups: Vec<(String, usize)>,
    nodes: Vec<String>,
    looks: HashMap<Look, u32>,
    squares: Vec<u32>,
    /// Until the next page is made; `None` before the first.
    wait: Option<Duration>,
}

impl Sent {
    fn new(acts: bool) -> Self {
        Self {
            acts,
            head: Value::Null,
            groups: Vec::new(),
            nodes: Vec::new(),
            looks: HashMap::new(),
            squares: Vec::new(),
            wait: None,
        }
    }

    fn events(&mut self, page: &Page) -> Vec<Event> {
        let told = self.told(page);
        let events = told
            .into_iter()
            .map(|(name, data)| Event::default().event(name).data(data.to_string()));
        events.collect()
    }

    /// What has changed since the last time.
    fn told(&mut self, page: &Page) -> Vec<(&'static str, Value)> {
        let mut told = Vec::new();
        let mut head = page.head.clone();
        head["acts"] = self.acts.into();
        name_rows(&mut head);
        let is_loading = |head: &Value| head["page"] == "loading";
        let has_more_to_read = is_loading(&head)
            && !self.head.is_null()
            && !is_loading(&self.head)
            && self.head["page"] != "missing";
        if has_more_to_read {
            // As when a job gets a retry, whose results are read: what is on the page stays so long.
            let sources = head["sources"].take();
            head.clone_from(&self.head);
            head["sources"] = sources;
        }
        if self.head.is_null() {
            told.push(("head", head.clone()));
        } else if let Some(change) = change(&self.head, &head) {
            told.push(("change", change));
        }
        self.head = head;
        match &page.fleet {
            Some(fleet) => self.tell_fleet(fleet, &mut told),
            None if has_more_to_read || self.nodes.is_empty() => {}
            None => self.tell_fleet(&Fleet::default(), &mut told),
        }
        told
    }

    fn tell_fleet(&mut self, fleet: &Fleet, told: &mut Vec<(&'static str, Value)>) {
        let names = fleet.squares.iter().map(|square| square.node.as_str());
        let too_many = self.looks.len() > LOOKS_AT_LEAST.max(2 * self.nodes.len());
        if too_many
            || fleet.groups != self.groups
            || !names.clone().eq(self.nodes.iter().map(String::as_str))
        {
            self.nodes = names.map(str::to_owned).collect();
            self.groups.clone_from(&fleet.groups);
            // What is numbered grows with each message of a pod: a new grid begins anew.
            self.looks.clear();
            self.squares.clear();
            told.push(("fleet", json!({"groups": self.groups, "nodes": self.nodes})));
        }
        let mut new_looks = Vec::new();
        let mut number = |look: &Look| {
            if let Some(known) = self.looks.get(look) {
                return *known;
            }
            let next = self.looks.len() as u32;
            self.looks.insert(look.clone(), next);
            new_looks.push(look.clone());
            next
        };
        let now: Vec<u32> = fleet
            .squares
            .iter()
            .map(|square| number(&square.look))
            .collect();
        if !new_looks.is_empty() {
            told.push(("looks", json!(new_looks)));
        }
        if self.squares.is_empty() && !now.is_empty() {
            told.push(("squares", json!({"all": now})));
        } else {
            let pairs = now.iter().zip(&self.squares).enumerate();
            let changed = pairs.filter(|(_, (new, old))| new != old);
            let changed: Vec<[u32; 2]> = changed.map(|(at, (new, _))| [at as u32, *new]).collect();
            if !changed.is_empty() {
                told.push(("squares", json!({"changed": changed})));
            }
        }
        self.squares = now;
    }
}

/// Rows get names, so that one of them can change alone.
fn name_rows(head: &mut Value) {
    let Some(rows) = head["rows"].as_array_mut().map(std::mem::take) else {
        return;
    };
    let named = rows.into_iter().map(|row| {
        let part = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
        let name = ["resource", "namespace", "name"].map(part).join("/");
        (name, row)
    });
    head["rows"] = Value::Object(named.collect());
}

/// The merge patch (RFC 7386) that makes `new` of `old`. `None`: they are the same.
fn change(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, new) in new {
        let changed = match old.get(key) {
            Some(old) => change(old, new),
            None => Some(new.clone()),
        };
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use carillon_plan::view::squares::{Class, Square};

    use super::*;

    fn square(node: &str, class: Class) -> Square {
        let look = Look {
            class,
            place: format!("{class:?}"),
            reason: String::new(),
            words: String::new(),
        };
        Square {
            node: node.to_owned(),
            look,
        }
    }

    fn page(squares: &[(&str, Class)]) -> Page {
        let squares = squares.iter().map(|(node, class)| square(node, *class));
        Page {
            head: json!({"page": "broadcastjob"}),
            fleet: Some(Fleet::alone(squares.collect())),
        }
    }

    fn names(told: &[(&'static str, Value)]) -> Vec<&'static str> {
        told.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_reader_gets_all_at_first_and_then_what_has_changed() {
        let mut sent = Sent::new(false);
        let first = sent.told(&page(&[("a", Class::Waiting), ("b", Class::Waiting)]));
        assert_eq!(names(&first), ["head", "fleet", "looks", "squares"]);
        assert_eq!(first[3].1, json!({"all": [0, 0]}));
        assert_eq!(
            names(&sent.told(&page(&[("a", Class::Waiting), ("b", Class::Waiting)]))),
            [""; 0]
        );
        let next = sent.told(&page(&[("a", Class::Waiting), ("b", Class::Done)]));
        assert_eq!(names(&next), ["looks", "squares"]);
        assert_eq!(next[1].1, json!({"changed": [[1, 1]]}));
        // A node that joins begins a new grid.
        let joined = [
            ("a", Class::Waiting),
            ("b", Class::Done),
            ("c", Class::Waiting),
        ];
        let joined = sent.told(&page(&joined));
        assert_eq!(names(&joined), ["fleet", "looks", "squares"]);
        assert_eq!(joined[2].1, json!({"all": [0, 1, 0]}));
    }

    fn head(head: Value) -> Page {
        Page { head, fleet: None }
    }

    #[test]
    fn of_a_head_only_what_has_changed_is_sent() {
        let mut sent = Sent::new(true);
        let row = |name: &str, done: u32| json!({"resource": "jobs.batch", "namespace": "a", "name": name, "done": done});
        let rows =
            |rows: Vec<Value>| head(json!({"page": "overview", "rows": rows, "loading": true}));
        assert_eq!(
            names(&sent.told(&rows(vec![row("x", 1), row("y", 1)]))),
            ["head"]
        );
        let next = sent.told(&rows(vec![row("x", 1), row("y", 2)]));
        let changed = json!({"rows": {"jobs.batch/a/y": {"done": 2}}});
        assert_eq!(next, [("change", changed)]);
        let next = sent.told(&rows(vec![row("y", 2)]));
        assert_eq!(
            next,
            [("change", json!({"rows": {"jobs.batch/a/x": null}}))]
        );
        let without = head(json!({"page": "overview", "rows": [row("y", 2)]}));
        assert_eq!(sent.told(&without), [("change", json!({"loading": null}))]);
        assert_eq!(sent.told(&without), []);
    }

    #[test]
    fn a_page_that_is_shown_stays_while_more_is_read_for_it() {
        let mut sent = Sent::new(false);
        drop(sent.told(&page(&[("a", Class::Done)])));
        let lost = json!([{"state": "loading", "what": "noderesultslices.carillon.dev"}]);
        let loading = head(json!({"page": "loading", "sources": lost}));
        assert_eq!(sent.told(&loading), [("change", json!({"sources": lost}))]);
        assert_eq!(sent.told(&loading), []);
        let next = sent.told(&page(&[("a", Class::Done)]));
        assert_eq!(next, [("change", json!({"sources": null}))]);
        // What is gone is gone, and so is what may not be read any more.
        let hidden = head(json!({"page": "broadcastjob"}));
        assert_eq!(names(&sent.told(&hidden)), ["fleet"]);
        let missing = head(json!({"page": "missing"}));
        assert_eq!(
            sent.told(&missing),
            [("change", json!({"page": "missing"}))]
        );
        assert_eq!(names(&sent.told(&loading)), ["change"]);
    }

    #[test]
    fn a_page_that_takes_long_holds_no_other_up() {
        use std::sync::mpsc::channel;
        let pages = Pages::default();
        let (done, wait) = channel();
        let (begun, has_begun) = channel();
        std::thread::scope(|scope| {
            let pages = &pages;
            scope.spawn(move || {
                pages.get(&Address::Overview, 1, || {
                    begun.send(()).unwrap();
                    wait.recv_timeout(Duration::from_secs(30)).unwrap();
                    head(json!("slow"))
                })
            });
            has_begun.recv().unwrap();
            assert_eq!(
                pages
                    .get(&Address::Runs, 1, || head(json!("quick")))
                    .page
                    .head,
                "quick"
            );
            done.send(()).unwrap();
        });
        // It was made once for all who look.
        let again = pages.get(&Address::Overview, 1, || head(json!("made again")));
        assert_eq!(again.page.head, "slow");
    }

    #[test]
    fn the_last_node_that_goes_leaves_an_empty_grid() {
        let mut sent = Sent::new(false);
        drop(sent.told(&page(&[("a", Class::Done)])));
        assert_eq!(names(&sent.told(&page(&[]))), ["fleet"]);
        assert_eq!(
            names(&sent.told(&page(&[("a", Class::Done)]))),
            ["fleet", "looks", "squares"]
        );
    }
}
