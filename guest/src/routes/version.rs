//! `GET /version`: the versions of the relayer and of this API, as an array; without an
//! envelope in the dialect 0.7.

use relayer_rest_sdk::{Describe, Host, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::dialect::Dialect;
use crate::router::Context;

/// The name under which a relayer lists its REST server.
const REST: &str = "ibc-relayer-rest";

#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Component<'a> {
    name: &'a str,
    version: &'a str,
}

pub(crate) fn version<H: Host>(context: &Context<'_, H>) -> Response {
    let components = context.host.components();
    let entries: Vec<_> = components
        .iter()
        .map(|component| Component { name: &component.name, version: &component.version })
        .chain([Component { name: REST, version: env!("CARGO_PKG_VERSION") }])
        .collect();
    match context.dialect {
        Dialect::V0_7 => Response::json(200, &entries),
        Dialect::V1_13 => Response::success(&entries),
    }
}

pub(crate) const fn describe_version(dialect: Dialect) -> Describe {
    match dialect {
        Dialect::V0_7 => |operation| {
            operation
                .summary("The versions of the relayer and of this API")
                .json::<Vec<Component<'_>>>(200, "The versions")
        },
        Dialect::V1_13 => |operation| {
            operation
                .summary("The versions of the relayer and of this API")
                .success::<Vec<Component<'_>>>()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::version;
    use crate::dialect::Dialect;
    use crate::router::Context;
    use relayer_rest_sdk::testing::FakeHost;

    #[test]
    fn the_relayer_comes_first_and_this_api_last() {
        let own = env!("CARGO_PKG_VERSION");
        let expected = format!(
            r#"[{{"name":"ibc-relayer","version":"1.2.3"}},{{"name":"ibc-relayer-rest","version":"{own}"}}]"#
        );
        let response = |dialect| version(&Context { dialect, host: &FakeHost::new() });
        assert_eq!(response(Dialect::V0_7).text_body(), expected);
        let expected = format!(r#"{{"status":"success","result":{expected}}}"#);
        assert_eq!(response(Dialect::V1_13).text_body(), expected);
    }
}
