use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::task::noop_waker_ref;

use super::{ConnectionActivity, Idleness, STALLED, WaitingClient};
use crate::http::connections::awaited_body::AwaitedBody;
use crate::http::connections::clock::Clock;
use crate::http::connections::closing::Closing;
use crate::http::connections::http2_request::Http2Request;
use crate::http::connections::pending_bodies::BODY_PROGRESS;
use crate::http::connections::pending_responses::PROGRESS_SHARE;
use crate::http::connections::sending::Sending;
use crate::http::send_budget::SendBudget;

fn begin(activity: &Arc<ConnectionActivity>) -> Http2Request {
    let budget = Arc::new(SendBudget::default()).share();
    Http2Request::new(activity, budget.reserve(0, 0).unwrap(), 0).0
}

/// Ends the handling of a request with a response of this many bytes.
fn send(request: Http2Request, bytes: usize) -> Sending {
    let sending = Sending::new(&request.activity, bytes);
    drop(request);
    sending
}

fn told(activity: &ConnectionActivity) -> Poll<Closing> {
    activity.closing.poll(&Context::from_waker(noop_waker_ref()), &mut None)
}

/// Returns how a connection is told to end after some seconds of silence.
fn told_after(is_asked: bool, seconds: u32) -> Poll<Closing> {
    let clock = Clock::default();
    let activity = ConnectionActivity::new(clock.clone());
    if is_asked {
        activity.on_request();
        (0..1_000).for_each(|_| clock.tick());
        activity.close_after(10, 30);
        activity.waits();
    }
    (0..=seconds).for_each(|_| clock.tick());
    activity.close_after(10, 30);
    told(&activity)
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
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    activity.on_request();
    let sending = Sending::new(&activity, 1);
    for _ in 0..50 {
        (0..8).for_each(|_| clock.tick());
        sending.goes_on(1);
        activity.close_after(10, 30);
    }
    assert_eq!(told(&activity), Poll::Pending);
}

#[test]
fn a_client_that_reads_nothing_is_stalled_and_can_be_evicted() {
    let clock = Clock::default();
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    activity.on_request();
    activity.waits();
    assert_eq!((activity.responses.bytes(), activity.idleness()), (0, Some(Idleness::Silent(0))));
    let sending = Sending::new(&activity, 7);
    assert_eq!(
        (activity.responses.bytes(), activity.idleness(), activity.evictable()),
        (7, None, None)
    );
    (0..=STALLED).for_each(|_| clock.tick());
    assert_eq!(activity.idleness(), Some(Idleness::Silent(STALLED)));
    assert_eq!(activity.evictable(), Some(STALLED));
    sending.goes_on(1);
    assert_eq!((activity.idleness(), activity.evictable()), (None, None));
    (0..=10).for_each(|_| clock.tick());
    activity.close_after(5, 30);
    assert_eq!(told(&activity), Poll::Pending);
    drop(sending);
    assert_eq!((activity.responses.bytes(), activity.idleness()), (0, Some(Idleness::Silent(0))));
}

#[test]
fn an_http2_client_that_does_not_acknowledge_the_end_of_its_connection_is_not_awaited() {
    let clock = Clock::default();
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    let tick = || {
        clock.tick();
        activity.close_after(10, 30);
    };
    drop(begin(&activity));
    (0..9).for_each(|_| tick());
    // It has just been evicted, after some time without a request.
    activity.close();
    tick();
    assert_eq!(told(&activity), Poll::Ready(Closing::InOrder));
    // Further requests, and further evictions, do not restart the time.
    drop(begin(&activity));
    activity.close();
    (0..STALLED).for_each(|_| tick());
    assert_eq!(told(&activity), Poll::Ready(Closing::AtOnce));
}

/// Receiving one body does not protect the memory of requests without theirs.
#[test]
fn a_client_that_sends_little_of_many_bodies_is_stalled() {
    let clock = Clock::default();
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    let budget = Arc::new(SendBudget::default()).share();
    let handled = [(); 99].map(|()| {
        Http2Request::new(&activity, budget.reserve(70 << 10, usize::MAX).unwrap(), 70 << 10)
    });
    let bodies = [(); 99].map(|()| AwaitedBody::new(&activity));
    let _handled = begin(&activity);
    for _ in 0..=STALLED {
        clock.tick();
        bodies[0].goes_on(BODY_PROGRESS);
        drop((begin(&activity), AwaitedBody::new(&activity)));
    }
    assert_eq!(activity.evictable(), Some(STALLED));
    bodies[0].goes_on(activity.reserved() / PROGRESS_SHARE);
    assert_eq!(activity.evictable(), None);
    drop((bodies, handled));
}

/// Taking small responses does not protect the memory of large ones.
#[test]
fn a_client_that_reads_little_of_its_responses_is_stalled() {
    let clock = Clock::default();
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    let _untaken = send(begin(&activity), 99 * PROGRESS_SHARE);
    for _ in 0..=STALLED {
        clock.tick();
        let small = send(begin(&activity), 10);
        small.goes_on(10);
    }
    assert_eq!(activity.evictable(), Some(STALLED));
    // It takes some bytes, so it does not time out.
    activity.close_after(1, 1);
    assert_eq!(told(&activity), Poll::Pending);
    let enough = send(begin(&activity), 100);
    enough.goes_on(100);
    assert_eq!(activity.evictable(), None);
}

