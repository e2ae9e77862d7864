//! `GET /chain/:id`: the configuration of a chain.

use percent_encoding::percent_decode_str;

use crate::answer::Answer;
use crate::dialect::Dialect;
use crate::json::{Chain113Json, ChainJson};
use crate::relayer::Relayer;

pub(crate) fn chain(dialect: Dialect, relayer: &dyn Relayer, segment: &str) -> Answer {
    let Ok(id) = percent_decode_str(segment).decode_utf8() else {
        return Answer::invalid_chain_id(segment);
    };
    match relayer.chain(&id) {
        Ok(Some(chain)) => match dialect {
            Dialect::V0_7 => Answer::success_of_size(ChainJson::from(&chain), 1024),
            Dialect::V1_13 => Answer::success_of_size(Chain113Json::from(&chain), 2048),
        },
        Ok(None) => Answer::chain_not_found(dialect, &id),
        Err(reason) => Answer::not_ready(&reason),
    }
}
