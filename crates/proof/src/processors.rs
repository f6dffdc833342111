//! Many pieces of work, on all processors.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle, available_parallelism};

/// Does `work` for each number below `count`, until one breaks: then none is begun any more. What came of those that
/// were done, in order. `begin` makes what a processor keeps from one piece to the next.
pub fn on_all<S, R: Send>(
    count: usize,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> ControlFlow<R, R> + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one = || {
        let (mut state, mut done) = (begin(), Vec::new());
        // Who ends, by a break or a panic too, has the others begin nothing more.
        let _stop = Stop(&next, count);
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            match work(&mut state, at) {
                ControlFlow::Continue(result) => done.push((at, result)),
                ControlFlow::Break(result) => {
                    done.push((at, result));
                    return done;
                }
            }
        }
    };
    let processors = available_parallelism().map_or(1, usize::from);
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(one)).collect();
        let results = workers.into_iter().flat_map(result_of);
        results.collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Has nothing more begun when it is dropped.
struct Stop<'a>(&'a AtomicUsize, usize);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

fn result_of<R>(worker: ScopedJoinHandle<'_, R>) -> R {
    worker.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_after_a_break_nothing_is_begun() {
        let squares = on_all(100, || (), |(), at| ControlFlow::Continue(at * at));
        assert_eq!(squares, (0..100).map(|at| at * at).collect::<Vec<_>>());
        let until = |last| {
            let work = move |(): &mut (), at| {
                if at == last {
                    ControlFlow::Break(at)
                } else {
                    ControlFlow::<usize, usize>::Continue(at)
                }
            };
            on_all(1_000_000, || (), work).len()
        };
        assert!(until(10) < 1_000_000);
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn what_panics_is_heard() {
        on_all(
            9,
            || (),
            |(), at| {
                assert!(at != 3, "the third");
                ControlFlow::<(), ()>::Continue(())
            },
        );
    }
}
