//! The API server.

mod create;
mod delete;
mod list;
pub(crate) mod stream;
mod subresource;
mod update;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carillon_oracle::{History, Key, Request};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::watch::Watch;
use crate::call::Call;
use crate::changes::{Changes, Revisions};
use crate::clock::Clock;
use crate::kind::Kind;
use crate::status::{Cause, Status};
use crate::store::Store;

/// Judges (and may change) what is to be created, also by a dry run.
pub type Admission = dyn Fn(&Call, &mut Value) -> Result<(), Status> + Send + Sync;

/// An API server and its store; clones are the same server.
///
/// Everything is in memory and nothing is random: the same requests at the same virtual times give
/// the same history.
#[derive(Clone)]
pub struct Server(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    clock: Clock,
    revisions: Arc<Revisions>,
}

/// What the lock guards.
struct State {
    store: Store,
    admission: Option<Arc<Admission>>,
    now: Timestamp,
    /// How often the store was restored. It takes a restart, which ends every watch.
    restored: u64,
    /// Requests that were refused as invalid, and why.
    invalid: Vec<(Request, String)>,
}

/// A place in the history of a server.
#[derive(Debug)]
pub(crate) struct Position {
    revision: u64,
    /// How often the server was restored by then.
    restored: u64,
}

/// What is answered.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A status code and an object.
    Object(u16, Arc<Value>),
    /// What follows is a stream.
    Watch(Box<Watch>),
}

impl Server {
    /// A server whose clock, tokio's, begins at `start`. Has the namespaces of a fresh cluster.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(start: Timestamp) -> Self {
        let server = Self(Arc::new(Shared {
            state: Mutex::new(State {
                store: Store::new(),
                admission: None,
                now: start,
                restored: 0,
                invalid: Vec::new(),
            }),
            clock: Clock::starting_at(start),
            revisions: Arc::default(),
        }));
        let setup = server.actor("system:apiserver");
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({"metadata": {"name": name}});
            setup
                .create("namespaces", "", &namespace)
                .expect("a fresh server takes its namespaces");
        }
        server
    }

    /// The server's time.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The server's clock.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The revision of the last change.
    pub fn revision(&self) -> u64 {
        self.state().store.revision()
    }

    /// Tells of each new revision.
    pub fn changes(&self) -> Changes {
        Changes::of(&self.0.revisions)
    }

    /// Every change so far, also those that were compacted.
    pub fn history(&self) -> History {
        self.state().store.history().clone()
    }

    /// Looks at every change so far without copying them.
    pub fn with_history<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        look(self.state().store.history())
    }

    /// Every request that was refused as invalid (422), and why.
    pub fn refused_as_invalid(&self) -> Vec<(Request, String)> {
        self.state().invalid.clone()
    }

    /// The object of a key as it is now.
    pub fn object(&self, key: &Key) -> Option<Arc<Value>> {
        self.state().store.get(key).cloned()
    }

    /// Where the history ends now, and the keys of what has changed since a position. `None`: everything may have.
    pub(crate) fn changed_since(
        &self,
        position: Option<&Position>,
    ) -> (Position, Option<BTreeSet<Key>>) {
        let state = self.state();
        let now = Position {
            revision: state.store.revision(),
            restored: state.restored,
        };
        let known = position.filter(|then| {
            then.restored == now.restored && then.revision >= state.store.forgotten()
        });
        let changed = known.map(|then| {
            let steps = state.store.since(then.revision).iter();
            steps.map(|step| step.key.clone()).collect()
        });
        (now, changed)
    }

    /// The keys of all objects of a resource.
    pub(crate) fn keys(&self, resource: &str) -> Vec<Key> {
        let state = self.state();
        let all = state.store.each(resource, "", None);
        all.map(|(key, _)| key.clone()).collect()
    }

    /// The objects of a resource, in all namespaces or in one, by key.
    pub(crate) fn all(&self, resource: &str, namespace: &str) -> Vec<Arc<Value>> {
        let state = self.state();
        let all = state.store.each(resource, namespace, None);
        all.map(|(_, object)| object.clone()).collect()
    }

    /// Forgets what was before `revision`: a watch or list from there is answered with 410.
    pub fn compact(&self, revision: u64) {
        self.state().store.compact(revision);
    }

    /// The same, and drops it: no history shows it any more.
    pub fn forget(&self, revision: u64) {
        self.state().store.forget(revision);
    }

    /// Restores a backup that is so many revisions old: what was done since is forgotten, also by
    /// [`Server::history`], and every watch ends. One that is opened from a later revision says nothing
    /// before that has come again.
    pub fn restore(&self, revisions: u64) {
        let mut state = self.state();
        let revision = state.store.revision().saturating_sub(revisions);
        state.store.restore(revision);
        state.restored += 1;
        let revision = state.store.revision();
        drop(state);
        self.0.revisions.start_anew(revision);
    }

    /// Lets `admission` judge every object that is to be created from now on, such as a quota would.
    pub fn set_admission(
        &self,
        admission: impl Fn(&Call, &mut Value) -> Result<(), Status> + Send + Sync + 'static,
    ) {
        self.state().admission = Some(Arc::new(admission));
    }

    /// Everything is admitted from now on.
    pub fn clear_admission(&self) {
        self.state().admission = None;
    }

    /// Applies one request and answers it. Lists and gets are answered as of revision `as_of`, if
    /// there is one.
    pub(crate) fn answer(&self, call: &Arc<Call>, as_of: Option<u64>) -> Result<Answer, Status> {
        let mut state = self.state();
        let before = state.store.revision();
        let answer = state.route(call, as_of);
        if let Err(status) = &answer
            && status.code == 422
        {
            let refused = ((*call.request()).clone(), status.message.clone());
            state.invalid.push(refused);
        }
        let after = state.store.revision();
        drop(state);
        if after > before {
            self.0.revisions.set(after);
        }
        answer
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.now = self.0.clock.now();
        state
    }
}

