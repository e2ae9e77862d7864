//! The errors of this API, as each dialect has them.

use relayer_rest_sdk::Response;

use crate::dialect::Dialect;

/// No chain has the identifier that was asked for.
pub(crate) fn chain_not_found(dialect: Dialect, id: &str) -> Response {
    let msg = format!("could not find configuration for chain: {id}");
    let status = match dialect {
        Dialect::V0_7 => 404,
        Dialect::V1_13 => 200,
    };
    Response::error(status, "ChainConfigNotFound", &msg)
}

/// The identifier that was asked for is not text.
pub(crate) fn invalid_chain_id(segment: &str) -> Response {
    let msg = format!("the chain identifier '{segment}' is not UTF-8 when percent-decoded");
    Response::error(400, "InvalidChainId", &msg)
}

/// No route has the path that was asked for.
pub(crate) fn not_found(dialect: Dialect, path: &str, known: &str) -> Response {
    match dialect {
        Dialect::V0_7 => Response::not_found(path, known),
        Dialect::V1_13 => Response::empty(404),
    }
}

/// The path is known, the method is not.
pub(crate) fn method_not_allowed(dialect: Dialect, method: &str, path: &str) -> Response {
    match dialect {
        Dialect::V0_7 => Response::method_not_allowed(method, path),
        Dialect::V1_13 => Response::empty(405).with_header("allow", "GET,HEAD"),
    }
}
