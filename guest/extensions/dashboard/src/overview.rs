//! The JSON of the page's data.
//!
//! A relayer may have thousands of workers, which name the same few chains, ports and
//! channels. Each text is therefore listed once, workers refer to it by index, and the
//! workers of a kind are stored column by column:
//!
//! ```json
//! {
//!   "version": [["ibc-relayer", "1.13.1"]],
//!   "chains": [{"id": "a", "configured": true, "connected": true}],
//!   "names": ["07-tendermint-0", "refresh"],
//!   "workers": [{"kind": "Client", "ids": [1], "from": [0], "to": [1], "object": [0], "detail": [1]}],
//!   "pairs": [{"a": 0, "b": 1, "there": [[0, 1]], "back": []}]
//! }
//! ```
//!
//! `from` and `to` are indices into `chains`, `object` and `detail` into `names`; a field
//! that a worker does not have is null. `there` and `back` count the workers of a pair of
//! chains from `a` to `b` and from `b` to `a`, as indices into `workers` with counts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use relayer_rest_sdk::Names;
use relayer_rest_sdk::contract::{
    Component, Field, Name, Object, OtherObject, RelayerState, Value, Worker, WorkerData,
};
use serde::{Serialize, Serializer};

/// The data of the page.
#[derive(Serialize)]
pub(crate) struct Overview<'a> {
    version: Vec<(&'a str, &'a str)>,
    chains: Vec<Chain<'a>>,
    names: Vec<Cow<'a, str>>,
    workers: Vec<Group<'a>>,
    pairs: Vec<Pair>,
}

/// A chain that is configured, connected, or named by a worker.
#[derive(Serialize)]
struct Chain<'a> {
    id: &'a str,
    /// None if the configured chains are not known.
    configured: Option<bool>,
    connected: bool,
}

/// The workers of a kind.
#[derive(Serialize)]
struct Group<'a> {
    kind: &'a str,
    ids: Vec<WorkerId>,
    from: Vec<Option<u32>>,
    to: Vec<Option<u32>>,
    object: Vec<Option<u32>>,
    detail: Vec<Option<u32>>,
}

/// Two chains with workers between them.
#[derive(Serialize)]
struct Pair {
    a: u32,
    b: u32,
    there: Counts,
    back: Counts,
}

/// Counts of workers by kind, an index into `workers`. Kinds without workers are left
/// out, because there may be as many kinds as workers.
type Counts = Vec<(usize, u32)>;

/// A worker's number: written as a string if a browser would round it.
struct WorkerId(u64);

impl Serialize for WorkerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: u64 = (1 << 53) - 1;
        if self.0 <= EXACT {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'a> Overview<'a> {
    pub(crate) fn new(
        components: &'a [Component],
        configured: Option<&'a [String]>,
        state: &'a RelayerState,
    ) -> Self {
        let mut tables = Tables::new(Names::new(&state.names), state.names.ends.len());
        for id in configured.unwrap_or_default() {
            let chain = tables.chain(id);
            tables.chains[chain as usize].configured = Some(true);
        }
        for id in &state.chains {
            let chain = tables.chain(id);
            tables.chains[chain as usize].connected = true;
        }
        let texts = tables.texts;
        let same = |a: &Worker, b: &Worker| texts.kind(&a.object) == texts.kind(&b.object);
        let groups: Vec<&[Worker]> = state.workers.chunk_by(same).collect();
        let mut pairs = BTreeMap::new();
        let mut workers = Vec::with_capacity(groups.len());
        for (number, group) in groups.iter().enumerate() {
            let written = Group::new(group, &mut tables);
            for (from, to) in written.from.iter().zip(&written.to) {
                if let (Some(from), Some(to)) = (*from, *to)
                    && from != to
                {
                    let counts: &mut (Counts, Counts) =
                        pairs.entry((from.min(to), from.max(to))).or_default();
                    let way = if from < to { &mut counts.0 } else { &mut counts.1 };
                    match way.last_mut() {
                        Some((kind, count)) if *kind == number => *count += 1,
                        _ => way.push((number, 1)),
                    }
                }
            }
            workers.push(written);
        }
        let Tables { mut chains, names, .. } = tables;
        if configured.is_some() {
            for chain in &mut chains {
                chain.configured.get_or_insert(false);
            }
        }
        let pair = |((a, b), (there, back))| Pair { a, b, there, back };
        Self {
            version: components
                .iter()
                .map(|component| (&*component.name, &*component.version))
                .collect(),
            chains,
            names,
            workers,
            pairs: pairs.into_iter().map(pair).collect(),
        }
    }
}

impl<'a> Group<'a> {
    /// Creates the group of workers that are all of one kind.
    fn new(workers: &[Worker], tables: &mut Tables<'a>) -> Self {
        let many = || Vec::with_capacity(workers.len());
        let mut group = Group {
            kind: tables.texts.kind(&workers[0].object),
            ids: Vec::with_capacity(workers.len()),
            from: many(),
            to: many(),
            object: many(),
            detail: many(),
        };
        for worker in workers {
            let parts = Parts::new(worker, tables.texts);
            group.ids.push(WorkerId(worker.id));
            group.from.push(parts.from.map(|name| tables.chain_named(name)));
            group.to.push(parts.to.map(|name| tables.chain_named(name)));
            group.object.push(parts.object.map(|name| tables.name(name)));
            group.detail.push(match parts.detail {
                Detail::None => None,
                Detail::Name(name) => Some(tables.name(name)),
                Detail::Written(text) => Some(tables.written(text)),
            });
        }
        group
    }
}

/// The tables of chains and names under construction: each entry occurs once.
struct Tables<'a> {
    texts: Names<'a>,
    chains: Vec<Chain<'a>>,
    names: Vec<Cow<'a, str>>,
    chain_of_id: BTreeMap<&'a str, u32>,
    /// By index of the name in the contract, like `place_of_name`.
    chain_of_name: Vec<Option<u32>>,
    place_of_name: Vec<Option<u32>>,
    place_of_written: BTreeMap<String, u32>,
}

