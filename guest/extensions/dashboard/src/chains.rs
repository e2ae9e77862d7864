//! `GET /chains`: the configured chains. The page asks for them while the state
//! is not known.

use relayer_rest_sdk::{Answer, Host};

pub(crate) fn chains<H: Host>(host: &H) -> Answer {
    match host.chain_ids() {
        Ok(ids) => Answer::success(ids),
        Err(reason) => Answer::not_ready(&reason),
    }
}
