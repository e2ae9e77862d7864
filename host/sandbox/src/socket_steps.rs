//! The first steps of a guest, on the thread of its socket.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;

use super::long_steps::SocketThreadPermit;
use super::slow_guest_pool::SlowGuestPool;
use super::slow_targets::RecordedRun;
use super::socket_turn::SocketTurn;

/// The number of steps of a guest on the thread of its socket, each of half a tick or
/// more. Most guests complete in that time.
const STEPS: u32 = 2;

/// Runs the first steps of a guest. Returns its result, or `None` if it must continue in the
/// pool.
pub(super) async fn run<F: Future + Unpin>(
    guest: &mut RecordedRun<F>,
    turn: &mut SocketTurn,
    permit: SocketThreadPermit<'_>,
    pool: &Arc<SlowGuestPool>,
) -> Option<F::Output> {
    for step in 1..=STEPS {
        let polled = poll_fn(|context| Poll::Ready(guest.poll_unpin(context))).await;
        let last = guest.last_step();
        turn.count(last.used);
        if last.is_long {
            permit.long_step();
        }
        if let Poll::Ready(result) = polled {
            permit.completed();
            return Some(result);
        }
        if step == STEPS || permit.is_over() {
            break;
        }
        // The threads start during the next step: a guest that waited for them afterwards
        // would end a tick later.
        pool.prepare();
        turn.pause().await;
    }
    guest.record();
    None
}

#[cfg(test)]
mod tests {
    use super::run;
    use crate::admission::Admission;
    use crate::epoch_ticker::Ticks;
    use crate::limits::Limits;
    use crate::long_steps::LongSteps;
    use crate::slow_guest_pool::SlowGuestPool;
    use crate::slow_targets::{RecordedRun, SlowTargets};
    use crate::socket_turn::SocketTurn;
    use futures_util::FutureExt;
    use std::pin::pin;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    #[tokio::test]
    async fn the_pool_starts_during_the_second_step() {
        let admission = Arc::new(Admission::new(&Limits::default()));
        let mut turn = SocketTurn::take(&admission, Duration::MAX).await.unwrap();
        let modules_steps = LongSteps::default();
        let permit = modules_steps.acquire().unwrap();
        let targets = Arc::new(SlowTargets::new());
        let guest = Box::pin(yield_now());
        let mut guest = RecordedRun::new(&targets, None, &Ticks::default(), guest);
        let pool = Arc::new(SlowGuestPool::new());
        let mut steps = pin!(run(&mut guest, &mut turn, permit, &pool));
        assert_eq!(steps.as_mut().now_or_never(), None, "the guest has yielded once");
        let starts = async {
            while !pool.is_started() {
                yield_now().await;
            }
        };
        timeout(Duration::from_mins(1), starts).await.expect("the pool starts");
        assert_eq!(steps.await, Some(()));
    }
}
