//! An API server of a few lines, and the plugin run against it.

// Each program of tests uses a part.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use serde_json::{Value, json};

/// Gives code and body for method, URI and body of a request.
pub(crate) type Answer = dyn Fn(&str, &str, &Value) -> (u16, Value) + Send + Sync;

/// Serves until the process ends; the port.
pub(crate) fn serve(answer: Arc<Answer>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = Arc::clone(&answer);
            thread::spawn(move || reply(&stream, &*answer));
        }
    });
    port
}

fn reply(mut stream: &TcpStream, answer: &Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let header = header.trim().to_ascii_lowercase();
        match header.strip_prefix("content-length:") {
            Some(value) => length = value.trim().parse().unwrap(),
            None if header.is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let mut words = first.split(' ');
    let (method, uri) = (words.next().unwrap(), words.next().unwrap());
    let (code, answer) = answer(method, uri, &body);
    let answer = answer.to_string();
    write!(
        stream,
        "HTTP/1.1 {code} So\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{answer}",
        answer.len()
    )
    .unwrap();
}

/// Objects as a list, in one page.
pub(crate) fn list(items: &[Value]) -> Value {
    json!({"metadata": {}, "items": items})
}

/// Writes a kubeconfig for the server of that port.
pub(crate) fn kubeconfig(folder: &Path, port: u16) -> PathBuf {
    let kubeconfig = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:{port}\"}}}}]\n\
         users: [{{name: u, user: {{}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u, namespace: ops}}}}]\n"
    );
    std::fs::write(&kubeconfig, text).unwrap();
    kubeconfig
}

/// Runs the plugin against the server of that port.
pub(crate) fn run(port: u16, args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-carillon"));
    command
        .env("KUBECONFIG", kubeconfig(folder.path(), port))
        .args(args);
    command.output().unwrap()
}
