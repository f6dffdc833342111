//! When sockets are read: a little late, and many at a time.
//!
//! To wake up for a change or a reply costs as much as to read it. So a thread that has nothing left to do waits for
//! the end of a window before it looks at its sockets, and then reads all of them. What one watch tells may rest on
//! what another told before it: a Job on the pods that it is to adopt. Both are read at the same moment.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::Notify;

use super::pace::Pace;

/// How late a change may be read.
pub const WINDOW: Duration = Duration::from_millis(50);

/// With fewer requests under way someone may be waiting for a reply.
const FEW: usize = 8;
/// The part of the time that a request usually takes for which replies are gathered. As large is the part of those
/// under way whose replies are there after it, so that the API server never runs out of requests.
const PART: u32 = 4;
/// What takes as long hangs.
const LONG: Duration = Duration::from_millis(200);
/// How slowly what is usual changes.
const INERTIA: u32 = 16;
/// So many changes of prompt watches end a window early; each window gives one back.
const EARLY: u32 = 8;
/// Who reads so much will find more.
const MUCH: usize = 16 << 10;
/// How long the rest is waited for on a thread that always has something to do.
const LONGEST_WORK: Duration = Duration::from_millis(20);

/// How long changes are gathered from when the first of them was read, so that none of them waits for
/// longer than `period`, however late it was read.
pub const fn gathering(period: Duration) -> Duration {
    period.saturating_sub(WINDOW)
}

/// The window of one thread; clones are the same. The default is none: all is read at once.
#[derive(Clone, Debug, Default)]
pub struct BatchWindow(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The runtime calls [`BatchWindow::park`].
    parks: bool,
    /// When something of a watch was read last.
    read: Option<Instant>,
    /// What a request usually takes.
    usual: Duration,
    connections: BTreeMap<u64, Socket>,
    number: u64,
    early: u32,
    /// When `early` was counted last.
    counted: Option<Instant>,
    /// How many wait for [`BatchWindow::idle`].
    waiting: usize,
}

/// What is known of a connection.
#[derive(Debug)]
struct Socket {
    /// Of its own: the connection may be closed meanwhile.
    descriptor: OwnedFd,
    pace: Option<Pace>,
    /// When a request was sent that has no reply yet.
    asked: Option<Instant>,
    /// There was much to read, or the begin of a reply, so that there is more.
    has_more: bool,
    /// A request waits for room to be written.
    is_full: bool,
}

/// What a thread did that had nothing left to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pause {
    /// It looked at its sockets at once.
    None,
    /// It waited until the window was over.
    Whole,
    /// Something ended the window.
    Early,
}

/// A connection, for as long as this lives.
#[derive(Debug)]
pub(super) struct Connection {
    window: BatchWindow,
    number: u64,
}

impl BatchWindow {
    /// The window of a runtime that calls [`BatchWindow::park`] before it waits for its sockets.
    pub(super) fn of_runtime() -> Self {
        let window = Self::default();
        window.state().parks = true;
        window
    }

    /// Adds a connection for watches of a pace, or for requests. `None` where nothing is late.
    pub(super) fn add(&self, socket: impl AsFd, pace: Option<Pace>) -> Option<Connection> {
        let mut state = self.state();
        if !state.parks {
            return None;
        }
        let descriptor = socket.as_fd().try_clone_to_owned().ok()?;
        state.number += 1;
        let number = state.number;
        let socket = Socket {
            descriptor,
            pace,
            asked: None,
            has_more: false,
            is_full: false,
        };
        state.connections.insert(number, socket);
        drop(state);
        Some(Connection {
            window: self.clone(),
            number,
        })
    }

    /// Waits until the thread has nothing left to do but to wait for sockets and timers: what was read is in the caches
    /// then. It comes there piece by piece, through tasks that take turns.
    pub async fn idle(&self) {
        if !self.state().parks {
            return;
        }
        let _waiting = Waiting::begin(self);
        // A timer that runs out is no error: what is planned too early is planned again.
        let _ = tokio::time::timeout(LONGEST_WORK, self.0.idle.notified()).await;
    }

