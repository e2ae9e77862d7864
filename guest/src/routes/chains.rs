//! `GET /chains`: the identifiers of the chains.

use relayer_rest_sdk::{Describe, Host, Response};

use crate::router::Context;

pub(crate) fn chains<H: Host>(context: &Context<'_, H>) -> Result<Response, Response> {
    Ok(Response::success(context.host.chain_ids()?))
}

pub(crate) const DESCRIBE_CHAINS: Describe = |operation| {
    operation.summary("The identifiers of the chains").success::<Vec<String>>().not_ready()
};

#[cfg(test)]
mod tests {
    use super::chains;
    use crate::dialect::Dialect;
    use crate::router::Context;
    use relayer_rest_sdk::testing::FakeHost;

    #[track_caller]
    fn check(host: &FakeHost, body: &str) {
        let response = chains(&Context { dialect: Dialect::V0_7, host });
        assert_eq!(response.unwrap().text_body(), body);
    }

    #[test]
    fn identifiers_keep_their_order_and_are_escaped() {
        let host = FakeHost::new().with_chain("ibc-1").with_chain("a\"b");
        check(&host, r#"{"status":"success","result":["ibc-1","a\"b"]}"#);
    }

    #[test]
    fn an_empty_list_of_chains_is_an_empty_array() {
        check(&FakeHost::new(), r#"{"status":"success","result":[]}"#);
    }
}
