//! Who has which address. A cluster has a number, and with it 10.N.0.0/16 for itself alone.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// The number of a cluster: the second byte of all its addresses.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) struct Range(pub(crate) u8);

impl Range {
    /// Those that are tried.
    pub(crate) const ALL: std::ops::RangeInclusive<u8> = 211..=239;

    /// All of it, for the check whether somebody else uses it.
    pub(crate) fn all(self) -> String {
        format!("10.{}.0.0/16", self.0)
    }

    /// Of this machine, where API server and DNS listen.
    pub(crate) fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.0, 0, 1)
    }

    /// Of a node.
    pub(crate) fn node(self, index: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, self.0, 0, 10 + index)
    }

    /// Of the pods of a node.
    pub(crate) fn pods(self, index: u8) -> String {
        format!("10.{}.{}.0/24", self.0, 1 + index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_a_cluster_share_an_address() {
        let range = Range(211);
        assert_eq!(range.host().to_string(), "10.211.0.1");
        assert_eq!(range.node(0).to_string(), "10.211.0.10");
        assert_eq!(range.pods(0), "10.211.1.0/24");
        assert_ne!(range.pods(0), range.pods(1));
    }
}
