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
        Err(reason) => {
            let seconds = reason.retry_after.div_ceil(1_000_000_000).max(1);
            Answer::not_ready(&reason.message, seconds)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::state;
    use crate::contract::NotReady;
    use crate::relayer::fake::FakeRelayer;

    #[test]
    fn a_state_that_is_not_known_says_when_to_ask_again() {
        for (nanoseconds, seconds) in
            [(0, "1"), (1, "1"), (2_000_000_000, "2"), (u64::MAX, "18446744074")]
        {
            let reason = NotReady { message: "wait".into(), retry_after: nanoseconds };
            let answer = state(&FakeRelayer { state: Some(Err(reason)), ..Default::default() });
            assert_eq!(answer.status, 503);
            assert_eq!(answer.headers[1], ("retry-after", seconds.to_owned()));
            assert_eq!(
                String::from_utf8(answer.body).unwrap(),
                r#"{"status":"error","result":{"name":"NotReady","msg":"wait"}}"#
            );
        }
    }
}
