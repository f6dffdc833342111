//! An API server that holds one kind of object, and makes what it is asked for.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::Method;
use futures::stream::{self, StreamExt};
use serde_json::json;

use super::objects::Objects;

/// What it was asked.
#[derive(Default)]
struct Asked {
    watches: HashMap<String, usize>,
    created: HashMap<String, usize>,
    version: u64,
}

#[derive(Clone)]
pub(crate) struct Server {
    objects: Objects,
    asked: Arc<Mutex<Asked>>,
    directory: PathBuf,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.asked.lock().unwrap();
        write!(
            f,
            "watches {:?}, created {:?}",
            asked.watches, asked.created
        )
    }
}

impl Server {
    /// Serves from a thread of its own until the process ends.
    pub(crate) fn start(objects: Objects) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let name = format!("memory-{}-{}", std::process::id(), address.port());
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let server = Self {
            objects,
            asked: Arc::default(),
            directory,
        };
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(server.kubeconfig(), kubeconfig.to_string()).unwrap();
        let router = Router::new()
            .route("/api/v1/{plural}", axum::routing::get(collection))
            .route(
                "/apis/{group}/{version}/{plural}",
                axum::routing::get(collection_of_group),
            )
            .fallback(object)
            .with_state(server.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                listener.set_nonblocking(true).unwrap();
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
        });
        server
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Whether objects of this plural were listed to their end and are watched.
    pub(crate) fn watches(&self, plural: &str) -> bool {
        self.asked.lock().unwrap().watches.contains_key(plural)
    }

    /// How many of this plural it was asked to create.
    pub(crate) fn created(&self, plural: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.created.get(plural).copied().unwrap_or(0)
    }

    fn list(&self, plural: &str, query: &HashMap<String, String>) -> Body {
        let number = |key: &str| query.get(key).and_then(|text| text.parse().ok());
        let count = if plural == self.objects.plural {
            self.objects.count
        } else {
            0
        };
        let from: usize = number("continue").unwrap_or(0);
        let end = count.min(from + number("limit").unwrap_or(count));
        let more = if end < count {
            end.to_string()
        } else {
            String::new()
        };
        let head = json!({"resourceVersion": "1000000", "continue": more});
        let head = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{head},"items":["#);
        let make = self.objects.make;
        let items = (from..end).map(move |n| {
            let comma = if n > from { "," } else { "" };
            format!("{comma}{}", make(n))
        });
        let all = [head].into_iter().chain(items).chain(["]}".to_owned()]);
        Body::from_stream(stream::iter(all.map(Ok::<_, std::io::Error>)))
    }

    fn watch(&self, plural: &str) -> Body {
        let mut asked = self.asked.lock().unwrap();
        *asked.watches.entry(plural.to_owned()).or_default() += 1;
        let silence = stream::pending::<Result<Bytes, std::io::Error>>();
        Body::from_stream(silence.boxed())
    }
}

async fn collection(
    State(server): State<Server>,
    Path(plural): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Body {
    if query.contains_key("watch") {
        server.watch(&plural)
    } else {
        server.list(&plural, &query)
    }
}

async fn collection_of_group(
    server: State<Server>,
    Path((_, _, plural)): Path<(String, String, String)>,
    query: Query<HashMap<String, String>>,
) -> Body {
    collection(server, Path(plural), query).await
}

/// One object is asked for, created or changed.
async fn object(State(server): State<Server>, request: axum::extract::Request) -> Body {
    let (head, body) = request.into_parts();
    let _ = axum::body::to_bytes(body, usize::MAX).await;
    let path = head.uri.path();
    let last = path.rsplit('/').next().unwrap_or_default();
    let mut asked = server.asked.lock().unwrap();
    asked.version += 1;
    if head.method == Method::POST {
        *asked.created.entry(last.to_owned()).or_default() += 1;
    }
    let n = last.strip_prefix("large-").and_then(|n| n.parse().ok());
    if let (&Method::GET, Some(n)) = (&head.method, n) {
        return Body::from((server.objects.make)(n));
    }
    let version = (1_000_000 + asked.version).to_string();
    let reply = json!({"metadata": {"name": last, "resourceVersion": version}});
    Body::from(reply.to_string())
}
