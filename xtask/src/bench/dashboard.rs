//! The dashboard in a real browser: until something is seen, what is sent, and frames while much changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use carillon_testbed::carillon::{self, Profile, Program};
use carillon_testbed::process::Usage;
use carillon_testbed::{Audit, Cluster, Component, Config, Launch, Process, wait};
use serde::{Deserialize, Serialize};

use self::browser::{Browser, Used};
use self::scene::{NAMESPACE, Pods, Results, Scene};
use super::{machine, measured};
use crate::interrupt::Interrupt;

mod browser;
mod report;
mod scene;

const LIMIT: Duration = Duration::from_mins(3);
const EVERY: Duration = Duration::from_millis(50);
/// Between two writes of the storm.
const TICK: Duration = Duration::from_millis(20);
/// Between two writes of the status.
const TELL: Duration = Duration::from_millis(500);
/// The page as it stands still.
const STILL: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(super) struct Args {
    /// How many nodes
    #[arg(long, default_value_t = 10_000)]
    nodes: usize,
    /// How many nodes change in a second
    #[arg(long, default_value_t = 2000)]
    rate: usize,
    /// For how long they change, if there are nodes left
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Another build of kubectl-carillon to measure
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What a page says of itself: see `watched.js`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all(deserialize = "camelCase"))]
struct Told {
    /// Milliseconds until something was painted.
    first_paint: Option<f64>,
    /// Until all squares were.
    drawn: Option<f64>,
    /// Bytes of the page's files.
    assets: f64,
    /// Bytes of events, by name.
    bytes: BTreeMap<String, f64>,
    /// How many came.
    events: BTreeMap<String, usize>,
    /// Milliseconds that the page took for them.
    spent: BTreeMap<String, f64>,
    frames: usize,
    /// Milliseconds between two frames at most.
    longest: f64,
    /// Frames that came more than 50 ms after the one before.
    slow: usize,
    /// Milliseconds in which all this was counted.
    ms: f64,
}

/// A stretch of time.
#[derive(Debug, Serialize)]
struct Stretch {
    told: Told,
    seconds: f64,
    browser_cpu_seconds: f64,
    dashboard_cpu_seconds: f64,
    apiserver_cpu_seconds: f64,
    /// Of everything on this machine.
    machine_cpu_seconds: f64,
    /// Afterwards.
    heap_bytes: f64,
    tab_rss_bytes: u64,
    dashboard_rss_bytes: u64,
    dashboard_peak_bytes: u64,
}

/// One page.
#[derive(Debug, Serialize)]
struct Sample {
    kind: &'static str,
    /// The first reader of a dashboard that was just started.
    cold: Told,
    /// The page loaded again.
    warm: Told,
    still: Stretch,
    storm: Stretch,
    /// Nodes that have changed in the storm.
    changes: usize,
    /// In which the changes were written.
    written_seconds: f64,
    /// From the last change until the page shows it.
    shown_after_seconds: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    machine: String,
    nodes: usize,
    rate: usize,
    samples: Vec<Sample>,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let measure = |interrupt: &Interrupt| measure_all(args, interrupt);
    measured(measure, Report::print, args.json.as_deref())
}

fn measure_all(args: &Args, interrupt: &Interrupt) -> Result<Report> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => carillon::build(Program::Cli, Profile::Release)?,
    };
    interrupt.check()?;
    let mut config = Config::new("dashboard");
    config.controller_manager = false;
    config.scheduler = false;
    config.kwok = false;
    config.audit = Audit::Off;
    let cluster = Cluster::start(&config)?;
    carillon::apply_crds(&cluster)?;
    cluster.kubectl_ok(["create", "namespace", NAMESPACE])?;
    interrupt.check()?;
    eprintln!("registering {} nodes", args.nodes);
    let nodes = scene::nodes(&cluster, args.nodes)?;
    interrupt.check()?;
    let mut samples = Vec::new();
    let mut pods = Pods::create(&cluster, &nodes)?;
    samples.push(measure(&cluster, &program, &mut pods, (args, interrupt))?);
    let mut results = Results::create(&cluster, &nodes)?;
    samples.push(measure(
        &cluster,
        &program,
        &mut results,
        (args, interrupt),
    )?);
    Ok(Report {
        machine: machine::line(&cluster),
        nodes: args.nodes,
        rate: args.rate,
        samples,
    })
}

fn measure(
    cluster: &Cluster,
    program: &Path,
    scene: &mut dyn Scene,
    (args, interrupt): (&Args, &Interrupt),
) -> Result<Sample> {
    let kind = scene.kind();
    eprintln!("{kind}: {} nodes", args.nodes);
    let (dashboard, url) = dashboard(cluster, program, kind)?;
    let browser = Browser::start()?;
    let url = format!("{url}{}", scene.address());
    let cold = opened(&browser, &url)?;
    // A page of the same address but for what follows `#` would not be loaded again.
    browser.open("about:blank")?;
    let warm = opened(&browser, &url)?;
    shown(&browser, scene)?;
    interrupt.check()?;
    let meter = Meter::begin(cluster, &dashboard, &browser)?;
    sleep(STILL);
    let still = meter.end()?;
    interrupt.check()?;
    let meter = Meter::begin(cluster, &dashboard, &browser)?;
    let (changes, written_seconds) = storm(cluster, scene, args)?;
    let last = Instant::now();
    eprintln!("{kind}: {changes} changes in {written_seconds:.1} s");
    let storm = meter.end()?;
    shown(&browser, scene)?;
    Ok(Sample {
        kind,
        cold,
        warm,
        still,
        storm,
        changes,
        written_seconds,
        shown_after_seconds: last.elapsed().as_secs_f64(),
    })
}

