//! One node: it boots, runs, is cut off, reboots, and goes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use carillon_testbed::process::Identity;
use carillon_testbed::{Launch, Process, answer, tools, wait, watchdog};

use crate::cgroups;
use crate::containerd;
use crate::inside::{Inside, child, command};
use crate::kubelet::{self, About};
use crate::machine::program;
use crate::network::Network;

const LIMIT: Duration = Duration::from_mins(1);
const EVERY: Duration = Duration::from_millis(50);
/// What the kernel needs to end all processes of a node.
const END: Duration = Duration::from_secs(30);
/// The first process of a node.
const MACHINE: &str = include_str!("machine.sh");

/// A node. Dropping it ends everything in it, and removes its cgroups.
#[derive(Debug)]
pub struct Node {
    plan: Plan,
    network: Network,
    running: Option<Running>,
    ours: bool,
}

/// What a node is to be.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) index: u8,
    /// How many nodes there are: each knows the way to the pods of all.
    pub(crate) count: u8,
    pub(crate) dir: PathBuf,
    pub(crate) cgroup: String,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) programs: tools::Node,
}

/// The processes of a node that has booted.
#[derive(Debug)]
struct Running {
    /// Ends the node when it ends.
    unshare: Process,
    /// The first process of the node, by its pid here.
    machine: u32,
    containerd: Inside,
    kube_proxy: Inside,
    kubelet: Option<Inside>,
}