#[test]
fn unread_heads_stall_a_connection_too() {
    let clock = Clock::default();
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    activity.on_request();
    activity.waits();
    activity.is_full();
    assert_eq!(activity.idleness(), None);
    (0..=STALLED).for_each(|_| clock.tick());
    assert_eq!(activity.idleness(), Some(Idleness::Silent(STALLED)));
    activity.is_flushed();
    assert_eq!(activity.evictable(), None);
}

/// Neither endless requests nor one that is being handled hide that the client takes
/// nothing.
#[test]
fn requests_are_not_a_sign_that_a_client_reads_its_responses() {
    let clock = Clock::default();
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    let _first = send(begin(&activity), 1);
    let _handled = begin(&activity);
    for _ in 0..=30 {
        clock.tick();
        drop(send(begin(&activity), 1));
    }
    assert_eq!(activity.evictable(), Some(30));
    activity.close_after(10, 30);
    assert_eq!(told(&activity), Poll::Ready(Closing::AtOnce));
}

#[test]
fn a_client_that_withholds_all_bodies_is_idle() {
    let clock = Clock::default();
    let one = Arc::new(ConnectionActivity::new(clock.clone()));
    one.on_request();
    assert_eq!(one.idleness(), None);
    clock.tick();
    let body = AwaitedBody::new(&one);
    clock.tick();
    // The body may be in transit.
    assert_eq!(one.idleness(), None);
    clock.tick();
    assert_eq!((one.idleness(), one.silent()), (Some(Idleness::Silent(1)), None));
    body.goes_on(BODY_PROGRESS - 1);
    assert_eq!(one.idleness(), Some(Idleness::Silent(1)));
    body.goes_on(1);
    assert_eq!(one.idleness(), None);
    (0..3).for_each(|_| clock.tick());
    assert_eq!(one.idleness(), Some(Idleness::Silent(2)));
    drop(body);
    assert_eq!(one.idleness(), None);

    let several = Arc::new(ConnectionActivity::new(clock.clone()));
    let _first = begin(&several);
    let second = begin(&several);
    let _awaited = AwaitedBody::new(&several);
    assert_eq!(several.idleness(), None);
    (0..2).for_each(|_| clock.tick());
    assert_eq!(several.idleness(), None);
    drop(second);
    assert_eq!(several.idleness(), Some(Idleness::Silent(1)));
}

#[test]
fn concurrent_requests_are_closed_when_none_progresses() {
    let clock = Clock::default();
    let wait = |activity: &ConnectionActivity, seconds| {
        (0..=seconds).for_each(|_| clock.tick());
        activity.close_after(10, 30);
        told(activity)
    };
    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    let first = begin(&activity);
    let second = begin(&activity);
    let taken_back = begin(&activity);
    // Requests that are being handled keep the connection open.
    assert_eq!(wait(&activity, 1_000), Poll::Pending);
    drop(taken_back);
    assert_eq!(wait(&activity, 1_000), Poll::Pending);
    let first = send(first, 1);
    let second = send(second, 2);
    assert_eq!(activity.responses.bytes(), 3);
    // The bytes do not belong to a response.
    activity.goes_on();
    assert_eq!(wait(&activity, 29), Poll::Pending);
    first.goes_on(1);
    assert_eq!(wait(&activity, 29), Poll::Pending);
    assert_eq!(activity.idleness(), Some(Idleness::Silent(29)));
    drop((first, second));
    assert_eq!(activity.responses.bytes(), 0);
    assert_eq!(activity.idleness(), Some(Idleness::Silent(0)));
    assert_eq!(wait(&activity, 10), Poll::Ready(Closing::InOrder));

    let activity = Arc::new(ConnectionActivity::new(clock.clone()));
    let _untaken = send(begin(&activity), 1);
    assert_eq!(wait(&activity, 30), Poll::Ready(Closing::AtOnce));
}

#[test]
fn a_waiting_client_is_evicted_last_unless_another_request_of_it_is_run() {
    let waiting = Some(Idleness::Waiting);
    let bodiless = Some(Idleness::Silent(1));
    // The numbers of streams, of long polls, of requests that are run, and of withheld bodies.
    for (streams, polls, runs, bodies, expected) in [
        (1, 0, 0, 0, waiting),
        (0, 1, 0, 0, waiting),
        (2, 3, 0, 0, waiting),
        (1, 0, 1, 0, None),
        (0, 1, 1, 0, None),
        (2, 1, 1, 0, None),
        (1, 0, 0, 2, bodiless),
        (0, 3, 0, 2, bodiless),
        (1, 3, 1, 2, bodiless),
        (1, 1, 1, 1, None),
        (0, 0, 1, 0, None),
        (0, 0, 0, 2, bodiless),
    ] {
        let clock = Clock::default();
        let activity = Arc::new(ConnectionActivity::new(clock.clone()));
        let handled: Vec<_> = (0..polls + runs + bodies).map(|_| begin(&activity)).collect();
        // The request of a stream has its response.
        drop(begin(&activity));
        let streams: Vec<_> = (0..streams).map(|_| WaitingClient::new(&activity)).collect();
        let polls: Vec<_> = (0..polls).map(|_| WaitingClient::polling(&activity)).collect();
        let bodies: Vec<_> = (0..bodies).map(|_| AwaitedBody::new(&activity)).collect();
        (0..2).for_each(|_| clock.tick());
        let numbers = (streams.len(), polls.len(), runs, bodies.len());
        assert_eq!(activity.idleness(), expected, "{numbers:?}");
        drop((handled, streams, polls, bodies));
        assert_eq!(activity.idleness(), Some(Idleness::Silent(0)), "{numbers:?}");
    }
}
