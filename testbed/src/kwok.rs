//! kwok's configuration: how its simulated kubelets treat nodes and pods.
//!
//! A stage says which objects it is for (jq over the object), how long to wait, and what to write
//! (a Go template). kwok starts the wait anew at each change of the object, so every wait here is
//! until an instant computed from the object, not a length of time. A status holds whole seconds
//! only: the instant a container started is kept, in milliseconds, in its `containerID`.
//!
//! Each write carries the pod's uid and resourceVersion: a late one never hits a successor of the
//! same name, and of two for the same state (kwok acts on every event) only one is stored. The one
//! that is refused needs no repetition: the change that beat it is an event, too.

use serde_json::{Value, json};

use crate::fate::PREFIX;

/// Set to `"true"` on a node, its kubelet reports Ready=False.
pub(crate) const NOT_READY: &str = "testbed.carillon.dev/not-ready";

/// `fate($key)` and what follows from it, for all jq expressions on pods.
fn jq(expression: &str) -> String {
    let prelude = r#"
def table: (.metadata.annotations["PREFIXfates"] // "{}") | fromjson;
def fate($key):
  . as $pod
  | first((table | (.[$pod.metadata.name], .[$pod.spec.nodeName], .["*"]) | objects
           | .[$key] | values),
          ($pod.metadata.annotations["PREFIX" + $key] | values),
          null);
def seconds:
  if type == "number" then .
  else ([scan("([0-9.]+)(ms|s|m|h)") | (.[0] | tonumber)
         * ({"ms": 0.001, "s": 1, "m": 60, "h": 3600}[.[1]])] | add // 0) end;
def instant:
  (. * 1000 | floor) as $ms
  | ($ms / 1000 | floor | todate | rtrimstr("Z"))
    + "." + (($ms % 1000 + 1000 | tostring)[1:]) + "Z";
def started: .status.containerStatuses[0].containerID | ltrimstr("kwok://") | split("-")[0]
  | tonumber / 1000;
def stopped: .status.containerStatuses[0].lastState.terminated.finishedAt | fromdate;
def code: (fate("exit-code") // 0) | tonumber;
def restarted: .status.containerStatuses[0].restartCount // 0;
def restarts: (fate("restarts") // null) | if . == "forever" then 1000000000
  elif . == null then null else tonumber end;
def ending:
  if fate("fate") == "hang" then "never"
  elif .spec.restartPolicy == "Never" then "finish"
  elif .spec.restartPolicy == "OnFailure" then
    (restarts // (if code == 0 then 0 else 1000000000 end)) as $restarts
    | if restarted < $restarts then "crash" else "finish" end
  elif restarts != null then (if restarted < restarts then "crash" else "never" end)
  elif fate("run-time") != null or fate("exit-code") != null then "crash"
  else "never" end;
def grace: .metadata.deletionGracePeriodSeconds // 0;
def killed:
  (fate("termination-time") // "0s" | seconds) as $time
  | (.metadata.deletionTimestamp | fromdate) - grace
    # A deletionTimestamp has lost its fraction: never end earlier than asked.
    + ([$time, grace] | min) + (if $time > 0 then 1 else 0 end);
"#;
    format!("{}{expression}", prelude.replace("PREFIX", PREFIX))
}

/// Sets `$name` in a template to the pod's fate for `key`, or `default` (a template expression).
fn template_fate(name: &str, key: &str, default: &str) -> String {
    format!(
        r#"{{{{ ${name} := {default} }}}}
{{{{ if hasKey $annotations "{PREFIX}{key}" }}}}{{{{ ${name} = index $annotations "{PREFIX}{key}" }}}}{{{{ end }}}}
{{{{ range $fates }}}}{{{{ if hasKey . "{key}" }}}}{{{{ ${name} = index . "{key}" }}}}{{{{ end }}}}{{{{ end }}}}
"#
    )
}

fn template(fates: &[(&str, &str, &str)], body: &str) -> String {
    // The last of $fates that has a key wins.
    let prelude = r#"
{{ $now := Now }}
{{ $status := .status }}
{{ $annotations := or .metadata.annotations dict }}
{{ $table := fromJson (or (index $annotations "PREFIXfates") "{}") }}
{{ $fates := list (or (index $table "*") dict) (or (index $table .spec.nodeName) dict) (or (index $table .metadata.name) dict) }}
"#;
    let fates: String = fates
        .iter()
        .map(|(name, key, or)| template_fate(name, key, or))
        .collect();
    let guard = "metadata:\n  uid: {{ .metadata.uid | Quote }}\n  \
                 resourceVersion: {{ .metadata.resourceVersion | Quote }}\n";
    format!("{}{fates}{guard}{body}", prelude.replace("PREFIX", PREFIX))
}

fn conditions(ready: &str, reason: &str) -> String {
    let one = |kind: &str, status: &str, reason: &str| {
        format!(
            "  - type: {kind}\n    status: \"{status}\"\n    reason: \"{reason}\"\n    \
             lastProbeTime: null\n    lastTransitionTime: {{{{ $now | Quote }}}}\n"
        )
    };
    let initialized = if reason == "PodCompleted" { reason } else { "" };
    let mut text = "  conditions:\n".to_owned();
    text += &one(
        "PodReadyToStartContainers",
        if reason == "PodCompleted" {
            "False"
        } else {
            "True"
        },
        "",
    );
    text += &one("Initialized", "True", initialized);
    text += &one("Ready", ready, reason);
    text += &one("ContainersReady", ready, reason);
    // Gates are the test's business: someone else would set them on a real cluster.
    text
}

/// Every container in the state that `state` renders; `$was` is its present status.
fn containers(ready: bool, restart_count: &str, state: &str) -> String {
    format!(
        r"  containerStatuses:
  {{{{ range $index, $item := .spec.containers }}}}
  {{{{ $was := dict }}}}
  {{{{ if lt $index (len (or $status.containerStatuses list)) }}}}{{{{ $was = index $status.containerStatuses $index }}}}{{{{ end }}}}
  {{{{ $state := or (index $was `state`) dict }}}}
  {{{{ $startedAt := or (dig `running` `startedAt` `` $state) $now }}}}
  - name: {{{{ $item.name | Quote }}}}
    image: {{{{ $item.image | Quote }}}}
    imageID: {{{{ $item.image | Quote }}}}
    ready: {ready}
    started: {ready}
    restartCount: {restart_count}
{state}  {{{{ end }}}}
"
    )
}

const CONTAINER_ID: &str = "    containerID: \"kwok://{{ (now).UnixMilli }}-{{ $index }}\"\n";
const SAME_CONTAINER_ID: &str = "    containerID: {{ or (index $was `containerID`) `` | Quote }}\n";
const RUNNING: &str = "    state:\n      running:\n        startedAt: {{ $now | Quote }}\n";
const SAME_COUNT: &str = "{{ or (index $was `restartCount`) 0 }}";

fn terminated(indent: &str) -> String {
    [
        "terminated:",
        "  exitCode: {{ int $code }}",
        "  reason: {{ if $reason }}{{ $reason | Quote }}{{ else if eq (int $code) 0 }}Completed{{ else }}Error{{ end }}",
        "  message: {{ toString $message | Quote }}",
        "  startedAt: {{ $startedAt | Quote }}",
        "  finishedAt: {{ $now | Quote }}",
        "  containerID: {{ or (index $was `containerID`) `` | Quote }}",
    ]
    .iter()
    .fold(String::new(), |text, line| text + indent + line + "\n")
}

struct Is<'a>(&'a str, &'a [&'a str]);
struct IsNot<'a>(&'a str, &'a [&'a str]);

impl From<Is<'_>> for Value {
    fn from(Is(key, values): Is<'_>) -> Self {
        json!({"key": key, "operator": "In", "values": values})
    }
}

impl From<IsNot<'_>> for Value {
    fn from(IsNot(key, values): IsNot<'_>) -> Self {
        json!({"key": key, "operator": "NotIn", "values": values})
    }
}

