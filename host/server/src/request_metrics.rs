//! Requests to a mount, counted by module, route, method and status, with their times.
//!
//! Each thread counts in memory of its own, so that a cached response needs no
//! synchronization between cores.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{HeaderValue, Method, StatusCode};
use quick_cache::DefaultHashBuilder;
use relayer_rest_common::histogram::{Histogram, Times};
use relayer_rest_sandbox::Route;

/// The modules of a mount whose requests are kept: the last ones, so that the counts of a
/// replaced module are exported once more.
const MAX_MODULES: usize = 4;

/// The maximum number of series of a module: a module chooses its routes and statuses.
const MAX_SERIES: usize = 256;

/// The name of all other methods and statuses.
const OTHER: &str = "other";

/// The methods with a name of their own; a client can send any other.
static METHODS: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

thread_local! {
    /// With the hash of the cache: that of the standard library was 4 % of the instructions of a
    /// hit. The number of keys is limited, and clients choose only the method, of [`METHODS`],
    /// which is not hashed.
    static SERIES: RefCell<HashMap<Key, Arc<Histogram>, DefaultHashBuilder>> = RefCell::default();
}

/// The requests to a mount.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics(Mutex<Vec<ModuleRequests>>);

/// The identity of an active module, which no other ever has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ActiveId(u64);

/// How a response was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It was cached.
    Cache,
    /// The module ran for it, or the host has responded instead.
    Run,
}

/// A request that got a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(crate) id: ActiveId,
    /// The value of `x-relayer-module`.
    pub(crate) label: &'a HeaderValue,
    /// The route, if the module declares it.
    pub(crate) route: Option<&'a Route>,
    pub(crate) method: &'a Method,
    pub(crate) status: StatusCode,
    pub(crate) origin: Origin,
    pub(crate) has_tls: bool,
    pub(crate) time: Duration,
}

/// Requests that have these in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSeries {
    /// The module that was active, as in `x-relayer-module`.
    pub module: String,
    /// The path of the route, relative to the mount, with the names of parameters in
    /// braces; `None` if the module does not declare it.
    pub route: Option<String>,
    /// The method; `other` if it is not a method of HTTP.
    pub method: &'static str,
    /// The status of the response; `None` for those beyond a number of different ones.
    pub status: Option<StatusCode>,
    /// How the responses were made.
    pub origin: Origin,
    /// Whether the connections of the clients had TLS.
    pub has_tls: bool,
    /// The times from the heads of the requests to their responses.
    pub times: Times,
}

#[derive(Debug)]
struct ModuleRequests {
    label: String,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Series {
    kind: Kind,
    /// The path of its route.
    route: Option<String>,
    /// One for each thread.
    histograms: Vec<Arc<Histogram>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    id: ActiveId,
    kind: Kind,
}

/// The common properties of the requests of a series, apart from their module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kind {
    /// The index of the route.
    route: Option<u16>,
    method: &'static str,
    status: Option<StatusCode>,
    origin: Origin,
    has_tls: bool,
}

/// Hashes all but the method as one number: each request looks up its kind, and most have the same
/// method.
impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { route, method: _, status, origin, has_tls } = *self;
        let route = route.map_or(0, |route| u64::from(route) + 1);
        let status = status.map_or(0, |status| u64::from(status.as_u16()));
        let flags = u64::from(origin == Origin::Cache) << 1 | u64::from(has_tls);
        state.write_u64(route << 32 | status << 16 | flags);
    }
}

/// Releases this thread's histograms of modules that are not kept.
pub(crate) fn release_unused() {
    SERIES.with_borrow_mut(|series| series.retain(|_, histogram| Arc::strong_count(histogram) > 1));
}

impl Origin {
    /// Returns the result of the lookup in the cache: `hit` or `miss`.
    #[must_use]
    pub fn cache_result(self) -> &'static str {
        match self {
            Self::Cache => "hit",
            Self::Run => "miss",
        }
    }
}

impl ActiveId {
    /// Returns an identity that no other active module has.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl RequestMetrics {
    /// Counts a request.
    pub(crate) fn record(&self, served: Served<'_>) {
        let Served { id, label, route, origin, has_tls, time, .. } = served;
        let kind = Kind {
            route: route.map(Route::index),
            method: method_name(served.method),
            status: Some(served.status),
            origin,
            has_tls,
        };
        let key = Key { id, kind };
        SERIES.with_borrow_mut(|series| {
            if let Some(histogram) = series.get(&key) {
                return histogram.record(time);
            }
            if let Some(histogram) = self.histogram(kind, label, route) {
                return series.entry(key).or_insert(histogram).record(time);
            }
            let other = Kind { route: None, method: OTHER, status: None, origin, has_tls };
            let histogram = match series.entry(Key { id, kind: other }) {
                Entry::Occupied(entry) => Some(entry.into_mut()),
                Entry::Vacant(entry) => {
                    self.histogram(other, label, None).map(|histogram| entry.insert(histogram))
                }
            };
            if let Some(histogram) = histogram {
                histogram.record(time);
            }
        });
    }

