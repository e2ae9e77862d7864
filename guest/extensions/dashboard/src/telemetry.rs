//! `GET /telemetry`: the part of the relayer's telemetry that the page shows.
//!
//! It is a resource of its own, because it changes more often than the state. Times are in
//! milliseconds since 1970; a value that is not a number is null, and so is telemetry that is
//! not known.
//!
//! ```json
//! {
//!   "scraped": 1767225600000,
//!   "packets": [{"chain": "a", "counterparty": "b", "channel": "channel-0", "port": "transfer",
//!                "oldest": 7, "since": 1767225540000, "backlog": 12}],
//!   "wallets": [{"chain": "a", "account": "cosmos1", "denom": "uatom", "balance": 1.5}],
//!   "clients": [{"from": "a", "to": "b", "client": "07-tendermint-0", "submitted": 3, "skipped": 1}],
//!   "errors": [{"kind": "broadcast", "account": "cosmos1", "description": "insufficient fee", "count": 2}]
//! }
//! ```

use std::collections::BTreeMap;

use relayer_rest_sdk::contract::{MetricFamily, NotReady, Sample};
use relayer_rest_sdk::{Host, Response, relayer_metric};
use serde::Serialize;

/// The telemetry of a relayer.
#[derive(Serialize)]
struct Telemetry {
    scraped: u64,
    packets: Vec<Packets>,
    wallets: Vec<Wallet>,
    clients: Vec<Updates>,
    errors: Vec<Error>,
}

/// The pending packets of a channel.
#[derive(Serialize)]
struct Packets {
    chain: String,
    counterparty: String,
    channel: String,
    port: String,
    oldest: f64,
    /// The time since which the oldest packet has been the same.
    since: u64,
    backlog: Option<f64>,
}

#[derive(Serialize)]
struct Wallet {
    chain: String,
    account: String,
    denom: String,
    balance: f64,
}

/// The updates of a client.
#[derive(Serialize)]
struct Updates {
    from: String,
    to: String,
    client: String,
    submitted: f64,
    skipped: f64,
}

/// Failed transactions of an account.
#[derive(Serialize)]
struct Error {
    kind: &'static str,
    account: String,
    description: String,
    count: f64,
}

pub(crate) fn telemetry<H: Host>(host: &H) -> Response {
    // The page does without it, and browsers log each response that is an error.
    Response::success(read(host).ok())
}

fn read<H: Host>(host: &H) -> Result<Telemetry, NotReady> {
    let samples = |family: &str| -> Result<Vec<Sample>, NotReady> {
        Ok(relayer_metric(host, family)?
            .map_or_else(Vec::new, |family: MetricFamily| family.samples))
    };
    Ok(Telemetry {
        scraped: milliseconds(host.scraped()?),
        packets: packets(&samples("backlog_oldest_sequence")?, &samples("backlog_size")?),
        wallets: samples("wallet_balance")?.iter().map(wallet).collect(),
        clients: clients(
            &samples("client_updates_submitted_total")?,
            &samples("client_updates_skipped_total")?,
        ),
        errors: [
            ("broadcast", samples("broadcast_errors_total")?),
            ("simulate", samples("simulate_errors_total")?),
        ]
        .iter()
        .flat_map(|(kind, samples)| samples.iter().map(|sample| error(kind, sample)))
        .collect(),
    })
}

/// Returns the channels with pending packets, the oldest first.
fn packets(oldest: &[Sample], sizes: &[Sample]) -> Vec<Packets> {
    const CHANNEL: [&str; 4] = ["chain", "counterparty", "channel", "port"];
    let key = |sample: &Sample| CHANNEL.map(|name| sample.label(name).to_owned());
    let sizes: BTreeMap<_, _> = sizes.iter().map(|sample| (key(sample), sample.value)).collect();
    // A sequence of 0 means that no packet is pending.
    let pending = oldest.iter().filter(|sample| sample.value != 0.0);
    let mut packets: Vec<_> = pending
        .map(|sample| {
            let key = key(sample);
            let backlog = sizes.get(&key).copied();
            let [chain, counterparty, channel, port] = key;
            let since = milliseconds(sample.since);
            let oldest = sample.value;
            Packets { chain, counterparty, channel, port, oldest, since, backlog }
        })
        .collect();
    packets.sort_by_key(|packets| packets.since);
    packets
}

