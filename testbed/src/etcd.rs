//! Every change that etcd has stored, through its HTTP gateway. Compaction is off on a test cluster.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::{base64, http};

/// A zero byte in base64: as start and end of a range it stands for all keys. Kubernetes' lie below
/// `/registry/`, but each revision has to be among the changes, or we would wait for the last.
const ALL: &str = "AA==";
/// etcd has everything at hand; a silence this long is the end of it.
const SILENCE: Duration = Duration::from_mins(1);

/// An object that is to be stored, as etcd is asked to.
#[derive(Debug)]
pub struct Put(String);

impl Put {
    /// `key` is what follows `/registry/`, such as `pods/NAMESPACE/NAME`.
    pub fn new(key: &str, object: &Value) -> Self {
        let key = base64::encode(format!("/registry/{key}").as_bytes());
        let value = base64::encode(object.to_string().as_bytes());
        Self(json!({"key": key, "value": value}).to_string())
    }
}

impl Cluster {
    /// Stores an object past the API server and all its rules, which costs next to nothing. The API server tells
    /// whoever watches.
    pub fn put_stored(&self, put: &Put) -> Result<()> {
        let answer = http::post(self.etcd_port(), "/v3/kv/put", &put.0)?;
        ensure!(answer.status == 200, "not stored: {}", answer.body);
        Ok(())
    }

    /// etcd's revision now.
    pub fn revision(&self) -> Result<u64> {
        let range = json!({"key": ALL, "range_end": ALL, "count_only": true});
        let answer = http::post(self.etcd_port(), "/v3/kv/range", &range.to_string())?;
        let answer: Value = serde_json::from_str(&answer.body).context("etcd's answer")?;
        let revision = answer["header"]["revision"].as_str();
        revision
            .and_then(|revision| revision.parse().ok())
            .with_context(|| format!("etcd told no revision: {answer}"))
    }

    /// Gives every change from the first revision up to `last` to `take`: the lines of etcd's answer
    /// to a watch, which hold a number of events each, in order.
    pub fn watch_lines(&self, last: u64, mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let watch = json!({"create_request": {"key": ALL, "range_end": ALL, "start_revision": "1",
            "prev_kv": false, "fragment": true}});
        let body = watch.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.etcd_port()))?;
        stream.set_read_timeout(Some(SILENCE))?;
        // HTTP/1.0: an answer without chunks, one response a line.
        write!(
            stream,
            "POST /v3/watch HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        loop {
            line.clear();
            let length = reader
                .read_line(&mut line)
                .context("reading etcd's history")?;
            ensure!(length > 0, "etcd ended its history before revision {last}");
            let answer: Value = serde_json::from_str(&line).context("a line of etcd's")?;
            let response = &answer["result"];
            if response.is_null() || response["canceled"] == true {
                bail!("etcd gives no history: {answer}");
            }
            take(&line)?;
            let reached = response["events"].as_array().and_then(|events| {
                let kv = &events.last()?["kv"];
                kv["mod_revision"].as_str()?.parse::<u64>().ok()
            });
            if reached.is_some_and(|revision| revision >= last) {
                return Ok(());
            }
        }
    }

    /// Changes an object in etcd, past the API server and all its rules. `key` is what follows
    /// `/registry/`, such as `cronjobs/NAMESPACE/NAME`.
    pub fn edit_stored(&self, key: &str, edit: impl FnOnce(&mut Value)) -> Result<()> {
        let key = base64::encode(format!("/registry/{key}").as_bytes());
        let range = json!({"key": key}).to_string();
        let answer = http::post(self.etcd_port(), "/v3/kv/range", &range)?;
        let answer: Value = serde_json::from_str(&answer.body).context("etcd's answer")?;
        let stored = answer["kvs"][0]["value"].as_str();
        let stored = base64::decode(stored.context("no such object in etcd")?)?;
        let mut object: Value = serde_json::from_slice(&stored).context("not stored as JSON")?;
        edit(&mut object);
        let value = base64::encode(object.to_string().as_bytes());
        // Only over what was read: somebody may have written meanwhile.
        let unchanged = json!({"key": key, "target": "MOD", "result": "EQUAL",
            "mod_revision": answer["kvs"][0]["mod_revision"]});
        let put = json!({"request_put": {"key": key, "value": value}});
        let transaction = json!({"compare": [unchanged], "success": [put]}).to_string();
        let answer = http::post(self.etcd_port(), "/v3/kv/txn", &transaction)?;
        let answer: Value = serde_json::from_str(&answer.body).context("etcd's answer")?;
        ensure!(answer["succeeded"] == true, "not changed: {answer}");
        Ok(())
    }
}