fn exists(key: &str) -> Value {
    json!({"key": key, "operator": "Exists"})
}

fn missing(key: &str) -> Value {
    json!({"key": key, "operator": "DoesNotExist"})
}

/// A stage that patches the status, at `at` (jq giving an instant or duration) or at once.
fn stage(kind: &str, name: &str, when: &[Value], at: Option<&str>, step: &Value) -> Value {
    let mut stage = json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": when},
            "weight": 1,
            "steps": [step],
        },
    });
    if let Some(at) = at {
        let from = json!({"durationMilliseconds": 0, "durationFrom": {"jq": {"expression": at}}});
        stage["spec"]["delay"] = from;
    }
    stage
}

fn status(template: &str) -> Value {
    json!({"patch": {"subresource": "status", "type": "strategic", "template": template}})
}

fn pod_accept() -> Value {
    let waiting = "    state:\n      waiting:\n        reason: {{ $waiting | Quote }}\n        \
                   message: {{ toString $message | Quote }}\n";
    let body = "status:\n  phase: Pending\n  startTime: {{ $now | Quote }}\n".to_owned()
        + "  hostIP: {{ NodeIPWith .spec.nodeName | Quote }}\n"
        + "  hostIPs:\n  - ip: {{ NodeIPWith .spec.nodeName | Quote }}\n"
        + &conditions("False", "ContainersNotReady")
        + &containers(false, "0", waiting);
    stage(
        "Pod",
        "pod-accept",
        &[
            missing(".metadata.deletionTimestamp"),
            missing(".status.startTime"),
            IsNot(".status.phase", &["Succeeded", "Failed"]).into(),
        ],
        None,
        &status(&template(
            &[
                ("waiting", "waiting-reason", "`ContainerCreating`"),
                ("message", "waiting-message", "``"),
            ],
            &body,
        )),
    )
}

