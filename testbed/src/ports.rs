//! Free TCP ports on loopback.

use std::fs;
use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Result, bail};

const LOWEST: u16 = 15_000;

/// Picks `count` different ports that nobody listens on now.
///
/// They lie below the kernel's range for outgoing connections. A server that is to be killed and
/// started again on its port needs that: in between, a client's reconnect could otherwise be given
/// that very port as its own, and then connect to itself.
/// Another process may still take one before its server binds it: callers start over on a clash.
pub fn free(count: usize) -> Result<Vec<u16>> {
    let end = outgoing_range_start().max(LOWEST + 1_000);
    let span = u32::from(end - LOWEST);
    let mut held = Vec::new();
    let mut found = Vec::new();
    for offset in 0..span {
        if found.len() == count {
            return Ok(found);
        }
        let port = LOWEST + ((seed().wrapping_add(offset)) % span) as u16;
        if found.contains(&port) {
            continue;
        }
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            held.push(listener);
            found.push(port);
        }
    }
    bail!("no {count} free ports on 127.0.0.1 between {LOWEST} and {end}; end what listens there")
}

/// Whether something could listen on `port` now.
pub fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// A different start for each process and call, so that two test binaries rarely meet.
fn seed() -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.subsec_nanos());
    process::id()
        .wrapping_mul(7_919)
        .wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed).wrapping_mul(104_729))
        .wrapping_add(now)
}

fn outgoing_range_start() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wait;

    #[test]
    fn ports_are_different_and_free() {
        let ports = free(8).expect("free ports");
        let mut unique = ports.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 8);
        // A test beside this one that forks holds our listeners until its child has executed.
        let all_free = || Ok(ports.iter().all(|port| is_free(*port)).then_some(()));
        let (limit, every) = (Duration::from_secs(10), Duration::from_millis(5));
        wait::until("the ports are free", limit, every, all_free, || {
            format!("{ports:?}")
        })
        .expect("free ports");
    }
}
