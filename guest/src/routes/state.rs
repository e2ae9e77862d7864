//! `GET /state`: the connected chains and the active workers.

use relayer_rest_sdk::{Answer, Host};

use crate::json::write_state;
use crate::router::Asked;

pub(crate) fn state<H: Host>(asked: &Asked<'_, H>) -> Answer {
    match asked.host.state() {
        Ok(state) => {
            // In its envelope: what is large is not copied into one.
            let mut json = br#"{"status":"success","result":"#.to_vec();
            write_state(asked.dialect, &state, &mut json);
            json.push(b'}');
            Answer::json_written(200, json)
        }
        Err(reason) => Answer::not_ready(&reason),
    }
}