/// A dashboard that was just started, and its address.
fn dashboard(cluster: &Cluster, program: &Path, kind: &str) -> Result<(Process, String)> {
    let log = cluster.dir().join(format!("dashboard-{kind}.log"));
    let dashboard = Launch::new("dashboard", program, &log)
        .arg("dashboard")
        .env("KUBECONFIG", cluster.kubeconfig())
        .start()?;
    let address = || {
        let log = dashboard.log_tail(5);
        let mut lines = log.lines();
        Ok(lines
            .find(|line| line.starts_with("http://"))
            .map(str::to_owned))
    };
    let log = || dashboard.log_tail(5);
    let url = wait::until("the dashboard's address", LIMIT, EVERY, address, log)?;
    Ok((dashboard, url))
}

/// Opens the page and waits until all squares are drawn.
fn opened(browser: &Browser, url: &str) -> Result<Told> {
    browser.open(url)?;
    let drawn = || {
        let drawn = browser.eval("window.bench?.drawn ?? null")?;
        Ok((!drawn.is_null()).then_some(()))
    };
    let says = || {
        let text = browser.eval("document.body.innerText.slice(0, 300)");
        text.map_or_else(|error| error.to_string(), |text| text.to_string())
    };
    wait::until("all squares are drawn", LIMIT, EVERY, drawn, says)?;
    told(browser)
}

fn told(browser: &Browser) -> Result<Told> {
    let told = browser.eval("bench.told()")?;
    serde_json::from_value(told).context("what the page tells of itself")
}

/// Waits until the page shows what is there.
fn shown(browser: &Browser, scene: &dyn Scene) -> Result<()> {
    let expected = scene.counts();
    let counts = || browser.eval("carillon.view.grid.counts()");
    let are_so = || Ok((counts()? == expected).then_some(()));
    let instead = || format!("expected {expected}, found {:?}", counts());
    wait::until(
        "the page shows what is there",
        LIMIT,
        EVERY,
        are_so,
        instead,
    )
}

/// Changes nodes at the rate that is asked for, or as fast as it goes.
fn storm(cluster: &Cluster, scene: &mut dyn Scene, args: &Args) -> Result<(usize, f64)> {
    let begin = Instant::now();
    let (mut changes, mut told) = (0, Instant::now());
    while begin.elapsed() < Duration::from_secs(args.seconds) {
        let due = (begin.elapsed().as_secs_f64() * args.rate as f64) as usize;
        let written = scene.change(cluster, due.saturating_sub(changes).max(1))?;
        if written == 0 {
            break;
        }
        changes += written;
        if told.elapsed() > TELL {
            scene.tell(cluster)?;
            told = Instant::now();
        }
        sleep(TICK);
    }
    scene.tell(cluster)?;
    Ok((changes, begin.elapsed().as_secs_f64()))
}

/// A stretch that has begun.
struct Meter<'m> {
    cluster: &'m Cluster,
    dashboard: &'m Process,
    browser: &'m Browser,
    begin: Instant,
    before: (Usage, Usage, Used, f64),
}

impl<'m> Meter<'m> {
    fn begin(cluster: &'m Cluster, dashboard: &'m Process, browser: &'m Browser) -> Result<Self> {
        browser.eval("bench.begin()")?;
        let meter = |before| Self {
            cluster,
            dashboard,
            browser,
            begin: Instant::now(),
            before,
        };
        Ok(meter((
            dashboard.usage()?,
            cluster.usage(Component::ApiServer)?,
            browser.used()?,
            machine::busy_seconds()?,
        )))
    }

    fn end(self) -> Result<Stretch> {
        let told = told(self.browser)?;
        let seconds = self.begin.elapsed().as_secs_f64();
        let (dashboard, apiserver, browser, machine) = self.before;
        let now = self.dashboard.usage()?;
        let spent = self.cluster.usage(Component::ApiServer)?.cpu_seconds - apiserver.cpu_seconds;
        let used = self.browser.used()?;
        Ok(Stretch {
            told,
            seconds,
            browser_cpu_seconds: used.cpu_seconds - browser.cpu_seconds,
            dashboard_cpu_seconds: now.cpu_seconds - dashboard.cpu_seconds,
            apiserver_cpu_seconds: spent,
            machine_cpu_seconds: machine::busy_seconds()? - machine,
            heap_bytes: self.browser.heap_bytes()?,
            tab_rss_bytes: used.rss_bytes,
            dashboard_rss_bytes: now.rss_bytes,
            dashboard_peak_bytes: now.peak_rss_bytes,
        })
    }
}
