//! Copies of hot responses, which each thread keeps for itself.
//!
//! A hit on a copy writes to no memory that other threads use: no lock, and no reference
//! count of the response, its headers or its body.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use quick_cache::unsync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter};
use relayer_rest_sandbox::Digest;
use relayer_rest_state::{Generation, Snapshot};

use super::key::{CacheKey, CacheKeyRef, Inputs, RequestRef};
use super::recorded::RecordedResponse;
use crate::response::{Encoding, Representation};

/// The capacity of a thread's copies, in bytes.
const CAPACITY: u64 = 4 << 20;

/// The maximum size of a copied response with all its encodings, in bytes. A thread spends more
/// time on sending a larger one than on sharing it.
pub(crate) const MAX_COPY: usize = 1 << 20;

/// The hits after which a response is copied, and after which a copy is looked up in the
/// shared cache: to count its hits there, and to see whether it was replaced.
const MIN_HITS: u64 = 16;

thread_local! {
    static COPIES: RefCell<Copies> = RefCell::new(Copies::new());
}

/// A cached response: this thread's copy of it, or the shared one.
pub(crate) enum Hit {
    Local(Rc<LocalResponse>),
    Shared(Arc<RecordedResponse>),
}

/// A copy of a response.
pub(crate) struct LocalResponse {
    shared: Arc<RecordedResponse>,
    plain: OnceCell<Representation>,
    encoded: [OnceCell<Representation>; Encoding::ALL.len()],
    hits: Cell<u64>,
    /// Whether it had a hit since copies were last released.
    is_used: Cell<bool>,
    /// The generation of the last snapshot that its reads of the state match. Snapshots are from one
    /// publisher, in which no other has it.
    matched: Cell<Option<Generation>>,
}

/// The copies that one response cache has on all threads.
#[derive(Debug)]
pub(super) struct LocalCopies {
    /// Tells its copies from those of other caches.
    id: u64,
}

struct Copies(Cache<Key, Entry, Size>);

#[derive(Clone)]
enum Entry {
    Response(Rc<LocalResponse>),
    /// The response depends on these inputs.
    Varies(Rc<Inputs>),
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    cache: u64,
    key: CacheKey,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct KeyRef<'a> {
    cache: u64,
    key: CacheKeyRef<'a>,
}

#[derive(Clone)]
struct Size;

/// Releases this thread's copies that had no hit since the last call: those of removed
/// modules and former states, and all copies while the thread is idle.
pub(crate) fn release_unused() {
    COPIES.with_borrow_mut(Copies::release_unused);
}

impl Hit {
    /// Returns the response in this encoding if it was already made.
    pub(crate) fn made(&self, encoding: Option<Encoding>) -> Option<&Representation> {
        match self {
            Self::Local(copy) => copy.made(encoding),
            Self::Shared(response) => response.made(encoding),
        }
    }

    /// Returns the shared response by reference.
    pub(crate) fn shared(&self) -> &Arc<RecordedResponse> {
        match self {
            Self::Local(copy) => &copy.shared,
            Self::Shared(response) => response,
        }
    }

    /// Returns the shared response.
    pub(crate) fn into_shared(self) -> Arc<RecordedResponse> {
        match self {
            Self::Local(copy) => Arc::clone(&copy.shared),
            Self::Shared(response) => response,
        }
    }
}

impl Deref for Hit {
    type Target = RecordedResponse;

    fn deref(&self) -> &RecordedResponse {
        match self {
            Self::Local(copy) => &copy.shared,
            Self::Shared(response) => response,
        }
    }
}

