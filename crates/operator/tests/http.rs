//! What the process serves, while others ask too much of it.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::{self, ThreadId},
    time::Duration,
};

use carillon_operator::{
    http::{self, Heartbeat, Limits, Server},
    metrics::Metrics,
    transport,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

/// Long enough for the slowest machine; nothing that works waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A thread that plans, and one that serves beside it.
struct Process {
    address: SocketAddr,
    planning: ThreadId,
    plans: UnboundedSender<mpsc::Sender<()>>,
    stuck: UnboundedSender<mpsc::Receiver<()>>,
}

impl Process {
    fn start(metrics: Arc<Metrics>, limits: Limits, longest_silence: Duration) -> Self {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            transport::runtime().unwrap().0.block_on(async move {
                let (plans, mut next_plan) = tokio::sync::mpsc::unbounded_channel();
                let (stuck, mut next_stuck) = tokio::sync::mpsc::unbounded_channel();
                let heartbeat = Heartbeat::new(longest_silence);
                tokio::task::spawn_local(heartbeat.clone().run());
                let planning = || vec![heartbeat.check()];
                let router = http::public(metrics, planning(), planning());
                let listener = http::bind("--http-address", (Ipv4Addr::LOCALHOST, 0).into());
                let listener = listener.unwrap();
                let address = listener.local_addr().unwrap();
                let _server: Server =
                    http::start(vec![(listener, router)], limits, CancellationToken::new()).unwrap();
                let planning = thread::current().id();
                let process = Self { address, planning, plans, stuck };
                tell.send(process).unwrap();
                loop {
                    tokio::select! {
                        Some(plan) = next_plan.recv() => { let _: Result<(), _> = mpsc::Sender::send(&plan, ()); }
                        Some(stuck) = next_stuck.recv() => { let _: Result<(), _> = mpsc::Receiver::recv(&stuck); }
                        else => return,
                    }
                }
            });
        });
        told.recv().unwrap()
    }

    /// Has something planned.
    fn plan(&self) {
        let (planned, wait) = mpsc::channel();
        self.plans.send(planned).unwrap();
        wait.recv_timeout(PATIENCE)
            .expect("the planning thread does not plan");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = self.connect();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: carillon\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        stream
    }

    /// The status of an answer, with its text.
    fn fetch(&self, path: &str) -> (u16, String) {
        answer(&mut self.ask(path))
    }
}

fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("no answer");
    let status = text.split(' ').nth(1).unwrap_or_default();
    (status.parse().unwrap_or_default(), text)
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Who measures, and how many at a time; nobody comes to an end before the gate is open.
#[derive(Debug, Default)]
struct Measuring {
    at_a_time: AtomicUsize,
    most: AtomicUsize,
    threads: Mutex<Vec<ThreadId>>,
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Measuring {
    fn measure(&self, began: &mpsc::Sender<()>) {
        let now = self.at_a_time.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.threads.lock().unwrap().push(thread::current().id());
        let _ = began.send(());
        let is_open = self.is_open.lock().unwrap();
        drop(
            self.opened
                .wait_while(is_open, |is_open| !*is_open)
                .unwrap(),
        );
        self.at_a_time.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn hundreds_of_scrapes_delay_neither_plans_nor_probes() {
    let measuring = Arc::new(Measuring::default());
    let metrics = Metrics::new().unwrap();
    let (begin, has_begun) = mpsc::channel();
    let begin = Mutex::new(begin);
    metrics.before_scrape({
        let measuring = Arc::clone(&measuring);
        move |_| {
            let begin = begin.lock().unwrap().clone();
            measuring.measure(&begin);
        }
    });
    let process = Process::start(metrics, Limits::default(), PATIENCE);
    let mut scrapes: Vec<_> = (0..200).map(|_| process.ask("/metrics")).collect();
    has_begun.recv_timeout(PATIENCE).unwrap();
    for _ in 0..50 {
        process.plan();
        assert_eq!(process.fetch("/livez").0, 200);
        assert_eq!(process.fetch("/readyz").0, 200);
    }
    *measuring.is_open.lock().unwrap() = true;
    measuring.opened.notify_all();
    for scrape in &mut scrapes {
        let (status, text) = answer(scrape);
        assert_eq!(status, 200);
        assert!(text.contains("carillon_build_info"));
    }
    assert!(measuring.most.load(Ordering::SeqCst) <= 2);
    let threads = measuring.threads.lock().unwrap();
    assert!(!threads.contains(&process.planning));
}

#[test]
fn connections_that_say_nothing_give_way_to_new_ones() {
    let hour = Duration::from_hours(1);
    let limits = Limits {
        connections: 32,
        header: hour,
        exchange: hour,
    };
    let process = Process::start(Metrics::new().unwrap(), limits, PATIENCE);
    let slow = |_| {
        let mut stream = process.connect();
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nconnection: close\r\nx: ")
            .unwrap();
        stream
    };
    let mut slow: Vec<_> = (0..100).map(slow).collect();
    // Each takes the place of the oldest.
    for _ in 0..10 {
        assert_eq!(process.fetch("/livez").0, 200);
        process.plan();
    }
    for stream in &mut slow[..100 - limits.connections] {
        assert!(is_closed(stream), "nothing is there, and nothing will be");
    }
    for stream in &mut slow[90..] {
        stream.write_all(b"y\r\n\r\n").unwrap();
        assert_eq!(answer(stream).0, 200);
    }
}

#[test]
fn a_planning_thread_that_is_stuck_is_neither_alive_nor_ready() {
    let longest = Duration::from_millis(300);
    let process = Process::start(Metrics::new().unwrap(), Limits::default(), longest);
    let until = |expected: u16| {
        for path in ["/livez", "/readyz"] {
            let begin = std::time::Instant::now();
            while process.fetch(path).0 != expected {
                assert!(begin.elapsed() < PATIENCE, "{path} is not {expected}");
                thread::sleep(Duration::from_millis(20));
            }
        }
    };
    until(200);
    let (free, stuck) = mpsc::channel();
    process.stuck.send(stuck).unwrap();
    until(503);
    let (_, text) = process.fetch("/livez");
    assert!(
        text.contains("[-]planning failed: the planning thread has not moved"),
        "{text}"
    );
    drop(free);
    until(200);
}
