//! Tracked reads: the state that an instance reads, and the record of these reads and of
//! the commands that it gives.
//!
//! A module sees the state, the request's headers and the query only through
//! [`TrackedSnapshot`], which records every read. Its fields are private, so an import
//! cannot bypass the record. The record is a [`ReadSet`]: a response is valid for as long
//! as the same reads return the same values.
//!
//! | file | job |
//! |---|---|
//! | `lowered.rs` | the results of the reads as they cross to a module |
//! | `state_read.rs` | the reads of the state as a list, for capsules |
//! | `state_value.rs` | the values that were read, as keys of an index |
//! | `value.rs` | the reads as a list, which explains a response |

mod lowered;
mod state_read;
mod state_value;
mod value;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use relayer_rest_state::{
    ChainConfig, ChainId, Command, Component, Generation, Known, ListedChain, MetricFamily,
    RelayerState, Snapshot, Source, Versioned,
};

pub(super) use state_read::StateRead;
pub use state_value::StateValue;
pub use value::ReadValue;

use super::request::GuestRequest;
use super::request_headers::{is_id, is_visible, visible_headers};

/// The maximum number of chains, of families of metrics, and of headers in a record. A module that reads more of
/// them one by one is not worth a longer record.
const MAX_READS: usize = 64;

/// The maximum length of the name of an absent chain, family or header in a record, in bytes: a
/// module may invent any number of names of megabytes each.
const MAX_READ: usize = 256;

/// The maximum number of commands of a request. One more is recorded, so that the excess is
/// seen.
pub(super) const MAX_COMMANDS: usize = 16;

/// A request's headers, its query and one snapshot of the state, as far as a module can
/// see them, and the record of its reads.
pub(super) struct TrackedSnapshot {
    snapshot: Arc<Snapshot>,
    request: Arc<GuestRequest>,
    reads: ReadSet,
    commands: Vec<Command>,
}

/// The reads from which a response was derived, besides the request's method and path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    components: Option<Generation>,
    chain_ids: Option<Generation>,
    chains: Vec<(ChainId, Option<Generation>)>,
    status: Option<Generation>,
    changed: Option<Generation>,
    unconfirmed: Option<Unconfirmed>,
    sources: Option<Generation>,
    family_names: Option<Generation>,
    families: Vec<(Arc<str>, Option<Generation>)>,
    scraped: Option<Scraped>,
    headers: Vec<(HeaderName, Vec<HeaderValue>)>,
    /// Whether all visible headers were read: then `headers` has the present ones.
    all_headers: bool,
    query: Option<QueryRead>,
    /// Whether reads were left out of the record, or the response is not repeatable.
    more: bool,
}

/// The query at the time it was read; none if the target had no `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct QueryRead(Option<Box<str>>);

/// The time since which the state was unconfirmed when the module read it, if it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unconfirmed {
    since: Option<SystemTime>,
}

/// The time of the last scrape of the telemetry when the module read it, if there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scraped(Option<SystemTime>);

impl TrackedSnapshot {
    pub(super) fn new(snapshot: Arc<Snapshot>, request: Arc<GuestRequest>) -> Self {
        Self { snapshot, request, reads: ReadSet::default(), commands: Vec::new() }
    }

    /// Returns the record of the reads so far.
    pub(super) fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// Returns the snapshot, the record of all reads, and the commands in their order.
    pub(super) fn into_record(self) -> (Arc<Snapshot>, ReadSet, Vec<Command>) {
        (self.snapshot, self.reads, self.commands)
    }

    /// Records a command. The response is then for this request only: it is not valid for
    /// any other.
    pub(super) fn record_command(&mut self, command: Command) {
        self.reads.more = true;
        if self.commands.len() <= MAX_COMMANDS {
            self.commands.push(command);
        }
    }

    pub(super) fn components(&mut self) -> &Versioned<Vec<Component>> {
        let components = self.snapshot.components();
        self.reads.components = Some(components.generation());
        components
    }

