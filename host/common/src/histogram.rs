//! A histogram of times, into which threads record without a lock.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The number of upper bounds.
const BOUNDS: usize = 18;

/// The upper bounds of the buckets, in microseconds: from a cached response to the longest
/// time that a client waits.
const MICROS: [u64; BOUNDS] = [
    20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000,
];

/// A histogram of times, in cache lines of its own: each thread may have one.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Histogram {
    /// The last one has the times above all bounds.
    buckets: [AtomicU64; BOUNDS + 1],
    /// In nanoseconds.
    sum: AtomicU64,
}

/// The content of a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    buckets: [u64; BOUNDS + 1],
    sum: Duration,
}

impl Histogram {
    /// Records a time.
    pub fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = MICROS.partition_point(|bound| bound * 1_000 < nanos);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add(nanos, Relaxed);
    }

    /// Returns the content. Times that are recorded meanwhile may be missing in a part.
    #[must_use]
    pub fn times(&self) -> Times {
        Times {
            buckets: self.buckets.each_ref().map(|bucket| bucket.load(Relaxed)),
            sum: Duration::from_nanos(self.sum.load(Relaxed)),
        }
    }
}

impl Times {
    /// Returns the number of recorded times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of the recorded times.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns an upper bound of the time that this percentage of the recorded times does not
    /// exceed: that of its bucket. Times above all bounds count as the last bound.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Duration {
        let count = self.count();
        if count == 0 {
            return Duration::ZERO;
        }
        let mut before = 0;
        let bucket = MICROS.iter().zip(self.buckets).find(|(_, in_bucket)| {
            before += in_bucket;
            before * 100 >= percent * count
        });
        Duration::from_micros(bucket.map_or(MICROS[BOUNDS - 1], |(micros, _)| *micros))
    }

    /// Returns each bucket: its upper bound in seconds, and the number of times in it that
    /// are in none before it.
    #[must_use]
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = MICROS.map(|micros| Duration::from_micros(micros).as_secs_f64());
        let bounds = bounds.into_iter().chain([f64::INFINITY]);
        bounds.zip(self.buckets).collect()
    }
}

impl AddAssign<&Self> for Times {
    fn add_assign(&mut self, other: &Self) {
        for (bucket, other) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += other;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, Times};
    use std::time::Duration;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::default();
        for micros in [0, 20, 21, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(micros));
        }
        histogram.record(Duration::from_nanos(20_001));
        let times = histogram.times();
        let filled: Vec<_> = times.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(20e-6, 2), (50e-6, 2), (10.0, 1), (f64::INFINITY, 1)]);
        assert_eq!(times.count(), 6);
        assert_eq!(times.sum(), Duration::from_nanos(20_000_062_001));

        assert_eq!(times.percentile(50), Duration::from_micros(50));
        assert_eq!(times.percentile(99), Duration::from_secs(10));
        assert_eq!(Times::default().percentile(50), Duration::ZERO);

        let mut twice = Times::default();
        twice += &times;
        twice += &times;
        assert_eq!((twice.count(), twice.sum()), (12, times.sum() * 2));
    }
}