impl<'a> Tables<'a> {
    fn new(texts: Names<'a>, count: usize) -> Self {
        Self {
            texts,
            chains: Vec::new(),
            names: Vec::new(),
            chain_of_id: BTreeMap::new(),
            chain_of_name: vec![None; count],
            place_of_name: vec![None; count],
            place_of_written: BTreeMap::new(),
        }
    }

    fn chain(&mut self, id: &'a str) -> u32 {
        let Self { chains, chain_of_id, .. } = self;
        *chain_of_id.entry(id).or_insert_with(|| {
            chains.push(Chain { id, configured: None, connected: false });
            place_of_last(chains)
        })
    }

    fn chain_named(&mut self, name: Name) -> u32 {
        if let Some(known) = self.chain_of_name[name as usize] {
            return known;
        }
        let chain = self.chain(self.texts.text(name));
        self.chain_of_name[name as usize] = Some(chain);
        chain
    }

    fn name(&mut self, name: Name) -> u32 {
        let Self { texts, names, place_of_name, .. } = self;
        *place_of_name[name as usize].get_or_insert_with(|| {
            names.push(Cow::Borrowed(texts.text(name)));
            place_of_last(names)
        })
    }

    fn written(&mut self, text: String) -> u32 {
        let Self { names, place_of_written, .. } = self;
        *place_of_written.entry(text).or_insert_with_key(|text| {
            names.push(Cow::Owned(text.clone()));
            place_of_last(names)
        })
    }
}

fn place_of_last<T>(table: &[T]) -> u32 {
    u32::try_from(table.len() - 1).expect("a module has less memory than that")
}

/// A worker's entries in the columns of the table.
struct Parts {
    from: Option<Name>,
    to: Option<Name>,
    object: Option<Name>,
    detail: Detail,
}

enum Detail {
    None,
    Name(Name),
    Written(String),
}

impl Parts {
    fn new(worker: &Worker, texts: Names<'_>) -> Self {
        let parts = Self::from_object(&worker.object, texts);
        let Some(data) = worker.data.as_ref().map(|data| data_text(data, texts)) else {
            return parts;
        };
        let detail = match parts.detail {
            _ if data.is_empty() => return parts,
            Detail::None => data,
            Detail::Name(name) => format!("{}, {data}", texts.text(name)),
            Detail::Written(text) => format!("{text}, {data}"),
        };
        Self { detail: Detail::Written(detail), ..parts }
    }

    fn from_object(object: &Object, texts: Names<'_>) -> Self {
        let between = |from, to, object, detail| Self {
            from: Some(from),
            to: Some(to),
            object: Some(object),
            detail,
        };
        match object {
            Object::Client(client) => between(
                client.src_chain_id,
                client.dst_chain_id,
                client.dst_client_id,
                Detail::None,
            ),
            Object::Channel(channel) | Object::Packet(channel) => between(
                channel.src_chain_id,
                channel.dst_chain_id,
                channel.src_channel_id,
                Detail::Name(channel.src_port_id),
            ),
            Object::Connection(connection) => between(
                connection.src_chain_id,
                connection.dst_chain_id,
                connection.src_connection_id,
                Detail::None,
            ),
            Object::CrossChainQuery(query) => between(
                query.src_chain_id,
                query.dst_chain_id,
                query.query_id,
                Detail::Name(query.connection_id),
            ),
            Object::Wallet(wallet) => {
                Self { from: Some(wallet.chain_id), to: None, object: None, detail: Detail::None }
            }
            Object::Other(other) => Self::from_other(other, texts),
        }
    }

