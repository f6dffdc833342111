//! What a loop does when its watch has ended.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_in_half_a_line_goes_on_where_it_was() {
    let half = event("ADDED", &thing("b", 12, "2"))[..30].to_owned();
    let mut server = start(vec![
        list(10, "", &[]),
        Answer::Break(vec![event("ADDED", &thing("a", 11, "1")), half.clone()]),
        Answer::Reply(200, half),
        Answer::Refuse,
        Answer::Open(vec![event("ADDED", &thing("b", 12, "2"))]),
    ]);
    server
        .says(&["begin", "done 10", "applied a 1", "applied b 2"])
        .await;
    let mut requests = Vec::new();
    for _ in 0..5 {
        requests.push(server.asked().await);
    }
    for request in &requests[2..] {
        assert!(request.contains("resourceVersion=11"), "{request}");
    }
    let restarts = server
        .metrics
        .watch_restarts
        .with_label_values(&["Thing"])
        .get();
    assert_eq!(restarts, 3);
    assert_eq!(
        server
            .metrics
            .watch_relists
            .with_label_values(&["Thing"])
            .get(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_restored_from_a_backup_is_listed_before_it_is_watched_again() {
    for ended in [
        Answer::Open(vec![bookmark(12)]),
        Answer::Break(vec![bookmark(12)]),
        Answer::Reply(200, bookmark(12)),
    ] {
        let mut server = start(vec![
            list(10, "", &[]),
            ended,
            list(9, "", &[]),
            Answer::Open(vec![bookmark(9)]),
        ]);
        // It has lost its last changes, and would say nothing before it has come to 12 again.
        server.version.store(9, Ordering::Relaxed);
        server
            .says(&[
                "begin",
                "done 10",
                "progress 12",
                "begin",
                "done 9",
                "progress 9",
            ])
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_cut_off_until_the_server_says_how_far_it_has_come_but_not_for_ever() {
    for (answers, seconds, for_seconds) in [(true, 50, 0), (false, 400, 299)] {
        let broken = Answer::Break(vec![bookmark(12)]);
        let mut server = start(vec![list(10, "", &[]), broken]);
        server.answers.store(answers, Ordering::Relaxed);
        server.says(&["begin", "done 10", "progress 12"]).await;
        let mut cut_off = 0;
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cut_off += u64::from(server.handle.is_cut_off("ops"));
        }
        assert_eq!(cut_off, for_seconds, "it answers: {answers}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_told_so_and_opened_again_where_it_was() {
    let mut server = start(vec![
        list(10, "", &[]),
        Answer::Open(vec![bookmark(12)]),
        Answer::Open(vec![bookmark(41)]),
    ]);
    server.says(&["begin", "done 10", "progress 12"]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(server.handle.silence(), Duration::from_mins(2));
    server.says(&["progress 41"]).await;
    assert_eq!(server.handle.silence(), Duration::ZERO);
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(server.asked().await);
    }
    assert!(requests[2].contains("resourceVersion=12"), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_ends_in_time_goes_on_where_it_was() {
    let in_time = |rv| Answer::Later(50, Box::new(Answer::Reply(200, bookmark(rv))));
    let mut server = start(vec![list(10, "", &[]), in_time(12), in_time(13)]);
    server
        .says(&["begin", "done 10", "progress 12", "progress 13"])
        .await;
}
