//! The list and watch loop against a scripted API server: what it asks for, and what it does with
//! good, bad and broken answers.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod audit;
mod lists;
mod reconnect;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use carillon_operator::{
    fence::RequestBody,
    metrics::Metrics,
    transport::Transport,
    watch::{self, AnotherHistory, Handle, Held, Listed, ObjectId, Sink, Source, Watched},
};
use carillon_plan::Uid;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, StatusCode, header::ACCEPT};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The slim type of these tests. `size` must be a number.
#[derive(Debug, Deserialize)]
struct Thing {
    metadata: Meta,
    #[serde(default)]
    size: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: String,
    resource_version: String,
    #[serde(default)]
    uid: String,
}

impl Watched for Thing {
    fn resource_version(&self) -> Option<u64> {
        self.metadata.resource_version.parse().ok()
    }
    fn uid(&self) -> Option<Uid> {
        self.metadata.uid.parse().ok()
    }
}

/// Writes down what it is told, and holds it.
struct Log {
    said: mpsc::UnboundedSender<String>,
    held: BTreeMap<Uid, (String, u64)>,
    listed: BTreeSet<Uid>,
}

impl Log {
    fn new(said: &mpsc::UnboundedSender<String>) -> Self {
        Self {
            said: said.clone(),
            held: BTreeMap::new(),
            listed: BTreeSet::new(),
        }
    }

    fn say(&self, line: String) {
        let _ = self.said.send(line);
    }

    fn hold(&mut self, object: &Thing) {
        let rv = object.resource_version().unwrap();
        if let Some(uid) = object.uid() {
            self.listed.insert(uid);
            self.held.insert(uid, (object.metadata.name.clone(), rv));
        }
    }
}

impl Sink<Thing> for Log {
    fn relist_begin(&mut self) {
        self.listed.clear();
        self.say("begin".into());
    }
    fn relist_item(&mut self, object: Thing) {
        self.hold(&object);
        self.say(format!("item {} {}", object.metadata.name, object.size));
    }
    fn relist_done(&mut self, rv: u64) {
        self.held.retain(|uid, _| self.listed.contains(uid));
        self.say(format!("done {rv}"));
    }
    fn applied(&mut self, object: Thing) {
        self.hold(&object);
        self.say(format!("applied {} {}", object.metadata.name, object.size));
    }
    fn deleted(&mut self, object: Thing) {
        self.held.retain(|uid, _| Some(*uid) != object.uid());
        self.say(format!("deleted {}", object.metadata.name));
    }
    fn progress(&mut self, rv: u64) {
        self.say(format!("progress {rv}"));
    }
    fn undecodable(&mut self, id: &ObjectId, deleted: bool) {
        self.say(format!("undecodable {} {deleted}", id.name));
    }
    fn holds(&self, object: &Listed) -> Held {
        match object.uid().and_then(|uid| self.held.get(&uid)) {
            _ if object.name.starts_with("left-out") => Held::LeftOut,
            Some((_, rv)) => Held::At(*rv),
            None => Held::Nothing,
        }
    }
    fn each_held(&self, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (uid, (name, rv)) in &self.held {
            each(name, *uid, *rv);
        }
    }
}

/// One scripted answer.
enum Answer {
    /// Another one after so many seconds.
    Later(u64, Box<Answer>),
    /// Status code and body; the connection then ends cleanly.
    Reply(u16, String),
    /// 200 and these chunks; then the stream stays open.
    Open(Vec<String>),
    /// 200 and these chunks, each after so many seconds; then the stream stays open.
    Timed(Vec<(u64, String)>),
    /// The same; then the server closes it.
    Closed(Vec<(u64, String)>),
    /// 200, these chunks, then the connection breaks.
    Break(Vec<String>),
    /// 200, nothing, and after so many seconds the connection breaks.
    BreakAfter(u64),
    /// No connection.
    Refuse,
}

struct Server {
    requests: mpsc::UnboundedReceiver<String>,
    log: mpsc::UnboundedReceiver<String>,
    handle: Handle,
    metrics: Arc<Metrics>,
    /// How far the server has come, if it is asked for that alone.
    version: Arc<AtomicU64>,
    loops: Vec<JoinHandle<Result<(), AnotherHistory>>>,
    _shutdown: tokio_util::sync::DropGuard,
}

