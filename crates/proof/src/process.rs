//! One process of the operator: it can be killed or stopped between any two steps of its tasks.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::task::LocalSet;

/// A process; clones are the same one.
#[derive(Clone, Debug)]
pub struct Process(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    state: State,
    waker: Option<Waker>,
}

/// What a process is doing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// Its tasks run.
    Running,
    /// Stopped (SIGSTOP): its tasks do not run, its clocks go on.
    Stopped,
    /// Killed (SIGKILL): its tasks are gone.
    Killed,
    /// It ended by itself, and why.
    Exited(String),
}

impl Process {
    /// A process that runs `main` and whatever that spawns locally. The second part is what the
    /// simulated machine has to run; it ends with the process.
    pub fn start<F>(main: impl FnOnce(Self) -> F) -> (Self, Running)
    where
        F: Future<Output = ()> + 'static,
    {
        let process = Self(Arc::new(Mutex::new(Shared {
            state: State::Running,
            waker: None,
        })));
        let tasks = LocalSet::new();
        let main = main(process.clone());
        let over = process.clone();
        tasks.spawn_local(async move {
            main.await;
            over.set(State::Exited("main ended".to_owned()));
        });
        let running = Running {
            process: process.clone(),
            tasks: Some(tasks),
        };
        (process, running)
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Whether it is gone.
    pub fn is_over(&self) -> bool {
        matches!(self.state(), State::Killed | State::Exited(_))
    }

    /// SIGKILL.
    pub fn kill(&self) {
        self.set(State::Killed);
    }

    /// Ends as after `exit(1)`.
    pub fn exit(&self, why: &str) {
        self.set(State::Exited(why.to_owned()));
    }

    /// SIGSTOP.
    pub fn stop(&self) {
        self.set(State::Stopped);
    }

    /// SIGCONT.
    pub fn cont(&self) {
        let mut shared = self.lock();
        if shared.state == State::Stopped {
            shared.state = State::Running;
        }
        wake(shared);
    }

    fn set(&self, state: State) {
        let mut shared = self.lock();
        if !matches!(shared.state, State::Killed | State::Exited(_)) {
            shared.state = state;
        }
        wake(shared);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut shared: MutexGuard<'_, Shared>) {
    let waker = shared.waker.take();
    drop(shared);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The tasks of a process.
#[derive(Debug)]
pub struct Running {
    process: Process,
    tasks: Option<LocalSet>,
}

impl Future for Running {
    type Output = State;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<State> {
        self.process.lock().waker = Some(cx.waker().clone());
        if self.process.state() == State::Running
            && let Some(tasks) = &mut self.tasks
        {
            // The end of all tasks is noticed by the state that the first one sets.
            let _ = Pin::new(tasks).poll(cx);
        }
        let state = self.process.state();
        match state {
            State::Running | State::Stopped => Poll::Pending,
            State::Killed | State::Exited(_) => {
                self.tasks = None;
                Poll::Ready(state)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    fn ticking() -> (Process, Running, Rc<Cell<u32>>) {
        let ticks = Rc::new(Cell::new(0));
        let counted = ticks.clone();
        let (process, running) = Process::start(|_| async move {
            tokio::task::spawn_local(async move {
                loop {
                    counted.set(counted.get() + 1);
                    sleep(Duration::from_secs(1)).await;
                }
            });
            std::future::pending::<()>().await;
        });
        (process, running, ticks)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopped_process_does_nothing_until_it_is_continued_and_a_killed_one_never_again() {
        let machine = LocalSet::new();
        machine
            .run_until(async {
                let (process, running, ticks) = ticking();
                let end = tokio::task::spawn_local(running);
                sleep(Duration::from_millis(2500)).await;
                assert_eq!(ticks.get(), 3);
                process.stop();
                sleep(Duration::from_mins(1)).await;
                assert_eq!(ticks.get(), 3);
                process.cont();
                sleep(Duration::from_millis(1500)).await;
                assert_eq!(ticks.get(), 5);
                process.kill();
                assert_eq!(end.await.unwrap(), State::Killed);
                assert_eq!(Rc::strong_count(&ticks), 1, "its tasks are gone");
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_ends_with_its_main_task_or_when_a_task_of_it_says_so() {
        let machine = LocalSet::new();
        machine
            .run_until(async {
                let (_, running) = Process::start(|_| async {});
                assert!(matches!(running.await, State::Exited(_)));
                let (_, running) = Process::start(|process| async move {
                    process.exit("lost");
                    std::future::pending::<()>().await;
                });
                assert_eq!(running.await, State::Exited("lost".to_owned()));
            })
            .await;
    }
}
