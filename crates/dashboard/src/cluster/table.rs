//! Objects of one selection, kept by a list and a watch.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use anyhow::Chain;
use futures::{Stream, StreamExt};
use kube::api::ApiResource;
use kube::core::{DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{Resource, Selection};

/// Between two attempts to watch.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// So long a watch lasts until it is begun again where it was.
const TIMEOUT_SECONDS: u32 = 45;

/// Namespace and name.
type Id = (Arc<str>, Arc<str>);

/// How well a table knows what it has.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "state", content = "why")]
pub enum Reading {
    /// The first list is under way.
    Loading,
    /// It is up to date.
    Live,
    /// Whoever looks may not read it.
    NotAllowed,
    /// The API server does not serve it.
    NotServed,
    /// What it has may be old: the API server does not answer.
    Lost(String),
    /// It has nothing yet: the API server does not answer.
    NotYet(String),
}

impl Reading {
    /// Whether there is nothing yet that could be shown.
    pub fn is_loading(&self) -> bool {
        matches!(self, Self::Loading | Self::NotYet(_))
    }

    /// Whether it has what the API server has, or had.
    pub fn is_known(&self) -> bool {
        matches!(self, Self::Live | Self::Lost(_))
    }
}

#[derive(Debug)]
struct Content<T> {
    rows: BTreeMap<Id, T>,
    reading: Reading,
}

/// Objects of one selection.
#[derive(Debug)]
pub struct Table<T> {
    content: RwLock<Content<T>>,
    task: RwLock<Option<JoinHandle<()>>>,
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

impl<T: Send + Sync + 'static> Table<T> {
    /// Starts to watch.
    pub(super) fn watched(
        client: Client,
        selection: &Selection,
        read: fn(Value) -> Option<T>,
        changed: watch::Sender<u64>,
    ) -> Arc<Self> {
        let table = Arc::new(Self {
            content: RwLock::new(Content {
                rows: BTreeMap::new(),
                reading: Reading::Loading,
            }),
            task: RwLock::default(),
        });
        let feed = Feed {
            resource: selection.resource,
            read,
            changed,
            table: Arc::downgrade(&table),
        };
        let config = watcher::Config {
            label_selector: some(&selection.labels),
            field_selector: some(&selection.fields),
            // A connection that is half open is noticed after so long.
            timeout: Some(TIMEOUT_SECONDS),
            ..watcher::Config::default()
        };
        let api = api(client, selection);
        let task = tokio::spawn(feed.run(api, config));
        *table.task.write().unwrap_or_else(PoisonError::into_inner) = Some(task);
        table
    }
}

impl<T> Table<T> {
    fn content(&self) -> std::sync::RwLockReadGuard<'_, Content<T>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// How well it knows what it has.
    pub fn reading(&self) -> Reading {
        self.content().reading.clone()
    }

    /// Something of each row, in the order of namespaces and names.
    pub fn map<U>(&self, mut of: impl FnMut(&Id, &T) -> U) -> Vec<U> {
        let content = self.content();
        content.rows.iter().map(|(id, row)| of(id, row)).collect()
    }

    /// One row.
    pub fn get(&self, namespace: &str, name: &str) -> Option<T>
    where
        T: Clone,
    {
        let id = (namespace.into(), name.into());
        self.content().rows.get(&id).cloned()
    }
}

fn some(selector: &str) -> Option<String> {
    (!selector.is_empty()).then(|| selector.to_owned())
}

fn api(client: Client, selection: &Selection) -> Api<DynamicObject> {
    let Resource {
        group,
        version,
        kind,
        plural,
    } = selection.resource;
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
    match &selection.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

/// What keeps a table.
struct Feed<T> {
    resource: Resource,
    read: fn(Value) -> Option<T>,
    changed: watch::Sender<u64>,
    table: Weak<Table<T>>,
}

impl<T> Feed<T> {
    /// A watch that has failed begins anew with a list: nothing is shown as known that may have been missed.
    async fn run(self, api: Api<DynamicObject>, config: watcher::Config) {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let Some(reached) = self.watch(watcher(api.clone(), config.clone())).await else {
                return;
            };
            pause = if reached {
                SHORTEST_PAUSE
            } else {
                LONGEST_PAUSE.min(pause * 2)
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Watches until it fails; whether it had listed all. `None`: nobody wants the table any more.
    async fn watch(
        &self,
        events: impl Stream<Item = Result<Event<DynamicObject>, watcher::Error>>,
    ) -> Option<bool> {
        let mut events = pin!(events);
        let mut listed = BTreeMap::new();
        let mut reached = false;
        while let Some(event) = events.next().await {
            let table = self.table.upgrade()?;
            let mut content = table
                .content
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let failed = event.is_err();
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    listed.extend(self.row(object));
                    continue;
                }
                Ok(Event::InitDone) => {
                    content.rows = std::mem::take(&mut listed);
                    content.reading = Reading::Live;
                    reached = true;
                }
                Ok(Event::Apply(object)) => content.rows.extend(self.row(object)),
                Ok(Event::Delete(object)) => drop(content.rows.remove(&id(&object))),
                Err(error) => {
                    let known = content.reading.is_known();
                    content.reading = match reading(&error) {
                        // What was not listed is not known to be empty.
                        Reading::Lost(why) if !known => Reading::NotYet(why),
                        reading => reading,
                    };
                }
            }
            drop(content);
            self.changed.send_modify(|version| *version += 1);
            if failed {
                break;
            }
        }
        Some(reached)
    }

    fn row(&self, object: DynamicObject) -> Option<(Id, T)> {
        let id = id(&object);
        let mut object = serde_json::to_value(object).ok()?;
        // A list leaves out what all of its objects have in common.
        object["apiVersion"] = self.resource.api_version().into();
        object["kind"] = self.resource.kind.into();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Some((id, (self.read)(object)?))
    }
}

fn id(object: &DynamicObject) -> Id {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    (namespace.into(), name.into())
}

fn reading(error: &watcher::Error) -> Reading {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => Some(cause),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => None,
    };
    match cause {
        Some(kube::Error::Api(status)) if status.code == 403 => Reading::NotAllowed,
        Some(kube::Error::Api(status)) if status.code == 404 => Reading::NotServed,
        // What lies above says only what was being done.
        _ => Reading::Lost(
            Chain::new(error)
                .last()
                .map_or_else(String::new, ToString::to_string),
        ),
    }
}
