//! NAME: responds to requests about a relayer, below its mount path.

use relayer_rest_sdk::{Host, OpenApi, Params, Request, Response, Route, Router, WitHost};

relayer_rest_sdk::module!(handle);
relayer_rest_sdk::openapi!("openapi.json");
relayer_rest_sdk::arena!();

/// Handles a request. The `grants` of the mount must include the interfaces of the host
/// that are called: here `chains`.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    routes().respond(host, request)
}

/// Describes the routes, for the host's `/openapi.json`.
pub fn openapi() -> OpenApi {
    routes::<WitHost>().openapi(OpenApi::new("NAME", env!("CARGO_PKG_VERSION")))
}

const fn routes<H: Host>() -> Router<H, 2> {
    Router::new([
        Route::get("/", chains).describe(|operation| {
            operation
                .summary("The configured chains, with their number")
                .content(200, "text/plain; charset=utf-8", "A line of text")
                .not_ready()
        }),
        Route::get("/chain/:id", chain).describe(|operation| {
            operation
                .summary("The identifier of a chain")
                .success::<String>()
                .error(400, "The identifier is not percent-encoded UTF-8")
                .error(404, "There is no such chain")
                .not_ready()
        }),
    ])
}

/// Lists the configured chains, with their number.
fn chains<H: Host>(host: &H, _: &Request, _: Params<'_>) -> Result<Response, Response> {
    let ids = host.chain_ids()?;
    Ok(Response::text(format!("{} chains: {}\n", ids.len(), ids.join(", "))))
}

/// Returns the identifier of a chain, or 404 if it is not configured.
fn chain<H: Host>(host: &H, _: &Request, params: Params<'_>) -> Result<Response, Response> {
    let id = params.get("id")?;
    match host.chain(&id)? {
        Some(chain) => Ok(Response::success(chain.id)),
        None => Err(Response::error(404, "ChainNotFound", &format!("there is no chain {id}"))),
    }
}

#[cfg(test)]
mod tests {
    use relayer_rest_sdk::Request;
    use relayer_rest_sdk::testing::{FakeHost, check_openapi};
    use super::{handle, openapi};

    #[test]
    fn chains_are_listed() {
        let host = FakeHost::new().with_chain("ibc-0").with_chain("ibc-1");
        let response = handle(&host, &Request::get("/"));
        assert_eq!(response.text_body(), "2 chains: ibc-0, ibc-1\n");
        assert_eq!(handle(&host, &Request::get("/chain/ibc-1")).status, 200);
        assert_eq!(handle(&host, &Request::get("/chain/ibc-2")).status, 404);
    }

    #[test]
    fn the_document_is_that_of_the_routes() {
        check_openapi(openapi(), "openapi.json");
    }

    #[test]
    fn unknown_chains_are_reported_as_not_ready() {
        let response = handle(&FakeHost::not_ready("wait"), &Request::get("/"));
        assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
    }
}