fn pod_run() -> Value {
    // Init containers are done by now; those that restart Always are sidecars, and run.
    let inits = r"  {{ if .spec.initContainers }}
  initContainerStatuses:
  {{ range .spec.initContainers }}
  - name: {{ .name | Quote }}
    image: {{ .image | Quote }}
    imageID: {{ .image | Quote }}
    ready: true
    restartCount: 0
    {{ if eq (or .restartPolicy ``) `Always` }}
    started: true
    state:
      running:
        startedAt: {{ $now | Quote }}
    {{ else }}
    started: false
    state:
      terminated:
        exitCode: 0
        reason: Completed
        startedAt: {{ $now | Quote }}
        finishedAt: {{ $now | Quote }}
    {{ end }}
  {{ end }}
  {{ end }}
";
    let body = "{{ $ip := PodIPWith .spec.nodeName (or .spec.hostNetwork false) .metadata.uid \
                .metadata.name .metadata.namespace | Quote }}\n"
        .to_owned()
        + "status:\n  phase: Running\n  podIP: {{ $ip }}\n  podIPs:\n  - ip: {{ $ip }}\n"
        + &conditions("True", "")
        + inits
        + &containers(true, "0", &(CONTAINER_ID.to_owned() + RUNNING));
    stage(
        "Pod",
        "pod-run",
        &[
            missing(".metadata.deletionTimestamp"),
            Is(".status.phase", &["Pending"]).into(),
            exists(".status.startTime"),
            IsNot(&jq(r#"fate("fate")"#), &["never-starts"]).into(),
        ],
        Some(&jq(r#"fate("start-delay") // "0s""#)),
        &status(&template(&[], &body)),
    )
}

fn pod_end(name: &str, ending: &str, fates: &[(&str, &str, &str)], body: &str) -> Value {
    stage(
        "Pod",
        name,
        &[
            missing(".metadata.deletionTimestamp"),
            Is(".status.phase", &["Running"]).into(),
            exists(".status.containerStatuses[0].state.running"),
            Is(&jq("ending"), &[ending]).into(),
        ],
        Some(&jq(
            r#"started + (fate("run-time") // "1s" | seconds) | instant"#,
        )),
        &status(&template(fates, body)),
    )
}

fn pod_finish() -> Value {
    let state = SAME_CONTAINER_ID.to_owned() + "    state:\n" + &terminated("      ");
    // With OnFailure the last run is always the one that succeeds.
    let body =
        "{{ if eq .spec.restartPolicy `OnFailure` }}{{ $code = 0 }}{{ $reason = `` }}{{ end }}\n"
            .to_owned()
            + "status:\n  phase: {{ if eq (int $code) 0 }}Succeeded{{ else }}Failed{{ end }}\n"
            + &conditions("False", "PodCompleted")
            + &containers(false, SAME_COUNT, &state);
    let fates = [
        ("code", "exit-code", "0"),
        ("reason", "reason", "``"),
        ("message", "message", "``"),
    ];
    pod_end("pod-finish", "finish", &fates, &body)
}

fn pod_crash() -> Value {
    let state = SAME_CONTAINER_ID.to_owned()
        + "    state:\n      waiting:\n        reason: CrashLoopBackOff\n        message: back-off \
           restarting failed container\n    lastState:\n"
        + &terminated("      ");
    let body = "{{ if eq (int $code) 0 }}{{ if ne .spec.restartPolicy `Always` }}{{ $code = 1 }}\
                {{ end }}{{ end }}\n"
        .to_owned()
        + "status:\n  phase: Running\n"
        + &conditions("False", "ContainersNotReady")
        + &containers(false, SAME_COUNT, &state);
    let fates = [
        ("code", "exit-code", "0"),
        ("reason", "reason", "``"),
        ("message", "message", "``"),
    ];
    pod_end("pod-crash", "crash", &fates, &body)
}

fn pod_restart() -> Value {
    let state = CONTAINER_ID.to_owned()
        + RUNNING
        + "    {{ with index $was `lastState` }}\n    lastState: {{ YAML . 3 }}\n    {{ end }}\n";
    let body = "status:\n  phase: Running\n".to_owned()
        + &conditions("True", "")
        + &containers(
            true,
            "{{ add 1 (int (or (index $was `restartCount`) 0)) }}",
            &state,
        );
    stage(
        "Pod",
        "pod-restart",
        &[
            missing(".metadata.deletionTimestamp"),
            Is(
                ".status.containerStatuses[0].state.waiting.reason",
                &["CrashLoopBackOff"],
            )
            .into(),
        ],
        Some(&jq(
            r#"stopped + (fate("restart-delay") // "1s" | seconds) | instant"#,
        )),
        &status(&template(&[], &body)),
    )
}

/// A pod that is being deleted: its containers are stopped first, finalizer or not.
/// `out_of_time`: those that would run longer than their grace period, and are killed at its end.
fn pod_kill(name: &str, out_of_time: bool) -> Value {
    let state = SAME_CONTAINER_ID.to_owned() + "    state:\n" + &terminated("      ");
    let body = "{{ $message := `` }}\n{{ $reason := `` }}\nstatus:\n  phase: {{ if eq (int $code) \
                0 }}Succeeded{{ else }}Failed{{ end }}\n"
        .to_owned()
        + &conditions("False", "PodCompleted")
        + &containers(false, SAME_COUNT, &state);
    let code = if out_of_time { "137" } else { "143" };
    let late = jq(r#"(fate("termination-time") // "0s" | seconds) > grace | tostring"#);
    stage(
        "Pod",
        name,
        &[
            exists(".metadata.deletionTimestamp"),
            Is(".status.phase", &["Pending", "Running"]).into(),
            IsNot(&jq(r#"fate("termination-time")"#), &["never"]).into(),
            Is(&late, &[if out_of_time { "true" } else { "false" }]).into(),
        ],
        Some(&jq("killed | instant")),
        &status(&template(&[("code", "termination-exit-code", code)], &body)),
    )
}

/// Then the kubelet deletes it with grace 0; a finalizer still keeps the object.
fn pod_remove() -> Value {
    stage(
        "Pod",
        "pod-remove",
        &[
            exists(".metadata.deletionTimestamp"),
            Is(".status.phase", &["Succeeded", "Failed"]).into(),
            IsNot(".metadata.deletionGracePeriodSeconds | tostring", &["0"]).into(),
        ],
        None,
        &json!({"delete": true}),
    )
}

fn node(name: &str, when: &[Value], ready: bool) -> Value {
    let not_ready = r#"{{ if eq .type "Ready" }}
  - type: Ready
    status: "False"
    reason: KubeletNotReady
    message: not ready by annotation
    lastHeartbeatTime: {{ $now | Quote }}
    lastTransitionTime: {{ $now | Quote }}
  {{ else }}"#;
    let condition = r"
  - type: {{ .type | Quote }}
    status: {{ .status | Quote }}
    reason: {{ .reason | Quote }}
    message: {{ .message | Quote }}
    lastHeartbeatTime: {{ $now | Quote }}
    lastTransitionTime: {{ $now | Quote }}
";
    let body = if ready {
        condition.to_owned()
    } else {
        format!("{not_ready}{condition}  {{{{ end }}}}\n")
    };
    let text = format!(
        "{{{{ $now := Now }}}}\nstatus:\n  conditions:\n  {{{{ range NodeConditions }}}}\n  {body}  {{{{ end }}}}\n"
    );
    stage("Node", name, when, None, &status(&text))
}

/// All stages, as the documents of kwok's configuration file.
pub(crate) fn config() -> String {
    let annotated = format!(".metadata.annotations[{NOT_READY:?}]");
    let ready = r#".status.conditions[] | select(.type == "Ready") | .status"#;
    let options = json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        // One pod's write waits for few others, as it would with a kubelet per node.
        "options": {"podPlayStageParallelism": 16, "nodePlayStageParallelism": 8,
                    "nodeLeaseParallelism": 8, "podsOnNodeSyncParallelism": 8},
    });
    let documents = [
        options,
        node(
            "node-ready",
            &[
                IsNot(ready, &["True"]).into(),
                IsNot(&annotated, &["true"]).into(),
            ],
            true,
        ),
        node(
            "node-not-ready",
            &[
                IsNot(ready, &["False"]).into(),
                Is(&annotated, &["true"]).into(),
            ],
            false,
        ),
        pod_accept(),
        pod_run(),
        pod_finish(),
        pod_crash(),
        pod_restart(),
        pod_kill("pod-kill", false),
        pod_kill("pod-kill-out-of-time", true),
        pod_remove(),
    ];
    documents
        .map(|document| document.to_string())
        .join("\n---\n")
}
