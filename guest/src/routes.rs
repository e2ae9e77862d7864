//! One file an endpoint.

mod chain;
mod chains;
mod state;
mod version;

pub(crate) use chain::chain;
pub(crate) use chains::chains;
pub(crate) use state::state;
pub(crate) use version::version;

#[cfg(test)]
mod tests {
    use crate::contract::NotReady;
    use crate::dialect::Dialect;
    use crate::relayer::fake::FakeRelayer;
    use crate::router::handle;

    #[test]
    fn what_is_not_known_says_when_to_ask_again() {
        for (nanoseconds, seconds) in
            [(0, "1"), (1, "1"), (2_000_000_000, "2"), (u64::MAX, "18446744074")]
        {
            let reason = NotReady { message: "wait".into(), retry_after: nanoseconds };
            let relayer = FakeRelayer {
                chains_not_ready: Some(reason.clone()),
                state: Some(Err(reason)),
                ..FakeRelayer::default()
            };
            for path in ["/chains", "/chain/a", "/state"] {
                let answer = handle(Dialect::V0_7, &relayer, "GET", path);
                assert_eq!(answer.status, 503);
                assert_eq!(answer.headers[1], ("retry-after", seconds.to_owned()));
                assert_eq!(
                    String::from_utf8(answer.body).unwrap(),
                    r#"{"status":"error","result":{"name":"NotReady","msg":"wait"}}"#
                );
            }
        }
    }
}
