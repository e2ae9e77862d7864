//! A request that gets its response when that differs from the one that the client has.

use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::header::{ETAG, HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::client::Client;
use super::content::Content;
use super::resolve::{Answer, Outcome};
use super::waiter::Waiter;
use super::{Live, Refusal, moment_until};
use crate::cache::RecordedResponse;
use crate::http::reply;
use crate::response::vary;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Waits for a response that the client does not have, after this answer, until a time after the begin
/// of its wait. Returns `None` if there is none in time.
///
/// # Errors
/// Returns an error if the client can no longer wait, because a limit is reached.
pub(in crate::http) async fn long_poll(
    live: &Live,
    client: Client,
    answer: Answer,
    (begin, wait): (Instant, Duration),
    request: &Request<()>,
) -> Result<Option<Outcome>, Refusal> {
    // Clients that began to wait together do not return together.
    let deadline = begin + wait.mul_f64(1.0 - fastrand::f64() / 16.0);
    let mut waiter = match timeout_at(deadline, live.wait(client, answer)).await {
        Ok(Ok(waiter)) => waiter,
        // A client that comes after the end is alone.
        Ok(Err(Refusal::Ending(_))) | Err(_) => return Ok(None),
        Ok(Err(refusal)) => return Err(refusal),
    };
    // Twice: at the deadline, there may be a version for which the client was not woken yet.
    for _ in 0..2 {
        match timeout_at(deadline, changed(&mut waiter, request)).await {
            Ok(Ok(outcome)) => return Ok(Some(outcome)),
            Ok(Err(Refusal::Ending(end))) => {
                sleep_until(moment_until(end).min(deadline)).await;
                return Ok(None);
            }
            Ok(Err(refusal)) => return Err(refusal),
            Err(_) => {}
        }
    }
    Ok(None)
}

/// Waits for a response that the client of this request does not have. May be cancelled.
async fn changed(waiter: &mut Waiter, request: &Request<()>) -> Result<Outcome, Refusal> {
    let mut version = waiter.newest().await?;
    loop {
        match version.content() {
            Content::Response(response) if has(request, response).await => {}
            Content::Response(response) => return Ok(Ok(Arc::clone(response))),
            Content::Error(response) | Content::Failure(response, _) => {
                return Ok(Err(Arc::clone(response)));
            }
            // The waiter returns none of these.
            Content::Moved | Content::Ended(_) => {}
        }
        version = waiter.next().await?;
    }
}

/// Returns whether the client of a request has a response already.
pub(in crate::http) async fn has(request: &Request<()>, response: &RecordedResponse) -> bool {
    if !response.status().is_success() {
        return false;
    }
    let encoding = reply::encoding(response, request.headers());
    let headers = &response.encoded(encoding).await.headers;
    // Without a tag, no change could be noticed.
    headers.contains_key(ETAG) && reply::is_known(headers, request)
}

/// Adds the header that names the preference that was applied.
pub(in crate::http) fn add_applied(headers: &mut HeaderMap, preference: &str) {
    if let Ok(value) = HeaderValue::try_from(preference) {
        headers.insert(PREFERENCE_APPLIED, value);
    }
}

/// Adds the headers of a response to a request that preferred to wait.
pub(in crate::http) fn add_headers(headers: &mut HeaderMap, applied: Duration) {
    add_applied(headers, &format!("wait={}", applied.as_secs()));
    vary::add(headers, &vary::INTEREST);
}

#[cfg(test)]
mod tests {
    use super::long_poll;
    use crate::http::live::fixture::{Fixture, RESOLUTION, check_spread};
    use futures_util::future::{join, join_all};
    use std::time::Duration;
    use tokio::task::yield_now;
    use tokio::time::{Instant, advance, pause, resume};

    /// Returns the times that requests wait, if the server ends their waits within a time or
    /// does not.
    async fn waits(wait: Duration, end: Option<Duration>) -> Vec<Duration> {
        fastrand::seed(3);
        let fixture = Fixture::new();
        let mut polls = Vec::new();
        for _ in 0..200 {
            polls.push(fixture.poll().await);
        }
        pause();
        let start = Instant::now();
        let ends = polls.into_iter().map(async |(request, client, answer)| {
            let wait = (Instant::now(), wait);
            let response = long_poll(&fixture.live, client, answer, wait, &request).await;
            assert!(response.unwrap().is_none());
            start.elapsed()
        });
        let all_ends = async {
            fixture.waiting(200).await;
            if let Some(within) = end {
                fixture.live.end(within);
            }
        };
        let (ends, ()) = join(join_all(ends), all_ends).await;
        resume();
        ends
    }

    #[tokio::test]
    async fn a_wait_is_shortened_by_up_to_a_sixteenth() {
        let ends = waits(Duration::from_secs(160), None).await;
        check_spread(&ends, Duration::from_secs(150), Duration::from_secs(160));
    }

    #[tokio::test]
    async fn a_version_that_comes_just_before_the_deadline_is_returned() {
        let wait = Duration::from_secs(160);
        let fixture = Fixture::new();
        let (request, client, answer) = fixture.poll().await;
        pause();
        let polling = long_poll(&fixture.live, client, answer, (Instant::now(), wait), &request);
        let publishing = async {
            fixture.waiting(1).await;
            fixture.delay_wakeups();
            fixture.publisher.update_state(|state| state.chains.push("b".into()));
            while fixture.tally.status().wakeups == 0 {
                yield_now().await;
            }
            advance(wait).await;
        };
        let (response, ()) = join(polling, publishing).await;
        let response = response.unwrap().expect("it is newer").unwrap();
        assert!(response.plain().body.windows(3).any(|part| part == b"\"b\""));
    }

    #[tokio::test]
    async fn waits_end_at_random_moments_when_the_server_ends_them() {
        let within = Duration::from_secs(60);
        let ends = waits(Duration::from_mins(5), Some(within)).await;
        check_spread(&ends, Duration::ZERO, within);
        // Waits that are over before are not longer.
        let ends = waits(Duration::from_secs(16), Some(within)).await;
        assert!(*ends.iter().max().unwrap() <= Duration::from_secs(16) + RESOLUTION);
        assert!(*ends.iter().min().unwrap() < Duration::from_secs(1));
    }
}
