//! As a plugin of kubectl, in a terminal, in a shell.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use carillon_testbed::carillon::{Profile, Program, build};
use carillon_tests::lab::Bench;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::desk::{Answer, carillon, command, desk, finish};

fn paused(name: &'static str) -> Bench<'static> {
    let bench = desk().bench(name);
    bench.apply(&bench.job("fix-kernel", &json!({}), &json!({"paused": true})));
    bench.wait("fix-kernel", "Paused");
    bench
}

/// What the program writes when its output is a terminal.
fn on_a_terminal(mut command: Command) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let other_end = File::options()
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut child = command.stdout(other_end).spawn().unwrap();
    drop(command);
    let mut seen = Vec::new();
    // The last of a terminal's writers to go makes reading an error.
    let _ = File::from(terminal).read_to_end(&mut seen);
    assert!(child.wait().unwrap().success());
    String::from_utf8(seen).unwrap()
}

#[test]
fn colour_is_for_terminals_and_yields_to_no_color() {
    let bench = paused("cli-colour");
    let get = || {
        let mut get = command(bench.cluster, bench.name);
        get.arg("get");
        get
    };
    let escape = "\x1b[";
    let coloured = on_a_terminal(get());
    assert!(
        coloured.contains(escape) && coloured.contains("Paused"),
        "{coloured:?}"
    );
    let mut without = get();
    without.env("NO_COLOR", "1");
    let plain = on_a_terminal(without);
    assert!(
        !plain.contains(escape) && plain.contains("Paused"),
        "{plain:?}"
    );
    assert!(!finish(get(), "").stdout.contains(escape));
    let mut always = get();
    always.arg("--color=always");
    assert!(finish(always, "").stdout.contains(escape));
}

/// A folder for the PATH, with the program and the script that kubectl asks.
fn plugins(bench: &Bench<'_>) -> std::path::PathBuf {
    let folder = bench.cluster.dir().join(bench.name);
    std::fs::create_dir_all(&folder).unwrap();
    let program = build(Program::Cli, Profile::Dev).unwrap();
    std::os::unix::fs::symlink(program, folder.join("kubectl-carillon")).unwrap();
    let script = carillon(bench, &["completion", "kubectl"])
        .ended_with(0)
        .stdout;
    let path = folder.join("kubectl_complete-carillon");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn with_path(mut command: Command, folder: &Path) -> Answer {
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", folder.display()));
    finish(command, "")
}

#[test]
fn kubectl_finds_it_as_a_plugin_and_completes_names_through_it() {
    let bench = paused("cli-plugin");
    let folder = plugins(&bench);
    let kubectl = |args: &[&str]| {
        let mut kubectl = bench.cluster.kubectl_command();
        kubectl.args(args);
        with_path(kubectl, &folder)
    };
    let got = kubectl(&["carillon", "get", "-n", "cli-plugin", "-o", "name"]).ended_with(0);
    assert_eq!(got.stdout, "broadcastjob.carillon.dev/fix-kernel\n");
    let words = [
        "__complete",
        "carillon",
        "explain",
        "-n",
        "cli-plugin",
        "fix",
    ];
    let completed = kubectl(&words).ended_with(0);
    assert!(
        completed.stdout.starts_with("fix-kernel\n:4"),
        "{completed:?}"
    );
}

#[test]
fn bash_completes_verbs_flags_and_names_of_jobs() {
    let bench = paused("cli-bash");
    let folder = plugins(&bench);
    let complete = |words: &str, last: &str| {
        let script = format!(
            "source <(kubectl-carillon completion bash)
             COMP_WORDS=(kubectl-carillon {words} {last}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
             _clap_complete_kubectl_carillon kubectl-carillon '{last}'
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]);
        bash.env("KUBECONFIG", bench.cluster.kubeconfig());
        with_path(bash, &folder).ended_with(0).stdout
    };
    assert_eq!(complete("", "expl"), "explain\n");
    assert_eq!(complete("results", "--fai"), "--failed\n");
    assert_eq!(complete("get -n cli-bash", "fix"), "fix-kernel\n");
    for shell in ["zsh", "fish"] {
        let script = carillon(&bench, &["completion", shell])
            .ended_with(0)
            .stdout;
        assert!(script.contains("kubectl-carillon"), "{script}");
    }
}
