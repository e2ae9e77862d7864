//! `GET /chains`: the configured chains. The page requests them while the state is not
//! known.

use relayer_rest_sdk::{Host, Response};

pub(crate) fn chains<H: Host>(host: &H) -> Response {
    match host.chain_ids() {
        Ok(ids) => Response::success(ids),
        Err(reason) => Response::not_ready(&reason),
    }
}
