//! A browser with one page, driven by the WebDriver protocol, and what its processes use.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use carillon_testbed::Process;
use carillon_testbed::browser::Driver;
use carillon_testbed::process::{Identity, Usage};
use serde_json::{Value, json};

const SCRIPT: &str = include_str!("watched.js");
const TIMEOUT: Duration = Duration::from_mins(2);

/// An open browser.
pub(super) struct Browser {
    driver: Driver,
    session: String,
}

/// What the browser's processes use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    /// Of all of them.
    pub(super) cpu_seconds: f64,
    /// Of the process that has the page.
    pub(super) rss_bytes: u64,
}

impl Browser {
    pub(super) fn start() -> Result<Self> {
        let driver = Driver::start()?;
        let mut arguments = driver.arguments();
        arguments.push("--window-size=1280,900".to_owned());
        let wanted = json!({"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}});
        let body = json!({ "capabilities": wanted });
        let answer = exchange(&driver, "POST", "/session", &body)?;
        let session = answer["sessionId"].as_str();
        let session = session.context("the driver gave no session")?.to_owned();
        let browser = Self { driver, session };
        browser.own("Performance.enable", &json!({}))?;
        let script = json!({ "source": SCRIPT });
        browser.own("Page.addScriptToEvaluateOnNewDocument", &script)?;
        Ok(browser)
    }

    pub(super) fn open(&self, url: &str) -> Result<()> {
        self.ask("url", &json!({ "url": url })).map(drop)
    }

    /// What an expression is in the page.
    pub(super) fn eval(&self, expression: &str) -> Result<Value> {
        let script = format!("return {expression};");
        self.ask("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Bytes of objects of the page's scripts, once the garbage is collected.
    pub(super) fn heap_bytes(&self) -> Result<f64> {
        self.own("HeapProfiler.collectGarbage", &json!({}))?;
        let metrics = self.own("Performance.getMetrics", &json!({}))?;
        let mut metrics = metrics["metrics"].as_array().into_iter().flatten();
        let used = metrics.find(|one| one["name"] == "JSHeapUsedSize");
        used.and_then(|one| one["value"].as_f64())
            .context("the browser does not tell its heap")
    }

    /// What its processes have used so far.
    pub(super) fn used(&self) -> Result<Used> {
        let dir = self.driver.dir().display().to_string();
        let processes = processes()?;
        let is_ours = |mut pid: u32| {
            // A renderer is a child of a child of the browser, which is told where its profile is.
            while let Some((parent, line)) = processes.get(&pid) {
                if line.contains(&dir) {
                    return true;
                }
                pid = *parent;
            }
            false
        };
        let mut used = Used {
            cpu_seconds: 0.0,
            rss_bytes: 0,
        };
        for (pid, (_, line)) in &processes {
            let Some(usage) = is_ours(*pid).then(|| usage(*pid)).flatten() else {
                continue;
            };
            used.cpu_seconds += usage.cpu_seconds;
            if line.contains("--type=renderer") {
                used.rss_bytes = used.rss_bytes.max(usage.rss_bytes);
            }
        }
        ensure!(used.rss_bytes > 0, "no process of the page was found");
        Ok(used)
    }

    /// A command of the browser's own protocol.
    fn own(&self, command: &str, parameters: &Value) -> Result<Value> {
        let body = json!({"cmd": command, "params": parameters});
        self.ask("goog/cdp/execute", &body)
    }

    fn ask(&self, path: &str, body: &Value) -> Result<Value> {
        let path = format!("/session/{}/{path}", self.session);
        exchange(&self.driver, "POST", &path, body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A driver that is told to end leaves its browser behind.
        let path = format!("/session/{}", self.session);
        let _ = exchange(&self.driver, "DELETE", &path, &Value::Null);
    }
}

/// The driver speaks HTTP/1.1 only, and says how long each answer is.
fn exchange(driver: &Driver, method: &str, path: &str, body: &Value) -> Result<Value> {
    let url = driver.url();
    let host = url.strip_prefix("http://").context("not http")?;
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut answer = vec![0; length];
    reader.read_exact(&mut answer)?;
    let mut answer: Value = serde_json::from_slice(&answer).context("the driver's answer")?;
    let error = &answer["value"]["error"];
    ensure!(
        error.is_null(),
        "{path}: {error} {}",
        answer["value"]["message"]
    );
    Ok(answer["value"].take())
}

/// Parent and command line of each process.
fn processes() -> Result<BTreeMap<u32, (u32, String)>> {
    let mut processes = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let pid = path
            .file_name()
            .and_then(|name| name.to_str()?.parse().ok());
        let Some(pid) = pid else { continue };
        // It may end meanwhile.
        let (Ok(line), Ok(status)) = (
            fs::read(path.join("cmdline")),
            fs::read_to_string(path.join("status")),
        ) else {
            continue;
        };
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        let parent = parent.and_then(|parent| parent.trim().parse().ok());
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        processes.insert(pid, (parent.unwrap_or(0), line));
    }
    Ok(processes)
}

fn usage(pid: u32) -> Option<Usage> {
    Process::adopt("browser", Identity::of(pid)?, "")
        .usage()
        .ok()
}
