//! What others have written does not reach the screen as it is: names, conditions, messages of
//! webhooks, manifests, arguments.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

#[path = "../http/mod.rs"]
mod http;
mod server;

use std::path::PathBuf;
use std::process::{Command, Output};

use server::{HARMFUL, MARK, foreign};
use tempfile::TempDir;

struct Shell {
    folder: TempDir,
    kubeconfig: PathBuf,
}

impl Shell {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = http::kubeconfig(folder.path(), server::start());
        Self { folder, kubeconfig }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-carillon"));
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(self.folder.path());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// What was printed, on both streams, is harmless, and of the foreign text something is there.
fn check(args: &[&str], output: &Output) {
    let mut told = false;
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = std::str::from_utf8(bytes).unwrap();
        told |= text.contains(MARK);
        for c in text.chars() {
            let is_harmful = (HARMFUL.contains(&c) || c.is_control()) && !"\n\t".contains(c);
            assert!(!is_harmful, "{args:?}: {c:?} on {stream}: {text:?}");
        }
        let begins = text
            .lines()
            .any(|line| line.starts_with("error: all is well"));
        assert!(!begins, "{args:?}: a foreign line on {stream}: {text}");
    }
    assert!(told, "{args:?}: {output:?}");
}

#[test]
fn every_verb_prints_foreign_text_without_what_could_mislead() {
    let shell = Shell::new();
    for format in ["", "wide", "name", "json", "yaml"] {
        for verb in [
            &["get"][..],
            &["get", "cbj/open"],
            &["get", "-A"],
            &["results", "open"],
            &["results", "open", "--node", "node-1"],
            &["explain", "open"],
            &["explain", "open", "--node", "node-1"],
            &["next", "cron"],
            &["calendar", "cron"],
            &["get", "cds"],
            &["get", "cds/agent"],
            &["explain", "cds/agent"],
            &["rollout", "history", "agent"],
            &["rollout", "history", "agent", "--revision=1"],
        ] {
            let mut args = verb.to_vec();
            if !format.is_empty() {
                args.extend(["-o", format]);
            }
            // These show no word of others.
            let nothing_told = match verb {
                ["explain" | "results", _, "--node", _] => format == "name",
                _ => false,
            };
            if !nothing_told {
                check(&args, &shell.run(&args));
            }
        }
    }
    for args in [
        &["retry", "open", "--failed", "--dry-run"][..],
        &["retry", "open", "--failed"],
        &["retry", "ended", "--failed"],
        &["pause", "forbidden"],
        &["resume", "forbidden"],
        &["resume", "cronjob/cron"],
        &["wait", "ended"],
        &["wait", "open", "--timeout", "0s"],
        &["suspend", "cron"],
        &["trigger", "waits"],
        &["trigger", "forbidden"],
        &["get", "missing"],
        &["get", "-n", "closed"],
        &["explain", "open", "--node", "missing"],
        &["next", "ccj/missing"],
        &["calendar", "cron", "-n", "closed"],
        &["explain", "cds/agent", "--node", "missing"],
        &["rollout", "status", "agent", "--watch=false"],
        &["rollout", "undo", "agent", "--dry-run"],
        &["rollout", "restart", "agent"],
        &["rollout", "status", "missing"],
        &["doctor"],
        &["uninstall", "--check"],
        &["uninstall", "--release"],
        &["uninstall", "--release", "--force"],
        &["uninstall", "--check", "-n", "closed"],
    ] {
        check(args, &shell.run(args));
    }
}