impl LocalCopies {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Relaxed) }
    }

    /// Returns this thread's copy of the cached response if it is valid for the snapshot.
    /// Now and then there is none, so that the shared cache is looked up.
    pub(super) fn find(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
        snapshot: &Snapshot,
    ) -> Option<Rc<LocalResponse>> {
        let copy =
            COPIES.with_borrow(|copies| copies.get(self.key(module, request_ref), request_ref))?;
        let hits = copy.hits.get() + 1;
        if hits >= MIN_HITS || !copy.is_valid_for(snapshot, request_ref) {
            return None;
        }
        copy.hits.set(hits);
        copy.is_used.set(true);
        Some(copy)
    }

    /// Copies a response that the shared cache returned, if it is hot.
    pub(super) fn insert(
        &self,
        module: Digest,
        request_ref: RequestRef<'_>,
        response: &Arc<RecordedResponse>,
    ) {
        if response.hits() < MIN_HITS || response.size() > MAX_COPY {
            return;
        }
        let key = self.key(module, request_ref);
        COPIES.with_borrow_mut(|copies| match copies.get(key, request_ref) {
            Some(copy) if Arc::ptr_eq(&copy.shared, response) => copy.count(),
            _ => copies.insert(key, request_ref, response),
        });
    }

    fn key<'a>(&self, module: Digest, request_ref: RequestRef<'a>) -> KeyRef<'a> {
        KeyRef { cache: self.id, key: CacheKeyRef::new(module, request_ref) }
    }
}

impl LocalResponse {
    fn new(shared: &Arc<RecordedResponse>) -> Self {
        Self {
            shared: Arc::clone(shared),
            plain: OnceCell::new(),
            encoded: Default::default(),
            hits: Cell::new(0),
            is_used: Cell::new(true),
            matched: Cell::new(None),
        }
    }

    /// Returns whether the response is valid for a request on a snapshot.
    fn is_valid_for(&self, snapshot: &Snapshot, request_ref: RequestRef<'_>) -> bool {
        let RequestRef { query, headers, .. } = request_ref;
        self.shared.reads().matches_request(query, headers) && self.matches_state(snapshot)
    }

    /// Compares the reads of the state once for each snapshot: a module may read all chains.
    fn matches_state(&self, snapshot: &Snapshot) -> bool {
        let generation = Some(snapshot.generation());
        if self.matched.get() == generation {
            return true;
        }
        let matches = self.shared.reads().matches_state(snapshot);
        if matches {
            self.matched.set(generation);
        }
        matches
    }

    fn made(&self, encoding: Option<Encoding>) -> Option<&Representation> {
        let copy = match encoding.filter(|_| self.shared.is_compressible()) {
            Some(encoding) => &self.encoded[encoding as usize],
            None => &self.plain,
        };
        if copy.get().is_none() {
            let made = self.shared.made(encoding)?;
            copy.get_or_init(|| made.to_unshared());
        }
        copy.get()
    }

    /// Counts the hits on the copy as hits on the shared response.
    fn count(&self) {
        self.shared.count(self.hits.take());
    }
}

impl Drop for LocalResponse {
    fn drop(&mut self) {
        self.count();
    }
}

impl Copies {
    fn new() -> Self {
        let options = OptionsBuilder::new()
            .weight_capacity(CAPACITY)
            .estimated_items_capacity(64)
            .build()
            .expect("all that has to be set is set");
        let lifecycle = DefaultLifecycle::default();
        Self(Cache::with_options(options, Size, DefaultHashBuilder::default(), lifecycle))
    }

    fn get(&self, key: KeyRef<'_>, request_ref: RequestRef<'_>) -> Option<Rc<LocalResponse>> {
        let values;
        let entry = match self.0.get(&key)? {
            Entry::Varies(inputs) => {
                values = inputs.encode(request_ref);
                self.0.get(&key.with(&values))?
            }
            entry @ Entry::Response(_) => entry,
        };
        match entry {
            Entry::Response(copy) => Some(Rc::clone(copy)),
            Entry::Varies(_) => None,
        }
    }

