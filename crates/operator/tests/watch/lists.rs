//! Lists that are asked for, and what is known of them.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_list_comes_when_asked_for() {
    let mut server = start(vec![
        list(10, "", &[]),
        Answer::Open(vec![bookmark(12)]),
        list(15, "", &[]),
    ]);
    server.says(&["begin", "done 10", "progress 12"]).await;
    server.handle.relist();
    server.says(&["begin", "done 15"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_needs_a_new_list_is_not_synced_before_one_that_began_later_is_in() {
    let mut server = start(vec![
        list(10, "", &[]),
        Answer::Open(vec![bookmark(12)]),
        list(15, "", &[]),
    ]);
    // The first list has not begun.
    server.handle.need_new_list();
    server.handle.synced_in(None).await;
    server.says(&["begin", "done 10", "progress 12"]).await;
    assert!(server.handle.is_synced(), "no second list was needed");
    server.handle.need_new_list();
    assert!(!server.handle.is_synced());
    let before = tokio::time::Instant::now();
    server.handle.synced_in(None).await;
    server.says(&["begin", "done 15"]).await;
    assert_eq!(
        before.elapsed(),
        Duration::ZERO,
        "nobody waits for it to be polite"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_was_under_way_does_not_count_as_new() {
    let slow = |rv| Answer::Later(5, Box::new(list(rv, "", &[])));
    let open = Answer::Open(Vec::new());
    let mut server = start(vec![slow(10), slow(15), open, slow(20)]);
    assert!(server.asked().await.contains("limit="), "it is under way");
    server.handle.need_new_list();
    let told = server.metrics.watch_synced.with_label_values(&["Thing"]);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(told.get(), 0, "the first list is in, and is not the one");
    server.handle.synced_in(None).await;
    assert_eq!(told.get(), 1);
    // Nothing is waited for: both have been delivered.
    for line in ["begin", "done 10", "begin", "done 15"] {
        assert_eq!(server.log.try_recv().as_deref(), Ok(line));
    }
    server.handle.need_new_list();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(told.get(), 0, "what is in the cache is too old");
    server.handle.synced_in(None).await;
    assert_eq!(told.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_a_loop_each_and_are_synced_together() {
    let (asked, mut requests) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<RequestBody>| {
        let path = request.uri().path().to_owned();
        let _ = asked.send(path.clone());
        async move {
            if path.contains("/slow/") {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            respond(list(1, "", &[]))
        }
    });
    let metrics = Metrics::new().unwrap();
    let transport = Transport::new(service, Arc::clone(&metrics));
    let source = Source {
        kind: "Thing",
        group: "g.io",
        version: "v2",
        plural: "things",
        labels: String::new(),
        audit_period: None,
    };
    let (said, _log) = mpsc::unbounded_channel();
    let namespaces = ["quick".to_owned(), "slow".to_owned()];
    let mut scopes = Vec::new();
    let (handle, loops) = watch::prepare::<Thing, _>(
        &transport,
        &source,
        &namespaces,
        |scope| {
            scopes.push(scope.map(str::to_owned));
            Log::new(&said)
        },
        &metrics,
    );
    assert_eq!(scopes, [Some("quick".into()), Some("slow".into())]);
    let shutdown = CancellationToken::new();
    let tasks: Vec<_> = loops
        .into_iter()
        .map(|each| tokio::spawn(each.run(shutdown.clone())))
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut asked = BTreeSet::new();
    while let Ok(path) = requests.try_recv() {
        asked.insert(path);
    }
    assert_eq!(
        Vec::from_iter(asked),
        [
            "/apis/g.io/v2/namespaces/quick/things",
            "/apis/g.io/v2/namespaces/slow/things"
        ]
    );
    assert!(!handle.is_synced());
    assert_eq!(metrics.watch_synced.with_label_values(&["Thing"]).get(), 0);
    let lists = ["quick", "slow", "other"].map(|namespace| handle.last_list(namespace));
    assert!(lists[0] > 0, "nobody waits for another namespace");
    assert_eq!(lists[1..], [0, u64::MAX]);
    assert!(handle.is_synced_in(Some("quick")) && !handle.is_synced_in(Some("slow")));
    assert!(handle.is_clear_somewhere() && !handle.is_clear_in(Some("slow")));
    handle.synced_in(None).await;
    assert_eq!(metrics.watch_synced.with_label_values(&["Thing"]).get(), 1);
    shutdown.cancel();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}
