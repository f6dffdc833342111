//! What people and their files give to the plugin, as strange bytes (`cargo xtask fuzz`).

use carillon_fuzz::{check, check_within};
use carillon_plan::view::{cron_job, daemon_set, read};

use crate::manifest::objects;
use crate::names::{cron_name, set_name};
use crate::wait::duration;

const MANIFEST: &[u8] = b"apiVersion: carillon.dev/v1alpha1
kind: BroadcastJob
metadata: {name: fix, annotations: {a: 'b'}}
spec:
  parallelism: 20%
  template: &t
    spec:
      restartPolicy: Never
      containers:
      - name: c
        args: [\"x\", |
          text
          ]
---
kind: List
items: [*t, {kind: CronJob, spec: {schedule: \"*/5 * * * *\"}}, 1, null]
";

/// Each alias is nine of the one before.
const LAUGHS: &[u8] = b"a: &a [l,l,l,l,l,l,l,l,l]
b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]
c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]
d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]
e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]
f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]
g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]
";

/// What the YAML parser keeps of anchors, which its own budgets limit.
const ANCHORS: u64 = 32 << 20;

#[test]
fn manifest() {
    check_within(ANCHORS, "manifest", &[MANIFEST, LAUGHS], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        for object in objects(&text).into_iter().flatten() {
            read::job(&object);
            cron_job::read::cron(&object);
            daemon_set::read::set(&object);
        }
    });
}

#[test]
fn words() {
    let samples: &[&[u8]] = &[
        b"ccj/report",
        b"cronjobs.batch/report",
        b"daemonset.apps/agent",
        b"1h30m",
        b"90s",
        b"PT5M",
    ];
    check("words", samples, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = duration(&text);
        if let Ok(cron) = cron_name(&text) {
            assert!(!cron.name.is_empty() && !cron.name.contains('/'));
        }
        if let Ok(set) = set_name(&text) {
            assert!(!set.name.is_empty() && !set.name.contains('/'));
        }
    });
}
