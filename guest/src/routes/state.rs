//! `GET /state`: the connected chains and the active workers.

use relayer_rest_sdk::{Describe, Host, Response};

use crate::dialect::Dialect;
use crate::json::{StateSchema, Worker113Schema, WorkerSchema, write_state};
use crate::router::Context;

pub(crate) fn state<H: Host>(context: &Context<'_, H>) -> Result<Response, Response> {
    let state = context.host.state()?;
    // Written with its envelope: a large state is not copied into one.
    let mut json = br#"{"status":"success","result":"#.to_vec();
    write_state(context.dialect, &state, &mut json);
    json.push(b'}');
    Ok(Response::json_written(200, json))
}

pub(crate) const fn describe_state(dialect: Dialect) -> Describe {
    match dialect {
        Dialect::V0_7 => |operation| {
            operation
                .summary("The connected chains and the active workers")
                .success::<StateSchema<WorkerSchema>>()
                .not_ready()
        },
        Dialect::V1_13 => |operation| {
            operation
                .summary("The connected chains and the active workers")
                .success::<StateSchema<Worker113Schema>>()
                .not_ready()
        },
    }
}
