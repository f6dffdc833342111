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

#[derive(Deserialize)]
pub(super) struct NodeQuery {
    resource: String,
    namespace: String,
    name: String,
    node: String,
}

/// `explain --node`, as JSON.
pub(super) async fn node(
    State(server): State<Arc<Server>>,
    Query(query): Query<NodeQuery>,
) -> Response {
    let Some(resource) = Resource::of_name(&query.resource) else {
        return no_such(&query.resource);
    };
    let at = ObjectAddress {
        resource,
        namespace: query.namespace,
        name: query.name,
        group: String::new(),
        zone: String::new(),
    };
    let mut changes = server.cluster.changes();
    let explained = async {
        loop {
            match page::explain(&server.cluster, &at, &query.node, Timestamp::now()) {
                Explained::Loading => drop(changes.changed().await),
                explained => return explained,
            }
        }
    };
    match timeout(LOADED_WITHIN, explained).await {
        Ok(Explained::Node(node)) => Json(node).into_response(),
        Ok(Explained::NotAllowed(why)) => refused(StatusCode::FORBIDDEN, &why),
        Ok(Explained::Unreadable(why)) => refused(StatusCode::NOT_IMPLEMENTED, &why),
        Ok(Explained::Missing | Explained::Loading) => no_such(&query.node),
        Err(_) => refused(
            StatusCode::GATEWAY_TIMEOUT,
            "the API server does not answer",
        ),
    }
}

#[derive(Deserialize)]
pub(super) struct ObjectQuery {
    resource: String,
    namespace: String,
    name: String,
}

/// The last decisions of the operator about an object.
pub(super) async fn decisions(
    State(server): State<Arc<Server>>,
    Query(query): Query<ObjectQuery>,
) -> Response {
    let Some(resource) = Resource::of_name(&query.resource) else {
        return no_such(&query.resource);
    };
    // Only of what is shown: with `-n` nothing is said of other namespaces.
    let objects = server.cluster.all(resource);
    let Some(object) = objects.get(&query.namespace, &query.name) else {
        return no_such(&query.name);
    };
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    match timeout(LOADED_WITHIN, server.ask.decisions(uid.to_owned())).await {
        Ok(Ok(decisions)) => Json(json!({"decisions": decisions})).into_response(),
        Ok(Err(why)) => refused(StatusCode::BAD_GATEWAY, &why),
        Err(_) => refused(StatusCode::GATEWAY_TIMEOUT, "the operator does not answer"),
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