fn wallet(sample: &Sample) -> Wallet {
    let label = |name| sample.label(name).to_owned();
    Wallet {
        chain: label("chain"),
        account: label("account"),
        denom: label("denom"),
        balance: sample.value,
    }
}

fn clients(submitted: &[Sample], skipped: &[Sample]) -> Vec<Updates> {
    let key = |sample: &Sample| {
        ["src_chain", "dst_chain", "client"].map(|name| sample.label(name).to_owned())
    };
    let mut clients: BTreeMap<[String; 3], [f64; 2]> = BTreeMap::new();
    for (place, samples) in [submitted, skipped].into_iter().enumerate() {
        for sample in samples {
            clients.entry(key(sample)).or_default()[place] += sample.value;
        }
    }
    let client = |([from, to, client], [submitted, skipped]): ([String; 3], [f64; 2])| Updates {
        from,
        to,
        client,
        submitted,
        skipped,
    };
    clients.into_iter().map(client).collect()
}

fn error(kind: &'static str, sample: &Sample) -> Error {
    Error {
        kind,
        account: sample.label("account").to_owned(),
        description: sample.label("error_description").to_owned(),
        count: sample.value,
    }
}

fn milliseconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000
}

#[cfg(test)]
mod tests {
    use relayer_rest_sdk::Request;
    use relayer_rest_sdk::testing::FakeHost;
    use serde_json::{Value, json};

    fn result(host: &FakeHost) -> Value {
        let response = crate::handle(host, &Request::get("/telemetry"));
        assert_eq!(response.status, 200);
        response.json_body()["result"].clone()
    }

    #[test]
    fn the_telemetry_is_joined_by_channel_and_client() {
        let channel =
            |name| [("chain", "a"), ("channel", name), ("counterparty", "b"), ("port", "transfer")];
        let client = [("src_chain", "a"), ("dst_chain", "b"), ("client", "07-tendermint-0")];
        let mut host = FakeHost::new()
            .with_metric("backlog_oldest_sequence", &channel("channel-1"), 8.0)
            .with_metric("backlog_oldest_sequence", &channel("channel-2"), 0.0);
        host.scraped -= 60_000_000_000;
        host = host
            .with_metric("backlog_oldest_sequence", &channel("channel-0"), 7.0)
            .with_metric("backlog_size", &channel("channel-0"), 12.0)
            .with_metric("wallet_balance", &[("account", "w"), ("chain", "a"), ("denom", "u")], 1.5)
            .with_metric("client_updates_submitted_total", &client, 3.0)
            .with_metric("client_updates_skipped_total", &client, 1.0)
            .with_metric(
                "broadcast_errors_total",
                &[("account", "w"), ("error_code", "13"), ("error_description", "fee")],
                2.0,
            );
        let packets = |channel: &str, oldest: f64, since: u64, backlog: Option<f64>| {
            json!({
                "chain": "a", "counterparty": "b", "channel": channel, "port": "transfer",
                "oldest": oldest, "since": since, "backlog": backlog,
            })
        };
        assert_eq!(
            result(&host),
            json!({
                "scraped": 1_767_225_540_000_u64,
                "packets": [
                    packets("channel-0", 7.0, 1_767_225_540_000, Some(12.0)),
                    packets("channel-1", 8.0, 1_767_225_600_000, None),
                ],
                "wallets": [{"chain": "a", "account": "w", "denom": "u", "balance": 1.5}],
                "clients": [{
                    "from": "a", "to": "b", "client": "07-tendermint-0",
                    "submitted": 3.0, "skipped": 1.0,
                }],
                "errors": [{"kind": "broadcast", "account": "w", "description": "fee", "count": 2.0}],
            })
        );
    }

    #[test]
    fn a_value_that_is_not_a_number_is_null() {
        let host = FakeHost::new().with_metric("wallet_balance", &[], f64::NAN);
        assert_eq!(result(&host)["wallets"][0]["balance"], Value::Null);
    }

    #[test]
    fn telemetry_that_is_not_known_is_null() {
        assert_eq!(result(&FakeHost::new()), Value::Null);
    }
}
