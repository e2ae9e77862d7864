//! The newest requests, with references to the inputs of their responses, for capsules on demand.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use http::HeaderValue;
use relayer_rest_sandbox::{GuestRequest, Module};
use relayer_rest_state::Snapshot;

use super::Failures;
use crate::cache::request_size;

/// The number of lists. Each thread uses one of them, which it seldom shares.
const LISTS: usize = 16;

/// The number of requests in a list.
const MAX_REQUESTS: usize = 64;

/// The maximum size of the requests in a list, in bytes.
const MAX_SIZE: usize = 1 << 20;

/// The number of different snapshots in a list: one that no longer is the current one takes
/// memory of its own.
const MAX_SNAPSHOTS: usize = 4;

/// The newest requests.
#[derive(Debug)]
pub(super) struct Recent([Arc<RecentList>; LISTS]);

/// The newest requests of a thread, and the failures of all.
#[derive(Debug)]
pub(super) struct RecentList {
    list: Mutex<List>,
    pub(super) failures: Arc<Failures>,
}

#[derive(Debug, Default)]
struct List {
    /// The oldest first.
    requests: VecDeque<RecentRequest>,
    /// The size of the requests, in bytes.
    size: usize,
    /// The number of groups of successive requests with one snapshot.
    snapshots: usize,
}

/// A request, and references to the inputs of its response.
#[derive(Debug, Clone)]
pub(crate) struct RecentRequest {
    pub(crate) id: HeaderValue,
    pub(crate) time: SystemTime,
    pub(crate) module: Module,
    /// The request as its module gets it, or the part of it that a cached response was derived
    /// from.
    pub(crate) request: Arc<GuestRequest>,
    pub(crate) snapshot: Arc<Snapshot>,
}

impl Recent {
    pub(super) fn new(failures: &Arc<Failures>) -> Self {
        let list = |_| RecentList { list: Mutex::default(), failures: Arc::clone(failures) };
        Self(std::array::from_fn(|place| Arc::new(list(place))))
    }

    /// Returns the list of this thread.
    pub(super) fn of_thread(&self) -> &Arc<RecentList> {
        thread_local! {
            static PLACE: Cell<Option<usize>> = const { Cell::new(None) };
        }
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let place = PLACE.get().unwrap_or_else(|| NEXT.fetch_add(1, Relaxed));
        PLACE.set(Some(place));
        &self.0[place % LISTS]
    }

    /// Returns the newest request with this id.
    pub(super) fn find(&self, id: &str) -> Option<RecentRequest> {
        let newest = |list: &Arc<RecentList>| {
            let list = list.lock();
            list.requests.iter().rev().find(|request| request.id == id).cloned()
        };
        self.0.iter().filter_map(newest).max_by_key(|request| request.time)
    }
}

impl RecentList {
    pub(super) fn push(&self, request: RecentRequest) {
        self.lock().push(request);
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn push(&mut self, request: RecentRequest) {
        let size = request_size(&request.request);
        if size > MAX_SIZE {
            return;
        }
        let is_same = |other: &RecentRequest| Arc::ptr_eq(&other.snapshot, &request.snapshot);
        self.snapshots += usize::from(!self.requests.back().is_some_and(is_same));
        self.size += size;
        self.requests.push_back(request);
        while self.requests.len() > MAX_REQUESTS
            || self.size > MAX_SIZE
            || self.snapshots > MAX_SNAPSHOTS
        {
            let Some(oldest) = self.requests.pop_front() else { return };
            let is_same = |next: &RecentRequest| Arc::ptr_eq(&next.snapshot, &oldest.snapshot);
            self.snapshots -= usize::from(!self.requests.front().is_some_and(is_same));
            self.size -= request_size(&oldest.request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CapsuleTally;
    use super::{Failures, LISTS, MAX_REQUESTS, MAX_SIZE, MAX_SNAPSHOTS, Recent, RecentRequest};
    use bytes::Bytes;
    use http::{HeaderMap, HeaderValue, Method};
    use relayer_rest_sandbox::GuestRequest;
    use relayer_rest_state::StatePublisher;
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn requests_and_snapshots_are_bounded() {
        let publisher = StatePublisher::new();
        let module = crate::registry::test_module(0);
        let failures = Failures::new(None, CapsuleTally::default());
        let recent = Recent::new(&Arc::new(failures));
        let push_with = |number: usize, body: Bytes| {
            let target = "/".parse().unwrap();
            let request =
                GuestRequest { body, ..GuestRequest::new(Method::GET, target, HeaderMap::new()) };
            recent.of_thread().push(RecentRequest {
                id: HeaderValue::from(number),
                time: UNIX_EPOCH + Duration::from_secs(number as u64),
                module: module.clone(),
                request: Arc::new(request),
                snapshot: publisher.reader().snapshot(),
            });
        };
        let push = |number| push_with(number, Bytes::new());
        let kept = || (0..200).filter(|number| recent.find(&number.to_string()).is_some()).count();
        (0..100).for_each(push);
        assert_eq!(kept(), MAX_REQUESTS);
        for number in 100..110 {
            publisher.update_state(|state| state.chains.push(number.to_string().into()));
            push(number);
        }
        assert_eq!(kept(), MAX_SNAPSHOTS);
        let quarter = Bytes::from(vec![0; MAX_SIZE / 4]);
        (110..120).for_each(|number| push_with(number, quarter.clone()));
        assert_eq!(kept(), 3);
        push_with(120, Bytes::from(vec![0; MAX_SIZE]));
        assert_eq!(kept(), 3, "it is too large");
        push(121);
        assert_eq!(kept(), 4);
        assert!(recent.0.len() == LISTS && recent.find("0").is_none());
    }
}
