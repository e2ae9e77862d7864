//! `GET /chains`: the configured chains. The page requests them while the state is not
//! known.

use relayer_rest_sdk::{Host, Response};

pub(crate) fn chains<H: Host>(host: &H) -> Result<Response, Response> {
    Ok(Response::success(host.chain_ids()?))
}