impl Node {
    /// Boots a node that knows these images, and does not wait until it is Ready.
    pub(crate) fn start(plan: Plan, network: &Network, images: &[PathBuf]) -> Result<Self> {
        fs::create_dir_all(&plan.dir)?;
        cgroups::create(&plan.cgroup)?;
        let mut node = Self {
            plan,
            network: Network::adopt(network.range),
            running: None,
            ours: true,
        };
        node.boot(images)?;
        Ok(node)
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Its files: logs of its programs, data of its containers.
    pub fn dir(&self) -> &Path {
        &self.plan.dir
    }

    /// Where a path below `/var/lib/kubelet` or `/var/log`, of which each node has its own, lies on this machine.
    pub fn own(&self, path: &str) -> PathBuf {
        self.plan.dir.join("own").join(path.trim_start_matches('/'))
    }

    /// Loads an image from a docker-archive.
    pub fn import(&self, archive: &Path) -> Result<()> {
        let mut import = command(self.running()?.machine, "ctr")?;
        import.args(["--namespace", "k8s.io", "images", "import"]);
        let done = answer(import.arg(archive)).map(drop);
        done.with_context(|| format!("{}: loading {}", self.name(), archive.display()))
    }

    /// Ends the kubelet. Containers go on.
    pub fn stop_kubelet(&mut self) -> Result<()> {
        match self.running_mut()?.kubelet.take() {
            Some(kubelet) => kubelet.stop(),
            None => Ok(()),
        }
    }

    /// Starts the kubelet again.
    pub fn start_kubelet(&mut self) -> Result<()> {
        let machine = self.running()?.machine;
        let kubelet = self.launch_kubelet(machine)?;
        self.running_mut()?.kubelet = Some(kubelet);
        Ok(())
    }

    /// Ends containerd and starts it again. Containers go on.
    pub fn restart_containerd(&mut self) -> Result<()> {
        let running = self.running()?;
        running.containerd.stop()?;
        let containerd = self.launch_containerd(running.machine)?;
        self.running_mut()?.containerd = containerd;
        Ok(())
    }

    /// From now on every packet from and to the node is lost.
    pub fn cut_off(&self) -> Result<()> {
        self.network.cut(self.plan.index)
    }

    /// Undoes [`Self::cut_off`].
    pub fn reconnect(&self) -> Result<()> {
        self.network.mend(self.plan.index)
    }

    /// Power off and on: every process of the node is killed at once, and it boots with another boot id.
    pub fn reboot(&mut self) -> Result<()> {
        self.power_off()?;
        self.boot(&[])
    }

    /// Kills every process of the node at once.
    pub fn power_off(&mut self) -> Result<()> {
        let Some(running) = self.running.take() else {
            return Ok(());
        };
        let machine = Identity::of(running.machine);
        running.unshare.kill()?;
        let ended = || Ok((!machine.is_some_and(Identity::is_alive)).then_some(()));
        let what = format!("{}: all processes have ended", self.plan.name);
        wait::until(&what, END, EVERY, ended, String::new)?;
        self.network.unplug(self.plan.index)
    }

    fn running(&self) -> Result<&Running> {
        let running = self.running.as_ref();
        running.with_context(|| format!("node {} is off", self.plan.name))
    }

    fn running_mut(&mut self) -> Result<&mut Running> {
        let running = self.running.as_mut();
        running.with_context(|| format!("node {} is off", self.plan.name))
    }

    fn boot(&mut self, images: &[PathBuf]) -> Result<()> {
        let Plan { name, dir, .. } = &self.plan;
        let ready = dir.join("ready");
        let _ = fs::remove_file(&ready);
        let script = dir.join("machine.sh");
        fs::write(&script, MACHINE)?;
        let unshare = Launch::new(name, program("unshare")?, dir.join("machine.log"))
            .args([
                "--mount",
                "--pid",
                "--net",
                "--ipc",
                "--uts",
                "--fork",
                "--kill-child",
            ])
            .args(["--mount-proc", "--propagation=private", "--", "/bin/sh"])
            .arg(&script)
            .arg(name)
            .arg(dir)
            .detached(true)
            .start()?;
        let what = format!("{name} has booted");
        let booted = || {
            ensure!(unshare.is_alive(), "{name}: {}", unshare.log_tail(5));
            Ok(ready.exists().then(|| child(unshare.pid())).flatten())
        };
        let machine = wait::until(&what, LIMIT, EVERY, booted, || unshare.log_tail(5))?;
        self.connect(machine)?;
        let containerd = self.launch_containerd(machine)?;
        let kube_proxy = self.launch(
            "kube-proxy",
            machine,
            &self.plan.programs.kube_proxy,
            &kubelet::proxy(&self.about()),
        )?;
        self.running = Some(Running {
            unshare,
            machine,
            containerd,
            kube_proxy,
            kubelet: None,
        });
        for image in images {
            self.import(image)?;
        }
        self.start_kubelet()
    }

    /// Gives the node its address, and the ways to everybody else.
    fn connect(&self, machine: u32) -> Result<()> {
        let Plan { index, count, .. } = self.plan;
        self.network.plug(index, machine)?;
        let range = self.network.range;
        let own = format!("{}/24", range.node(index));
        let ip = |args: &[&str]| answer(command(machine, "ip")?.args(args)).map(drop);
        ip(&["address", "add", &own, "dev", "eth0"])?;
        ip(&["link", "set", "eth0", "up"])?;
        ip(&["route", "add", "default", "via", &range.host().to_string()])?;
        for other in (0..count).filter(|other| *other != index) {
            let via = range.node(other).to_string();
            ip(&["route", "add", &range.pods(other), "via", &via])?;
        }
        Ok(())
    }

    fn launch_containerd(&self, machine: u32) -> Result<Inside> {
        let pods = self.network.range.pods(self.plan.index);
        let config = containerd::configure(&self.plan.dir, &pods)?;
        let args = ["--config".into(), config.into_os_string()];
        let containerd = self.launch("containerd", machine, &program("containerd")?, &args)?;
        let answers = || {
            ensure!(
                containerd.process().is_alive(),
                "containerd: {}",
                containerd.process().log_tail(5)
            );
            let version = answer(command(machine, "ctr")?.arg("version"));
            Ok(version.is_ok().then_some(()))
        };
        let hint = || containerd.process().log_tail(5);
        wait::until("containerd answers", LIMIT, EVERY, answers, hint)?;
        Ok(containerd)
    }

    fn launch_kubelet(&self, machine: u32) -> Result<Inside> {
        let args = kubelet::kubelet(&self.about())?;
        self.launch("kubelet", machine, &self.plan.programs.kubelet, &args)
    }

    fn launch(&self, name: &str, machine: u32, path: &Path, args: &[OsString]) -> Result<Inside> {
        let log = self.plan.dir.join(format!("{name}.log"));
        Inside::start(machine, name, path, args, &log)
    }

    fn about(&self) -> About<'_> {
        About {
            name: &self.plan.name,
            dir: &self.plan.dir,
            address: self.network.range.node(self.plan.index),
            dns: self.network.range.host(),
            cgroup: &self.plan.cgroup,
            kubeconfig: &self.plan.kubeconfig,
        }
    }

    /// The process that ends the node when it ends.
    pub(crate) fn identity(&self) -> Result<Identity> {
        Ok(self.running()?.unshare.identity())
    }

    /// Lets the node outlive this process.
    pub(crate) fn keep(mut self) -> Result<()> {
        self.ours = false;
        watchdog::release_cgroup(&self.plan.cgroup)?;
        let running = self.running.take().context("the node is off")?;
        running.containerd.release()?;
        running.kube_proxy.release()?;
        if let Some(kubelet) = running.kubelet {
            kubelet.release()?;
        }
        running.unshare.release().map(drop)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !self.ours {
            return;
        }
        let ended = self.power_off();
        if let Err(error) = ended.and_then(|()| remove_cgroup(&self.plan.cgroup)) {
            eprintln!("{error:#}");
        }
    }
}

/// Removes the cgroups of a node. The last processes may still be on their way out.
pub(crate) fn remove_cgroup(name: &str) -> Result<()> {
    let what = format!("the cgroups of {name} can be removed");
    let mut last = String::new();
    let removed = || match cgroups::remove(name) {
        Ok(()) => Ok(Some(())),
        Err(error) => {
            last = format!("{error:#}");
            Ok(None)
        }
    };
    let result = wait::until(&what, END, EVERY, removed, String::new);
    result.with_context(|| last)
}
