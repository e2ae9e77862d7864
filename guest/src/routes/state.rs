//! `GET /state`: the connected chains and the active workers.

use crate::answer::Answer;
use crate::json::{StateJson, WORKER_SIZE};
use crate::relayer::Relayer;

pub(crate) fn state(relayer: &dyn Relayer) -> Answer {
    match relayer.state() {
        Ok(state) => {
            let size = 1024 + state.workers.len() * WORKER_SIZE;
            Answer::success_of_size(StateJson::from(&state), size)
        }
        Err(reason) => Answer::not_ready(&reason),
    }
}
