//! A real Prometheus on loopback, for the metrics and the alert expressions.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, process};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::process::{Launch, Process};
use crate::{http, ports, tools, wait, watchdog};

const LIMIT: Duration = Duration::from_secs(30);
const EVERY: Duration = Duration::from_millis(100);

/// A running Prometheus; ends, and its data goes, with this value.
#[derive(Debug)]
pub struct Prometheus {
    port: u16,
    dir: PathBuf,
    process: Process,
}

impl Prometheus {
    /// Starts Prometheus with this configuration (`global`, `scrape_configs` with static targets;
    /// no `rule_files`) and these rule files, each a YAML text with `groups:`. Builds it first if
    /// need be. A mistake in the configuration or a rule is an error that quotes Prometheus.
    pub fn start(config_yaml: &str, rules: &[&str]) -> Result<Self> {
        let program = tools::prometheus()?;
        let port = ports::free(1)?[0];
        let dir = env::temp_dir().join(format!("carillon-prometheus-{}-{port}", process::id()));
        watchdog::guard_directory(&dir)?;
        fs::create_dir_all(dir.join("rules"))?;
        for (index, rule) in rules.iter().enumerate() {
            fs::write(dir.join(format!("rules/{index}.yaml")), rule)?;
        }
        let path = dir.join("prometheus.yaml");
        fs::write(
            &path,
            format!("{config_yaml}\nrule_files: [\"rules/*.yaml\"]\n"),
        )?;
        let process = Launch::new("prometheus", program, dir.join("prometheus.log"))
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .start()?;
        let prometheus = Self { port, dir, process };
        let ready = || {
            ensure!(
                prometheus.process.is_alive(),
                "Prometheus ended: {}",
                prometheus.process.log_tail(5)
            );
            let answer = http::get(port, "/-/ready");
            Ok(answer
                .is_ok_and(|answer| answer.status == 200)
                .then_some(()))
        };
        wait::until("Prometheus is ready", LIMIT, EVERY, ready, || {
            prometheus.process.log_tail(5)
        })?;
        Ok(prometheus)
    }

    /// The port it serves on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An instant query; gives the response's `data`, so `data["result"]` is the vector.
    pub fn query(&self, promql: &str) -> Result<Value> {
        self.api(&format!(
            "/api/v1/query?query={}",
            http::percent_encode(promql)
        ))
        .with_context(|| format!("query {promql:?}"))
    }

    /// Asks until the result is not empty.
    pub fn query_until_some(&self, promql: &str, limit: Duration) -> Result<Value> {
        let probe = || {
            let data = self.query(promql)?;
            let some = data["result"]
                .as_array()
                .is_some_and(|result| !result.is_empty());
            Ok(some.then_some(data))
        };
        let targets = || {
            format!(
                "Targets: {}",
                self.api("/api/v1/targets").unwrap_or_default()
            )
        };
        wait::until(
            &format!("{promql:?} has a result"),
            limit,
            EVERY * 3,
            probe,
            targets,
        )
    }

    /// The rule groups that were loaded: `data["groups"]`.
    pub fn rules(&self) -> Result<Value> {
        self.api("/api/v1/rules")
    }

    fn api(&self, path: &str) -> Result<Value> {
        let answer = http::get(self.port, path)?;
        let mut body: Value = serde_json::from_str(&answer.body)
            .with_context(|| format!("Prometheus answered {} with no JSON", answer.status))?;
        if body["status"] != "success" {
            bail!(
                "Prometheus refused it: {}",
                body["error"].as_str().unwrap_or("no reason")
            );
        }
        Ok(body["data"].take())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if let Err(error) = self.process.kill() {
            eprintln!("testbed: {error:#}");
        }
        let _ = fs::remove_dir_all(&self.dir);
        let _ = watchdog::release_directory(&self.dir);
    }
}
