//! Compares the responses of a candidate with those of the active module, and keeps the
//! differences by route, kind and place.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::Arc;

use relayer_rest_common::text::truncate;
use relayer_rest_sandbox::{CallError, GuestRequest};

use super::expected::{ChangeKind, ExpectedChanges};
use super::report::ShadowDifference;
use super::session::Comparison;
use crate::cache::RecordedResponse;
use crate::registry::compare::{self, Change, Difference, Part};

/// The maximum number of listed differences that are expected, and of those that are not.
const MAX_LISTED: usize = 100;

/// A response, or the reason for its absence.
pub(super) type Outcome<'a> = Result<&'a RecordedResponse, &'a CallError>;

/// The differences so far.
pub(super) struct Tally {
    expected: ExpectedChanges,
    /// Whether each expected change occurred.
    seen: Vec<bool>,
    /// The unexpected ones are the first.
    listed: BTreeMap<Place, ShadowDifference>,
    /// The numbers of listed differences: unexpected, expected.
    counts: [usize; 2],
    unlisted: u64,
}

/// A place in the responses of a route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    is_expected: bool,
    route: Arc<str>,
    kind: ChangeKind,
    /// A pointer or the name of a header; empty for other kinds.
    name: String,
}

/// The comparison of the responses to one request.
struct Exchange<'a> {
    tally: &'a mut Tally,
    request: &'a GuestRequest,
    route: Arc<str>,
    /// The places of the changes that are expected of this request.
    expected: Vec<usize>,
    result: Comparison,
}

impl Tally {
    pub(super) fn new(expected: ExpectedChanges) -> Self {
        let seen = vec![false; expected.len()];
        Self { expected, seen, listed: BTreeMap::new(), counts: [0; 2], unlisted: 0 }
    }

    /// Compares the responses of both modules to a request.
    pub(super) fn compare(
        &mut self,
        request: &GuestRequest,
        active: Outcome<'_>,
        candidate: Outcome<'_>,
    ) -> Comparison {
        let route = active.ok().and_then(RecordedResponse::route);
        let path = route.map_or(request.target.path(), |route| route.path());
        let route = format!("{} {}", request.method, truncate(path)).into();
        let expected = self.expected.of_request(&request.method, request.target.path());
        let result = Comparison::Equal;
        let mut exchange = Exchange { tally: self, request, route, expected, result };
        let absent =
            |error: &CallError| Some(format!("no response: {}", truncate(&error.to_string())));
        let status = |response: &RecordedResponse| Some(response.status().as_u16().to_string());
        let part = || "status".to_owned();
        match (active, candidate) {
            (Ok(active), Ok(candidate)) => {
                compare::differences(active, candidate, &mut |difference| {
                    exchange.differs(difference);
                });
            }
            // Both fail in the same way.
            (Err(active), Err(candidate)) if discriminant(active) == discriminant(candidate) => {}
            (active, Err(candidate)) => {
                let from = active.map_or_else(absent, status);
                let change = Change { part: part(), from, to: absent(candidate) };
                exchange.add(ChangeKind::Failure, String::new(), None, || change);
            }
            (Err(active), Ok(candidate)) => {
                let change = Change { part: part(), from: absent(active), to: status(candidate) };
                let expected = &exchange.tally.expected;
                let place =
                    exchange.expected.iter().find(|place| expected.is_status(**place)).copied();
                exchange.add(ChangeKind::Status, String::new(), place, || change);
            }
        }
        exchange.result
    }

    /// Returns the listed differences, the unexpected ones first.
    pub(super) fn listed(&self) -> Vec<ShadowDifference> {
        self.listed.values().cloned().collect()
    }

    /// Returns the first request with a difference that is not expected, and the change.
    pub(super) fn first_unexpected(&self) -> Option<&ShadowDifference> {
        self.listed.values().find(|difference| !difference.is_expected)
    }

    /// Returns how often differences occurred at places that are not listed.
    pub(super) fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Returns the expected changes that did not occur.
    pub(super) fn unseen(&self) -> Vec<String> {
        let unseen = self.seen.iter().enumerate().filter(|(_, seen)| !**seen);
        unseen.map(|(place, _)| self.expected.describe(place)).collect()
    }
}

impl Exchange<'_> {
    fn differs(&mut self, difference: &Difference<'_>) {
        let expected = &self.tally.expected;
        let place = self.expected.iter().find(|place| expected.is_at(**place, difference)).copied();
        let name = match difference.part {
            Part::Place(pointer) => truncate(pointer.general()),
            Part::Header(name) => name.to_owned(),
            Part::Status | Part::Commands | Part::Body => String::new(),
        };
        self.add(ChangeKind::of(difference), name, place, || difference.change());
    }

    /// Adds a difference, which may be the expected change at a place.
    fn add(
        &mut self,
        kind: ChangeKind,
        name: String,
        expected: Option<usize>,
        change: impl FnOnce() -> Change,
    ) {
        let is_expected = expected.is_some();
        let result = if is_expected { Comparison::Expected } else { Comparison::Unexpected };
        self.result = self.result.max(result);
        if let Some(place) = expected {
            self.tally.seen[place] = true;
        }
        let place = Place { is_expected, route: Arc::clone(&self.route), kind, name };
        if let Some(listed) = self.tally.listed.get_mut(&place) {
            listed.count += 1;
            return;
        }
        let count = &mut self.tally.counts[usize::from(is_expected)];
        if *count == MAX_LISTED {
            self.tally.unlisted += 1;
            return;
        }
        *count += 1;
        let GuestRequest { method, target, .. } = self.request;
        let is_pointer =
            matches!(kind, ChangeKind::Added | ChangeKind::Removed | ChangeKind::Changed);
        let difference = ShadowDifference {
            route: place.route.to_string(),
            kind,
            pointer: is_pointer.then(|| place.name.clone()),
            header: (kind == ChangeKind::Header).then(|| place.name.clone()),
            is_expected,
            count: 1,
            request: format!("{method} {}", truncate(target.as_str())),
            first: change(),
        };
        self.tally.listed.insert(place, difference);
    }
}
