//! What a request's parameters ask for.

use std::borrow::Cow;
use std::collections::BTreeSet;

use relayer_rest_sdk::Query as Sent;

/// `?verbose`: each check is told of, also where all is well.
pub(crate) const VERBOSE: &str = "verbose";
/// `?exclude=CHECK`: a check is left out.
pub(crate) const EXCLUDE: &str = "exclude";
/// `?chain=ID`: a chain is looked at, and not all that are configured.
pub(crate) const CHAIN: &str = "chain";

/// What is asked for. What is there more than once counts once.
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) verbose: bool,
    pub(crate) excluded: BTreeSet<Cow<'a, str>>,
    pub(crate) chains: BTreeSet<Cow<'a, str>>,
    /// Parameters that have no meaning where they were given.
    pub(crate) unknown: BTreeSet<Cow<'a, str>>,
    /// Those that would have.
    pub(crate) known: &'static [&'static str],
}

impl<'a> Query<'a> {
    /// Of a request for what has a use for these parameters.
    pub(crate) fn new(sent: &'a Sent, known: &'static [&'static str]) -> Self {
        let mut query = Self { known, ..Self::default() };
        for (name, value) in sent.parameters() {
            match known.iter().find(|known| **known == name) {
                // As it is in Kubernetes: whatever its value is.
                Some(&VERBOSE) => query.verbose = true,
                Some(&EXCLUDE) => _ = query.excluded.insert(value),
                Some(&CHAIN) => _ = query.chains.insert(value),
                _ => _ = query.unknown.insert(name),
            }
        }
        query
    }
}

#[cfg(test)]
mod tests {
    use super::{CHAIN, EXCLUDE, Query, Sent, VERBOSE};
    use relayer_rest_sdk::testing::FakeHost;

    #[track_caller]
    fn check(query: &str, verbose: bool, [excluded, chains, unknown]: [&[&str]; 3]) {
        let sent = Sent::read(&FakeHost::new().with_query(query));
        let query = Query::new(&sent, &[VERBOSE, EXCLUDE, CHAIN]);
        assert_eq!(query.verbose, verbose);
        for (found, expected) in
            [(&query.excluded, excluded), (&query.chains, chains), (&query.unknown, unknown)]
        {
            assert!(found.iter().eq(expected), "{found:?}");
        }
    }

    #[test]
    fn parameters_are_decoded_and_may_come_often() {
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
    fn what_has_no_use_for_a_parameter_does_not_know_it() {
        let sent = Sent::read(&FakeHost::new().with_query("chain=a&verbose"));
        let query = Query::new(&sent, &[VERBOSE]);
        assert!(query.verbose && query.chains.is_empty());
        assert!(query.unknown.iter().eq(["chain"]));
    }
}
