//! `GET /state`: the connected chains and the active workers.

use crate::answer::Answer;
use crate::json::write_state;
use crate::relayer::Relayer;

pub(crate) fn state(relayer: &dyn Relayer) -> Answer {
    match relayer.state() {
        Ok(state) => Answer::success_written(|json| write_state(&state, json)),
        Err(reason) => Answer::not_ready(&reason),
    }
}
