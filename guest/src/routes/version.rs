//! `GET /version`: the relayer's version and this API's, as an array; bare in
//! the first dialect.

use relayer_rest_sdk::{Answer, Host};
use serde::Serialize;

use crate::dialect::Dialect;
use crate::router::Asked;

/// The name under which a relayer lists its REST server.
const REST: &str = "ibc-relayer-rest";

#[derive(Serialize)]
struct Component<'a> {
    name: &'a str,
    version: &'a str,
}

pub(crate) fn version<H: Host>(asked: &Asked<'_, H>) -> Answer {
    let components = asked.host.components();
    let entries: Vec<_> = components
        .iter()
        .map(|component| Component { name: &component.name, version: &component.version })
        .chain([Component { name: REST, version: env!("CARGO_PKG_VERSION") }])
        .collect();
    match asked.dialect {
        Dialect::V0_7 => Answer::json(200, &entries),
        Dialect::V1_13 => Answer::success(&entries),
    }
}

#[cfg(test)]
mod tests {
    use super::version;
    use crate::dialect::Dialect;
    use crate::router::Asked;
    use relayer_rest_sdk::testing::MadeUp;

    #[test]
    fn the_relayer_comes_first_and_this_api_last() {
        let own = env!("CARGO_PKG_VERSION");
        let expected = format!(
            r#"[{{"name":"ibc-relayer","version":"1.2.3"}},{{"name":"ibc-relayer-rest","version":"{own}"}}]"#
        );
        let answer = |dialect| version(&Asked { dialect, host: &MadeUp::new() });
        assert_eq!(answer(Dialect::V0_7).text_body(), expected);
        let expected = format!(r#"{{"status":"success","result":{expected}}}"#);
        assert_eq!(answer(Dialect::V1_13).text_body(), expected);
    }
}
