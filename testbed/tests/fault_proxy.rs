//! A client that dies at a write: what the API server knows of it, and what the client. And connections that break.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use carillon_testbed::fault_proxy::{Fault, Point};
use carillon_testbed::{Cluster, Config, FaultProxy, wait};
use serde_json::{Value, json};

/// Sends a request through the proxy. (kubectl keeps its credentials to itself where there is no TLS.)
fn send(proxy: &FaultProxy, method: &str, path: &str, body: &str) -> Result<TcpStream> {
    let kubeconfig: Value = serde_json::from_str(&fs::read_to_string(proxy.kubeconfig())?)?;
    let text = |pointer| kubeconfig.pointer(pointer).and_then(Value::as_str);
    let server = text("/clusters/0/cluster/server").context("a server")?;
    let token = text("/users/0/user/token").context("a token")?;
    let address = server.strip_prefix("http://").context("plain HTTP")?;
    let length = body.len();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )?;
    Ok(stream)
}

/// Creates a ConfigMap through the proxy and gives the code of the answer.
fn create(proxy: &FaultProxy, name: &str) -> Result<Option<u16>> {
    let body = json!({"metadata": {"name": name}}).to_string();
    let path = "/api/v1/namespaces/default/configmaps";
    let mut stream = send(proxy, "POST", path, &body)?;
    let mut answer = String::new();
    // It may also end in a reset.
    let _ = stream.read_to_string(&mut answer);
    Ok(answer.split(' ').nth(1).and_then(|code| code.parse().ok()))
}

#[test]
fn a_write_is_applied_or_not_and_answered_or_not_as_its_fault_says() -> Result<()> {
    let cluster = Cluster::start(Config::new("proxy"))?;
    for (name, point, applied, answered) in [
        ("before", Point::BeforeSend, false, false),
        ("lost", Point::ReplyLost, true, false),
        ("after", Point::AfterReply, true, true),
    ] {
        let proxy = FaultProxy::start(&cluster, name)?;
        let killed = Arc::new(AtomicUsize::new(0));
        let kills = Arc::clone(&killed);
        proxy.arm(Fault {
            write: 2,
            point,
            kill: Box::new(move || {
                kills.fetch_add(1, Ordering::SeqCst);
            }),
        });
        assert_eq!(create(&proxy, &format!("{name}-first"))?, Some(201));
        assert_eq!(killed.load(Ordering::SeqCst), 0);
        assert_eq!(create(&proxy, name)?, answered.then_some(201));
        // The client has its reply a moment before it is killed.
        let dead = || Ok((killed.load(Ordering::SeqCst) == 1).then_some(()));
        let (limit, every) = (Duration::from_secs(30), Duration::from_millis(10));
        wait::until("the client is killed", limit, every, dead, String::new)?;
        let stored = cluster.kubectl(["get", "configmap", name])?;
        assert_eq!(stored.status.success(), applied, "{name}");
        let fired = proxy.fired().context("the fault happened")?;
        assert_eq!((fired.write, &*fired.method), (Some(2), "POST"));
        assert_eq!(fired.code, applied.then_some(201));
        assert_eq!(proxy.writes(), 2);
    }
    Ok(())
}

#[test]
fn connections_that_break_end_a_watch_and_no_later_request() -> Result<()> {
    let cluster = Cluster::start(Config::new("proxy-break"))?;
    let proxy = FaultProxy::start(&cluster, "break")?;
    let path = "/api/v1/namespaces/default/configmaps?watch=true";
    let mut watch = send(&proxy, "GET", path, "")?;
    watch.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut head = [0; 12];
    watch.read_exact(&mut head)?;
    assert_eq!(&head, b"HTTP/1.1 200");
    proxy.break_connections();
    // Both sides are told: it ends, or is reset, long before the read is given up.
    let ended = watch.read_to_end(&mut Vec::new());
    let given_up = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
    assert!(
        !ended.is_err_and(|error| given_up(&error)),
        "the watch goes on"
    );
    assert_eq!(create(&proxy, "later")?, Some(201));
    Ok(())
}
