//! A proxy before the API server that kills its client at a chosen write, or breaks all its connections.
//!
//! The client speaks plain HTTP/1.1 to it and brings its own credentials. Watches are streamed. Each
//! connection carries one request, so nothing is pooled that a fault could leave half used.

pub(crate) mod message;

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use self::message::{Head, Request};
use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::kubeconfig;

const CONNECT: Duration = Duration::from_secs(10);

/// Where in the life of a write its client dies.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Point {
    /// The API server never hears of the write.
    BeforeSend,
    /// It is applied, and the client never hears of it.
    ReplyLost,
    /// It is applied, and the reply was given to the client.
    AfterReply,
}

impl Point {
    /// All, in the order of a write's life.
    pub const ALL: [Self; 3] = [Self::BeforeSend, Self::ReplyLost, Self::AfterReply];
}

/// A fault that happens once.
pub struct Fault {
    /// At which write, from 1 on; see [`Seen::write`].
    pub write: usize,
    /// Where in its life.
    pub point: Point,
    /// Ends the client. Returns when it is gone.
    pub kill: Box<dyn FnOnce() + Send>,
}

/// A request that came through.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Counts writes. `None` for reads, dry runs, and writes of leases and events.
    pub write: Option<usize>,
    /// HTTP method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The API server's answer, once there is one.
    pub code: Option<u16>,
}

/// A running proxy. It ends, with its connections, with this value.
pub struct FaultProxy {
    clients: Clients,
    kubeconfig: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: u16,
    tls: Arc<ClientConfig>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    writes: usize,
    fault: Option<Fault>,
    /// Place in the record of the write at which the fault happened.
    fired: Option<usize>,
    connections: Vec<TcpStream>,
}

impl FaultProxy {
    /// Starts a proxy before a cluster's API server, on a port of its own. `name` is that of the
    /// kubeconfig file.
    pub fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        let certificate = cluster.dir().join("certs/apiserver.crt");
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("a port for the proxy")?;
        let port = listener.local_addr()?.port();
        let admin = fs::read_to_string(cluster.kubeconfig())?;
        let admin: serde_json::Value = serde_json::from_str(&admin)?;
        let token = admin["users"][0]["user"]["token"].as_str();
        let kubeconfig = cluster.dir().join(format!("{name}.kubeconfig"));
        let text = kubeconfig::render(
            name,
            &format!("http://127.0.0.1:{port}"),
            &fs::read(&certificate)?,
            token.context("the administrator has no token")?,
        );
        crate::cluster::write_secret(&kubeconfig, &text)?;
        let shared = Arc::new(Shared {
            upstream: cluster.apiserver_port,
            tls: Arc::new(trusting(&certificate)?),
            state: Mutex::default(),
        });
        let clients = Clients::serve(listener, Arc::clone(&shared), Shared::serve)?;
        Ok(Self {
            clients,
            kubeconfig,
            shared,
        })
    }

    /// A kubeconfig with an administrator's rights that leads here.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    /// The fault to come; writes are counted from here on.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.shared.state();
        state.writes = 0;
        state.fault = Some(fault);
    }

    /// The write at which the fault happened.
    pub fn fired(&self) -> Option<Seen> {
        let state = self.shared.state();
        Some(state.seen[state.fired?].clone())
    }

    /// Writes since the start, or since the last [`arm`](Self::arm).
    pub fn writes(&self) -> usize {
        self.shared.state().writes
    }

    /// Ends all connections that are open: watches break, and what is under way has no answer. New ones are taken.
    pub fn break_connections(&self) {
        self.shared.hang_up();
    }

    /// All requests, in the order they came.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.clients.close();
        self.shared.hang_up();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections, of both sides.
    fn hang_up(&self) {
        for connection in self.state().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Keeps a handle of a connection for as long as the other handle is in use.
    fn keep(&self, connection: &TcpStream) -> Result<()> {
        connection.set_nodelay(true)?;
        let mut state = self.state();
        state.connections.retain(|open| open.peer_addr().is_ok());
        state.connections.push(connection.try_clone()?);
        Ok(())
    }

    fn serve(&self, mut client: TcpStream) -> Result<()> {
        self.keep(&client)?;
        let served = self.answer(&mut client);
        // Other handles of it would keep it open.
        let _ = client.shutdown(Shutdown::Both);
        served
    }

    fn answer(&self, client: &mut TcpStream) -> Result<()> {
        let Some(request) = Request::read(&mut BufReader::new(client.try_clone()?))? else {
            return Ok(());
        };
        let (index, fault) = self.count(&request);
        match fault {
            None => self.exchange(&request, index, client),
            Some((Point::BeforeSend, kill)) => {
                kill();
                Ok(())
            }
            Some((Point::ReplyLost, kill)) => {
                let exchanged = self.exchange(&request, index, &mut std::io::sink());
                kill();
                exchanged
            }
            Some((Point::AfterReply, kill)) => {
                let exchanged = self.exchange(&request, index, client);
                kill();
                exchanged
            }
        }
    }

    /// Notes a request, and gives its place in the record and what is to go wrong with it.
    #[allow(clippy::type_complexity)] // named once, used once
    fn count(&self, request: &Request) -> (usize, Option<(Point, Box<dyn FnOnce() + Send>)>) {
        let mut state = self.state();
        let write = request.is_write().then(|| {
            state.writes += 1;
            state.writes
        });
        let index = state.seen.len();
        state.seen.push(Seen {
            write,
            method: request.head.method.clone(),
            path: request.head.path.clone(),
            code: None,
        });
        let due = state.fault.take_if(|fault| Some(fault.write) == write);
        let due = due.map(|fault| {
            state.fired = Some(index);
            (fault.point, fault.kill)
        });
        (index, due)
    }

    /// Sends a request on, and gives the reply to `client` as it comes.
    fn exchange(&self, request: &Request, index: usize, client: &mut impl Write) -> Result<()> {
        let address = ([127, 0, 0, 1], self.upstream).into();
        let tcp = TcpStream::connect_timeout(&address, CONNECT)?;
        self.keep(&tcp)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let session = ClientConnection::new(Arc::clone(&self.tls), name)?;
        let mut server = StreamOwned::new(session, tcp);
        server.write_all(&request.to_bytes())?;
        server.flush()?;
        let mut server = BufReader::new(server);
        let head = Head::read(&mut server)?.context("no reply")?;
        self.state().seen[index].code = head.code();
        client.write_all(&head.to_bytes())?;
        client.flush()?;
        let mut buffer = [0; 16 * 1024];
        loop {
            // The server closes after the reply, some without a word.
            let Ok(length @ 1..) = server.read(&mut buffer) else {
                return Ok(());
            };
            client.write_all(&buffer[..length])?;
            client.flush()?;
        }
    }
}

fn trusting(certificate: &std::path::Path) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let what = || format!("reading {}", certificate.display());
    for one in CertificateDer::pem_file_iter(certificate).with_context(what)? {
        roots.add(one.with_context(what)?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS versions")?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