impl State {
    fn route(&mut self, call: &Arc<Call>, as_of: Option<u64>) -> Result<Answer, Status> {
        let kind = call.kind.ok_or_else(Status::no_such_path)?;
        if !kind.namespaced && !call.namespace.is_empty() {
            return Err(Status::no_such_path());
        }
        let of_one = !["list", "watch", "deletecollection"].contains(&call.verb);
        if kind.namespaced && call.namespace.is_empty() && of_one {
            // Objects in namespaces are only read across them.
            return Err(if call.name.is_empty() || call.verb == "create" {
                Status::method_not_allowed()
            } else {
                Status::no_such_path()
            });
        }
        if call.malformed {
            return Err(Status::bad_request("invalid character in the body"));
        }
        if kind.schema.is_some() && call.verb == "other" && call.method != http::Method::POST {
            return Err(Status::bad_request("name must be provided"));
        }
        match (call.verb, &*call.subresource) {
            ("create", "") if call.method == http::Method::POST => self.create(call, kind),
            ("create", "binding") if kind.plural == "pods" => self.bind(call),
            ("get", "") => self.get(call, as_of),
            ("get", "status") if kind.status => self.get(call, as_of),
            ("list", "") => self.list(call, kind, as_of),
            ("watch", "") => {
                let watch = Watch::open(&self.store, self.restored, call, kind)?;
                Ok(Answer::Watch(Box::new(watch)))
            }
            ("update", "finalize") if kind.plural == "namespaces" => self.finalize(call),
            ("update", "") => self.replace(call, kind),
            ("update", "status") if kind.status => self.replace(call, kind),
            ("patch", "") => self.patch(call, kind),
            ("patch", "status") if kind.status => self.patch(call, kind),
            ("delete", "") => self.delete(call, kind),
            ("deletecollection", "") => self.delete_collection(call, kind),
            (_, "") => Err(Status::method_not_allowed()),
            // A custom resource has no subresource of which more is known than that it is not there.
            _ if kind.schema.is_some() => Err(Status::not_found(&call.resource(), &call.name)),
            _ => Err(Status::no_such_path()),
        }
    }

    fn get(&mut self, call: &Call, as_of: Option<u64>) -> Result<Answer, Status> {
        let key = call.key(&call.name);
        let object = match as_of {
            None => self.store.get(&key).cloned(),
            Some(revision) => {
                let objects = self.store.range_at(&key.resource, &key.namespace, revision);
                objects.get(&key).cloned()
            }
        };
        let object = object.ok_or_else(|| Status::not_found(&key.resource, &key.name))?;
        Ok(Answer::Object(200, object))
    }
}

/// The object in a body, if it is of the kind, the namespace and the name that the path says.
fn object_of(call: &Call, kind: &Kind, body: &Value) -> Result<Value, Status> {
    if !body.is_object() {
        return Err(Status::bad_request("the body is not an object"));
    }
    let mut object = body.clone();
    for (field, expected) in [
        ("apiVersion", kind.api_version()),
        ("kind", kind.kind.to_owned()),
    ] {
        let found = object[field].as_str().unwrap_or_default();
        // What is left out is what the path says, but for custom resources.
        if found != expected && !(found.is_empty() && kind.schema.is_none()) {
            if field == "kind" && kind.schema.is_some() && !found.is_empty() {
                let why = format!("must be {expected}");
                let cause = Cause::invalid("kind", &json!(found), &why);
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                return Err(Status::invalid(kind.group, found, name, &[cause]));
            }
            return Err(Status::bad_request(format!(
                "the {field} in the data ({found}) does not match the expected ({expected})"
            )));
        }
    }
    crate::kind::normalize_meta(&mut object)?;
    check_place(call, &object, call.verb == "create")?;
    if !call.namespace.is_empty() {
        object["metadata"]["namespace"] = json!(call.namespace);
    } else if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("namespace");
    }
    Ok(object)
}

/// Whether name and namespace are those of the path.
fn check_place(call: &Call, object: &Value, new: bool) -> Result<(), Status> {
    let meta = &object["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    if !new && name != call.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    let namespace = meta["namespace"].as_str().unwrap_or_default();
    if !call.namespace.is_empty() && !namespace.is_empty() && namespace != call.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}
