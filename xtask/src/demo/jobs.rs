//! All BroadcastJobs of a namespace as they change, from `kubectl get --watch`.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use carillon_testbed::Cluster;
use serde_json::{Deserializer, Value};

/// A running watch. It ends with this value.
pub(crate) struct Jobs {
    kubectl: Child,
    changes: Receiver<Value>,
    /// The latest of each, by name.
    pub(crate) latest: BTreeMap<String, Value>,
}

impl Jobs {
    pub(crate) fn watch(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let mut kubectl = cluster
            .kubectl_command()
            .args([
                "get",
                "broadcastjobs",
                "-n",
                namespace,
                "-o",
                "json",
                "--watch",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("running kubectl")?;
        let stdout = kubectl.stdout.take().context("kubectl has no output")?;
        let (sender, changes) = mpsc::channel();
        thread::spawn(move || read(stdout, &sender));
        Ok(Self {
            kubectl,
            changes,
            latest: BTreeMap::new(),
        })
    }

    /// Waits up to `limit` for a change, takes in all that came, and gives their names.
    pub(crate) fn changed(&mut self, limit: Duration) -> Result<Vec<String>> {
        let first = match self.changes.recv_timeout(limit) {
            Ok(first) => first,
            Err(RecvTimeoutError::Timeout) => return Ok(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => bail!("kubectl's watch ended"),
        };
        let mut names = Vec::new();
        for job in [first].into_iter().chain(self.changes.try_iter()) {
            let name = job["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            self.latest.insert(name.clone(), job);
            names.push(name);
        }
        Ok(names)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

fn read(stdout: ChildStdout, sender: &mpsc::Sender<Value>) {
    for job in Deserializer::from_reader(BufReader::new(stdout))
        .into_iter()
        .map_while(Result::ok)
    {
        if sender.send(job).is_err() {
            return;
        }
    }
}
