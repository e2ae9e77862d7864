//! Bounds on the age of a state, from two clocks that are not synchronised.
//!
//! A reader asks the writer for its clock once. The clock had not reached the reading when the
//! reader sent the request, so that the time since then is a bound on how far the clock has
//! gone on. An age that is computed with it is never below the true one, and above it by no
//! more than the time of that request, however late messages arrive.

use std::time::{Duration, Instant};

use crate::message::ClockReading;

/// The time after which a bound is replaced, because clocks do not have the same speed.
const MAX_AGE: Duration = Duration::from_mins(10);

/// The reciprocal of the maximum difference between the speeds of two clocks: 1,000 ppm, when
/// both are being corrected.
const MAX_DRIFT: u32 = 1_000;

/// A bound on the clock of a writer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockBound {
    clock: u64,
    /// The clock had not passed this time when the request was sent.
    time: Duration,
    requested: Instant,
    received: Instant,
}

impl ClockBound {
    pub(crate) fn new(reading: ClockReading, requested: Instant, received: Instant) -> Self {
        Self { clock: reading.clock, time: reading.time, requested, received }
    }

    /// Returns whether it is a bound on this clock, and not too old.
    pub(crate) fn is_usable(&self, clock: u64, now: Instant) -> bool {
        self.clock == clock && now < self.received + MAX_AGE
    }

    /// Returns the better one of two bounds. A better one has the shorter request.
    pub(crate) fn better(self, before: Option<Self>, now: Instant) -> Self {
        let before = before.filter(|before| before.is_usable(self.clock, now));
        before.filter(|before| before.slack() < self.slack()).unwrap_or(self)
    }

    /// Returns the maximum by which an age may be too large.
    pub(crate) fn slack(&self) -> Duration {
        self.received.saturating_duration_since(self.requested)
    }

    /// Returns the earliest time that may have been this time on the clock.
    pub(crate) fn earliest(&self, time: Duration, now: Instant) -> Option<Instant> {
        now.checked_sub(self.latest(now).saturating_sub(time))
    }

    /// Returns the time that the clock shows at most.
    pub(crate) fn latest(&self, now: Instant) -> Duration {
        let elapsed = now.saturating_duration_since(self.requested);
        self.time.saturating_add(elapsed).saturating_add(elapsed / MAX_DRIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockBound, MAX_AGE, MAX_DRIFT};
    use crate::message::{ClockReading, VERSION};
    use std::time::{Duration, Instant};

    /// Sends a request over a connection with these delays, and returns the true age of a
    /// confirmation and the computed one, some time later.
    fn ages(there: Duration, back: Duration, later: Duration) -> (Duration, Duration) {
        let writer_started = Instant::now();
        let confirmed = Duration::from_secs(30);
        let requested = writer_started + Duration::from_secs(100);
        let read = requested + there;
        let reading = ClockReading { version: VERSION, clock: 1, time: read - writer_started };
        let received = read + back;
        let bound = ClockBound::new(reading, requested, received);
        let now = received + later;
        let earliest = bound.earliest(confirmed, now).unwrap();
        (now - (writer_started + confirmed), now - earliest)
    }

    #[test]
    fn an_age_is_never_below_the_true_one_and_above_by_the_time_of_the_request() {
        let times = [0, 1, 50, 3_000].map(Duration::from_millis);
        for there in times {
            for back in times {
                for later in times {
                    let (age, computed) = ages(there, back, later);
                    assert!(computed >= age, "{computed:?} < {age:?}");
                    let drift = (there + back + later) / MAX_DRIFT + Duration::from_millis(1);
                    assert!(computed <= age + there + back + drift, "{computed:?} > {age:?}");
                }
            }
        }
    }

    #[test]
    fn a_bound_is_for_one_clock_and_a_time() {
        let now = Instant::now();
        let reading = ClockReading { version: VERSION, clock: 1, time: Duration::ZERO };
        let bound = ClockBound::new(reading, now, now);
        assert!(bound.is_usable(1, now) && !bound.is_usable(2, now));
        assert!(!bound.is_usable(1, now + MAX_AGE));
    }
}