    fn insert(
        &mut self,
        key: KeyRef<'_>,
        request_ref: RequestRef<'_>,
        response: &Arc<RecordedResponse>,
    ) {
        let known = match self.0.peek(&key) {
            Some(Entry::Varies(inputs)) => Rc::clone(inputs),
            _ => Rc::default(),
        };
        let inputs = known.and(response.reads());
        let copy = Entry::Response(Rc::new(LocalResponse::new(response)));
        if inputs.are_none() {
            return self.0.insert(key.key(), copy);
        }
        let values = inputs.encode(request_ref);
        if inputs != *known {
            self.0.insert(key.key(), Entry::Varies(inputs.into()));
        }
        self.0.insert(key.with(&values).key(), copy);
    }

    fn release_unused(&mut self) {
        let is_any_used = Cell::new(false);
        self.0.retain(|_, entry| match entry {
            Entry::Response(copy) => {
                let is_used = copy.is_used.take();
                is_any_used.set(is_any_used.get() || is_used);
                is_used
            }
            Entry::Varies(_) => true,
        });
        if !is_any_used.get() {
            self.0.clear();
        }
    }
}

impl<'a> KeyRef<'a> {
    fn with(self, inputs: &'a [u8]) -> Self {
        Self { key: self.key.with(inputs), ..self }
    }

    fn key(self) -> Key {
        Key { cache: self.cache, key: self.key.key() }
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.cache == key.cache && self.key.equivalent(&key.key)
    }
}