    pub(super) fn chain_ids(&mut self) -> &Versioned<Known<Vec<ChainId>>> {
        let ids = self.snapshot.chain_ids();
        self.reads.chain_ids = Some(ids.generation());
        ids
    }

    /// Returns a chain, or `None` if it is absent. Returns an error if the chains or its
    /// configuration are not known; then the source requests it next.
    pub(super) fn chain(&mut self, id: &str) -> Known<Option<&Versioned<ChainConfig>>> {
        if let Err(reason) = self.snapshot.chain_ids().value() {
            self.reads.chain_ids = Some(self.snapshot.chain_ids().generation());
            self.snapshot.request_chain(id);
            return Err(reason.clone());
        }
        let chain = self.snapshot.chain(id);
        let ReadSet { chains, more, chain_ids, .. } = &mut self.reads;
        if chain.is_none() && id.len() > MAX_READ {
            *more = true;
            // The list shows that it is absent.
            *chain_ids = Some(self.snapshot.chain_ids().generation());
        } else if chains.iter().all(|(entry, _)| entry.as_str() != id) {
            let read = || (ChainId::from(id), chain.map(ListedChain::generation));
            record(chains, more, read);
        }
        chain.map(ListedChain::config).transpose().map_err(|reason| {
            self.snapshot.request_chain(id);
            reason.clone()
        })
    }

    pub(super) fn status(&mut self) -> &Versioned<Known<RelayerState>> {
        let status = self.snapshot.status();
        self.reads.status = Some(status.generation());
        status
    }

    /// Returns when any part of the visible state last changed.
    pub(super) fn changed(&mut self) -> SystemTime {
        let changed = self.snapshot.changed();
        self.reads.changed = Some(changed.generation);
        changed.time
    }

    /// Returns since when the visible state has been unconfirmed, if it should be
    /// confirmed.
    pub(super) fn unconfirmed_since(&mut self) -> Option<SystemTime> {
        let since = self.snapshot.unconfirmed_since();
        self.reads.unconfirmed = Some(Unconfirmed { since });
        since
    }

    pub(super) fn sources(&mut self) -> &Versioned<Vec<Source>> {
        let sources = self.snapshot.sources();
        self.reads.sources = Some(sources.generation());
        sources
    }

    pub(super) fn metric_families(&mut self) -> &Versioned<Known<Vec<Arc<str>>>> {
        let names = self.snapshot.telemetry().names();
        self.reads.family_names = Some(names.generation());
        names
    }

    /// Returns a family of metrics, or `None` if it is absent. Returns an error if the
    /// telemetry is not known.
    pub(super) fn metric_family(&mut self, name: &str) -> Known<Option<&Versioned<MetricFamily>>> {
        let telemetry = self.snapshot.telemetry();
        if let Err(reason) = telemetry.names().value() {
            self.reads.family_names = Some(telemetry.names().generation());
            return Err(reason.clone());
        }
        let family = telemetry.family(name);
        let ReadSet { families, more, family_names, .. } = &mut self.reads;
        if family.is_none() && name.len() > MAX_READ {
            *more = true;
            *family_names = Some(telemetry.names().generation());
        } else if families.iter().all(|(entry, _)| **entry != *name) {
            record(families, more, || (name.into(), family.map(Versioned::generation)));
        }
        Ok(family)
    }

    /// Returns when the telemetry was read from the relayer. Returns an error if it is not
    /// known.
    pub(super) fn scraped(&mut self) -> Known<SystemTime> {
        let telemetry = self.snapshot.telemetry();
        let scraped = telemetry.scraped();
        self.reads.scraped = Some(Scraped(scraped));
        match telemetry.names().value() {
            Ok(_) => Ok(scraped.unwrap_or(SystemTime::UNIX_EPOCH)),
            Err(reason) => {
                self.reads.family_names = Some(telemetry.names().generation());
                Err(reason.clone())
            }
        }
    }

