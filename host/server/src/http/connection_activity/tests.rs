use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::task::noop_waker_ref;

use super::{
    BODY_PROGRESS, Clock, Closing, ConnectionActivity, Handling, PROGRESS_SHARE, STALLED, Sending,
};
use crate::http::send_budget::SendBudget;

fn begin(liveness: &Arc<ConnectionActivity>) -> Handling {
    let budget = Arc::new(SendBudget::default());
    liveness.on_http2_request(budget.reserve(0, 0).unwrap(), 0)
}

/// Ends the handling of a request with a response of this many bytes.
fn send(handling: Handling, bytes: usize) -> Sending {
    let sending = Sending::new(handling.liveness(), bytes);
    drop(handling);
    sending
}

fn told(liveness: &ConnectionActivity) -> Poll<Closing> {
    liveness.poll_closing(&Context::from_waker(noop_waker_ref()), &mut None)
}

/// Returns how a connection is told to end after some seconds of silence.
fn told_after(is_asked: bool, seconds: u32) -> Poll<Closing> {
    let clock = Clock::default();
    let liveness = ConnectionActivity::new(clock.clone());
    if is_asked {
        liveness.on_request();
        (0..1_000).for_each(|_| clock.tick());
        liveness.close_after(10, 30);
        liveness.waits();
    }
    (0..=seconds).for_each(|_| clock.tick());
    liveness.close_after(10, 30);
    told(&liveness)
}

#[test]
fn a_silent_connection_is_closed_in_order_and_a_stalled_one_at_once() {
    for (is_asked, seconds, expected) in [
        (true, 9, Poll::Pending),
        (true, 10, Poll::Ready(Closing::InOrder)),
        (true, 29, Poll::Ready(Closing::InOrder)),
        (true, 30, Poll::Ready(Closing::AtOnce)),
        (false, 9, Poll::Pending),
        (false, 10, Poll::Ready(Closing::AtOnce)),
    ] {
        assert_eq!(told_after(is_asked, seconds), expected, "{is_asked} {seconds}");
    }
}

#[test]
fn a_client_that_reads_part_of_its_response_restarts_its_time() {
    let clock = Clock::default();
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    liveness.on_request();
    let sending = Sending::new(&liveness, 1);
    for _ in 0..50 {
        (0..8).for_each(|_| clock.tick());
        sending.goes_on(1);
        liveness.close_after(10, 30);
    }
    assert_eq!(told(&liveness), Poll::Pending);
}

#[test]
fn a_client_that_reads_nothing_is_stalled_and_can_be_evicted() {
    let clock = Clock::default();
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    liveness.on_request();
    liveness.waits();
    assert_eq!((liveness.held(), liveness.idleness()), (0, Some((false, 0))));
    let sending = Sending::new(&liveness, 7);
    assert_eq!((liveness.held(), liveness.idleness(), liveness.evictable()), (7, None, None));
    (0..=STALLED).for_each(|_| clock.tick());
    assert_eq!(liveness.idleness(), Some((false, STALLED)));
    assert_eq!(liveness.evictable(), Some(STALLED));
    sending.goes_on(1);
    assert_eq!((liveness.idleness(), liveness.evictable()), (None, None));
    (0..=10).for_each(|_| clock.tick());
    liveness.close_after(5, 30);
    assert_eq!(told(&liveness), Poll::Pending);
    drop(sending);
    assert_eq!((liveness.held(), liveness.idleness()), (0, Some((false, 0))));
}

/// Receiving one body does not protect the memory of requests without theirs.
#[test]
fn a_client_that_sends_little_of_many_bodies_is_stalled() {
    let clock = Clock::default();
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    let budget = Arc::new(SendBudget::default());
    let handled = [(); 99].map(|()| {
        liveness.on_http2_request(budget.reserve(70 << 10, usize::MAX).unwrap(), 70 << 10)
    });
    let bodies = [(); 99].map(|()| liveness.waits_for_body());
    let _answered = begin(&liveness);
    for _ in 0..=STALLED {
        clock.tick();
        bodies[0].goes_on(BODY_PROGRESS);
        drop((begin(&liveness), liveness.waits_for_body()));
    }
    assert_eq!(liveness.evictable(), Some(STALLED));
    bodies[0].goes_on(liveness.reserved() / PROGRESS_SHARE);
    assert_eq!(liveness.evictable(), None);
    drop((bodies, handled));
}

