//! Servers that are reached through a proxy, and those that are not.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::thread;

use super::desk::{Answer, command, desk, finish};

/// Runs the program with this proxy for `https`.
fn through(proxy: &TcpListener, without: &str, args: &[&str]) -> Answer {
    let desk = desk();
    let mut command = command(&desk.cluster, "default");
    let address = proxy.local_addr().unwrap();
    for name in ["https_proxy", "no_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    command
        .env("HTTPS_PROXY", format!("http://{address}"))
        .env("NO_PROXY", without)
        .args(args);
    finish(command, "")
}

#[test]
fn a_manifest_of_the_web_comes_through_the_proxy_and_an_api_server_of_this_machine_is_asked_itself()
{
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let listening = proxy.try_clone().unwrap();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listening.accept().unwrap();
        let mut bytes = [0; 4096];
        let length = stream.read(&mut bytes).unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    });
    let url = "https://manifests.invalid/a.yaml";
    let answer = through(&proxy, "", &["plan", "-f", url]).ended_with(1);
    assert!(answer.stderr.contains("manifests.invalid"), "{answer:?}");
    assert_eq!(
        asked.join().unwrap(),
        "CONNECT manifests.invalid:443 HTTP/1.1"
    );

    through(&proxy, "", &["get"]).ended_with(0);
    through(&proxy, "example.com,.invalid", &["plan", "-f", url]).ended_with(1);
    proxy.set_nonblocking(true).unwrap();
    let nobody = proxy.accept().unwrap_err();
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
}
