//! The columns of `kubectl get`.

use carillon_tests::lab::lab;

use super::states::states;

/// The cells of a table, which are two blanks apart. Ages are not the same twice.
fn table(args: &[&str]) -> Vec<Vec<String>> {
    let args = [&["get", "-n", "gitops"], args].concat();
    let text = lab().cluster.kubectl_ok(args).unwrap();
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim);
        cells
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect()
    };
    text.lines().map(cells).collect()
}

/// The row of an object without its age, which follows on so many cells.
fn row(table: &[Vec<String>], name: &str, age_at: usize) -> String {
    let row = table.iter().find(|row| row[0] == name);
    let mut row = row
        .unwrap_or_else(|| panic!("no {name}: {table:#?}"))
        .clone();
    row.remove(age_at);
    row.join(" | ")
}

#[test]
fn the_columns_of_a_broadcastjob_say_how_far_it_is_and_wide_ones_why() {
    assert!(!states().is_empty());
    let narrow = table(&["cbj"]);
    let heads = [
        "NAME",
        "STATUS",
        "DONE",
        "ACTIVE",
        "SUCCEEDED",
        "FAILED",
        "AGE",
    ];
    assert_eq!(narrow[0], heads);
    for expected in [
        "runs | running | 0/2 | 2 | 0 | 0",
        "done | completed | 2/2 | 0 | 2 | 0",
        "done-with-failures | completed | 2/2 | 0 | 1 | 1",
        "stalled | Stalled: RetriedJobGone | 0/2 | 0 | 0 | 0",
        "paused | paused | 0/2 | 0 | 0 | 0",
        "paused-by-failure | paused | 2/2 | 0 | 1 | 1",
    ] {
        let name = expected.split(" | ").next().unwrap();
        assert_eq!(row(&narrow, name, 6), expected);
    }
    let wide = table(&["cbj", "-o", "wide"]);
    let heads = [
        "DESIRED",
        "REASON",
        "LEFT-OUT",
        "PARALLELISM",
        "COMPLETION",
        "ON-FAILURE",
        "IMAGE",
    ];
    assert_eq!(wide[0][7..], heads);
    let done = row(&wide, "done-with-failures", 6);
    let begins =
        "done-with-failures | completed | 2/2 | 0 | 1 | 1 | 2 | CompletedWithFailures | Node";
    assert!(done.starts_with(begins), "{done}");
    assert!(
        done.ends_with(" | 1 | Always | Continue | busybox:1.37"),
        "{done}"
    );
}

#[test]
fn the_columns_of_a_daemon_set_say_how_far_its_update_is_and_wide_ones_what_it_waits_for() {
    assert!(!states().is_empty());
    let narrow = table(&["cds"]);
    let heads = ["NAME", "DESIRED", "UPDATED", "AVAILABLE", "STATUS", "AGE"];
    assert_eq!(narrow[0], heads);
    for expected in [
        "set-ready | 2 | 2/2 | 2 | Complete",
        "set-updating | 2 | 2/2 | 0 | PodNotStarted",
        "set-paused | 2 | 0/2 | 2 | Paused",
        "set-keeps-old-pods | 2 | 0/2 | 2 | OldPodsKept",
    ] {
        let name = expected.split(" | ").next().unwrap();
        assert_eq!(row(&narrow, name, 5), expected);
    }
    let wide = table(&["cds", "-o", "wide"]);
    let heads = ["READY", "MISSCHEDULED", "WAITING-FOR", "REVISION", "IMAGE"];
    assert_eq!(wide[0][6..], heads);
    let updating = row(&wide, "set-updating", 5);
    let begins = "set-updating | 2 | 2/2 | 0 | PodNotStarted | 0 | 0 | PodNotStarted | ";
    assert!(updating.starts_with(begins), "{updating}");
    assert!(updating.ends_with(" | busybox:1.37"), "{updating}");
}
