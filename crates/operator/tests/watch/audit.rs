//! The audit: what a watch has lost is found, and nothing else is.

use std::time::Duration;

use super::{Answer, Server, bookmark, event, list, start_with};

const PERIOD: Duration = Duration::from_mins(10);

/// A thing with a uid that follows from its name.
fn known(name: &str, rv: u64) -> String {
    let uid = uid(name);
    format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{rv}"}},"size":1}}"#)
}

fn uid(name: &str) -> String {
    let number = name.bytes().take(6);
    let number = number.fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{number:012x}")
}

/// Bookmarks, one a minute.
fn quiet(minutes: u64, rv: u64) -> Vec<(u64, String)> {
    (0..minutes).map(|_| (60, bookmark(rv))).collect()
}

impl Server {
    /// Audits that ended in this way.
    fn audits(&self, result: &str) -> u64 {
        let audits = &self.metrics.cache_audits;
        audits.with_label_values(&["Thing", result]).get()
    }

    fn differences(&self) -> u64 {
        let differences = &self.metrics.cache_audit_differences;
        differences.with_label_values(&["Thing"]).get()
    }

    /// Waits until so many audits have ended in this way.
    async fn audited(&self, result: &str, count: u64) {
        let until = async {
            while self.audits(result) < count {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let limit = tokio::time::timeout(Duration::from_hours(2), until).await;
        limit.unwrap_or_else(|_| panic!("no {count} audits ended {result}"));
    }
}

/// What became of a server's objects between a list (10) and an audit's list (20), of which the
/// watch said nothing: what the audit finds.
#[tokio::test(start_paused = true)]
async fn a_lost_event_is_found_and_healed_by_a_new_list() {
    let lost: [(&str, &[String]); 3] = [
        ("changed", &[known("a", 15), known("b", 4)]),
        ("created", &[known("a", 3), known("b", 4), known("c", 15)]),
        ("deleted", &[known("a", 3)]),
    ];
    for (what, items) in lost {
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let mut server = start_with(
            vec![
                list(10, "", &[&known("a", 3), &known("b", 4)]),
                Answer::Timed(quiet(30, 20)),
                list(20, "", &items),
                list(21, "", &items),
            ],
            Some(PERIOD),
        );
        server
            .says(&["begin", "item a 1", "item b 1", "done 10"])
            .await;
        server.audited("different", 1).await;
        assert_eq!(server.differences(), 1, "{what}");
        let requests = [
            server.asked().await,
            server.asked().await,
            server.asked().await,
            server.asked().await,
        ];
        assert_eq!(
            requests[2], "metadata /api/v1/things?limit=200&labelSelector=a%2Fb%3Dc",
            "{what}"
        );
        assert!(requests[3].starts_with("/api/v1/things?limit="), "{what}");
        let said = std::iter::from_fn(|| server.log.try_recv().ok());
        assert!(
            said.skip_while(|line| line != "begin").count() > 0,
            "{what}"
        );
        assert_eq!(server.audits("clean"), 0, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_cluster_costs_one_list_of_metadata_a_period() {
    let items = [known("a", 3), known("left-out", 4)];
    let page = |more| list(20, more, &[&items[usize::from(more.is_empty())]]);
    let mut server = start_with(
        vec![
            list(10, "", &[&items[0]]),
            Answer::Timed(quiet(60, 20)),
            page("more"),
            page(""),
            page("more"),
            page(""),
        ],
        Some(PERIOD),
    );
    server.says(&["begin", "item a 1", "done 10"]).await;
    let begin = tokio::time::Instant::now();
    server.audited("clean", 2).await;
    let took = begin.elapsed();
    // Up to a fifth longer each, and up to a minute until a bookmark.
    assert!(
        took >= PERIOD * 2 && took <= PERIOD * 12 / 5 + Duration::from_mins(3),
        "{took:?}"
    );
    let mut requests = Vec::new();
    while let Ok(request) = server.requests.try_recv() {
        requests.push(request);
    }
    let metadata = requests
        .iter()
        .filter(|request| request.starts_with("metadata "));
    assert_eq!((requests.len(), metadata.count()), (6, 4), "{requests:#?}");
    assert!(requests[3].contains("&continue=more&"), "{requests:#?}");
    assert_eq!(server.differences(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_changes_during_an_audit_raises_no_alarm() {
    // The list shows everything as it is at 20; the watch says so afterwards.
    let mut events = quiet(13, 11);
    events.extend([
        (0, event("MODIFIED", &known("a", 15))),
        (0, event("ADDED", &known("c", 16))),
        (0, event("DELETED", &known("b", 17))),
        // And something that the list does not show yet.
        (0, event("ADDED", &known("d", 25))),
    ]);
    events.extend(quiet(9, 25));
    let mut server = start_with(
        vec![
            list(10, "", &[&known("a", 3), &known("b", 4)]),
            Answer::Timed(events),
            list(20, "", &[&known("a", 15), &known("c", 16)]),
        ],
        Some(PERIOD),
    );
    server
        .says(&["begin", "item a 1", "item b 1", "done 10"])
        .await;
    server.audited("clean", 1).await;
    assert_eq!(server.differences(), 0);
    assert_eq!(server.audits("different"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_audit_that_cannot_come_to_its_end_is_counted() {
    // The watch never comes to 20; then an audit's list fails; then the kind is listed anew.
    let server = start_with(
        vec![
            list(10, "", &[&known("a", 3)]),
            Answer::Timed(quiet(200, 11)),
            list(20, "", &[]),
            Answer::Reply(500, "down".into()),
            list(30, "", &[]),
            list(40, "", &[]),
        ],
        Some(PERIOD),
    );
    server.audited("given_up", 1).await;
    server.audited("failed", 1).await;
    let begun = PERIOD * 6 / 5 + Duration::from_secs(1);
    tokio::time::sleep(begun).await;
    server.handle.relist();
    server.audited("given_up", 2).await;
    assert_eq!(server.differences(), 0);
    assert_eq!((server.audits("clean"), server.audits("different")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_audit_survives_the_end_of_a_watch() {
    let mut server = start_with(
        vec![
            list(10, "", &[&known("a", 3)]),
            Answer::Closed(quiet(14, 11)),
            list(20, "", &[&known("a", 15)]),
            Answer::Timed(vec![(0, bookmark(20))]),
        ],
        // Before the end of the first watch, which the server closes after 14 minutes.
        Some(Duration::from_secs(690)),
    );
    server.says(&["begin", "item a 1", "done 10"]).await;
    server.audited("different", 1).await;
    assert_eq!(server.differences(), 1);
}
