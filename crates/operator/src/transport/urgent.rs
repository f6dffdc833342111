//! Sockets for which a pause ends: what comes on them is wanted at once.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Those of the process.
pub(super) static SOCKETS: Sockets = Sockets(Mutex::new(Vec::new()));

#[derive(Debug)]
pub(super) struct Sockets(Mutex<Vec<Weak<Urgent>>>);

/// A socket for which a pause ends, for as long as this lives.
#[derive(Debug)]
pub(super) struct Urgent {
    socket: OwnedFd,
    wanted: AtomicBool,
}

impl Urgent {
    /// Whether anybody reads what comes.
    pub(super) fn set_wanted(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }
}

impl Sockets {
    pub(super) fn add(&self, socket: OwnedFd) -> Arc<Urgent> {
        let urgent = Arc::new(Urgent {
            socket,
            wanted: AtomicBool::new(true),
        });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&urgent));
        urgent
    }

    /// Blocks the thread until something wanted has come, so long at most.
    pub(super) fn pause(&self, longest: Duration) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let urgent: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
        drop(all);
        let wanted = urgent.iter().filter(|u| u.wanted.load(Ordering::Relaxed));
        let mut sockets: Vec<_> = wanted
            .map(|urgent| PollFd::new(&urgent.socket, PollFlags::IN))
            .collect();
        let Ok(longest) = Timespec::try_from(longest) else {
            return;
        };
        // A signal, and any error, makes for a shorter pause.
        let _ = poll(&mut sockets, Some(&longest));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    fn sockets() -> (Sockets, Arc<Urgent>, UnixStream) {
        let sockets = Sockets(Mutex::default());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let urgent = sockets.add(ours.into());
        (sockets, urgent, theirs)
    }

    #[test]
    fn a_pause_ends_with_something_wanted() {
        let (sockets, _urgent, mut theirs) = sockets();
        theirs.write_all(b"a Job").unwrap();
        sockets.pause(Duration::from_hours(1));
    }

    #[test]
    fn what_nobody_reads_now_and_a_closed_connection_leave_a_pause_alone() {
        for closed in [false, true] {
            let (sockets, urgent, mut theirs) = sockets();
            theirs.write_all(b"one of many").unwrap();
            urgent.set_wanted(false);
            if closed {
                drop(urgent);
            }
            let (begin, pause) = (Instant::now(), Duration::from_millis(20));
            sockets.pause(pause);
            assert!(begin.elapsed() >= pause, "closed: {closed}");
        }
    }
}
