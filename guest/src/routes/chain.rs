//! `GET /chain/:id`: the configuration of a chain.

use percent_encoding::percent_decode_str;

use crate::answer::Answer;
use crate::json::ChainJson;
use crate::relayer::Relayer;

pub(crate) fn chain(relayer: &dyn Relayer, segment: &str) -> Answer {
    let Ok(id) = percent_decode_str(segment).decode_utf8() else {
        return Answer::invalid_chain_id(segment);
    };
    match relayer.chain(&id) {
        Ok(Some(chain)) => Answer::success_of_size(ChainJson::from(&chain), 1024),
        Ok(None) => Answer::chain_not_found(&id),
        Err(reason) => Answer::not_ready(&reason),
    }
}
