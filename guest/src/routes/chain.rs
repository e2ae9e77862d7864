//! `GET /chain/:id`: the configuration of a chain.

use percent_encoding::percent_decode_str;
use relayer_rest_sdk::{Describe, Host, Params, Response};

use crate::dialect::Dialect;
use crate::errors;
use crate::json::{Chain113Json, ChainJson};
use crate::router::Context;

pub(crate) fn chain<H: Host>(
    context: &Context<'_, H>,
    params: Params<'_>,
) -> Result<Response, Response> {
    let segment = params.raw("id");
    // As in the relayer, a percent sign that encodes nothing is kept.
    let id =
        percent_decode_str(segment).decode_utf8().map_err(|_| errors::invalid_chain_id(segment))?;
    let Some(chain) = context.host.chain(&id)? else {
        return Err(errors::chain_not_found(context.dialect, &id));
    };
    Ok(match context.dialect {
        Dialect::V0_7 => Response::success_of_size(ChainJson::from(&chain), 1024),
        Dialect::V1_13 => Response::success_of_size(Chain113Json::from(&chain), 2048),
    })
}

pub(crate) const fn describe_chain(dialect: Dialect) -> Describe {
    match dialect {
        Dialect::V0_7 => |operation| {
            operation
                .summary("The configuration of a chain")
                .success::<ChainJson<'_>>()
                .error(400, "The identifier is not UTF-8")
                .error(404, "There is no such chain")
                .not_ready()
        },
        Dialect::V1_13 => |operation| {
            operation
                .summary("The configuration of a chain")
                .success::<Chain113Json<'_>>()
                .error(200, "There is no such chain")
                .error(400, "The identifier is not UTF-8")
                .not_ready()
        },
    }
}
