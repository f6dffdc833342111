//! The way from the operator to the API server, where a mistake in a client can be put.

use bytes::Bytes;
use carillon_sim::faults::Event;
use carillon_sim::{Call, Client, ResponseBody};
use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::{BoxError, ServiceExt};

/// What a client does that it should not; the default does nothing of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wire {
    /// Changes a write before it leaves.
    pub rewrites: Option<fn(&mut Message)>,
    /// What is sent once more when a write was not answered.
    pub repeats: Option<fn(&Message) -> Option<Message>>,
    /// Which refused writes are taken for done once the object could be read.
    pub believes: Option<fn(&Message) -> bool>,
    /// Which lists of a process that is started again may show an earlier state; without it all do,
    /// where a run says so.
    pub cached: Option<fn(&Call) -> bool>,
    /// Which lists show what the process was told last, and before that the state in which it was started.
    pub remembers: Option<fn(&Call) -> bool>,
    /// Which events of a watch are not noticed.
    pub overlooks: Option<fn(&Event) -> bool>,
    /// Changes an object of a list or a watch, of which this is the path, before the cache is told of it.
    pub hears: Option<fn(&str, &mut Value)>,
    /// Changes the path of a question.
    pub asks: Option<fn(&mut String)>,
    /// What is refused is sent again at once, and again.
    pub insists: bool,
}

/// How often what is refused is sent again.
const INSISTS: usize = 1000;

/// A write.
#[derive(Clone, Debug)]
pub struct Message {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The body.
    pub body: Value,
}

impl Message {
    /// Whether it is for objects of this plural, or for this subresource of them.
    pub fn is_for(&self, plural: &str) -> bool {
        self.path.split(['/', '?']).any(|part| part == plural)
    }

    fn request(&self, parts: &Parts) -> Request<Full<Bytes>> {
        let body = match &self.body {
            Value::Null => Bytes::new(),
            body => body.to_string().into(),
        };
        let mut request = Request::from_parts(parts.clone(), Full::new(body));
        *request.method_mut() = self.method.clone();
        if let Ok(uri) = self.path.parse() {
            *request.uri_mut() = uri;
        }
        request
    }
}

type Reply = Result<Response<ResponseBody>, BoxError>;

impl Wire {
    /// Asks for one object or many.
    async fn read<B>(self, client: Client, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut request = request;
        if let Some(asks) = self.asks {
            let mut path = request.uri().to_string();
            asks(&mut path);
            if let Ok(uri) = path.parse() {
                *request.uri_mut() = uri;
            }
        }
        let Some(hears) = self.hears else {
            return client.oneshot(request).await;
        };
        let path = request.uri().to_string();
        let reply = client.oneshot(request).await?;
        Ok(reply.map(|body| {
            let told = body.map_frame(move |frame| {
                frame.map_data(|bytes| told_otherwise(&bytes, &path, hears).unwrap_or(bytes))
            });
            told.boxed_unsync()
        }))
    }

    /// Sends a request.
    pub async fn send<B>(self, client: Client, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if request.method() == Method::GET {
            return self.read(client, request).await;
        }
        let plain = self.rewrites.is_none() && self.repeats.is_none() && self.believes.is_none();
        if plain && !self.insists || request.uri().path().contains("/leases") {
            return client.oneshot(request).await;
        }
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        // A client that does this does not care whether the request may still leave.
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        let mut message = Message {
            method: parts.method.clone(),
            path: parts.uri.to_string(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        if let Some(rewrites) = self.rewrites {
            rewrites(&mut message);
        }
        let mut reply = client.clone().oneshot(message.request(&parts)).await;
        for _ in 0..if self.insists { INSISTS } else { 0 } {
            if reply
                .as_ref()
                .is_ok_and(|reply| reply.status().is_success())
            {
                break;
            }
            reply = client.clone().oneshot(message.request(&parts)).await;
        }
        match reply {
            Err(error) => match self.repeats.and_then(|repeats| repeats(&message)) {
                Some(again) => client.oneshot(again.request(&parts)).await,
                None => Err(error),
            },
            Ok(reply) if reply.status().is_success() => Ok(reply),
            Ok(_) if self.believes.is_some_and(|believes| believes(&message)) => {
                let read = Message {
                    method: Method::GET,
                    body: Value::Null,
                    ..message
                };
                client.oneshot(read.request(&parts)).await
            }
            refused => refused,
        }
    }
}

/// A list, or a line of a watch, with other objects; none where it is neither.
fn told_otherwise(bytes: &[u8], path: &str, hears: fn(&str, &mut Value)) -> Option<Bytes> {
    let mut told: Value = serde_json::from_slice(bytes).ok()?;
    if let Some(items) = told["items"].as_array_mut() {
        for item in items {
            hears(path, item);
        }
        return Some(told.to_string().into());
    }
    let kind = told["type"].clone();
    let mut object = told.get_mut("object")?.take();
    hears(path, &mut object);
    // The type comes first, as the API server writes it.
    Some(format!("{{\"type\":{kind},\"object\":{object}}}\n").into())
}