const METADATA: &[u8] = b"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,";

type Chunk = Result<http_body::Frame<Bytes>, std::io::Error>;

fn respond(
    answer: Answer,
) -> Result<Response<UnsyncBoxBody<Bytes, std::io::Error>>, std::io::Error> {
    let frames = |chunks: Vec<String>| {
        stream::iter(
            chunks
                .into_iter()
                .map(|c| Chunk::Ok(http_body::Frame::data(Bytes::from(c)))),
        )
    };
    let (code, body) = match answer {
        Answer::Later(_, answer) => return respond(*answer),
        Answer::Reply(code, text) => (code, StreamBody::new(frames(vec![text])).boxed_unsync()),
        Answer::Open(chunks) => (
            200,
            StreamBody::new(frames(chunks).chain(stream::pending())).boxed_unsync(),
        ),
        Answer::Timed(chunks) => {
            let open = timed(chunks).chain(stream::pending());
            (200, StreamBody::new(open).boxed_unsync())
        }
        Answer::Closed(chunks) => (200, StreamBody::new(timed(chunks)).boxed_unsync()),
        Answer::Break(chunks) => {
            let broken = stream::iter([Chunk::Err(std::io::Error::other("reset"))]);
            (
                200,
                StreamBody::new(frames(chunks).chain(broken)).boxed_unsync(),
            )
        }
        Answer::BreakAfter(seconds) => {
            let broken = stream::once(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Chunk::Err(std::io::Error::other("reset"))
            });
            (200, StreamBody::new(broken).boxed_unsync())
        }
        Answer::Refuse => return Err(std::io::Error::other("connection refused")),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    Ok(response)
}

/// Each chunk after so many seconds.
fn timed(chunks: Vec<(u64, String)>) -> impl Stream<Item = Chunk> + Send {
    stream::iter(chunks).then(|(seconds, chunk)| async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok(http_body::Frame::data(Bytes::from(chunk)))
    })
}

/// Starts a loop against a server that gives these answers, and then never any more.
fn start(answers: Vec<Answer>) -> Server {
    start_with(answers, None)
}

/// As [`start`], with audits.
fn start_with(answers: Vec<Answer>, audit_period: Option<Duration>) -> Server {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let (asked, requests) = mpsc::unbounded_channel();
    let version = Arc::new(AtomicU64::new(1000));
    let of_now = version.clone();
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let now = of_now.load(Ordering::Relaxed);
        // Whatever the labels: with a selector the server would have to read all.
        let asks_for_version = request.uri() == "/api/v1/things?limit=1";
        let answers = answers.clone();
        let metadata = request.headers()[ACCEPT].as_bytes().starts_with(METADATA);
        let word = if metadata { "metadata " } else { "" };
        if !asks_for_version {
            let _ = asked.send(format!("{word}{}", request.uri()));
        }
        async move {
            if asks_for_version {
                return respond(list(now, "", &[]));
            }
            let answer = answers.lock().unwrap().pop_front();
            match answer {
                Some(Answer::Later(seconds, answer)) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    respond(*answer)
                }
                Some(answer) => respond(answer),
                None => std::future::pending().await,
            }
        }
    });
    let metrics = Metrics::new().unwrap();
    let transport = Transport::new(service, Arc::clone(&metrics));
    let source = Source {
        kind: "Thing",
        group: "",
        version: "v1",
        plural: "things",
        labels: "a/b=c".into(),
        audit_period,
    };
    let (said, log) = mpsc::unbounded_channel();
    let (handle, loops) =
        watch::prepare::<Thing, _>(&transport, &source, &[], |_| Log::new(&said), &metrics);
    let shutdown = CancellationToken::new();
    let loops = loops.into_iter();
    let loops = loops.map(|each| tokio::spawn(each.run(shutdown.clone())));
    let loops = loops.collect();
    Server {
        requests,
        log,
        handle,
        metrics,
        version,
        loops,
        _shutdown: shutdown.drop_guard(),
    }
}

impl Server {
    /// What the sink was told next, as many lines as `expected` has.
    async fn says(&mut self, expected: &[&str]) {
        let mut said = Vec::new();
        for _ in expected {
            let line = tokio::time::timeout(Duration::from_mins(10), self.log.recv()).await;
            said.push(
                line.unwrap_or_else(|_| panic!("silent after {said:?}"))
                    .unwrap(),
            );
        }
        assert_eq!(said, expected);
    }

