//! `GET /data`: the data of the page.

use relayer_rest_sdk::{Host, Response};

use crate::overview::Overview;

/// The approximate size of a worker's JSON, in bytes.
const WORKER_SIZE: usize = 32;

pub(crate) fn data<H: Host>(host: &H) -> Result<Response, Response> {
    let state = host.state()?;
    let components = host.components();
    // The state may be known while the configured chains are not.
    let configured = host.chain_ids().ok();
    let overview = Overview::new(&components, configured.as_deref(), &state);
    Ok(Response::success_of_size(&overview, 4096 + state.workers.len() * WORKER_SIZE))
}

#[cfg(test)]
mod tests {
    use relayer_rest_sdk::testing::FakeHost;
    use relayer_rest_sdk::{Object, Request, Response};
    use serde_json::json;

    fn get(host: &FakeHost, path: &str) -> Response {
        crate::handle(host, &Request::get(path))
    }

    #[test]
    fn unknown_data_is_reported_as_not_ready() {
        let host = FakeHost::not_ready("wait");
        for path in ["/data", "/chains"] {
            let response = get(&host, path);
            assert_eq!((response.status, response.header("retry-after")), (503, Some("1")));
            let body = r#"{"status":"error","result":{"name":"NotReady","msg":"wait"}}"#;
            assert_eq!(response.text_body(), body);
        }
    }

    #[test]
    fn chains_are_shown_before_the_state_is_known() {
        let mut host = FakeHost::new().with_chain("b").with_chain("a");
        host.state = FakeHost::not_ready("wait").state;
        assert_eq!(get(&host, "/data").status, 503);
        assert_eq!(get(&host, "/chains").json_body()["result"], json!(["b", "a"]));
    }

    #[test]
    fn data_of_thousands_of_workers_is_small() {
        let workers = 5_000;
        let chains: Vec<String> = (0..40).map(|chain| format!("chain-{chain}")).collect();
        let mut host = chains.iter().fold(FakeHost::new(), |host, id| host.with_chain(id));
        // The state is filled directly beyond 100 workers: `with_worker` searches all
        // names for each worker.
        for number in 0..100 {
            let channel = format!("channel-{number}");
            host = host.with_worker(&Object::Packet {
                dst_chain_id: &chains[number % 40],
                src_chain_id: &chains[(number * 7 + 1) % 40],
                src_channel_id: &channel,
                src_port_id: "transfer",
            });
        }
        let state = host.state.as_mut().unwrap();
        let some = state.workers.clone();
        state.workers = (1..=workers)
            .zip(some.into_iter().cycle())
            .map(|(id, worker)| relayer_rest_sdk::contract::Worker { id, ..worker })
            .collect();
        let response = get(&host, "/data");
        assert_eq!(
            response.json_body()["result"]["workers"][0]["ids"].as_array().unwrap().len(),
            5_000
        );
        let size = response.body.len();
        assert!(size < 120 << 10, "{size}");
    }
}