/// Taking small responses does not protect the memory of large ones.
#[test]
fn a_client_that_reads_little_of_its_responses_is_stalled() {
    let clock = Clock::default();
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    let _untaken = send(begin(&liveness), 99 * PROGRESS_SHARE);
    for _ in 0..=STALLED {
        clock.tick();
        let small = send(begin(&liveness), 10);
        small.goes_on(10);
    }
    assert_eq!(liveness.evictable(), Some(STALLED));
    // It takes some bytes, so it does not time out.
    liveness.close_after(1, 1);
    assert_eq!(told(&liveness), Poll::Pending);
    let enough = send(begin(&liveness), 100);
    enough.goes_on(100);
    assert_eq!(liveness.evictable(), None);
}

#[test]
fn unread_heads_stall_a_connection_too() {
    let clock = Clock::default();
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    liveness.on_request();
    liveness.waits();
    liveness.is_full();
    assert_eq!(liveness.idleness(), None);
    (0..=STALLED).for_each(|_| clock.tick());
    assert_eq!(liveness.idleness(), Some((false, STALLED)));
    liveness.is_flushed();
    assert_eq!(liveness.evictable(), None);
}

/// Neither endless requests nor one that is being handled hide that the client takes
/// nothing.
#[test]
fn requests_are_not_a_sign_that_a_client_reads_its_responses() {
    let clock = Clock::default();
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    let _first = send(begin(&liveness), 1);
    let _handled = begin(&liveness);
    for _ in 0..=30 {
        clock.tick();
        drop(send(begin(&liveness), 1));
    }
    assert_eq!(liveness.evictable(), Some(30));
    liveness.close_after(10, 30);
    assert_eq!(told(&liveness), Poll::Ready(Closing::AtOnce));
}

#[test]
fn a_client_that_withholds_all_bodies_is_idle() {
    let clock = Clock::default();
    let one = Arc::new(ConnectionActivity::new(clock.clone()));
    one.on_request();
    assert_eq!(one.idleness(), None);
    clock.tick();
    let body = one.waits_for_body();
    clock.tick();
    // The body may be in transit.
    assert_eq!(one.idleness(), None);
    clock.tick();
    assert_eq!((one.idleness(), one.silent()), (Some((false, 1)), None));
    body.goes_on(BODY_PROGRESS - 1);
    assert_eq!(one.idleness(), Some((false, 1)));
    body.goes_on(1);
    assert_eq!(one.idleness(), None);
    (0..3).for_each(|_| clock.tick());
    assert_eq!(one.idleness(), Some((false, 2)));
    drop(body);
    assert_eq!(one.idleness(), None);

    let several = Arc::new(ConnectionActivity::new(clock.clone()));
    let _first = begin(&several);
    let second = begin(&several);
    let _awaited = several.waits_for_body();
    assert_eq!(several.idleness(), None);
    (0..2).for_each(|_| clock.tick());
    assert_eq!(several.idleness(), None);
    drop(second);
    assert_eq!(several.idleness(), Some((false, 1)));
}

#[test]
fn concurrent_requests_are_closed_when_none_progresses() {
    let clock = Clock::default();
    let wait = |liveness: &ConnectionActivity, seconds| {
        (0..=seconds).for_each(|_| clock.tick());
        liveness.close_after(10, 30);
        told(liveness)
    };
    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    let first = begin(&liveness);
    let second = begin(&liveness);
    let taken_back = begin(&liveness);
    // Requests that are being handled keep the connection open.
    assert_eq!(wait(&liveness, 1_000), Poll::Pending);
    drop(taken_back);
    assert_eq!(wait(&liveness, 1_000), Poll::Pending);
    let first = send(first, 1);
    let second = send(second, 2);
    assert_eq!(liveness.held(), 3);
    // The bytes do not belong to a response.
    liveness.goes_on();
    assert_eq!(wait(&liveness, 29), Poll::Pending);
    first.goes_on(1);
    assert_eq!(wait(&liveness, 29), Poll::Pending);
    assert_eq!(liveness.idleness(), Some((false, 29)));
    drop((first, second));
    assert_eq!(liveness.held(), 0);
    assert_eq!(liveness.idleness(), Some((false, 0)));
    assert_eq!(wait(&liveness, 10), Poll::Ready(Closing::InOrder));

    let liveness = Arc::new(ConnectionActivity::new(clock.clone()));
    let _untaken = send(begin(&liveness), 1);
    assert_eq!(wait(&liveness, 30), Poll::Ready(Closing::AtOnce));
}
