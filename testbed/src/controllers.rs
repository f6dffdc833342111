//! Single controllers of kube-controller-manager, each in a process of its own.

use anyhow::Result;

use crate::cluster::{Cluster, Component};
use crate::components::{Layout, controller_manager};
use crate::process::{Launch, Process};

impl Cluster {
    /// Starts one more kube-controller-manager, which runs nothing but `controller` and takes these
    /// further arguments. The cluster's own has to be told to leave that one out.
    pub fn start_controller(&self, controller: &str, args: &[String]) -> Result<Process> {
        let mut config = self.config.clone();
        config.controller_manager_args = vec![format!("--controllers={controller}")];
        config.controller_manager_args.extend_from_slice(args);
        let at = Layout {
            dir: &self.dir,
            etcd_port: self.etcd_port,
            apiserver_port: self.apiserver_port,
        };
        let log = self.dir.join(format!("{controller}.log"));
        let program = &self.tools.kube_controller_manager;
        Launch::new(Component::ControllerManager.name(), program, log)
            .args(controller_manager(&config, &at))
            .env("HOME", &self.dir)
            .start()
    }
}
