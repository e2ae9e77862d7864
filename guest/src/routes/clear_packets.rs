//! `POST /clear_packets`: clears the pending packets of a chain, or of all chains.
//!
//! The relayer clears all chains if none is named. Here, that must be asked for.

use std::borrow::Cow;

use relayer_rest_sdk::{Describe, Host, Request, Response};
use schemars::JsonSchema;

/// The parameter with the chain.
const CHAIN: &str = "chain";

/// The parameter that asks for all chains, with the value `true`.
const ALL: &str = "all";

pub(crate) fn clear_packets<H: Host>(host: &H, request: &Request) -> Result<Response, Response> {
    let parameters: Vec<_> = request.query_pairs().collect();
    let chain = target(&parameters).map_err(|msg| Response::error(400, "InvalidCommand", &msg))?;
    if let Some(id) = chain
        && !host.chain_ids()?.iter().any(|known| known == id)
    {
        let msg = format!("could not find configuration for chain: {id}");
        return Err(Response::error(404, "ChainConfigNotFound", &msg));
    }
    host.clear_packets(chain);
    Ok(Response::success(()))
}

/// The parameters of a command.
#[derive(JsonSchema)]
#[schemars(rename = "Target", untagged, deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
enum TargetSchema {
    Chain {
        #[schemars(length(min = 1))]
        chain: String,
    },
    All {
        #[schemars(extend("const" = true))]
        all: bool,
    },
}

pub(crate) const DESCRIBE_CLEAR_PACKETS: Describe = |operation| {
    operation
        .summary("Clears the pending packets of a chain, or of all chains")
        .query_fields::<TargetSchema>("target", "Either a chain, or all of them")
        .success::<()>()
        .error(400, "The parameters are not those of a command")
        .error(404, "There is no such chain")
        .not_ready()
};

/// Returns the chain of a command, or `None` for all chains.
fn target<'a>(parameters: &'a [(Cow<'_, str>, Cow<'_, str>)]) -> Result<Option<&'a str>, String> {
    if let Some((name, _)) = parameters.iter().find(|(name, _)| *name != CHAIN && *name != ALL) {
        return Err(format!(
            "unknown parameter {name}: the relayer clears a whole chain, named by chain=ID"
        ));
    }
    match parameters {
        [] => Err("name the chain with chain=ID, or clear all chains with all=true".to_owned()),
        [(name, id)] if name == CHAIN && !id.is_empty() => Ok(Some(&**id)),
        [(name, value)] if name == ALL && value == "true" => Ok(None),
        [(name, value)] => Err(format!("{name}={value}: expected chain=ID or all=true")),
        _ => Err("more than one parameter; expected chain=ID or all=true".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::dialect::Dialect;
    use crate::router::handle_in;
    use relayer_rest_sdk::testing::FakeHost;
    use relayer_rest_sdk::{Request, Response};

    fn host() -> FakeHost {
        FakeHost::new().with_chain("ibc-0").with_chain("a b")
    }

    fn post(host: &FakeHost, query: &str) -> Response {
        let request = Request::new("POST", &format!("/clear_packets?{query}"));
        handle_in(Dialect::V1_13, host, &request)
    }

    #[test]
    fn a_known_chain_or_all_chains_are_cleared() {
        for (query, chain) in
            [("chain=ibc-0", Some("ibc-0")), ("chain=a%20b", Some("a b")), ("all=true", None)]
        {
            let host = host();
            let response = post(&host, query);
            assert_eq!(response.status, 200);
            assert_eq!(response.text_body(), r#"{"status":"success","result":null}"#);
            assert_eq!(host.cleared(), [chain.map(str::to_owned)]);
        }
    }

    #[test]
    fn nothing_is_cleared_by_accident() {
        for (query, status, msg) in [
            ("", 400, "name the chain with chain=ID, or clear all chains with all=true"),
            ("chain=", 400, "chain=: expected chain=ID or all=true"),
            ("all", 400, "all=: expected chain=ID or all=true"),
            ("all=1", 400, "all=1: expected chain=ID or all=true"),
            ("chain=ibc-0&all=true", 400, "more than one parameter; expected chain=ID or all=true"),
            ("chain=ibc-0&chain=a", 400, "more than one parameter; expected chain=ID or all=true"),
            (
                "chain=ibc-0&channel=channel-0",
                400,
                "unknown parameter channel: the relayer clears a whole chain, named by chain=ID",
            ),
            ("chain=ibc-9", 404, "could not find configuration for chain: ibc-9"),
        ] {
            let host = host();
            let response = post(&host, query);
            assert_eq!(response.status, status, "{query}");
            assert_eq!(response.json_body()["result"]["msg"], msg, "{query}");
            assert!(host.cleared().is_empty(), "{query}");
        }
        assert_eq!(post(&FakeHost::not_ready("wait"), "chain=a").status, 503);
    }

    #[test]
    fn only_post_in_dialect_1_13_clears_packets() {
        let host = host();
        let target = "/clear_packets?chain=ibc-0";
        for method in ["GET", "PUT", "DELETE"] {
            let refused = handle_in(Dialect::V1_13, &host, &Request::new(method, target));
            assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
        }
        let unknown = handle_in(Dialect::V0_7, &host, &Request::new("POST", target));
        assert_eq!(unknown.status, 404);
        assert!(host.cleared().is_empty());
    }
}