#[test]
fn manifests_and_what_the_api_server_says_about_them_are_printed_without_it_too() {
    let shell = Shell::new();
    let escaped = |c: char| format!("\\U{:08x}", u32::from(c));
    let quoted = format!("\"{}\"", foreign().chars().map(escaped).collect::<String>());
    let job = shell.file(
        "job.yaml",
        &format!(
            "apiVersion: v1\nkind: {quoted}\nmetadata: {{name: {quoted}}}\n---\n\
             apiVersion: carillon.dev/v1alpha1\nkind: BroadcastJob\nmetadata: {{name: {quoted}}}\n\
             spec: {{template: {{spec: {{nodeSelector: {{{quoted}: {quoted}}}, containers: []}}}}}}\n"
        ),
    );
    let cron = shell.file(
        "cron.yaml",
        &format!(
            "kind: CronJob\napiVersion: carillon.dev/v1alpha1\nmetadata: {{name: {quoted}}}\n\
             spec: {{schedule: {quoted}, jobTemplate: {{}}}}\n"
        ),
    );
    let set = shell.file(
        "set.yaml",
        &format!(
            "kind: DaemonSet\napiVersion: carillon.dev/v1alpha1\nmetadata: {{name: {quoted}}}\nspec: {{}}\n"
        ),
    );
    let neither = shell.file(
        "neither.yaml",
        &format!("kind: {quoted}\nmetadata: {{name: {quoted}}}\n"),
    );
    let broken = shell.file("broken.yaml", &format!("evil: \u{202e}[{}", foreign()));
    for args in [
        &["plan", "-f", &job][..],
        &["plan", "-f", &job, "-o", "json"],
        &["plan", "-f", &job, "-o", "yaml"],
        &["plan", "-f", &set],
        &["plan", "-f", &set, "-o", "json"],
        &["plan", "-f", &neither],
        &["next", &cron],
        &["calendar", &cron],
    ] {
        check(args, &shell.run(args));
    }
    let output = shell.run(&["plan", "-f", &broken]);
    assert!(
        !String::from_utf8(output.stderr)
            .unwrap()
            .contains('\u{202e}')
    );
}

#[test]
fn arguments_come_back_without_it_too() {
    let shell = Shell::new();
    let pasted = foreign().replace('\0', "");
    for args in [
        &[pasted.as_str()][..],
        &["get", "--output", &pasted],
        &["get", "a", &pasted],
        &["get", "-n", &pasted, "missing"],
        &["wait", "open", "--timeout", &pasted],
        &["next", "--schedule", "0 3 * * *", "--time-zone", &pasted],
        &["next", &pasted],
        &["get", "--kubeconfig", &pasted],
        &["results", "open", "--node", &pasted],
        &["retry", "open", "--node", &pasted],
    ] {
        check(args, &shell.run(args));
    }
}

#[test]
fn a_name_that_could_mislead_is_not_offered_in_a_shell() {
    let shell = Shell::new();
    std::fs::write(shell.folder.path().join(format!("{MARK}\u{202e}.yaml")), "").unwrap();
    for words in [
        &["get", ""][..],
        &["next", ""],
        &["get", "-n", ""],
        &["resume", ""],
        &["explain", "plain", "--node", ""],
    ] {
        let for_kubectl = shell.run(&[&["__complete"], words].concat());
        let mut for_bash = shell.command();
        for_bash
            .env("COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_COMPLETE_COMP_TYPE", "9")
            .args(["--", "kubectl-carillon"])
            .args(words);
        for output in [for_kubectl, for_bash.output().unwrap()] {
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(!text.contains(MARK), "{words:?}: {text:?}");
        }
    }
    // And that they are asked for at all.
    for (words, expected) in [
        (&["__complete", "get", ""][..], "plain"),
        (&["__complete", "explain", "plain", "--node", ""], "node-1"),
    ] {
        let offered = String::from_utf8(shell.run(words).stdout).unwrap();
        assert!(offered.contains(expected), "{offered}");
    }
}

#[test]
fn json_and_yaml_say_exactly_what_is_stored() {
    let shell = Shell::new();
    for format in ["json", "yaml"] {
        let output = shell.run(&["results", "open", "-o", format]);
        let text = String::from_utf8(output.stdout).unwrap();
        let answer: serde_json::Value = match format {
            "json" => serde_json::from_str(&text).unwrap(),
            _ => serde_saphyr::from_str(&text).unwrap(),
        };
        assert_eq!(answer["attempts"][0]["nodeName"], foreign(), "{text}");
    }
}