    /// Converts an object of an unknown kind: fields with the names that known kinds use
    /// for chains are its chains. All fields are listed in the detail.
    fn from_other(other: &OtherObject, texts: Names<'_>) -> Self {
        let chain = |names: &[&str]| {
            other.fields.iter().find_map(|field| match field.value {
                Value::Text(id) if names.contains(&texts.text(field.name)) => Some(id),
                _ => None,
            })
        };
        Self {
            from: chain(&["src_chain_id", "chain_id"]),
            to: chain(&["dst_chain_id"]),
            object: None,
            detail: Detail::Written(fields_text(&other.fields, texts)),
        }
    }
}

/// Describes the settings of a worker.
fn data_text(data: &WorkerData, texts: Names<'_>) -> String {
    match data {
        WorkerData::Client(client) => {
            let set = [("misbehaviour", client.misbehaviour), ("refresh", client.refresh)];
            let set = set.into_iter().filter_map(|(name, is_set)| is_set.then_some(name));
            set.collect::<Vec<_>>().join(", ")
        }
        WorkerData::Other(other) => fields_text(&other.fields, texts),
    }
}

fn fields_text(fields: &[Field], texts: Names<'_>) -> String {
    let field = |field: &Field| {
        let name = texts.text(field.name);
        match field.value {
            Value::Null => format!("{name}: none"),
            Value::Boolean(value) => format!("{name}: {value}"),
            Value::Natural(value) => format!("{name}: {value}"),
            Value::Integer(value) => format!("{name}: {value}"),
            Value::Number(value) => format!("{name}: {value}"),
            Value::Text(value) => format!("{name}: {}", texts.text(value)),
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use relayer_rest_sdk::contract::{ClientData, Field, Value, WorkerData};
    use relayer_rest_sdk::testing::FakeHost;
    use relayer_rest_sdk::{Object, Request};
    use serde_json::{Value as Json, json};

    fn overview(host: &FakeHost) -> Json {
        let response = crate::handle(host, &Request::get("/data"));
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, Some("application/json"))
        );
        let mut body = response.json_body();
        assert_eq!(body["status"], "success");
        body["result"].take()
    }

    fn client(src_chain_id: &'static str, dst_chain_id: &'static str) -> Object<'static> {
        Object::Client { dst_chain_id, dst_client_id: "07-tendermint-0", src_chain_id }
    }

    #[test]
    fn an_empty_relayer_has_an_empty_overview() {
        let expected = json!({
            "version": [["ibc-relayer", "1.2.3"]], "chains": [], "names": [], "workers": [],
            "pairs": [],
        });
        assert_eq!(overview(&FakeHost::new()), expected);
    }

    #[test]
    fn workers_of_every_kind_are_listed() {
        let host = ["a", "b"]
            .into_iter()
            .fold(FakeHost::new(), FakeHost::with_chain)
            .with_worker(&client("a", "b"))
            .with_worker(&Object::Channel {
                dst_chain_id: "b",
                src_chain_id: "a",
                src_channel_id: "channel-0",
                src_port_id: "transfer",
            })
            .with_worker(&Object::Connection {
                dst_chain_id: "a",
                src_chain_id: "b",
                src_connection_id: "connection-0",
            })
            .with_worker(&Object::Packet {
                dst_chain_id: "a",
                src_chain_id: "b",
                src_channel_id: "channel-0",
                src_port_id: "transfer",
            })
            .with_worker(&Object::Wallet { chain_id: "a" })
            .with_worker(&Object::CrossChainQuery {
                src_chain_id: "a",
                dst_chain_id: "b",
                query_id: "query-0",
                connection_id: "connection-0",
            });
        let overview = overview(&host);
        let row = |kind: &str, id: u64, from: u64, to: Option<u64>, object: Json, detail: Json| {
            json!({
                "kind": kind, "ids": [id], "from": [from], "to": [to], "object": [object],
                "detail": [detail],
            })
        };
        let expected = json!([
            row("Client", 1, 0, Some(1), json!(0), Json::Null),
            row("Channel", 2, 0, Some(1), json!(1), json!(2)),
            row("Connection", 3, 1, Some(0), json!(3), Json::Null),
            row("Packet", 4, 1, Some(0), json!(1), json!(2)),
            row("Wallet", 5, 0, None, Json::Null, Json::Null),
            row("CrossChainQuery", 6, 0, Some(1), json!(4), json!(3)),
        ]);
        assert_eq!(overview["workers"], expected);
        let names = ["07-tendermint-0", "channel-0", "transfer", "connection-0", "query-0"];
        assert_eq!(overview["names"], json!(names));
        let pair =
            json!([{"a": 0, "b": 1, "there": [[0, 1], [1, 1], [5, 1]], "back": [[2, 1], [3, 1]]}]);
        assert_eq!(overview["pairs"], pair);
    }

    /// The chains to which the fields of the unknown kind refer.
    const CHAINS: [&str; 2] = ["a", "b"];

    #[test]
    fn workers_of_unknown_kinds_are_listed_with_all_fields() {
        let names = ["src_chain_id", "dst_chain_id", "a", "b", "</script>", "n"];
        let mut host = CHAINS.into_iter().fold(FakeHost::new(), FakeHost::with_chain);
        for name in names {
            host = host.with_worker(&Object::Wallet { chain_id: name });
        }
        let field = |name, value| Field { name, value };
        let fields = [
            field(0, Value::Text(2)),
            field(1, Value::Text(3)),
            field(4, Value::Text(4)),
            field(5, Value::Null),
            field(5, Value::Boolean(true)),
            field(5, Value::Natural(u64::MAX)),
            field(5, Value::Integer(-1)),
            field(5, Value::Number(0.5)),
        ];
        let host = host
            .with_worker(&Object::Other { kind: "Future", fields: &fields })
            .with_worker(&Object::Other { kind: "Later", fields: &[field(4, Value::Natural(1))] });
        let overview = overview(&host);
        let future = &overview["workers"][1];
        assert_eq!(
            (&future["kind"], &future["from"], &future["to"]),
            (&json!("Future"), &json!([0]), &json!([1]))
        );
        let detail = "src_chain_id: a, dst_chain_id: b, </script>: </script>, n: none, n: true, \
                      n: 18446744073709551615, n: -1, n: 0.5";
        assert_eq!(overview["names"][0], detail);
        let later = &overview["workers"][2];
        assert_eq!(
            (&later["kind"], &later["from"], &later["object"]),
            (&json!("Later"), &json!([null]), &json!([null]))
        );
        assert_eq!(overview["pairs"], json!([{"a": 0, "b": 1, "there": [[1, 1]], "back": []}]));
    }

    #[test]
    fn settings_of_workers_are_listed() {
        let mut host = FakeHost::new();
        for _ in 0..4 {
            host = host.with_worker(&client("a", "b"));
        }
        let settings = [(true, true), (false, true), (false, false)];
        let workers = &mut host.state.as_mut().unwrap().workers;
        for (worker, (misbehaviour, refresh)) in workers.iter_mut().zip(settings) {
            worker.data = Some(WorkerData::Client(ClientData { misbehaviour, refresh }));
        }
        let overview = overview(&host);
        assert_eq!(overview["workers"][0]["detail"], json!([1, 2, null, null]));
        assert_eq!(
            overview["names"],
            json!(["07-tendermint-0", "misbehaviour, refresh", "refresh"])
        );
    }

    #[test]
    fn chains_are_those_configured_connected_or_named_by_workers() {
        let mut host = FakeHost::new().with_chain("b").with_worker(&client("b", "named"));
        host = host.with_chain_config(relayer_rest_sdk::testing::chain("a"));
        host.state.as_mut().unwrap().chains.push("c".into());
        let chain = |id: &str, configured: Option<bool>, connected: bool| json!({"id": id, "configured": configured, "connected": connected});
        let expected = json!([
            chain("b", Some(true), true),
            chain("a", Some(true), false),
            chain("c", Some(false), true),
            chain("named", Some(false), false),
        ]);
        assert_eq!(overview(&host)["chains"], expected);
        host.chains = FakeHost::not_ready("wait").chains;
        let expected =
            json!([chain("b", None, true), chain("c", None, true), chain("named", None, false),]);
        assert_eq!(overview(&host)["chains"], expected);
    }

    #[test]
    fn numbers_beyond_the_precision_of_browsers_are_strings() {
        let mut host = FakeHost::new();
        for _ in 0..2 {
            host = host.with_worker(&Object::Wallet { chain_id: "a" });
        }
        let workers = &mut host.state.as_mut().unwrap().workers;
        (workers[0].id, workers[1].id) = ((1 << 53) - 1, 1 << 53);
        let ids = &overview(&host)["workers"][0]["ids"];
        assert_eq!(*ids, json!([9_007_199_254_740_991_u64, "9007199254740992"]));
    }

    /// The graph has no line from a chain to itself.
    #[test]
    fn a_chain_and_itself_are_not_a_pair() {
        let overview = overview(&FakeHost::new().with_worker(&client("a", "a")));
        assert_eq!(overview["pairs"], json!([]));
        assert_eq!(overview["workers"][0]["from"], json!([0]));
    }
}
