//! Child processes that log to a file, end with us, and are only ever signalled by their own pid.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, kill_process};
use serde::{Deserialize, Serialize};

use crate::watchdog;

pub use rustix::process::Signal;

const POLL: Duration = Duration::from_millis(10);
/// Linux reports CPU time to user space in hundredths of a second on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Waits until it is told to go, then becomes the program under the same pid.
/// So a process is known to the watchdog before it does anything: we cannot die in between.
const GATE: &str = r#"read -r go || exit 1; exec "$@" </dev/null"#;
/// The same for a process that outlives us, and our terminal.
const DETACHED_GATE: &str = r#"trap '' HUP; read -r go || exit 1; exec "$@" </dev/null"#;

/// What to start, and how. `Launch::new(…).arg(…).start()` gives a [`Process`].
#[derive(Clone, Debug)]
pub struct Launch {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    log: PathBuf,
    detached: bool,
}

impl Launch {
    /// `name` is for messages; both output streams are appended to `log`.
    pub fn new(name: &str, program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            log: log.into(),
            detached: false,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable; the others are inherited.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }

    /// The process is not to end with our terminal. It still ends with us until
    /// [`Process::release`].
    #[must_use]
    pub fn detached(mut self, detached: bool) -> Self {
        self.detached = detached;
        self
    }

    /// Starts the process in a process group of its own.
    pub fn start(&self) -> Result<Process> {
        let name = &self.name;
        let program = self.program.display();
        ensure!(self.program.is_file(), "{name}: {program} is not a file");
        let log = File::options().create(true).append(true).open(&self.log);
        let log = log.with_context(|| format!("{name}: opening log {}", self.log.display()))?;
        let gate = if self.detached { DETACHED_GATE } else { GATE };
        let mut child = Command::new("/bin/sh")
            .args(["-c", gate, "carillon-testbed-gate"])
            .arg(&self.program)
            .args(&self.args)
            .envs(&self.env)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("{name}: starting {program}"))?;
        let identity = Identity::of(child.id())
            .with_context(|| format!("{name}: ended before it was started"))?;
        watchdog::guard(identity.pid, identity.start_time)?;
        let mut gate = child.stdin.take().context("the gate has no pipe")?;
        gate.write_all(b"go\n")
            .with_context(|| format!("{name}: starting {program}"))?;
        Ok(Process {
            name: name.clone(),
            identity,
            log: self.log.clone(),
            child: Mutex::new(Some(child)),
            ours: true,
        })
    }
}

/// Names one process for good: a pid is used again, a pid with its start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot, from `/proc/PID/stat`.
    pub start_time: u64,
}

impl Identity {
    /// Of a process that is there now.
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self {
            pid,
            start_time: Stat::read(pid)?.start_time,
        })
    }

    /// Whether the process is there and not a zombie.
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid)
            .is_some_and(|stat| stat.start_time == self.start_time && stat.state != 'Z')
    }
}

/// CPU time and memory of a process, for benchmarks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// User and system CPU time so far.
    pub cpu_seconds: f64,
    /// Highest resident set so far.
    pub peak_rss_bytes: u64,
    /// Resident set now.
    pub rss_bytes: u64,
}

/// A running process. Dropping it kills it (SIGKILL) unless it was released.
#[derive(Debug)]
pub struct Process {
    name: String,
    identity: Identity,
    log: PathBuf,
    /// Absent when another process started it.
    child: Mutex<Option<Child>>,
    /// Whether dropping this value ends the process.
    ours: bool,
}

