//! Programs that run inside a node.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use carillon_testbed::process::Identity;
use carillon_testbed::{Launch, Process, wait};

use crate::machine::program;

const LIMIT: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_millis(20);
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// A program inside a node. It ends with the node, whatever becomes of this value.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Waits for the program outside.
    entry: Process,
    program: Process,
}

impl Inside {
    /// Starts a program in the namespaces of the process `machine`.
    pub(crate) fn start(
        machine: u32,
        name: &str,
        path: &Path,
        args: &[OsString],
        log: &Path,
    ) -> Result<Self> {
        let entry = Launch::new(name, program("nsenter")?, log)
            .args(enter(machine))
            .arg(path)
            .args(args.iter().cloned())
            .detached(true)
            .start()?;
        let what = format!("{name} has been started");
        let find = || Ok(child(entry.pid()).and_then(Identity::of));
        let hint = || entry.log_tail(5);
        let identity = wait::until(&what, LIMIT, EVERY, find, hint)?;
        let program = Process::adopt(name, identity, log);
        Ok(Self { entry, program })
    }

    /// The program: its pid here, its signals.
    pub(crate) fn process(&self) -> &Process {
        &self.program
    }

    /// Ends the program.
    pub(crate) fn stop(&self) -> Result<()> {
        self.program.stop(GRACE)?;
        self.entry.stop(GRACE)
    }

    /// Lets it outlive this process. It still ends with its node.
    pub(crate) fn release(self) -> Result<()> {
        self.entry.release().map(drop)
    }
}

/// A program in the namespaces of the process `machine`, to be run by the caller.
pub(crate) fn command(machine: u32, name: &str) -> Result<Command> {
    let mut command = Command::new(program("nsenter")?);
    command.args(enter(machine)).arg(program(name)?);
    Ok(command)
}

fn enter(machine: u32) -> [OsString; 8] {
    let target = format!("--target={machine}");
    [
        &*target, "--mount", "--pid", "--net", "--ipc", "--uts", "--wdns=/", "--",
    ]
    .map(OsString::from)
}

/// The first child of a process.
pub(crate) fn child(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
