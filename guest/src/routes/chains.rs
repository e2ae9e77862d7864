//! `GET /chains`: the identifiers of the chains.

use relayer_rest_sdk::{Answer, Host};

use crate::router::Asked;

pub(crate) fn chains<H: Host>(asked: &Asked<'_, H>) -> Answer {
    match asked.host.chain_ids() {
        Ok(ids) => Answer::success(ids),
        Err(reason) => Answer::not_ready(&reason),
    }
}

#[cfg(test)]
mod tests {
    use super::chains;
    use crate::dialect::Dialect;
    use crate::router::Asked;
    use relayer_rest_sdk::testing::MadeUp;

    #[track_caller]
    fn check(host: &MadeUp, body: &str) {
        assert_eq!(chains(&Asked { dialect: Dialect::V0_7, host }).text_body(), body);
    }

    #[test]
    fn identifiers_keep_their_order_and_are_escaped() {
        let host = MadeUp::new().with_chain("ibc-1").with_chain("a\"b");
        check(&host, r#"{"status":"success","result":["ibc-1","a\"b"]}"#);
    }

    #[test]
    fn no_chains_are_an_empty_array() {
        check(&MadeUp::new(), r#"{"status":"success","result":[]}"#);
    }
}