    /// Returns all series of the modules that are kept.
    pub(crate) fn series(&self) -> Vec<RequestSeries> {
        let mut all = Vec::new();
        for module in &*self.modules() {
            for series in &module.series {
                let mut times = Times::default();
                for histogram in &series.histograms {
                    times += &histogram.times();
                }
                let Kind { method, status, origin, has_tls, .. } = series.kind;
                let module = module.label.clone();
                let route = series.route.clone();
                all.push(RequestSeries { module, route, method, status, origin, has_tls, times });
            }
        }
        all
    }

    /// Adds a histogram of this thread. Returns `None` if the module has too many series.
    fn histogram(
        &self,
        kind: Kind,
        label: &HeaderValue,
        route: Option<&Route>,
    ) -> Option<Arc<Histogram>> {
        let label = label.to_str().unwrap_or_default();
        let mut modules = self.modules();
        let place = modules.iter().position(|module| module.label == label);
        let place = place.unwrap_or_else(|| {
            if modules.len() == MAX_MODULES {
                modules.remove(0);
            }
            modules.push(ModuleRequests { label: label.to_owned(), series: Vec::new() });
            modules.len() - 1
        });
        modules[place].histogram(kind, route)
    }

    fn modules(&self) -> MutexGuard<'_, Vec<ModuleRequests>> {
        // Nothing that panics is done while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModuleRequests {
    fn histogram(&mut self, kind: Kind, route: Option<&Route>) -> Option<Arc<Histogram>> {
        let place = match self.series.iter().position(|series| series.kind == kind) {
            Some(place) => place,
            // The series of all other requests are there in addition.
            None if kind.status.is_some() && self.series.len() >= MAX_SERIES => return None,
            None => {
                let route = route.map(|route| route.path().to_owned());
                self.series.push(Series { kind, route, histograms: Vec::new() });
                self.series.len() - 1
            }
        };
        let histogram = Arc::<Histogram>::default();
        self.series[place].histograms.push(Arc::clone(&histogram));
        Some(histogram)
    }
}

fn method_name(method: &Method) -> &'static str {
    METHODS.iter().find(|name| **name == method.as_str()).copied().unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::{
        ActiveId, MAX_MODULES, MAX_SERIES, Origin, RequestMetrics, SERIES, Served, release_unused,
    };
    use http::{HeaderValue, Method, StatusCode};
    use std::collections::HashMap;
    use std::thread;
    use std::time::Duration;

    fn record(
        metrics: &RequestMetrics,
        id: ActiveId,
        label: &'static str,
        method: &str,
        status: u16,
    ) {
        metrics.record(Served {
            id,
            label: &HeaderValue::from_static(label),
            route: None,
            method: &Method::from_bytes(method.as_bytes()).unwrap(),
            status: StatusCode::from_u16(status).unwrap(),
            origin: Origin::Run,
            has_tls: false,
            time: Duration::from_micros(1),
        });
    }

    #[test]
    fn the_counts_of_all_threads_are_added() {
        let metrics = RequestMetrics::default();
        let id = ActiveId::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| record(&metrics, id, "api@1", "GET", 200)));
            }
        });
        record(&metrics, id, "api@1", "BREW", 418);
        let mut series = metrics.series();
        series.sort_by_key(|series| series.status);
        let counts = series.iter().map(|series| (series.method, series.times.count()));
        assert_eq!(counts.collect::<Vec<_>>(), [("GET", 40), ("other", 1)]);
    }

    #[test]
    fn a_module_has_a_bounded_number_of_series() {
        let metrics = RequestMetrics::default();
        let id = ActiveId::new();
        for status in 200..999 {
            record(&metrics, id, "api@1", "GET", status);
        }
        let series = metrics.series();
        assert_eq!(series.len(), MAX_SERIES + 1);
        assert_eq!(series.iter().map(|series| series.times.count()).sum::<u64>(), 799);
        let other = series.last().unwrap();
        assert_eq!((other.method, other.status), ("other", None));
        // So has each thread.
        assert_eq!(SERIES.with_borrow(HashMap::len), MAX_SERIES + 1);
    }

    #[test]
    fn the_last_modules_are_kept() {
        const LABELS: [&str; 6] = ["a@0", "a@1", "a@2", "a@3", "a@4", "a@5"];
        let metrics = RequestMetrics::default();
        for label in LABELS {
            record(&metrics, ActiveId::new(), label, "GET", 200);
        }
        // One that is active again continues its counts.
        record(&metrics, ActiveId::new(), "a@5", "GET", 200);
        let series = metrics.series();
        assert_eq!(series.len(), MAX_MODULES);
        assert_eq!((&*series[3].module, series[3].times.count()), ("a@5", 2));
        release_unused();
        assert_eq!(SERIES.with_borrow(HashMap::len), MAX_MODULES + 1);
        drop(metrics);
        release_unused();
        assert!(SERIES.with_borrow(HashMap::is_empty));
    }
}
