//! What is asked once: a node explained, an action.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::State as Server;
use crate::actions::{Action, Refusal, Verb};
use crate::cluster::Resource;
use crate::page::{self, Explained, ObjectAddress};

/// So long is waited for what an answer is made from.
const LOADED_WITHIN: Duration = Duration::from_secs(20);
/// And for operators, of which each has a deadline of its own.
const ASKED_WITHIN: Duration = Duration::from_secs(40);

/// Which object is asked about.
#[derive(Deserialize)]
struct ObjectQuery {
    resource: String,
    namespace: String,
    name: String,
}

impl ObjectQuery {
    /// `None`: there is no page of such objects.
    fn address(&self) -> Option<ObjectAddress> {
        let resource = Resource::of_name(&self.resource)?;
        Some(ObjectAddress::new(resource, &self.namespace, &self.name))
    }
}

#[derive(Deserialize)]
pub(super) struct NodeQuery {
    #[serde(flatten)]
    object: ObjectQuery,
    node: String,
}

/// `explain --node`, as JSON.
pub(super) async fn node(
    State(server): State<Arc<Server>>,
    Query(query): Query<NodeQuery>,
) -> Response {
    let Some(at) = query.object.address() else {
        return no_such(&query.object.resource);
    };
    let explained = known(&server, &query.node, || {
        page::explain(&server.cluster, &at, &query.node, Timestamp::now())
    });
    match explained.await {
        Ok(node) => Json(node).into_response(),
        Err(refusal) => refusal,
    }
}

#[derive(Deserialize)]
pub(super) struct DecisionsQuery {
    #[serde(flatten)]
    object: ObjectQuery,
    uid: String,
}

/// The last decisions of the operator about an object, as it is shown: with `-n` not of other namespaces.
pub(super) async fn decisions(
    State(server): State<Arc<Server>>,
    Query(query): Query<DecisionsQuery>,
) -> Response {
    let Some(at) = query.object.address() else {
        return no_such(&query.object.resource);
    };
    let what = format!("{} {}/{}", at.resource.kind, at.namespace, at.name);
    match known(&server, &what, || page::uid(&server.cluster, &at)).await {
        Ok(uid) if uid == query.uid => {}
        Ok(_) => {
            let why = format!("{what} was deleted, and another of this name is there");
            return refused(StatusCode::CONFLICT, &why);
        }
        Err(refusal) => return refusal,
    }
    match timeout(ASKED_WITHIN, server.ask.decisions(query.uid)).await {
        Ok(Ok(answers)) => Json(answers).into_response(),
        Ok(Err(why)) => refused(StatusCode::BAD_GATEWAY, &why),
        Err(_) => refused(
            StatusCode::GATEWAY_TIMEOUT,
            &format!("no answer within {} s", ASKED_WITHIN.as_secs()),
        ),
    }
}

/// Waits for what an answer is made from. The error is what to answer instead.
async fn known<T>(
    server: &Server,
    what: &str,
    answer: impl Fn() -> Explained<T>,
) -> Result<T, Response> {
    let mut changes = server.cluster.changes();
    let found = async {
        loop {
            match answer() {
                Explained::Loading => drop(changes.changed().await),
                found => return found,
            }
        }
    };
    match timeout(LOADED_WITHIN, found).await {
        Ok(Explained::Known(found)) => Ok(found),
        Ok(Explained::NotAllowed(why)) => Err(refused(StatusCode::FORBIDDEN, &why)),
        Ok(Explained::Unreadable(why)) => Err(refused(StatusCode::NOT_IMPLEMENTED, &why)),
        Ok(Explained::Missing | Explained::Loading) => Err(no_such(what)),
        Err(_) => Err(refused(
            StatusCode::GATEWAY_TIMEOUT,
            "the API server does not answer",
        )),
    }
}

#[derive(Deserialize)]
pub(super) struct ActBody {
    verb: Verb,
    resource: String,
    namespace: String,
    name: String,
    uid: String,
    generation: i64,
}

/// Carries out an action, if that was allowed when the server was started and the API server allows it.
pub(super) async fn act(State(server): State<Arc<Server>>, Json(body): Json<ActBody>) -> Response {
    let Some(act) = &server.act else {
        let why = "started without --actions: nothing is changed from here";
        return refused(StatusCode::FORBIDDEN, why);
    };
    let shown = server.cluster.namespace();
    if let Some(shown) = shown.filter(|shown| *shown != body.namespace) {
        let why = format!(
            "only namespace {shown} is shown: nothing is changed in {}",
            body.namespace
        );
        return refused(StatusCode::FORBIDDEN, &why);
    }
    let Some(resource) = Resource::of_name(&body.resource) else {
        return no_such(&body.resource);
    };
    let action = Action {
        verb: body.verb,
        resource,
        namespace: body.namespace,
        name: body.name,
        uid: body.uid,
        generation: body.generation,
    };
    match act.act(action).await {
        Ok(said) => Json(json!({"said": said})).into_response(),
        Err(Refusal::NotAllowed(why)) => refused(StatusCode::FORBIDDEN, &why),
        Err(Refusal::NotDone(why)) => refused(StatusCode::CONFLICT, &why),
    }
}

fn refused(code: StatusCode, why: &str) -> Response {
    (code, Json(json!({"error": why}))).into_response()
}

fn no_such(name: &str) -> Response {
    refused(StatusCode::NOT_FOUND, &format!("there is no {name}"))
}
