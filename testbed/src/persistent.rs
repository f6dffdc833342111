//! Clusters that outlive the command that started them, by name.
//!
//! Beside each cluster's data a state file holds its processes by pid and start time, so that a
//! later `down` ends exactly those, and never a stranger with a recycled pid.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::mem;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, Component, Config};
use crate::process::{Identity, Process};
use crate::{tools, watchdog};

/// What a process beside the cluster has to finish its work.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize, Deserialize)]
struct State {
    config: Config,
    etcd_port: u16,
    apiserver_port: u16,
    processes: Vec<(Component, Identity)>,
    /// What runs beside the control plane, and ends with the cluster.
    #[serde(default)]
    further: Vec<(String, Identity)>,
}

/// A named cluster, as found now.
#[derive(Debug)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Each component, its pid, and whether it runs.
    pub components: Vec<(Component, u32, bool)>,
    /// The same of what was kept beside it.
    pub further: Vec<(String, u32, bool)>,
    /// Path of the administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// The API server's URL.
    pub server: String,
}

impl Status {
    /// Whether all of it runs.
    pub fn is_up(&self) -> bool {
        let components = self.components.iter().map(|(_, _, alive)| *alive);
        let further = self.further.iter().map(|(_, _, alive)| *alive);
        components.chain(further).all(|alive| alive)
    }
}

/// A named cluster that still ends with this value, or with us.
#[derive(Debug)]
pub struct Pending {
    cluster: Cluster,
    _lock: File,
}

/// Starts a named cluster that stays only once it is told to.
pub fn start(config: &Config) -> Result<Pending> {
    let name = config.name.clone();
    let lock = lock(&name)?;
    if let Some(state) = read(&name)? {
        if state
            .processes
            .iter()
            .any(|(_, identity)| identity.is_alive())
        {
            bail!("cluster {name} is up already; `cargo xtask cluster down --name {name}` ends it");
        }
        for (process, identity) in state.further {
            Process::adopt(&process, identity, "").kill()?;
        }
        remove(&name)?;
    }
    let dir = data_dir(&name)?;
    // Left by a start that was killed: a complete one has a state file.
    let _ = fs::remove_dir_all(&dir);
    let cluster = Cluster::start_in(config, &dir, true)?;
    Ok(Pending {
        cluster,
        _lock: lock,
    })
}

impl Pending {
    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// From now on the cluster stays, and with it these processes, until [`down`].
    pub fn keep(mut self, further: Vec<Process>) -> Result<Status> {
        let cluster = &mut self.cluster;
        let name = cluster.config.name.clone();
        let processes = mem::take(&mut *cluster.processes());
        let identities = processes
            .iter()
            .map(|(component, process)| (*component, process.identity()));
        let named = |process: &Process| (process.name().to_owned(), process.identity());
        let state = State {
            config: cluster.config.clone(),
            etcd_port: cluster.etcd_port,
            apiserver_port: cluster.apiserver_port,
            processes: identities.collect(),
            further: further.iter().map(named).collect(),
        };
        fs::write(state_file(&name)?, serde_json::to_string_pretty(&state)?)
            .with_context(|| format!("writing the state of cluster {name}"))?;
        for process in processes.into_values().chain(further) {
            process.release()?;
        }
        watchdog::release_directory(&cluster.dir)?;
        cluster.ours = false;
        status(&name)
    }
}

/// Ends a cluster and removes its data. An error when there is none of that name.
pub fn down(name: &str) -> Result<()> {
    let _lock = lock(name)?;
    let cluster = attach(name)?;
    let state = read(name)?.with_context(|| missing(name))?;
    let further = state.further.into_iter().map(|(process, identity)| {
        let log = cluster.dir.join(format!("{process}.log"));
        Process::adopt(&process, identity, log)
    });
    for process in further {
        process.stop(GRACE)?;
    }
    cluster.stop()?;
    remove(name)
}

/// What runs of a cluster. An error when there is none of that name.
pub fn status(name: &str) -> Result<Status> {
    let state = read(name)?.with_context(|| missing(name))?;
    let one = |(component, identity): &(Component, Identity)| {
        (*component, identity.pid, identity.is_alive())
    };
    let other = |(process, identity): &(String, Identity)| {
        (process.clone(), identity.pid, identity.is_alive())
    };
    Ok(Status {
        name: name.to_owned(),
        components: state.processes.iter().map(one).collect(),
        further: state.further.iter().map(other).collect(),
        kubeconfig: data_dir(name)?.join("admin.kubeconfig"),
        server: format!("https://{}:{}", state.config.address, state.apiserver_port),
    })
}

/// The names of all clusters that were brought up, sorted.
pub fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(clusters_dir()?)? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// A handle on a cluster that another process brought up. Dropping it leaves the cluster up.
pub fn attach(name: &str) -> Result<Cluster> {
    let state = read(name)?.with_context(|| missing(name))?;
    let dir = data_dir(name)?;
    let adopt = |(component, identity): (Component, Identity)| {
        let log = dir.join(format!("{}.log", component.name()));
        (component, Process::adopt(component.name(), identity, log))
    };
    let processes: BTreeMap<_, _> = state.processes.into_iter().map(adopt).collect();
    Ok(Cluster {
        config: state.config,
        dir,
        etcd_port: state.etcd_port,
        apiserver_port: state.apiserver_port,
        tools: tools::control_plane()?,
        processes: Mutex::new(processes),
        next_node: Mutex::default(),
        ours: false,
    })
}

fn missing(name: &str) -> String {
    let others = names().unwrap_or_default();
    let others = if others.is_empty() {
        "none".to_owned()
    } else {
        others.join(", ")
    };
    format!(
        "no cluster {name} (there are: {others}); \
         `cargo xtask cluster up --name {name}` starts one"
    )
}

fn read(name: &str) -> Result<Option<State>> {
    let path = state_file(name)?;
    if !path.exists() {
        return Ok(None);
    }
    let what = || format!("the state of cluster {name}, {}", path.display());
    let text = fs::read_to_string(&path).with_context(what)?;
    serde_json::from_str(&text).map(Some).with_context(what)
}

fn remove(name: &str) -> Result<()> {
    let dir = data_dir(name)?;
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    fs::remove_file(state_file(name)?).with_context(|| format!("forgetting cluster {name}"))
}

fn lock(name: &str) -> Result<File> {
    let path = clusters_dir()?.join(format!("{name}.lock"));
    let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
    if file.try_lock().is_err() {
        bail!("another process is bringing cluster {name} up or down; wait for it");
    }
    Ok(file)
}

fn clusters_dir() -> Result<PathBuf> {
    let dir = tools::cache_dir()?.join("clusters");
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    Ok(dir)
}

fn data_dir(name: &str) -> Result<PathBuf> {
    Ok(clusters_dir()?.join(name))
}

fn state_file(name: &str) -> Result<PathBuf> {
    Ok(clusters_dir()?.join(format!("{name}.json")))
}
