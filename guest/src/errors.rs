//! The errors of this API, in each dialect.

use relayer_rest_sdk::Response;

use crate::dialect::Dialect;

/// Returns the error for an unknown chain identifier.
pub(crate) fn chain_not_found(dialect: Dialect, id: &str) -> Response {
    let msg = format!("could not find configuration for chain: {id}");
    let status = match dialect {
        Dialect::V0_7 => 404,
        Dialect::V1_13 => 200,
    };
    Response::error(status, "ChainConfigNotFound", &msg)
}

/// Returns the error for a chain identifier that is not UTF-8 when percent-decoded.
pub(crate) fn invalid_chain_id(segment: &str) -> Response {
    let msg = format!("the chain identifier '{segment}' is not UTF-8 when percent-decoded");
    Response::error(400, "InvalidChainId", &msg)
}

/// Returns the error for a path that no route matches.
pub(crate) fn not_found(dialect: Dialect, path: &str, known: &str) -> Response {
    match dialect {
        Dialect::V0_7 => Response::not_found(path, known),
        Dialect::V1_13 => Response::empty(404),
    }
}

/// Returns the error for a known path and a method other than GET.
pub(crate) fn method_not_allowed(dialect: Dialect, method: &str, path: &str) -> Response {
    match dialect {
        Dialect::V0_7 => Response::method_not_allowed(method, path),
        Dialect::V1_13 => Response::empty(405).with_header("allow", "GET,HEAD"),
    }
}
