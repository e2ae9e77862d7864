//! A module that reads values and fails as its request says: `/?read=chain:a&then=panic`.
//! Each outcome depends on all values that it has read.

use std::fmt::{Debug, Write};
use std::hint::black_box;

use relayer_rest_sdk::{Host, Request, Response};

relayer_rest_sdk::module!(handle);

/// Handles a request.
///
/// # Panics
/// Panics if the request says so.
pub fn handle<H: Host>(host: &H, request: &Request) -> Response {
    let mut seen = String::new();
    let mut see = |value: &dyn Debug| write!(seen, "{value:?};").unwrap_or_default();
    for read in request.query_all("read").unwrap_or_default() {
        let (function, argument) = read.split_once(':').unwrap_or((&read, ""));
        match function {
            "components" => see(&host.components()),
            "ids" => see(&host.chain_ids()),
            "chain" => see(&host.chain(argument)),
            "state" => see(&host.state()),
            "changed" => see(&host.changed()),
            "unconfirmed" => see(&host.unconfirmed_since()),
            "sources" => see(&host.sources()),
            "families" => see(&host.metric_families()),
            "family" => see(&host.metric_family(argument)),
            "scraped" => see(&host.scraped()),
            "header" => see(&request.header_all(argument)),
            "text" => see(&request.header(argument)),
            _ => see(&host.mount()),
        }
    }
    let hash = hash(&seen);
    match &*request.query("then").ok().flatten().unwrap_or_default() {
        "panic" => panic!("seen {hash:016x}"),
        "index" => Response::empty(u16::from(seen.as_bytes()[seen.len() + black_box(1)])),
        "divide" => Response::empty(status(hash / black_box(0))),
        "endless" => loop {
            black_box(&seen);
        },
        "invalid" => Response::empty(600 + status(hash % 100)),
        "command" => {
            host.clear_packets(Some(&format!("{hash:016x}")));
            Response::text(seen).with_status(500)
        }
        "clear" => {
            host.clear_packets(Some(&seen));
            Response::empty(500)
        }
        "bytes" => Response { body: [seen.as_bytes(), b"\xff"].concat(), ..Response::empty(500) },
        "error" => Response::text(seen).with_status(500),
        "unavailable" => Response::text(seen).with_status(503),
        _ => Response::text(seen),
    }
}

fn status(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Returns a hash of a text, FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
