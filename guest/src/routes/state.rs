//! `GET /state`: the connected chains and the active workers.

use crate::answer::Answer;
use crate::dialect::Dialect;
use crate::json::write_state;
use crate::relayer::Relayer;

pub(crate) fn state(dialect: Dialect, relayer: &dyn Relayer) -> Answer {
    match relayer.state() {
        Ok(state) => Answer::success_written(|json| write_state(dialect, &state, json)),
        Err(reason) => Answer::not_ready(&reason),
    }
}