impl Weighter<Key, Entry> for Size {
    fn weight(&self, key: &Key, entry: &Entry) -> u64 {
        let entry = match entry {
            // The copy keeps the shared response, which the cache may evict.
            Entry::Response(copy) => size_of::<LocalResponse>() + 2 * copy.shared.size(),
            Entry::Varies(inputs) => inputs.size(),
        };
        (key.key.size() + entry) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{COPIES, Hit, MIN_HITS, release_unused};
    use crate::cache::{RequestRef, ResponseCache};
    use crate::response::Encoding;
    use bytesize::ByteSize;
    use http::{HeaderMap, Method};
    use relayer_rest_modules::DEFAULT_MODULE;
    use relayer_rest_sandbox::{Engine, GuestRequest, Limits, Module};
    use relayer_rest_state::{RelayerState, StatePublisher};
    use std::sync::Arc;
    use std::thread;

    struct CacheTest {
        cache: ResponseCache,
        module: Module,
        publisher: StatePublisher,
    }

    impl CacheTest {
        /// Caches the response to `/state`.
        async fn new() -> Self {
            let engine = Engine::new(&Limits::default()).unwrap();
            let module = Module::from_bytes(&engine, "test", DEFAULT_MODULE).unwrap();
            let publisher = StatePublisher::new();
            publisher.set_state(RelayerState { chains: vec!["a".into()], workers: vec![] });
            let cache = ResponseCache::new(ByteSize::mib(1));
            let test = Self { cache, module, publisher };
            test.run().await;
            test
        }

        async fn run(&self) {
            let target = "/state".parse().unwrap();
            let headers = HeaderMap::new();
            let request = Arc::new(GuestRequest::new(Method::GET, target, headers));
            let state = self.publisher.reader();
            self.cache.get_or_run(&self.module, request, &state).await.unwrap();
        }

        fn hit(&self, query: Option<&str>) -> Option<Hit> {
            let headers = HeaderMap::new();
            let method = Method::GET;
            let request = RequestRef {
                method: &method,
                path: "/state",
                query,
                headers: &headers,
                has_body: false,
            };
            self.cache.find_local(&self.module, request, &self.publisher.reader().peek()).ok()
        }

        fn hits(&self) -> u64 {
            self.cache.hottest(&self.module, 1)[0].hits
        }
    }

    fn is_copy(hit: Option<&Hit>) -> bool {
        matches!(hit, Some(Hit::Local(_)))
    }

    #[tokio::test]
    async fn hot_responses_are_copied_and_their_hits_counted() {
        let test = CacheTest::new().await;
        for _ in 2..MIN_HITS {
            assert!(!is_copy(test.hit(None).as_ref()));
        }
        // The query is not read, so all queries have the same response.
        let copies = (0..10 * MIN_HITS).filter(|_| is_copy(test.hit(Some("a=b")).as_ref())).count();
        assert!(copies as u64 > 9 * MIN_HITS, "{copies}");
        // All but the last hits on the copy are counted.
        let all = 11 * MIN_HITS - 1;
        let hits = test.hits();
        assert!((all - MIN_HITS..=all).contains(&hits), "{hits}");
    }

    #[tokio::test]
    async fn each_thread_has_memory_of_its_own() {
        let test = CacheTest::new().await;
        let body = || {
            let hit = (0..3 * MIN_HITS)
                .filter_map(|_| test.hit(None))
                .find(|hit| matches!(hit, Hit::Local(_)));
            let plain = hit.as_ref().unwrap().made(None).unwrap();
            assert_eq!(plain.headers, test.hit(None).unwrap().plain().headers);
            assert_eq!(plain.body, test.hit(None).unwrap().plain().body);
            // The body is too short to be encoded.
            assert!(hit.as_ref().unwrap().made(Some(Encoding::ALL[0])).is_some());
            let values = plain.headers.iter().map(|(name, value)| {
                (name.to_string(), name.as_str().as_ptr().addr(), value.as_bytes().as_ptr().addr())
            });
            (plain.body.clone(), values.collect::<Vec<_>>())
        };
        let (here, headers) = body();
        let (there, others) = thread::scope(|scope| scope.spawn(body).join().unwrap());
        let shared = test.hit(None).unwrap().into_shared();
        assert_eq!(here, there);
        assert_ne!(here.as_ptr(), there.as_ptr());
        assert_ne!(here.as_ptr(), shared.plain().body.as_ptr());
        // All names are constants, and so are the values that are not those of the response.
        for ((name, name_here, here), (_, name_there, there)) in headers.into_iter().zip(others) {
            assert_eq!(name_here, name_there, "{name}");
            assert_eq!(here == there, name != "etag" && name != "x-relayer-module", "{name}");
        }
    }

    #[tokio::test]
    async fn copies_are_replaced_when_the_state_changes() {
        let test = CacheTest::new().await;
        while !is_copy(test.hit(None).as_ref()) {}
        test.publisher.update_state(|state| state.chains.push("b".into()));
        assert!(test.hit(None).is_none());
        test.run().await;
        for _ in 0..3 * MIN_HITS {
            let hit = test.hit(None).unwrap();
            let body = &hit.made(None).unwrap().body;
            assert!(body.windows(3).any(|part| part == b"\"b\""), "{body:?}");
        }
        assert!((0..MIN_HITS).any(|_| is_copy(test.hit(None).as_ref())));
    }

    /// A snapshot of another publisher has the same generation, but its state does not match: a
    /// second comparison would fail.
    #[tokio::test]
    async fn the_state_is_compared_once_for_each_snapshot() {
        let mut test = CacheTest::new().await;
        while !is_copy(test.hit(None).as_ref()) {}
        let other = StatePublisher::new();
        other.set_components(Vec::new());
        assert_eq!(other.reader().peek().generation(), test.publisher.reader().peek().generation());
        test.publisher = other;
        assert!(is_copy(test.hit(None).as_ref()), "this generation was compared");
        test.publisher.update_state(|state| state.chains.push("b".into()));
        assert!(test.hit(None).is_none());
    }

    #[tokio::test]
    async fn unused_copies_are_released() {
        let test = CacheTest::new().await;
        while !is_copy(test.hit(None).as_ref()) {}
        let shared = test.hit(None).unwrap().into_shared();
        let others = Arc::strong_count(&shared) - 1;
        release_unused();
        assert_eq!(Arc::strong_count(&shared), others + 1, "the copy was used");
        release_unused();
        assert_eq!(Arc::strong_count(&shared), others);
        assert_eq!(COPIES.with_borrow(|copies| copies.0.len()), 0);
    }
}
