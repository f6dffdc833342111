//! The API server as a client sees it over HTTP.

#![allow(clippy::unwrap_used)] // a test may panic

use bytes::Bytes;
use carillon_sim::{Client, Delete, Server};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

fn server() -> Server {
    Server::new("2026-01-01T00:00:00Z".parse().unwrap())
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

async fn send(client: &Client, method: Method, uri: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(uri);
    let request = request
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    let response = client.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_every_change_as_it_happens() {
    let server = server();
    let client = server.client("u", "a");
    let uri = format!(
        "/api/v1/pods?watch=true&resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds=90",
        server.revision()
    );
    let request = Request::get(uri).body(Full::new(Bytes::new())).unwrap();
    let mut body = client.clone().oneshot(request).await.unwrap().into_body();
    let pods = "/api/v1/namespaces/default/pods";
    let (code, created) = send(&client, Method::POST, pods, &pod("p")).await;
    assert_eq!(code, 201);
    let actor = server.actor("user");
    actor
        .delete("pods", "default", "p", &Delete::default())
        .unwrap();
    let mut lines = Vec::new();
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        lines.push(serde_json::from_slice::<Value>(&data).unwrap());
    }
    let types: Vec<&str> = lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]);
    assert_eq!(lines[0]["object"], created);
    let revision = server.revision().to_string();
    assert_eq!(lines[2]["object"]["metadata"]["resourceVersion"], revision);
    assert_eq!(lines[3]["object"]["metadata"]["resourceVersion"], revision);
    assert_eq!(server.now().to_string(), "2026-01-01T00:01:30Z");
}
