//! `GET /version`: the relayer's version and this API's, as an array; bare in
//! the first dialect.

use serde::Serialize;

use crate::answer::Answer;
use crate::dialect::Dialect;
use crate::relayer::Relayer;

/// The name under which a relayer lists its REST server.
const REST: &str = "ibc-relayer-rest";

#[derive(Serialize)]
struct Component<'a> {
    name: &'a str,
    version: &'a str,
}

pub(crate) fn version(dialect: Dialect, relayer: &dyn Relayer) -> Answer {
    let components = relayer.components();
    let entries: Vec<_> = components
        .iter()
        .map(|component| Component { name: &component.name, version: &component.version })
        .chain([Component { name: REST, version: env!("CARGO_PKG_VERSION") }])
        .collect();
    match dialect {
        Dialect::V0_7 => Answer::bare(&entries),
        Dialect::V1_13 => Answer::success(&entries),
    }
}

#[cfg(test)]
mod tests {
    use super::version;
    use crate::contract::Component;
    use crate::dialect::Dialect;
    use crate::relayer::fake::FakeRelayer;

    #[test]
    fn the_relayer_comes_first_and_this_api_last() {
        let relayer = FakeRelayer {
            components: vec![Component { name: "ibc-relayer".into(), version: "0.7.0".into() }],
            ..FakeRelayer::default()
        };
        let own = env!("CARGO_PKG_VERSION");
        let expected = format!(
            r#"[{{"name":"ibc-relayer","version":"0.7.0"}},{{"name":"ibc-relayer-rest","version":"{own}"}}]"#
        );
        let body = |dialect| String::from_utf8(version(dialect, &relayer).body).unwrap();
        assert_eq!(body(Dialect::V0_7), expected);
        let expected = format!(r#"{{"status":"success","result":{expected}}}"#);
        assert_eq!(body(Dialect::V1_13), expected);
    }
}
