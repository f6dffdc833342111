//! A connection that is read in gulps.
//!
//! Changes come one by one, each waking the process; a few milliseconds later there are several to
//! read at once, which costs a fraction of reading them one by one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::patience::Pausing;
use super::rounds::Member;

/// As much as is taken at once; TLS by itself asks the kernel for 4 kB.
const GULP: usize = 64 << 10;
/// Less than this is worth waiting for more.
const LITTLE: usize = GULP / 4;

/// Reads much at a time, and after it found little not again before the next round, or something was
/// written: who asks wants the answer.
pub(super) struct Gulps<T> {
    inner: T,
    member: Option<Member>,
    /// Empty: what is read passes through.
    buffer: Box<[u8]>,
    /// The unread part of the buffer.
    begin: usize,
    end: usize,
    pausing: Option<(Pin<Box<Sleep>>, Pausing)>,
}

impl<T> Gulps<T> {
    /// Without a part in rounds every read is the caller's.
    pub(super) fn new(inner: T, member: Option<Member>) -> Self {
        Self {
            inner,
            buffer: vec![0; member.as_ref().map_or(0, |_| GULP)].into(),
            member,
            begin: 0,
            end: 0,
            pausing: None,
        }
    }

    fn answer_soon(&mut self) {
        if let Some(member) = &mut self.member {
            member.answer_soon();
        }
        if let Some((pause, _)) = &mut self.pausing {
            pause.as_mut().reset(Instant::now());
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gulps<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(member) = &mut this.member else {
            return Pin::new(&mut this.inner).poll_read(cx, out);
        };
        if this.begin == this.end {
            let now = Instant::now();
            if let Some(next) = member.wait(now, cx.waker()) {
                let pause = || (Box::pin(sleep_until(next)), Pausing::begin());
                let (pause, _) = this.pausing.get_or_insert_with(pause);
                if pause.deadline() != next {
                    pause.as_mut().reset(next);
                }
                ready!(pause.as_mut().poll(cx));
            }
            this.pausing = None;
            let mut read = ReadBuf::new(&mut this.buffer);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            (this.begin, this.end) = (0, read.filled().len());
            member.has_read(now, this.end >= LITTLE);
        }
        let unread = &this.buffer[this.begin..this.end];
        let taken = unread.len().min(out.remaining());
        out.put_slice(&unread[..taken]);
        this.begin += taken;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gulps<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answer_soon();
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.answer_soon();
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<T: Connection> Connection for Gulps<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::sleep;

    use super::*;
    use crate::transport::rounds::Rounds;
    use crate::transport::{Pace, WATCH_PAUSE as PAUSE, gathering};

    fn connected_in(rounds: &Arc<Rounds>, pace: Pace) -> (Gulps<DuplexStream>, DuplexStream) {
        let (ours, theirs) = duplex(1 << 20);
        let member = Member::new(Arc::clone(rounds), pace, None);
        (Gulps::new(ours, Some(member)), theirs)
    }

    fn connected() -> (Gulps<DuplexStream>, DuplexStream) {
        connected_in(&Arc::new(Rounds::new(PAUSE)), Pace::Gathered)
    }

    /// What one read gives, and when.
    async fn read(gulps: &mut Gulps<DuplexStream>, begin: Instant) -> (usize, Duration) {
        let n = gulps.read(&mut vec![0; GULP]).await.unwrap();
        (n, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_soon_after_little_is_read_together_a_pause_later() {
        let (mut gulps, mut server) = connected();
        let begin = Instant::now();
        server.write_all(b"one").await.unwrap();
        assert_eq!(read(&mut gulps, begin).await, (3, Duration::ZERO));
        for more in [b"two", b"six"] {
            server.write_all(more).await.unwrap();
        }
        assert_eq!(read(&mut gulps, begin).await, (6, PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_pause_is_read_at_once() {
        let (mut gulps, mut server) = connected();
        let begin = Instant::now();
        for n in 0..3 {
            server.write_all(b"one").await.unwrap();
            assert_eq!(read(&mut gulps, begin).await, (3, 2 * n * PAUSE));
            sleep(2 * PAUSE).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_is_read_late_waits_no_longer_than_the_period_all_the_same() {
        let period = Duration::from_secs(1);
        for pause in 0..50 {
            let (mut gulps, mut server) = connected();
            server.write_all(b"one").await.unwrap();
            read(&mut gulps, Instant::now()).await;
            sleep(Duration::from_millis(pause)).await;
            let came = Instant::now();
            server.write_all(b"two").await.unwrap();
            let (_, late) = read(&mut gulps, came).await;
            let waited = late + gathering(period);
            assert!(waited <= period, "{waited:?} after {pause} ms");
            assert!(period <= waited + PAUSE, "{waited:?} after {pause} ms");
        }
        assert_eq!(gathering(Duration::ZERO), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn two_connections_are_read_at_the_same_moments() {
        let rounds = Arc::new(Rounds::new(PAUSE));
        for (pace, at) in [(Pace::Gathered, 5 * PAUSE / 2), (Pace::Prompt, 2 * PAUSE)] {
            let (mut pods, mut of_pods) = connected_in(&rounds, Pace::Gathered);
            let (mut jobs, mut of_jobs) = connected_in(&rounds, pace);
            let begin = Instant::now();
            for server in [&mut of_pods, &mut of_jobs] {
                server.write_all(b"list").await.unwrap();
            }
            for gulps in [&mut pods, &mut jobs] {
                assert_eq!(read(gulps, begin).await, (4, Duration::ZERO));
            }
            sleep(3 * PAUSE / 2).await;
            of_pods.write_all(b"a pod").await.unwrap();
            assert_eq!(read(&mut pods, begin).await, (5, 3 * PAUSE / 2));
            // The Job comes after a second pod, for which somebody waits already, and is not read before it.
            let another = tokio::spawn(async move { read(&mut pods, begin).await });
            sleep(PAUSE / 2).await;
            of_pods.write_all(b"another pod").await.unwrap();
            of_jobs.write_all(b"a Job").await.unwrap();
            assert_eq!(read(&mut jobs, begin).await, (5, at));
            assert_eq!(another.await.unwrap(), (11, at));
            sleep(PAUSE).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn much_is_read_without_a_pause() {
        let (mut gulps, mut server) = connected();
        server.write_all(&vec![0; 2 * GULP + 5]).await.unwrap();
        let begin = Instant::now();
        for expected in [GULP, GULP, 5] {
            assert_eq!(read(&mut gulps, begin).await, (expected, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_reader_gets_all_of_a_gulp_without_a_pause() {
        let (mut gulps, mut server) = connected();
        server.write_all(b"abc").await.unwrap();
        let begin = Instant::now();
        for byte in b"abc" {
            assert_eq!(gulps.read_u8().await.unwrap(), *byte);
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_read_at_once_also_by_one_who_waits_already() {
        let (gulps, mut server) = connected();
        let (mut reader, mut writer) = tokio::io::split(gulps);
        server.write_all(b"event").await.unwrap();
        let mut buffer = [0; 9];
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 5);
        let begin = Instant::now();
        let answer = tokio::spawn(async move { reader.read(&mut buffer).await.unwrap() });
        tokio::task::yield_now().await;
        writer.write_all(b"question").await.unwrap();
        server.write_all(b"answer").await.unwrap();
        assert_eq!(answer.await.unwrap(), 6);
        // tokio's timers are as fine as a millisecond.
        assert!(begin.elapsed() <= Duration::from_millis(1));
    }
}