impl Process {
    /// A process that an earlier program released. It is not ended when the value is dropped.
    pub fn adopt(name: &str, identity: Identity, log: impl Into<PathBuf>) -> Self {
        let name = name.to_owned();
        Self {
            name,
            identity,
            log: log.into(),
            child: Mutex::new(None),
            ours: false,
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Process id and start time.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The name given at launch.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last `lines` lines of its output.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    /// Whether it runs (a stopped process does run).
    pub fn is_alive(&self) -> bool {
        self.reap();
        self.identity.is_alive()
    }

    /// Sends a signal; an error when the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let Identity { pid, .. } = self.identity;
        ensure!(
            self.is_alive(),
            "{} (pid {pid}) has ended: no signal sent",
            self.name
        );
        let raw = Pid::from_raw(pid.cast_signed()).context("pid 0")?;
        kill_process(raw, signal)
            .with_context(|| format!("sending {signal:?} to {} (pid {pid})", self.name))
    }

    /// Waits until it has ended; `Ok(None)` when it still runs after `limit`.
    /// The inner value is the exit status as text, such as `exit status: 1`.
    pub fn wait_exit(&self, limit: Duration) -> Result<Option<String>> {
        let start = Instant::now();
        loop {
            let exited = match self.child().as_mut() {
                Some(child) => child.try_wait()?.map(|status| status.to_string()),
                None => (!self.identity.is_alive()).then(|| "exit status unknown".to_owned()),
            };
            if let Some(status) = exited {
                watchdog::release(self.identity.pid, self.identity.start_time)?;
                return Ok(Some(status));
            }
            if start.elapsed() >= limit {
                return Ok(None);
            }
            sleep(POLL);
        }
    }

    /// SIGTERM, and SIGKILL when it still runs after `grace`. No error when it has ended already.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        if self.is_alive() {
            // It may end between the look and the signal.
            let _ = self.signal(Signal::TERM);
            let _ = self.signal(Signal::CONT);
        }
        if self.wait_exit(grace)?.is_none() {
            self.kill()?;
        }
        Ok(())
    }

    /// SIGTERM. An error when it still runs after `grace`.
    pub fn terminate(&self, grace: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        let ended = self.wait_exit(grace)?.is_some();
        ensure!(
            ended,
            "{} still runs {grace:?} after SIGTERM\n{}",
            self.name,
            self.log_tail(10)
        );
        Ok(())
    }

    /// SIGKILL, and waits until it is gone. No error when it has ended already.
    pub fn kill(&self) -> Result<()> {
        if self.is_alive() {
            let _ = self.signal(Signal::KILL);
        }
        match self.wait_exit(Duration::from_secs(10))? {
            Some(_) => Ok(()),
            None => bail!(
                "{} (pid {}) is still there 10s after SIGKILL",
                self.name,
                self.pid()
            ),
        }
    }

    /// Lets the process outlive us and this value.
    pub fn release(mut self) -> Result<Identity> {
        self.ours = false;
        watchdog::release(self.identity.pid, self.identity.start_time)?;
        Ok(self.identity)
    }

    /// CPU time and memory used so far.
    pub fn usage(&self) -> Result<Usage> {
        let pid = self.identity.pid;
        let what = || format!("{} (pid {pid}) has ended: no usage to read", self.name);
        ensure!(self.is_alive(), what());
        let stat = Stat::read(pid).with_context(what)?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).with_context(what)?;
        Ok(Usage {
            cpu_seconds: stat.cpu_ticks as f64 / TICKS_PER_SECOND,
            peak_rss_bytes: kilobytes(&status, "VmHWM:") * 1024,
            rss_bytes: kilobytes(&status, "VmRSS:") * 1024,
        })
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reap(&self) {
        if let Some(child) = self.child().as_mut() {
            let _ = child.try_wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = self.kill()
        {
            eprintln!("{error:#}");
        }
    }
}

/// The last `lines` lines of a file; empty when there is none.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

struct Stat {
    state: char,
    start_time: u64,
    cpu_ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// proc(5): the name is in parentheses and may hold anything; fields count from 3 after it.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index - 3)?.parse::<u64>().ok();
        Some(Self {
            state: fields.first()?.chars().next()?,
            start_time: number(22)?,
            cpu_ticks: number(14)? + number(15)?,
        })
    }
}

fn kilobytes(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    fn log(name: &str) -> PathBuf {
        env::temp_dir().join(format!(
            "carillon-process-{name}-{}.log",
            std::process::id()
        ))
    }

    fn shell(name: &str, script: &str) -> Process {
        Launch::new(name, "/bin/sh", log(name))
            .args(["-c", script])
            .start()
            .expect("sh starts")
    }

    #[test]
    fn the_stat_line_of_a_process_with_an_odd_name_is_read() {
        let line = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0 20 0 1 0 777 9 9";
        let stat = Stat::parse(line).expect("parsed");
        assert_eq!(
            (stat.state, stat.start_time, stat.cpu_ticks),
            ('S', 777, 123)
        );
    }

    #[test]
    fn output_goes_to_the_log_and_the_exit_status_is_told() {
        let process = shell("says", "echo hello; exit 3");
        let status = process.wait_exit(Duration::from_secs(5)).expect("waited");
        assert_eq!(status.as_deref(), Some("exit status: 3"));
        assert_eq!(process.log_tail(5), "hello");
        assert!(
            process.signal(Signal::TERM).is_err(),
            "a signal to the dead is an error"
        );
        fs::remove_file(process.log()).expect("log removed");
    }

    #[test]
    fn dropping_a_process_ends_it_even_when_it_ignores_sigterm() {
        let process = shell("stubborn", "trap '' TERM; while :; do sleep 0.05; done");
        let identity = process.identity();
        process.stop(Duration::from_millis(100)).expect("stopped");
        assert!(!identity.is_alive());
        let process = shell("dropped", "sleep 1000");
        let identity = process.identity();
        assert!(identity.is_alive());
        drop(process);
        assert!(!identity.is_alive());
        let _ = fs::remove_file(log("stubborn"));
        let _ = fs::remove_file(log("dropped"));
    }

    #[test]
    fn a_recycled_pid_is_not_the_same_process() {
        let process = shell("identity", "sleep 1000");
        let identity = process.identity();
        let other = Identity {
            start_time: identity.start_time + 1,
            ..identity
        };
        assert!(identity.is_alive() && !other.is_alive());
        let adopted = Process::adopt("adopted", other, log("identity"));
        assert!(
            adopted.signal(Signal::KILL).is_err(),
            "a stranger is not signalled"
        );
        assert!(process.is_alive());
        let _ = fs::remove_file(log("identity"));
    }
}
