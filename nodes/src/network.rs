//! The network of a cluster: a bridge of this machine, to which each node has a cable.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Result, bail};
use carillon_testbed::{answer, watchdog};

use crate::address::Range;
use crate::machine::program;

/// A bridge with an address of this machine. It is deleted with this value, unless it is kept.
#[derive(Debug)]
pub struct Network {
    bridge: String,
    pub(crate) range: Range,
    ours: bool,
}

impl Network {
    /// Makes one with addresses that nobody on this machine uses.
    pub fn create() -> Result<Self> {
        for number in Range::ALL {
            let range = Range(number);
            if is_used(range)? {
                continue;
            }
            let network = Self {
                bridge: format!("carillon{number}"),
                range,
                ours: true,
            };
            // Another one may be about to take the same.
            if ip(&["link", "add", &network.bridge, "type", "bridge"]).is_err() {
                let mut network = network;
                network.ours = false;
                continue;
            }
            watchdog::guard_link(&network.bridge)?;
            let address = format!("{}/24", range.host());
            ip(&["address", "add", &address, "dev", &network.bridge])?;
            ip(&["link", "set", &network.bridge, "up"])?;
            return Ok(network);
        }
        bail!(
            "every network from 10.{}.0.0/16 to 10.{}.0.0/16 is in use: end a cluster with `cargo xtask cluster down`",
            Range::ALL.start(),
            Range::ALL.end()
        )
    }

    /// One that another process made and kept.
    pub(crate) fn adopt(range: Range) -> Self {
        Self {
            bridge: format!("carillon{}", range.0),
            range,
            ours: false,
        }
    }

    /// The address of this machine in it.
    pub fn address(&self) -> Ipv4Addr {
        self.range.host()
    }

    /// Gives a node its cable: one end on the bridge, the other in the network namespace of the process `machine`, as
    /// its device `eth0`.
    pub(crate) fn plug(&self, index: u8, machine: u32) -> Result<()> {
        let cable = self.cable(index);
        let pid = machine.to_string();
        watchdog::guard_link(&cable)?;
        ip(&[
            "link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &pid,
        ])?;
        ip(&["link", "set", &cable, "master", &self.bridge, "up"])?;
        let pods = self.range.pods(index);
        let node = self.range.node(index).to_string();
        ip(&["route", "replace", &pods, "via", &node, "dev", &self.bridge])?;
        Ok(())
    }

    /// Takes a node's cable away. The kernel does so only when the last connection of the node has timed out.
    pub(crate) fn unplug(&self, index: u8) -> Result<()> {
        delete(&self.cable(index))
    }

    /// From now on every packet from and to the node is lost, and no end is told.
    pub(crate) fn cut(&self, index: u8) -> Result<()> {
        ip(&["link", "set", &self.cable(index), "nomaster"]).map(drop)
    }

    /// Undoes [`Self::cut`].
    pub(crate) fn mend(&self, index: u8) -> Result<()> {
        ip(&["link", "set", &self.cable(index), "master", &self.bridge]).map(drop)
    }

    fn cable(&self, index: u8) -> String {
        format!("cari{}-{index}", self.range.0)
    }

    /// Lets the bridge and so many cables outlive this process, until [`Self::delete`].
    pub(crate) fn keep(&mut self, cables: u8) -> Result<()> {
        self.ours = false;
        for index in 0..cables {
            watchdog::release_link(&self.cable(index))?;
        }
        watchdog::release_link(&self.bridge)
    }

    /// Deletes the bridge. No error when there is none.
    pub(crate) fn delete(&self) -> Result<()> {
        delete(&self.bridge)
    }
}

/// Whether this machine has a way to these addresses, besides that to everywhere.
fn is_used(range: Range) -> Result<bool> {
    let all = range.all();
    for how in ["root", "match"] {
        let routes = ip(&["-4", "route", "show", "table", "all", "to", how, &all])?;
        if routes.lines().any(|route| !route.starts_with("default")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn delete(link: &str) -> Result<()> {
    if ip(&["link", "show", link]).is_ok() {
        ip(&["link", "delete", link])?;
    }
    watchdog::release_link(link)
}

impl Drop for Network {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = self.delete()
        {
            eprintln!("{error:#}");
        }
    }
}

/// Runs `ip`, and gives what it prints.
fn ip(args: &[&str]) -> Result<String> {
    answer(Command::new(program("ip")?).args(args))
}
