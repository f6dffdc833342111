//! What a watch sends: a line per change, as it happens.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use jiff::Timestamp;
use tokio::time::{Instant, sleep, sleep_until};
use tower::BoxError;

use super::Server;
use super::watch::{Watch, gone};
use crate::changes::Changes;
use crate::client::faults::{Event, EventFate, Faults, Leg};

const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// A watch that is open.
pub(crate) struct Stream {
    server: Server,
    watch: Watch,
    faults: Arc<dyn Faults>,
    changes: Changes,
    lines: VecDeque<Result<Frame<Bytes>, BoxError>>,
    ends: Instant,
    bookmark: Instant,
    over: bool,
}

impl Stream {
    /// Opens it for a client whose connection has `faults`.
    pub(crate) fn open(server: Server, mut watch: Watch, faults: Arc<dyn Faults>) -> Self {
        let first = std::mem::take(&mut watch.first).into_iter();
        Self {
            changes: server.changes(),
            ends: Instant::now() + watch.life,
            bookmark: Instant::now() + BOOKMARK_EVERY,
            lines: first.map(|line| Ok(chunk(line))).collect(),
            over: watch.refused,
            server,
            watch,
            faults,
        }
    }

    /// The next piece; `None` when the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Option<Result<Frame<Bytes>, BoxError>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.over || Instant::now() >= self.ends {
                return None;
            }
            self.changes.see();
            if self.is_cut_off() {
                let error = io::Error::from(io::ErrorKind::ConnectionReset);
                self.over = true;
                return Some(Err(error.into()));
            }
            let next = self.watch.next_event(&self.server.state().store);
            if let Some((event, at)) = next {
                self.deliver(&event, at).await;
                continue;
            }
            if self.watch.bookmarks && Instant::now() >= self.bookmark {
                self.bookmark = Instant::now() + BOOKMARK_EVERY;
                if self.is_ahead() {
                    continue;
                }
                let line = self.watch.bookmark();
                self.lines.push_back(Ok(chunk(line)));
                continue;
            }
            tokio::select! {
                biased;
                () = self.changes.changed() => {}
                () = sleep_until(self.ends) => {}
                () = sleep_until(self.bookmark), if self.watch.bookmarks => {}
            }
        }
    }

    /// Whether the server was started anew since.
    fn is_cut_off(&self) -> bool {
        self.server.state().restored != self.watch.restored
    }

    /// A server that has not come as far as this watch has nothing to say.
    fn is_ahead(&self) -> bool {
        self.watch.position > self.server.revision()
    }

    async fn deliver(&mut self, event: &Event, at: Timestamp) {
        let call = &self.watch.call;
        let travelled = self.server.now().duration_since(at);
        let travelled = Duration::try_from(travelled).unwrap_or_default();
        let latency = self.faults.latency(call, Leg::Event);
        sleep(latency.saturating_sub(travelled)).await;
        let line = chunk(self.watch.line(event.kind, &event.object));
        match self.faults.on_event(call, event) {
            EventFate::Deliver => self.lines.push_back(Ok(line)),
            EventFate::Drop => {}
            EventFate::Twice => {
                let again = chunk(self.watch.line(event.kind, &event.object));
                self.lines.extend([Ok(line), Ok(again)]);
            }
            EventFate::Delay(time) => {
                sleep(time).await;
                self.lines.push_back(Ok(line));
            }
            EventFate::Hold(gate) => {
                gate.pass().await;
                self.lines.push_back(Ok(line));
            }
            EventFate::Close => self.over = true,
            EventFate::Reset => {
                let half = line.into_data().unwrap_or_default();
                let half = half.slice(..half.len() / 2);
                let error = io::Error::from(io::ErrorKind::ConnectionReset);
                self.lines
                    .extend([Ok(Frame::data(half)), Err(error.into())]);
                self.over = true;
            }
            EventFate::Gone => {
                let gone = gone("The resourceVersion for the provided watch is too old.");
                self.lines.push_back(Ok(chunk(gone)));
                self.over = true;
            }
        }
    }
}

fn chunk(line: String) -> Frame<Bytes> {
    Frame::data(line.into())
}
