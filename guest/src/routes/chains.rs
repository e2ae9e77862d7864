//! `GET /chains`: the identifiers of the chains.

use crate::answer::Answer;
use crate::relayer::Relayer;

pub(crate) fn chains(relayer: &dyn Relayer) -> Answer {
    match relayer.chain_ids() {
        Ok(ids) => Answer::success(ids),
        Err(reason) => Answer::not_ready(&reason),
    }
}

#[cfg(test)]
mod tests {
    use super::chains;
    use crate::relayer::fake::{FakeRelayer, bare_chain};

    #[test]
    fn identifiers_keep_their_order_and_are_escaped() {
        let relayer = FakeRelayer {
            chains: ["ibc-1", "a\"b"].map(bare_chain).to_vec(),
            ..Default::default()
        };
        let body = String::from_utf8(chains(&relayer).body).unwrap();
        assert_eq!(body, r#"{"status":"success","result":["ibc-1","a\"b"]}"#);
    }

    #[test]
    fn no_chains_are_an_empty_array() {
        let body = String::from_utf8(chains(&FakeRelayer::default()).body).unwrap();
        assert_eq!(body, r#"{"status":"success","result":[]}"#);
    }
}