    /// To be called when nothing is left to do. Blocks the thread until the window is over or something has come that
    /// is wanted at once; not at all if somebody has waited for this.
    pub(super) fn park(&self, now: Instant) -> Pause {
        self.0.idle.notify_waiters();
        let mut state = self.state();
        if state.waiting > 0 {
            return Pause::None;
        }
        let under_way = state.under_way(now);
        let since = state.read.map(|read| now.saturating_duration_since(read));
        let longest = pause(under_way, state.usual, since);
        let timeout = Timespec::try_from(longest).ok();
        let Some(timeout) = timeout.filter(|_| !longest.is_zero()) else {
            return Pause::None;
        };
        state.count_early(now);
        let all = state.connections.values();
        let (awaited, others): (Vec<_>, Vec<_>) =
            all.partition(|socket| under_way < FEW && socket.is_awaited());
        let is_prompt = |socket: &&Socket| state.early > 0 && socket.pace == Some(Pace::Prompt);
        let prompt = others.into_iter().filter(is_prompt);
        let first_prompt = awaited.len();
        let sockets = awaited.into_iter().chain(prompt);
        let mut wanted: Vec<_> = sockets.map(Socket::wanted).collect();
        // A signal, and any error, makes for a shorter pause.
        if poll(&mut wanted, Some(&timeout)).unwrap_or(0) == 0 {
            return Pause::Whole;
        }
        let mut prompt = wanted[first_prompt..].iter();
        let users_waited = prompt.any(|socket| !socket.revents().is_empty());
        drop(wanted);
        state.early -= u32::from(users_waited);
        Pause::Early
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Requests under way, but those that hang: nothing can be gathered for them.
    fn under_way(&self, now: Instant) -> usize {
        let all = self.connections.values();
        let asked = all.filter_map(|socket| socket.asked);
        let lately = asked.filter(|asked| now.saturating_duration_since(*asked) < LONG);
        lately.count()
    }

    /// Each window that has passed gives one back.
    fn count_early(&mut self, now: Instant) {
        let windows = self.counted.map_or(EARLY, |counted| {
            let passed = now.saturating_duration_since(counted);
            let windows = passed.as_millis() / WINDOW.as_millis();
            u32::try_from(windows).unwrap_or(EARLY)
        });
        if windows > 0 {
            self.early = self.early.saturating_add(windows).min(EARLY);
            self.counted = Some(now);
        }
    }
}

impl Socket {
    /// Whether what comes is wanted at once. On a connection for requests nothing else comes.
    fn is_awaited(&self) -> bool {
        self.pace.is_none() || self.asked.is_some() || self.has_more
    }

    /// What ends a pause.
    fn wanted(&self) -> PollFd<'_> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.is_full);
        PollFd::new(&self.descriptor, flags)
    }
}

impl Connection {
    /// A request was sent, or a part of it; `is_full`: the rest has to wait.
    pub(super) fn has_asked(&self, is_full: bool, now: Instant) {
        if let Some(socket) = self.window.state().connections.get_mut(&self.number) {
            socket.asked.get_or_insert(now);
            socket.is_full = is_full;
        }
    }

    /// So many bytes were read.
    pub(super) fn has_read(&self, bytes: usize, now: Instant) {
        let state = &mut *self.window.state();
        let Some(socket) = state.connections.get_mut(&self.number) else {
            return;
        };
        let asked = socket.asked.take();
        socket.has_more = bytes >= MUCH || asked.is_some();
        if let Some(asked) = asked {
            let took = now.saturating_duration_since(asked);
            state.usual = usual(state.usual, took);
        }
        if socket.pace.is_some() {
            state.read = Some(now);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.window.state().connections.remove(&self.number);
    }
}

/// Somebody waits for the thread to have nothing left to do, for as long as this lives.
struct Waiting<'a>(&'a BatchWindow);

