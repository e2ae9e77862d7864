//! `GET /state`: the connected chains and the active workers.

use relayer_rest_sdk::{Host, Response};

use crate::json::write_state;
use crate::router::Context;

pub(crate) fn state<H: Host>(context: &Context<'_, H>) -> Response {
    match context.host.state() {
        Ok(state) => {
            // Written with its envelope: a large state is not copied into one.
            let mut json = br#"{"status":"success","result":"#.to_vec();
            write_state(context.dialect, &state, &mut json);
            json.push(b'}');
            Response::json_written(200, json)
        }
        Err(reason) => Response::not_ready(&reason),
    }
}
