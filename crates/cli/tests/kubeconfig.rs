//! What is said of a kubeconfig that is not there, or lacks what was asked for.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod http;

use std::process::Command;
use std::sync::Arc;

#[test]
fn a_context_that_does_not_exist_is_answered_with_those_that_do() {
    let port = http::serve(Arc::new(|_, _, _| (200, http::list(&[]))));
    let output = http::run(port, &["get", "--context", "nope"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "error: --context: the kubeconfig has no context nope. There are: c\n";
    assert_eq!(said, expected);
    let output = http::run(port, &["get", "--context", "c"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_kubeconfig_that_is_not_there_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-carillon"));
    command
        .env("KUBECONFIG", folder.path().join("none"))
        .env_remove("KUBERNETES_SERVICE_HOST")
        .arg("get");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("error: no cluster: set KUBECONFIG or --kubeconfig"),
        "{said}"
    );
    assert_eq!(
        said.matches("No such file or directory").count(),
        1,
        "{said}"
    );
}