    /// How the loop has ended.
    async fn ended(&mut self) -> Result<(), AnotherHistory> {
        let ended = self.loops.pop().unwrap();
        let ended = tokio::time::timeout(Duration::from_mins(10), ended).await;
        ended.expect("it goes on").unwrap()
    }

    async fn asked(&mut self) -> String {
        tokio::time::timeout(Duration::from_mins(10), self.requests.recv())
            .await
            .expect("a request")
            .unwrap()
    }
}

fn list(rv: u64, more: &str, items: &[&str]) -> Answer {
    Answer::Reply(
        200,
        format!(
            r#"{{"kind":"ThingList","apiVersion":"v1","metadata":{{"resourceVersion":"{rv}","continue":"{more}"}},"items":[{}]}}"#,
            items.join(",")
        ),
    )
}

fn thing(name: &str, rv: u64, size: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","resourceVersion":"{rv}","managedFields":[{{"a":{{}}}}]}},"size":{size}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(rv: u64) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"kind":"Thing","metadata":{{"resourceVersion":"{rv}"}}}}"#),
    )
}

fn gone() -> String {
    r#"{"kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}"#.into()
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_wanted_whole_is_listed_anew_and_stays_synced_meanwhile() {
    let open = |event: String| Answer::Open(vec![event]);
    let whole = list(30, "", &[&thing("a", 3, "1"), &thing("b", 4, "2")]);
    let mut server = start(vec![
        list(10, "", &[&thing("a", 3, "1")]),
        open(bookmark(20)),
        Answer::Later(60, Box::new(whole)),
        open(event("ADDED", &thing("c", 31, "3"))),
    ]);
    server
        .says(&["begin", "item a 1", "done 10", "progress 20"])
        .await;
    let is_narrow = |path: &str| path.contains("labelSelector=a%2Fb%3Dc");
    for _ in 0..2 {
        assert!(is_narrow(&server.asked().await));
    }
    assert!(server.handle.is_synced() && !server.handle.has_all_in("ops"));
    server.handle.select_all();
    // Who needs a part only goes on with it.
    assert!(server.handle.is_synced() && !server.handle.has_all_in("ops"));
    server
        .says(&["begin", "item a 1", "item b 2", "done 30", "applied c 3"])
        .await;
    assert!(server.handle.is_synced() && server.handle.has_all_in("ops"));
    for _ in 0..2 {
        assert!(!is_narrow(&server.asked().await));
    }
}

#[tokio::test(start_paused = true)]
async fn who_needs_a_part_has_it_though_the_list_of_all_fails() {
    let mut server = start(vec![
        list(10, "", &[&thing("a", 3, "1")]),
        Answer::Open(vec![bookmark(20)]),
        Answer::Reply(503, "overloaded".into()),
        list(30, "", &[&thing("a", 3, "1")]),
        Answer::Open(vec![event("ADDED", &thing("c", 31, "3"))]),
        list(40, "", &[]),
    ]);
    server
        .says(&["begin", "item a 1", "done 10", "progress 20"])
        .await;
    server.handle.select_all();
    server
        .says(&["begin", "begin", "item a 1", "done 30", "applied c 3"])
        .await;
    assert!(server.handle.is_synced() && !server.handle.has_all_in("ops"));
    server.says(&["begin", "done 40"]).await;
    assert!(server.handle.has_all_in("ops"));
    let mut narrow = Vec::new();
    for _ in 0..6 {
        narrow.push(server.asked().await.contains("labelSelector"));
    }
    assert_eq!(narrow, [true, true, false, true, true, false]);
}

#[tokio::test(start_paused = true)]
async fn an_audit_compares_what_is_selected_now() {
    let answers = vec![
        list(10, "", &[]),
        Answer::Open(vec![bookmark(20)]),
        list(30, "", &[]),
        Answer::Open(vec![bookmark(40)]),
        list(30, "", &[]),
    ];
    let mut server = start_with(answers, Some(Duration::from_mins(1)));
    server.says(&["begin", "done 10", "progress 20"]).await;
    server.handle.select_all();
    server.says(&["begin", "done 30"]).await;
    let mut asked = Vec::new();
    for _ in 0..5 {
        asked.push(server.asked().await);
    }
    assert!(asked[4].starts_with("metadata "), "{asked:?}");
    let are_narrow = asked.iter().map(|path| path.contains("labelSelector"));
    let are_narrow: Vec<_> = are_narrow.collect();
    assert_eq!(are_narrow, [true, true, false, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_several_pages_that_is_under_way_keeps_its_selector() {
    let mut server = start(vec![
        list(10, "next", &[&thing("a", 3, "1")]),
        Answer::Later(60, Box::new(list(10, "", &[&thing("b", 4, "2")]))),
        Answer::Later(60, Box::new(list(30, "", &[]))),
    ]);
    server.says(&["begin", "item a 1"]).await;
    server.handle.select_all();
    server.says(&["item b 2", "done 10"]).await;
    assert!(!server.handle.has_all_in("ops"));
    server.says(&["begin", "done 30"]).await;
    assert!(server.handle.has_all_in("ops"));
    let narrow = |path: String| path.contains("labelSelector");
    for expected in [true, true, false] {
        assert_eq!(narrow(server.asked().await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn pages_are_read_by_quorum_and_the_watch_starts_where_the_list_ended() {
    let mut server = start(vec![
        list(10, "next/page", &[&thing("a", 3, "1")]),
        list(10, "", &[&thing("b", 4, "2")]),
        Answer::Open(vec![event("ADDED", &thing("c", 11, "3")), bookmark(20)]),
    ]);
    assert!(!server.handle.is_synced());
    server
        .says(&[
            "begin",
            "item a 1",
            "item b 2",
            "done 10",
            "applied c 3",
            "progress 20",
        ])
        .await;
    server.handle.synced_in(None).await;
    let (first, second, third) = (
        server.asked().await,
        server.asked().await,
        server.asked().await,
    );
    assert_eq!(first, "/api/v1/things?limit=100&labelSelector=a%2Fb%3Dc");
    assert_eq!(
        second,
        "/api/v1/things?limit=200&continue=next%2Fpage&labelSelector=a%2Fb%3Dc"
    );
    assert!(
        third.starts_with(
            "/api/v1/things?watch=true&allowWatchBookmarks=true&resourceVersion=10&timeoutSeconds="
        ),
        "{third}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_may_be_null() {
    let mut server = start(vec![Answer::Reply(
        200,
        r#"{"metadata":{"resourceVersion":"7"},"items":null}"#.into(),
    )]);
    server.says(&["begin", "done 7"]).await;
}

#[tokio::test(start_paused = true)]
async fn events_arrive_however_they_are_cut_into_chunks() {
    let text = [
        event("ADDED", &thing("a", 11, "1")),
        event("MODIFIED", &thing("a", 12, "2")),
        event("DELETED", &thing("a", 13, "2")),
        bookmark(14),
    ]
    .concat();
    for size in [1, 7, 50, 100_000] {
        let chunks = text
            .as_bytes()
            .chunks(size)
            .map(|c| String::from_utf8(c.to_vec()).unwrap())
            .collect();
        let mut server = start(vec![list(10, "", &[]), Answer::Open(chunks)]);
        server
            .says(&[
                "begin",
                "done 10",
                "applied a 1",
                "applied a 2",
                "deleted a",
                "progress 14",
            ])
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn gone_leads_to_a_new_list_as_event_and_as_status() {
    let mut server = start(vec![
        list(10, "", &[&thing("a", 3, "1")]),
        Answer::Open(vec![event("ERROR", &gone())]),
        list(20, "", &[]),
        Answer::Reply(410, gone()),
        list(30, "", &[]),
    ]);
    server
        .says(&[
            "begin", "item a 1", "done 10", "begin", "done 20", "begin", "done 30",
        ])
        .await;
    assert_eq!(
        server
            .metrics
            .watch_relists
            .with_label_values(&["Thing"])
            .get(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_between_pages_is_started_over() {
    let mut server = start(vec![
        list(10, "more", &[&thing("a", 3, "1")]),
        Answer::Reply(410, gone()),
        list(11, "", &[&thing("a", 3, "1")]),
    ]);
    server
        .says(&["begin", "item a 1", "begin", "item a 1", "done 11"])
        .await;
    let requests = [
        server.asked().await,
        server.asked().await,
        server.asked().await,
    ];
    assert!(!requests[2].contains("continue"), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_back_lead_to_a_new_list() {
    let future = r#"{"status":"Failure","message":"Too large resource version: 10, current: 3","reason":"Timeout","code":504}"#;
    let mut server = start(vec![
        list(10, "", &[]),
        Answer::Open(vec![bookmark(4)]),
        list(11, "", &[]),
        Answer::Open(vec![event("ADDED", &thing("old", 3, "1"))]),
        list(12, "", &[]),
        Answer::Reply(504, future.into()),
        list(13, "", &[]),
    ]);
    server
        .says(&[
            "begin", "done 10", "begin", "done 11", "begin", "done 12", "begin", "done 13",
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn two_minutes_of_errors_lead_to_a_new_list() {
    let mut answers = vec![list(10, "", &[])];
    // 0.8 s doubled to 30 s: two minutes are over after at most a dozen.
    answers.extend((0..12).map(|_| Answer::Reply(500, "down".into())));
    let mut server = start(answers);
    server.says(&["begin", "done 10", "begin"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_decoded_is_skipped_and_named() {
    let mut server = start(vec![
        list(
            10,
            "",
            &[
                &thing("a", 3, "1"),
                &thing("bad", 4, r#""huge""#),
                &thing("b", 5, "2"),
            ],
        ),
        Answer::Open(vec![
            event("MODIFIED", &thing("bad", 11, "-1")),
            event("DELETED", &thing("bad", 12, "null")),
            event("ADDED", &thing("c", 13, "3")),
        ]),
    ]);
    server
        .says(&[
            "begin",
            "item a 1",
            "undecodable bad false",
            "item b 2",
            "done 10",
            "undecodable bad false",
            "progress 11",
            "undecodable bad true",
            "progress 12",
            "applied c 3",
        ])
        .await;
    let skipped = server
        .metrics
        .watch_undecodable
        .with_label_values(&["Thing"])
        .get();
    assert_eq!(skipped, 3);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_survived() {
    let mut server = start(vec![
        Answer::Reply(200, "<html>login</html>".into()),
        Answer::Reply(200, String::new()),
        Answer::Reply(
            401,
            r#"{"status":"Failure","reason":"Unauthorized","code":401}"#.into(),
        ),
        list(10, "", &[]),
        Answer::Open(vec!["\u{1b}[31mred\n".into()]),
        Answer::Open(vec![
            "{\"type\":\"SURPRISE\",\"object\":{\"new\":true}}\n\n".into(),
            // Not the API server's order of fields, but an event all the same.
            format!(
                "{{\"object\":{},\"type\":\"ADDED\"}}\n",
                thing("a", 11, "1")
            ),
            format!("{}\n", gone()),
        ]),
        list(20, "", &[]),
    ]);
    server
        .says(&[
            "begin",
            "begin",
            "begin",
            "begin",
            "done 10",
            "applied a 1",
            "begin",
            "done 20",
        ])
        .await;
}

#[tokio::test(start_paused = true)]
async fn items_of_a_page_are_handed_on_before_its_end_and_a_list_that_breaks_is_begun_anew() {
    let head = r#"{"kind":"ThingList","items":["#;
    let half = thing("b", 4, "2");
    let (begun, rest) = half.split_at(20);
    let broken = vec![format!("{head}{},{begun}", thing("a", 3, "1"))];
    let whole = format!("{rest}],\"metadata\":{{\"resourceVersion\":\"10\"}}}}");
    let mut server = start(vec![
        Answer::Break(broken.clone()),
        Answer::Open(broken),
        Answer::Reply(200, format!("{head}{},{begun}{whole}", thing("a", 3, "1"))),
    ]);
    server.says(&["begin", "item a 1"]).await;
    assert_eq!(
        server.asked().await,
        "/api/v1/things?limit=100&labelSelector=a%2Fb%3Dc"
    );
    // Of a page that does not come to its end half is asked for.
    server.says(&["begin", "item a 1"]).await;
    assert_eq!(
        server.asked().await,
        "/api/v1/things?limit=50&labelSelector=a%2Fb%3Dc"
    );
    server
        .says(&["begin", "item a 1", "item b 2", "done 10"])
        .await;
    assert_eq!(
        server.asked().await,
        "/api/v1/things?limit=25&labelSelector=a%2Fb%3Dc"
    );
}
