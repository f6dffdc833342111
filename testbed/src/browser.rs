//! A real browser for pages: chromium, driven by its chromedriver. Both come from packages of the machine.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process};

use anyhow::{Context, Result, ensure};

use crate::process::{Launch, Process};
use crate::{ports, wait, watchdog};

/// Packages of Debian that have it.
pub const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];

const LIMIT: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(10);

/// A chromedriver on loopback. It and its browsers end with this value.
#[derive(Debug)]
pub struct Driver {
    port: u16,
    dir: PathBuf,
    process: Process,
}

/// Whether the machine has browser and driver.
pub fn is_there() -> bool {
    programs().is_ok()
}

fn programs() -> Result<(PathBuf, PathBuf)> {
    let find = |name: &str| {
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path)
            .map(|dir| dir.join(name))
            .find(|file| file.is_file());
        let install = PACKAGES.join(" ");
        found.with_context(|| format!("no {name} in PATH; on Debian: apt-get install {install}"))
    };
    Ok((find("chromium")?, find("chromedriver")?))
}

impl Driver {
    /// Starts a driver.
    pub fn start() -> Result<Self> {
        let (_, driver) = programs()?;
        let port = ports::free(1)?[0];
        let dir = env::temp_dir().join(format!("carillon-browser-{}-{port}", process::id()));
        watchdog::guard_directory(&dir)?;
        fs::create_dir_all(&dir)?;
        let process = Launch::new("chromedriver", driver, dir.join("chromedriver.log"))
            .arg(format!("--port={port}"))
            .env("HOME", &dir)
            .env("TMPDIR", &dir)
            .start()?;
        let driver = Self { port, dir, process };
        let ready = || {
            let (alive, log) = (driver.process.is_alive(), driver.process.log_tail(5));
            ensure!(alive, "chromedriver ended: {log}");
            // It speaks no HTTP/1.0, as our own client does.
            let answers = TcpStream::connect(("127.0.0.1", port));
            Ok(answers.is_ok().then_some(()))
        };
        let log = || driver.process.log_tail(5);
        wait::until("chromedriver answers", LIMIT, EVERY, ready, log)?;
        Ok(driver)
    }

    /// Where it is driven.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where it may leave files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Arguments for a browser that asks nobody but this machine.
    pub fn arguments(&self) -> Vec<String> {
        let fixed = [
            "--headless=new",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--force-device-scale-factor=1",
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            // Its sandbox refuses to run as root, as which tests may run; pages are our own.
            "--no-sandbox",
        ];
        let mut arguments: Vec<String> = fixed.iter().map(ToString::to_string).collect();
        arguments.push(format!(
            "--user-data-dir={}",
            self.dir.join("profile").display()
        ));
        arguments
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It ends its browsers when it is asked to end.
        let _ = self.process.terminate(GRACE);
        let _ = fs::remove_dir_all(&self.dir);
    }
}