    /// Returns the values of a header, or none if the request does not have it.
    pub(super) fn header(&mut self, name: &HeaderName) -> Vec<HeaderValue> {
        let values: Vec<_> = self.request.headers.get_all(name).iter().cloned().collect();
        let ReadSet { headers, more, .. } = &mut self.reads;
        if values.is_empty() && name.as_str().len() > MAX_READ {
            *more = true;
        } else if headers.iter().any(|(entry, _)| entry == name) {
            // It is recorded.
        } else if is_id(name) {
            // Few, and recorded in any case: the response is for this request only.
            headers.push((name.clone(), values.iter().map(copied).collect()));
        } else {
            record(headers, more, || (name.clone(), values.iter().map(copied).collect()));
        }
        values
    }

    /// Returns all headers of the request that components of `wasi:http` see, and records
    /// that all were read.
    pub(super) fn visible_headers(&mut self) -> Vec<(HeaderName, HeaderValue)> {
        let request = Arc::clone(&self.request);
        let visible = visible_headers(&request.headers);
        if !self.reads.all_headers {
            self.reads.all_headers = true;
            for chunk in visible.chunk_by(|(name, _), (next, _)| name == next) {
                self.header(chunk[0].0);
            }
        }
        visible.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the request's method. All cached responses of a method and a path share both,
    /// so this read is not recorded.
    pub(super) fn method(&self) -> &Method {
        &self.request.method
    }

    /// Returns the request's path with its query, and records that the query was read.
    pub(super) fn path_with_query(&mut self) -> &str {
        self.query();
        self.request.target.as_str()
    }

    /// Returns the request's body. The response to a request with a body is only for this
    /// request if the module can read it, so this read is not recorded.
    pub(super) fn body(&self) -> Bytes {
        self.request.body.clone()
    }

    /// Returns the request's query, and records that it was read.
    pub(super) fn query(&mut self) -> Option<&str> {
        let query = self.request.target.query();
        self.reads.query.get_or_insert_with(|| QueryRead(query.map(Into::into)));
        query
    }
}

/// Copies a value into memory of its own: a request's values share the buffer that was
/// read from its connection, and would keep all of it.
fn copied(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).expect("a value has the bytes of one")
}

fn record<T>(reads: &mut Vec<T>, more: &mut bool, read: impl FnOnce() -> T) {
    if reads.len() < MAX_READS {
        reads.push(read());
    } else {
        *more = true;
    }
}

