//! The parameters of a request.

use std::borrow::Cow;
use std::collections::BTreeSet;

use relayer_rest_sdk::Request;

/// `?verbose`: lists each check, even if all pass.
pub(crate) const VERBOSE: &str = "verbose";
/// `?exclude=CHECK`: ignores the result of a check.
pub(crate) const EXCLUDE: &str = "exclude";
/// `?chain=ID`: checks this chain instead of all configured chains.
pub(crate) const CHAIN: &str = "chain";

/// `?max-backlog-age=TIME`: the oldest pending packet of a channel is not older.
pub(crate) const MAX_BACKLOG_AGE: &str = "max-backlog-age";
/// `?max-backlog=COUNT`: no channel has more pending packets.
pub(crate) const MAX_BACKLOG: &str = "max-backlog";
/// `?min-balance=AMOUNT[DENOM]`: each wallet, or those with this token, has this balance.
pub(crate) const MIN_BALANCE: &str = "min-balance";

/// The parsed parameters. A repeated parameter with the same value counts once.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) verbose: bool,
    pub(crate) excluded: BTreeSet<Cow<'a, str>>,
    pub(crate) chains: BTreeSet<Cow<'a, str>>,
    /// The thresholds, by the name of their parameter.
    pub(crate) thresholds: BTreeSet<(&'static str, Cow<'a, str>)>,
    /// Parameters that the endpoint does not support.
    pub(crate) unknown: BTreeSet<Cow<'a, str>>,
    /// Parameters that the endpoint supports.
    pub(crate) known: &'static [&'static str],
}

impl<'a> Query<'a> {
    /// Parses the query of a request to an endpoint that supports `known`.
    pub(crate) fn new(request: &'a Request, known: &'static [&'static str]) -> Self {
        let mut query = Self { known, ..Self::default() };
        for (name, value) in request.query_pairs() {
            match known.iter().find(|known| **known == name) {
                // As in Kubernetes, its value does not matter.
                Some(&VERBOSE) => query.verbose = true,
                Some(&EXCLUDE) => _ = query.excluded.insert(value),
                Some(&CHAIN) => _ = query.chains.insert(value),
                Some(&threshold) => _ = query.thresholds.insert((threshold, value)),
                None => _ = query.unknown.insert(name),
            }
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::{CHAIN, EXCLUDE, Query, Request, VERBOSE};

    #[track_caller]
    fn check(query: &str, verbose: bool, [excluded, chains, unknown]: [&[&str]; 3]) {
        let request = Request::get(&format!("/?{query}"));
        let query = Query::new(&request, &[VERBOSE, EXCLUDE, CHAIN]);
        assert_eq!(query.verbose, verbose);
        for (found, expected) in
            [(&query.excluded, excluded), (&query.chains, chains), (&query.unknown, unknown)]
        {
            assert!(found.iter().eq(expected), "{found:?}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_can_be_repeated() {
        check("", false, [&[]; 3]);
        check("verbose", true, [&[]; 3]);
        check("verbose=0&verbose", true, [&[]; 3]);
        check(
            "exclude=state&chain=b&exclude=chain%2Fa+b&chain=a&chain=b",
            false,
            [&["chain/a b", "state"], &["a", "b"], &[]],
        );
        check("Verbose&&exclude&=", false, [&[""], &[], &["", "Verbose"]]);
    }

    #[test]
    fn unknown_parameters_are_reported() {
        let request = Request::get("/?chain=a&verbose");
        let query = Query::new(&request, &[VERBOSE]);
        assert!(query.verbose && query.chains.is_empty());
        assert!(query.unknown.iter().eq(["chain"]));
    }
}