impl<'a> Waiting<'a> {
    fn begin(window: &'a BatchWindow) -> Self {
        window.state().waiting += 1;
        Self(window)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

/// How long the thread waits, `since` something of a watch was read last.
fn pause(under_way: usize, usual: Duration, since: Option<Duration>) -> Duration {
    if under_way >= FEW {
        return (usual / PART).min(WINDOW);
    }
    since.map_or(Duration::ZERO, |since| WINDOW.saturating_sub(since))
}

/// What a request usually takes, after one that took so long. A single slow one changes little.
fn usual(known: Duration, took: Duration) -> Duration {
    let took = took.min(LONG);
    (known * (INERTIA - 1) + took) / INERTIA
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    use tokio::sync::mpsc;
    use tokio::task::{spawn_local, yield_now};

    use super::*;
    use crate::transport::runtime;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A connection on which nothing has come, and its other side.
    fn connection(window: &BatchWindow, pace: Option<Pace>) -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (window.add(ours, pace).unwrap(), theirs)
    }

    #[test]
    fn changes_are_gathered_and_replies_to_many_requests_for_a_part_of_what_one_takes() {
        for (under_way, usual, since, expected) in [
            (0, millis(80), None, Duration::ZERO),
            (0, millis(80), Some(millis(10)), millis(40)),
            (7, millis(80), Some(millis(10)), millis(40)),
            (7, millis(80), Some(millis(60)), Duration::ZERO),
            (8, millis(80), Some(millis(60)), millis(20)),
            (64, Duration::ZERO, Some(millis(10)), Duration::ZERO),
            (64, Duration::MAX, None, WINDOW),
        ] {
            let got = pause(under_way, usual, since);
            assert_eq!(got, expected, "{under_way} {usual:?} {since:?}");
        }
    }

    #[test]
    fn what_is_usual_follows_the_requests_and_not_a_single_one() {
        let after = |known, took: &[Duration]| took.iter().fold(known, |u, took| usual(u, *took));
        let many = [millis(16); 100];
        assert!(after(Duration::ZERO, &many) > millis(15));
        assert!(after(millis(400), &many) < millis(17));
        assert!(after(millis(16), &[Duration::from_mins(1)]) <= millis(40));
    }

    #[test]
    fn the_first_change_after_a_quiet_time_does_not_wait_and_the_next_ones_wait_for_the_window() {
        let window = BatchWindow::of_runtime();
        let (pods, mut server) = connection(&window, Some(Pace::Gathered));
        let now = Instant::now();
        assert_eq!(window.park(now), Pause::None);
        pods.has_read(100, now);
        server.write_all(b"a pod").unwrap();
        assert_eq!(window.park(now), Pause::Whole);
        assert_eq!(window.park(now + WINDOW), Pause::None);
    }

    #[test]
    fn what_is_asked_for_and_the_rest_of_a_long_reply_end_a_window() {
        let window = BatchWindow::of_runtime();
        let (list, mut server) = connection(&window, Some(Pace::Gathered));
        let now = Instant::now();
        server.write_all(b"a page").unwrap();
        list.has_read(100, now);
        assert_eq!(window.park(now), Pause::Whole);
        list.has_asked(false, now);
        assert_eq!(window.park(now), Pause::Early);
        // The begin of the reply; then much of it.
        for bytes in [100, MUCH] {
            list.has_read(bytes, now);
            assert_eq!(window.park(now), Pause::Early);
        }
        list.has_read(MUCH - 1, now);
        assert_eq!(window.park(now), Pause::Whole);
    }

    #[test]
    fn replies_to_many_requests_are_gathered() {
        let window = BatchWindow::of_runtime();
        let all: Vec<_> = (0..FEW).map(|_| connection(&window, None)).collect();
        let now = Instant::now();
        for _ in 0..100 {
            all[0].0.has_asked(false, now);
            all[0].0.has_read(1, now + WINDOW);
        }
        for (request, _) in &all {
            assert_eq!(window.park(now), Pause::None);
            request.has_asked(false, now);
        }
        let mut server = &all[0].1;
        server.write_all(b"a reply").unwrap();
        assert_eq!(window.park(now), Pause::Whole);
    }

    #[test]
    fn what_users_change_ends_a_window_and_a_storm_of_it_is_gathered() {
        let window = BatchWindow::of_runtime();
        let (jobs, mut server) = connection(&window, Some(Pace::Prompt));
        server.write_all(b"many Jobs").unwrap();
        let parked = |now| {
            jobs.has_read(100, now);
            window.park(now)
        };
        let begin = Instant::now();
        for _ in 0..EARLY {
            assert_eq!(parked(begin), Pause::Early);
        }
        assert_eq!(parked(begin), Pause::Whole);
        assert_eq!(parked(begin + WINDOW), Pause::Early);
        assert_eq!(parked(begin + WINDOW), Pause::Whole);
    }

    #[test]
    fn replies_do_not_use_up_what_ends_a_window_for_users() {
        let window = BatchWindow::of_runtime();
        let (jobs, mut users) = connection(&window, Some(Pace::Prompt));
        let (request, mut server) = connection(&window, None);
        let now = Instant::now();
        server.write_all(b"a reply").unwrap();
        for _ in 0..2 * EARLY {
            request.has_asked(false, now);
            jobs.has_read(100, now);
            assert_eq!(window.park(now), Pause::Early);
        }
        drop((request, server));
        users.write_all(b"a Job").unwrap();
        assert_eq!(window.park(now), Pause::Early);
    }

    #[test]
    fn a_request_that_waits_for_room_ends_a_window_when_there_is_some() {
        let window = BatchWindow::of_runtime();
        let (watch, _server) = connection(&window, Some(Pace::Gathered));
        let now = Instant::now();
        watch.has_read(100, now);
        watch.has_asked(false, now);
        assert_eq!(window.park(now), Pause::Whole);
        watch.has_asked(true, now);
        assert_eq!(window.park(now), Pause::Early);
    }

    #[test]
    fn a_closed_connection_is_forgotten() {
        let window = BatchWindow::of_runtime();
        let (jobs, _server) = connection(&window, Some(Pace::Prompt));
        let now = Instant::now();
        jobs.has_asked(false, now);
        assert_eq!(window.state().under_way(now), 1);
        assert_eq!(window.state().under_way(now + LONG), 0);
        drop(jobs);
        assert_eq!(window.state().connections.len(), 0);
    }

    #[test]
    fn what_came_in_many_pieces_is_there_before_anything_is_planned() {
        let (runtime, window) = runtime().unwrap();
        runtime.block_on(async {
            let (send, mut pieces) = mpsc::channel(1);
            spawn_local(async move {
                for piece in 0..100 {
                    send.send(piece).await.unwrap();
                }
            });
            let taken_in = Rc::new(Cell::new(0));
            let count = Rc::clone(&taken_in);
            spawn_local(async move {
                while pieces.recv().await.is_some() {
                    count.set(count.get() + 1);
                }
            });
            window.idle().await;
            assert_eq!(taken_in.get(), 100);
        });
    }

    #[test]
    fn a_thread_that_always_has_something_to_do_keeps_nobody_waiting() {
        let (runtime, window) = runtime().unwrap();
        runtime.block_on(async {
            spawn_local(async {
                loop {
                    yield_now().await;
                }
            });
            window.idle().await;
        });
    }

    #[tokio::test]
    async fn where_no_runtime_parks_nobody_waits() {
        let window = BatchWindow::default();
        let mut wait = std::pin::pin!(window.idle());
        assert!(futures::poll!(&mut wait).is_ready());
    }
}