impl ReadSet {
    /// Returns whether the same reads would return the same values now, and all of them
    /// are recorded. Snapshots must be from one publisher.
    #[must_use]
    pub fn is_valid_for(
        &self,
        snapshot: &Snapshot,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> bool {
        self.matches_request(query, headers) && self.matches_state(snapshot)
    }

    /// Returns whether the reads of the state would return the same values on this snapshot.
    /// Snapshots must be from one publisher.
    #[must_use]
    pub fn matches_state(&self, snapshot: &Snapshot) -> bool {
        let same = |read: Option<Generation>, now| read.is_none_or(|read| read == now);
        // If no chain was read, it makes no difference whether the chains are known.
        let chains_known = self.chains.is_empty() || snapshot.chain_ids().value().is_ok();
        let telemetry = snapshot.telemetry();
        let telemetry_known = self.families.is_empty() || telemetry.names().value().is_ok();
        same(self.components, snapshot.components().generation())
            && same(self.chain_ids, snapshot.chain_ids().generation())
            && same(self.status, snapshot.status().generation())
            && same(self.changed, snapshot.changed().generation)
            && self.unconfirmed.is_none_or(|read| read.since == snapshot.unconfirmed_since())
            && same(self.sources, snapshot.sources().generation())
            && same(self.family_names, telemetry.names().generation())
            && self.scraped.is_none_or(|Scraped(read)| read == telemetry.scraped())
            && telemetry_known
            && self
                .families
                .iter()
                .all(|(name, read)| telemetry.family(name).map(Versioned::generation) == *read)
            && chains_known
            && self
                .chains
                .iter()
                .all(|(id, read)| snapshot.chain(id.as_str()).map(ListedChain::generation) == *read)
    }

    /// Returns whether the reads of the query and of headers would return the same values
    /// for a request with this query and these headers, and all reads are recorded.
    #[must_use]
    pub fn matches_request(&self, query: Option<&str>, headers: &HeaderMap) -> bool {
        !self.more
            && self.query.as_ref().is_none_or(|QueryRead(read)| read.as_deref() == query)
            && self.headers.iter().all(|(name, read)| headers.get_all(name).iter().eq(read))
            && (!self.all_headers || headers.keys().all(|name| self.has_header(name)))
    }

    /// Returns whether a header was read, or is not visible.
    fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|(read, _)| read == name) || !is_visible(name)
    }

    /// Returns whether a header may have been read.
    pub(super) fn has_read_header(&self, name: &HeaderName) -> bool {
        self.all_headers || self.more || self.headers.iter().any(|(read, _)| read == name)
    }

    /// Returns whether all visible headers were read, whether the request had them or not.
    #[must_use]
    pub fn has_all_headers(&self) -> bool {
        self.all_headers
    }

    /// Returns whether the query was read, whether the request had one or not.
    #[must_use]
    pub fn has_query(&self) -> bool {
        self.query.is_some()
    }

    /// Returns the query that was read; none if it was not read or the request
    /// had none.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_ref().and_then(|QueryRead(read)| read.as_deref())
    }

    /// Returns whether the record has all reads.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        !self.more
    }

    /// Returns whether an id of the request was read.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.headers().any(is_id)
    }

    /// Returns the time of the last confirmation of the oldest value that was read, if its
    /// source no longer confirms it.
    #[must_use]
    pub fn stale_since(&self, snapshot: &Snapshot) -> Option<Instant> {
        let chains = self.chain_ids.is_some() || !self.chains.is_empty();
        let relayer = self.components.is_some() || self.status.is_some();
        let state = snapshot.stale().filter(|stale| relayer || (stale.chains && chains));
        let telemetry = self.family_names.is_some() || !self.families.is_empty();
        let telemetry = snapshot.telemetry().stale().filter(|_| telemetry);
        state.map(|stale| stale.since).into_iter().chain(telemetry).min()
    }

    /// Returns the headers that were read, with their values; none if a request did not
    /// have the header.
    pub fn header_values(&self) -> impl Iterator<Item = (&HeaderName, &[HeaderValue])> {
        self.headers.iter().map(|(name, values)| (name, values.as_slice()))
    }

    /// Returns the size of the record, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let chains = self.chains.iter().map(|(id, _)| size_of_val(id) + id.as_str().len());
        let families = self.families.iter().map(|read| size_of_val(read) + read.0.len());
        let values = self.headers.iter().flat_map(|(_, values)| values);
        let headers = values.map(|value| size_of_val(value) + value.len());
        let names = self.headers.iter().map(|read| size_of_val(read) + read.0.as_str().len());
        let query = self.query().map_or(0, str::len);
        let headers = headers.sum::<usize>() + names.sum::<usize>();
        size_of::<Self>() + chains.sum::<usize>() + families.sum::<usize>() + headers + query
    }

    /// Returns the headers that were read, apart from visible ones if all of these were read.
    pub fn single_headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers().filter(|name| !self.all_headers || !is_visible(name))
    }

    /// Returns the headers that were read, on which the response varies.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers.iter().map(|(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::{Command, GuestRequest, MAX_COMMANDS, MAX_READS, ReadSet, TrackedSnapshot};
    use http::uri::PathAndQuery;
    use http::{HeaderMap, HeaderName, Method};
    use relayer_rest_state::{
        ChainConfig, ChainId, ChainKind, Component, MetricFamily, MetricKind, NotReady,
        RelayerState, Sample, SourceKind, Stale, StatePublisher,
    };
    use std::sync::Arc;
    use std::time::{Duration, Instant, SystemTime};

    fn request(headers: HeaderMap) -> Arc<GuestRequest> {
        let target = PathAndQuery::from_static("/");
        Arc::new(GuestRequest::new(Method::GET, target, headers))
    }

    fn chain(id: &str) -> ChainConfig {
        ChainConfig::new(id, ChainKind::CosmosSdk)
    }

    /// Returns the publisher of a relayer with two chains.
    fn publisher() -> StatePublisher {
        let publisher = StatePublisher::new();
        publisher.set_chains(vec![chain("a"), chain("b")]).unwrap();
        publisher.set_telemetry(vec![family("a", 1.0), family("b", 1.0)], TIME);
        publisher
    }

    /// The time of the first scrape.
    const TIME: SystemTime = SystemTime::UNIX_EPOCH;

    fn family(name: &str, value: f64) -> MetricFamily {
        let sample = Sample { name: name.into(), labels: Vec::new(), value, since: TIME };
        let (kind, help) = (MetricKind::Gauge, String::new());
        MetricFamily { name: name.into(), kind, help, samples: vec![sample] }
    }

    fn reads(publisher: &StatePublisher, read: impl FnOnce(&mut TrackedSnapshot)) -> ReadSet {
        let mut snapshot =
            TrackedSnapshot::new(publisher.reader().snapshot(), request(HeaderMap::new()));
        read(&mut snapshot);
        snapshot.into_record().1
    }

    #[track_caller]
    fn check(publisher: &StatePublisher, reads: &ReadSet, current: bool) {
        let snapshot = publisher.reader().snapshot();
        assert_eq!(reads.is_valid_for(&snapshot, None, &HeaderMap::new()), current);
    }

    /// Names that a module invents are not kept.
    #[test]
    fn long_names_that_match_nothing_are_not_recorded() {
        let long = "a".repeat(super::MAX_READ + 1);
        let publisher = publisher();
        publisher.set_chain(chain(&long));
        let known = reads(&publisher, |snapshot| drop(snapshot.chain(&long).map(|_| ())));
        assert!(known.is_complete() && known.size() > long.len());
        let chain = reads(&publisher, |snapshot| drop(snapshot.chain(&long[1..]).map(|_| ())));
        assert!(chain.is_complete());
        let absent = format!("{long}b");
        let absent = reads(&publisher, |snapshot| drop(snapshot.chain(&absent).map(|_| ())));
        assert!(!absent.is_complete() && absent.size() < long.len());
        // The list shows that it is absent, so that the run can be repeated.
        let names = absent.state_reads().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names, ["chains.ids"]);
        publisher.set_telemetry(Vec::new(), TIME);
        let absent = format!("{long}b");
        let absent =
            reads(&publisher, |snapshot| drop(snapshot.metric_family(&absent).map(|_| ())));
        let names = absent.state_reads().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names, ["telemetry.families"]);
        let name = HeaderName::from_bytes(long.as_bytes()).unwrap();
        let header = reads(&publisher, |snapshot| drop(snapshot.header(&name)));
        assert!(!header.is_complete() && header.size() < long.len());
    }

    #[test]
    fn a_run_that_reads_nothing_stays_valid() {
        let publisher = publisher();
        let nothing = reads(&publisher, |_| {});
        publisher.set_chain(chain("c"));
        publisher.set_state(RelayerState::default());
        publisher.set_components(Vec::new());
        check(&publisher, &nothing, true);
    }

    #[test]
    fn each_read_depends_only_on_its_slice() {
        type Change = fn(&StatePublisher);
        type Read = fn(&mut TrackedSnapshot);
        let parts: [(Read, Change); 9] = [
            (
                |snapshot| drop(snapshot.components().clone()),
                |publisher| {
                    publisher
                        .set_components(vec![Component { name: "n".into(), version: "v".into() }]);
                },
            ),
            (
                |snapshot| drop(snapshot.chain_ids().clone()),
                |publisher| publisher.set_chain(chain("c")),
            ),
            (
                |snapshot| drop(snapshot.chain("a").map(|_| ())),
                |publisher| {
                    publisher.set_chain(ChainConfig { max_gas: Some(1), ..chain("a") });
                },
            ),
            (
                |snapshot| drop(snapshot.chain("b").map(|_| ())),
                |publisher| {
                    publisher.set_chain(ChainConfig { max_gas: Some(1), ..chain("b") });
                },
            ),
            (
                |snapshot| drop(snapshot.status().clone()),
                |publisher| {
                    publisher.set_state(RelayerState::default());
                },
            ),
            (
                |snapshot| drop(snapshot.sources().clone()),
                |publisher| drop(publisher.add_source(SourceKind::Relayer, "")),
            ),
            (
                |snapshot| drop(snapshot.metric_family("a").unwrap().cloned()),
                |publisher| publisher.set_telemetry(vec![family("a", 2.0), family("b", 1.0)], TIME),
            ),
            (
                |snapshot| drop(snapshot.metric_family("b").unwrap().cloned()),
                |publisher| publisher.set_telemetry(vec![family("a", 1.0), family("b", 2.0)], TIME),
            ),
            (
                |snapshot| _ = snapshot.scraped().unwrap(),
                |publisher| {
                    let families = vec![family("a", 1.0), family("b", 1.0)];
                    publisher.set_telemetry(families, TIME + Duration::from_secs(1));
                },
            ),
        ];
        for (changed, (_, change)) in parts.iter().enumerate() {
            let publisher = publisher();
            let records = parts.map(|(read, _)| reads(&publisher, read));
            for record in &records {
                check(&publisher, record, true);
            }
            change(&publisher);
            for (read, record) in records.iter().enumerate() {
                check(&publisher, record, read != changed);
            }
        }
    }

    #[test]
    fn the_families_of_metrics_are_one_read() {
        let publisher = publisher();
        let names = reads(&publisher, |snapshot| drop(snapshot.metric_families().clone()));
        let absent = reads(&publisher, |snapshot| {
            assert!(snapshot.metric_family("c").unwrap().is_none());
        });
        publisher.set_telemetry(vec![family("a", 2.0), family("b", 1.0)], TIME);
        check(&publisher, &names, true);
        check(&publisher, &absent, true);
        publisher.set_telemetry(vec![family("a", 2.0), family("c", 1.0)], TIME);
        check(&publisher, &names, false);
        check(&publisher, &absent, false);
        let known =
            reads(&publisher, |snapshot| drop(snapshot.metric_family("a").unwrap().cloned()));
        publisher.set_telemetry_not_ready(NotReady::default());
        check(&publisher, &known, false);
        let unknown = reads(&publisher, |snapshot| assert!(snapshot.scraped().is_err()));
        publisher.set_telemetry(vec![family("a", 2.0)], TIME);
        check(&publisher, &unknown, false);
    }

    #[test]
    fn only_reads_of_a_stale_source_are_stale() {
        let publisher = publisher();
        let state = reads(&publisher, |snapshot| drop(snapshot.status().clone()));
        let chain = reads(&publisher, |snapshot| drop(snapshot.chain("a").map(|_| ())));
        let family = reads(&publisher, |snapshot| drop(snapshot.metric_family("a").map(|_| ())));
        let since = |reads: &ReadSet| reads.stale_since(&publisher.reader().snapshot());
        let earlier = Instant::now();
        let time = earlier + Duration::from_secs(1);
        publisher.set_telemetry_stale(Some(time));
        assert_eq!([&state, &chain, &family].map(since), [None, None, Some(time)]);
        publisher.set_stale(Some(Stale { since: earlier, chains: false }));
        assert_eq!([&state, &chain, &family].map(since), [Some(earlier), None, Some(time)]);
        let both = reads(&publisher, |snapshot| {
            drop(snapshot.metric_families().clone());
            drop(snapshot.status().clone());
        });
        assert_eq!(since(&both), Some(earlier));
        publisher.set_stale(Some(Stale { since: earlier, chains: true }));
        assert_eq!(since(&chain), Some(earlier));
    }

    #[test]
    fn times_are_recorded_too() {
        let publisher = publisher();
        let changed = reads(&publisher, |snapshot| _ = snapshot.changed());
        let unconfirmed =
            reads(&publisher, |snapshot| assert!(snapshot.unconfirmed_since().is_none()));
        publisher.set_stale(None);
        check(&publisher, &changed, true);
        publisher.set_stale(Some(Stale { since: Instant::now(), chains: true }));
        check(&publisher, &changed, true);
        check(&publisher, &unconfirmed, false);
        let since = reads(&publisher, |snapshot| assert!(snapshot.unconfirmed_since().is_some()));
        check(&publisher, &since, true);
        publisher.set_chain(chain("c"));
        check(&publisher, &changed, false);
        check(&publisher, &since, true);
        publisher.set_stale(None);
        check(&publisher, &since, false);
    }

    #[test]
    fn the_absence_of_a_chain_is_recorded_too() {
        let publisher = publisher();
        let absent = reads(&publisher, |snapshot| assert!(snapshot.chain("c").unwrap().is_none()));
        publisher.set_chain(chain("d"));
        check(&publisher, &absent, true);
        publisher.set_chain(chain("c"));
        check(&publisher, &absent, false);
    }

    #[test]
    fn a_chain_that_was_removed_and_added_is_a_new_one() {
        let publisher = publisher();
        let there = reads(&publisher, |snapshot| assert!(snapshot.chain("a").unwrap().is_some()));
        publisher.remove_chain(&"a".into());
        check(&publisher, &there, false);
        publisher.set_chain(chain("a"));
        check(&publisher, &there, false);
    }

    #[test]
    fn a_chain_that_is_not_known_yet_is_requested() {
        let publisher = publisher();
        let ids = ["a", "b", "c"].map(ChainId::from).to_vec();
        publisher.set_chain_ids(ids, &NotReady::default()).unwrap();
        let known = reads(&publisher, |snapshot| assert!(snapshot.chain("a").unwrap().is_some()));
        let unknown = reads(&publisher, |snapshot| assert!(snapshot.chain("c").is_err()));
        assert_eq!(publisher.take_requested_chains(), ["c".into()]);
        check(&publisher, &unknown, true);
        publisher.set_chain(chain("c"));
        check(&publisher, &unknown, false);
        check(&publisher, &known, true);
    }

    #[test]
    fn chains_that_are_not_known_are_not_absent() {
        let unknown = StatePublisher::new();
        let not_ready = reads(&unknown, |snapshot| assert!(snapshot.chain("a").is_err()));
        check(&unknown, &not_ready, true);
        unknown.set_chains(Vec::new()).unwrap();
        check(&unknown, &not_ready, false);

        let absent = reads(&unknown, |snapshot| assert!(snapshot.chain("a").unwrap().is_none()));
        unknown.set_chains_not_ready(NotReady::default());
        check(&unknown, &absent, false);
    }

    #[test]
    fn headers_are_recorded_with_their_values() {
        let name = HeaderName::from_static("accept");
        let with = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(&name, value.parse().unwrap());
            }
            headers
        };
        let present = StatePublisher::new().reader().snapshot();
        for (read, others) in [
            (&["a"][..], [&[][..], &["b"], &["a", "b"]]),
            (&[], [&["a"], &[""], &["a", "a"]]),
            (&["a", "b"], [&["a"], &["b", "a"], &[]]),
        ] {
            let mut snapshot = TrackedSnapshot::new(present.clone(), request(with(read)));
            assert_eq!(snapshot.header(&name), read);
            let reads = snapshot.into_record().1;
            assert_eq!(reads.headers().collect::<Vec<_>>(), [&name]);
            let mut headers = with(read);
            headers.insert("other", "x".parse().unwrap());
            assert!(reads.is_valid_for(&present, None, &headers));
            for other in others {
                assert!(!reads.is_valid_for(&present, None, &with(other)), "{read:?} {other:?}");
            }
        }
    }

    #[test]
    fn all_headers_are_one_read() {
        let headers = |list: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in list {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            headers
        };
        let present = StatePublisher::new().reader().snapshot();
        let first = headers(&[("b", "1"), ("a", "2"), ("host", "x"), ("b", "3")]);
        let mut snapshot = TrackedSnapshot::new(present.clone(), request(first));
        let read = snapshot.visible_headers();
        let read: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(read, [("a", "2"), ("b", "1"), ("b", "3")]);
        let reads = snapshot.into_record().1;
        assert!(reads.has_all_headers());
        for (list, is_same) in [
            (&[("a", "2"), ("b", "1"), ("b", "3")][..], true),
            (&[("b", "1"), ("a", "2"), ("b", "3"), ("host", "y"), ("x-request-id", "1")], true),
            (&[("b", "3"), ("a", "2"), ("b", "1")], false),
            (&[("a", "2"), ("b", "1")], false),
            (&[("a", "2"), ("b", "1"), ("b", "3"), ("c", "")], false),
        ] {
            assert_eq!(reads.matches_request(None, &headers(list)), is_same, "{list:?}");
        }
    }

    #[test]
    fn the_query_is_recorded_only_if_it_is_read() {
        const TARGETS: [&str; 4] = ["/", "/?", "/?a", "/?b"];
        let present = StatePublisher::new().reader().snapshot();
        let headers = HeaderMap::new();
        for target in TARGETS.map(PathAndQuery::from_static) {
            let tracked = || {
                let request = GuestRequest::new(Method::GET, target.clone(), HeaderMap::new());
                TrackedSnapshot::new(present.clone(), Arc::new(request))
            };
            let unread = tracked().into_record().1;
            assert!(!unread.has_query());
            let mut snapshot = tracked();
            assert_eq!(snapshot.query(), target.query());
            let read = snapshot.into_record().1;
            assert!(read.has_query() && read.query() == target.query());
            for other in TARGETS.map(PathAndQuery::from_static) {
                assert!(unread.is_valid_for(&present, other.query(), &headers));
                let is_same = read.is_valid_for(&present, other.query(), &headers);
                assert_eq!(is_same, target == other, "{target} {other}");
            }
        }
    }

    #[test]
    fn a_command_makes_a_record_invalid_for_all_requests() {
        let publisher = publisher();
        let clear = || Command::ClearPackets { chain: Some("a".into()) };
        let mut snapshot =
            TrackedSnapshot::new(publisher.reader().snapshot(), request(HeaderMap::new()));
        snapshot.record_command(clear());
        let (_, reads, commands) = snapshot.into_record();
        assert_eq!(commands, [clear()]);
        check(&publisher, &reads, false);
        let mut snapshot =
            TrackedSnapshot::new(publisher.reader().snapshot(), request(HeaderMap::new()));
        (0..100).for_each(|_| snapshot.record_command(clear()));
        assert_eq!(snapshot.into_record().2.len(), MAX_COMMANDS + 1);
    }

    #[test]
    fn the_record_has_all_ids_of_the_request_that_were_read() {
        let publisher = publisher();
        let of_names = |names: &[String]| {
            reads(&publisher, |snapshot| {
                for name in names {
                    snapshot.header(&name.parse().unwrap());
                }
            })
        };
        let mut names: Vec<_> = (0..=MAX_READS).map(|number| format!("x-{number}")).collect();
        let others = of_names(&names);
        assert!(!others.is_complete() && !others.has_ids());
        names.extend(["x-request-id", "x-request-id", "tracestate"].map(str::to_owned));
        let ids = of_names(&names);
        assert!(!ids.is_complete() && ids.has_ids());
        assert_eq!(ids.headers().count(), MAX_READS + 2);
        names.drain(..=MAX_READS);
        assert!(of_names(&names).is_complete());
    }

    #[test]
    fn a_record_beyond_its_bound_is_never_valid() {
        let publisher = publisher();
        let many = |count| {
            reads(&publisher, |snapshot| {
                for id in 0..count {
                    snapshot.chain(&id.to_string()).unwrap();
                    snapshot.chain(&id.to_string()).unwrap();
                }
            })
        };
        check(&publisher, &many(MAX_READS), true);
        let too_many = many(100 * MAX_READS);
        check(&publisher, &too_many, false);
        assert_eq!(too_many.chains.len(), MAX_READS);
    }
}
