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
async fn a_watch_that_hears_nothing_for_long_asks_how_far_the_server_has_come_and_ends_if_that_is_less()
 {
    let silent = vec![list(10, "", &[]), Answer::Open(vec![bookmark(12)])];
    let mut cut_off = vec![list(10, "", &[]), Answer::Break(vec![bookmark(12)])];
    cut_off.extend((0..6).map(|_| Answer::BreakAfter(50)));
    for answers in [silent, cut_off] {
        let mut server = start(answers);
        server.version.store(11, Ordering::Relaxed);
        server.says(&["begin", "done 10", "progress 12"]).await;
        let ended = server.ended().await.unwrap_err().to_string();
        let expected = "was at resourceVersion 12 and is at 11";
        assert!(ended.contains(expected), "{ended}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_another_history_is_not_asked_for_and_not_believed() {
    for (version, said) in [(11, &[][..]), (1000, &["begin", "item old 1"])] {
        let mut server = start(vec![
            list(10, "", &[]),
            Answer::Break(vec![bookmark(12), event("ERROR", &gone())]),
            list(11, "", &[&thing("old", 3, "1")]),
        ]);
        server.version.store(version, Ordering::Relaxed);
        server.says(&["begin", "done 10", "progress 12"]).await;
        server.says(said).await;
        server.ended().await.unwrap_err();
        assert!(server.log.is_empty(), "the list is not done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_that_is_cut_off_now_and_then_is_a_healthy_one() {
    let mut answers = vec![list(10, "", &[])];
    answers.extend((0..12).map(|_| Answer::BreakAfter(50)));
    answers.push(Answer::Open(vec![bookmark(41)]));
    let mut server = start(answers);
    server.version.store(10, Ordering::Relaxed);
    server.says(&["begin", "done 10"]).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert!(server.handle.silence() < Duration::from_mins(4));
    server.says(&["progress 41"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_silent_while_the_server_goes_on_is_listed_anew() {
    let silent = || Answer::Open(Vec::new());
    let cut_off = (0..8).map(|_| Answer::BreakAfter(50));
    for watches in [vec![silent(), silent()], cut_off.collect()] {
        let mut answers = vec![list(10, "", &[])];
        answers.extend(watches);
        answers.push(list(20, "", &[&thing("new", 15, "1")]));
        let mut server = start(answers);
        server.version.store(20, Ordering::Relaxed);
        server.says(&["begin", "done 10"]).await;
        let begin = tokio::time::Instant::now();
        server.says(&["begin", "item new 1", "done 20"]).await;
        let age = begin.elapsed().as_secs();
        assert!((360..480).contains(&age), "{age} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_comes_as_far_as_the_server_was_is_a_healthy_one() {
    let mut server = start(vec![
        list(10, "", &[]),
        Answer::Open(Vec::new()),
        Answer::Open(vec![bookmark(20)]),
        Answer::Open(vec![bookmark(21)]),
    ]);
    server.version.store(20, Ordering::Relaxed);
    server
        .says(&["begin", "done 10", "progress 20", "progress 21"])
        .await;
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
