//! The endpoints, one per file.

mod chain;
mod chains;
mod clear_packets;
mod state;
mod version;

pub(crate) use chain::{chain, describe_chain};
pub(crate) use chains::{DESCRIBE_CHAINS, chains};
pub(crate) use clear_packets::{DESCRIBE_CLEAR_PACKETS, clear_packets};
pub(crate) use state::{describe_state, state};
pub(crate) use version::{describe_version, version};

#[cfg(test)]
mod tests {
    use crate::dialect::Dialect;
    use crate::router::handle_in;
    use relayer_rest_sdk::Request;
    use relayer_rest_sdk::testing::FakeHost;

    #[test]
    fn unknown_data_is_reported_as_not_ready() {
        let host = FakeHost::not_ready("wait");
        for dialect in [Dialect::V0_7, Dialect::V1_13] {
            for path in ["/chains", "/chain/a", "/state"] {
                let response = handle_in(dialect, &host, &Request::get(path));
                assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
                let body = r#"{"status":"error","result":{"name":"NotReady","msg":"wait"}}"#;
                assert_eq!(response.text_body(), body);
            }
        }
    }
}
