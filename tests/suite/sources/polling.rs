//! Is a relayer polled as often as necessary, and not more often?

use std::time::{Duration, Instant};

use relayer_rest_tests::relayer::{Fault, Relayer, Script};
use relayer_rest_tests::server::TestServer;
use relayer_rest_tests::wait::{DEADLINE, until};

#[tokio::test]
async fn a_slow_relayer_gets_one_request_at_a_time() {
    let tick = Duration::from_millis(100);
    let relayer = Relayer::start(Script { tick, ..Script::of_1_13() });
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    client.get_until("/state", |response| response.status == 200).await;
    // The dialect is known before the state. On a busy machine, the client may see the state
    // only after further requests for it.
    let before = relayer.seen();
    assert_eq!(before.first.as_deref(), Some("/version"));
    assert!(before.paths["/version"] == 1 && before.paths["/state"] >= 1, "{before:?}");
    client.get_until("/chain/ibc-1", |response| response.status == 200).await;
    assert_eq!(relayer.seen().most_at_once, 1);
}

/// Checks that the relayer's state was not requested more often than the poll interval
/// allows.
#[track_caller]
fn check_pace(relayer: &Relayer, start: Instant, poll: Duration) {
    let request_count = relayer.seen().paths["/state"];
    // Once at the start, and once more for each of the two chains at first.
    let most = start.elapsed().div_duration_f64(poll) + 3.0;
    assert!(f64::from(request_count) <= most, "{request_count} times in {:?}", start.elapsed());
}

#[tokio::test]
async fn chains_are_requested_rarely_and_the_state_often() {
    let start = Instant::now();
    let poll = Duration::from_millis(10);
    let relayer = Relayer::start(Script::of_0_7());
    let server = TestServer::builder()
        .upstream(relayer.upstream_with(|polling| polling.poll = poll))
        .start()
        .await;
    let request_count = |path: &str| relayer.seen().paths.get(path).copied().unwrap_or_default();
    server.connect().await.get_until("/chains", |_| request_count("/state") > 50).await;
    check_pace(&relayer, start, poll);
    assert!(
        request_count("/chains") <= 2
            && request_count("/chain/ibc-0") <= 2
            && request_count("/version") <= 2
    );
}

#[tokio::test]
async fn an_unreadable_chain_does_not_increase_the_rate() {
    let start = Instant::now();
    let poll = Duration::from_millis(50);
    let relayer = Relayer::start(Script::of_0_7());
    relayer.change(|script| script.broken_chain = Some("ibc-1".to_owned()));
    let server = TestServer::builder()
        .upstream(relayer.upstream_with(|polling| polling.poll = poll))
        .start()
        .await;
    let request_count = |path: &str| relayer.seen().paths.get(path).copied().unwrap_or_default();
    server.connect().await.get_until("/chains", |_| request_count("/chain/ibc-1") == 2).await;
    check_pace(&relayer, start, poll);
}

#[tokio::test]
async fn a_faulty_relayer_is_polled_less_and_less() {
    let relayer = Relayer::start(Script::of_0_7());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    client.get_until_known().await;
    let start = Instant::now();
    relayer.change(|script| script.fault = Some(Fault::Status500));
    client.get_until("/state", |response| response.headers.contains_key("age")).await;
    let request_count = || relayer.seen().paths["/state"];
    let before = request_count();
    client.get_until("/state", |_| request_count() >= before + 2).await;
    // Delays of half a second and one second, each shortened by at most half.
    assert!(start.elapsed() >= Duration::from_millis(700), "{:?}", start.elapsed());
}

#[tokio::test]
async fn chains_are_refreshed_at_intervals() {
    let relayer = Relayer::start(Script::of_0_7());
    let refresh = Duration::from_millis(50);
    let server = TestServer::builder()
        .upstream(relayer.upstream_with(|polling| polling.refresh = refresh))
        .start()
        .await;
    let mut client = server.connect().await;
    client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    relayer.change(|script| script.chains[0]["max_gas"] = 7.into());
    client.get_until("/chain/ibc-0", |response| response.text().contains(r#""max_gas":7,"#)).await;
}

#[tokio::test]
async fn chains_are_refreshed_when_the_relayer_returns() {
    let relayer = Relayer::start(Script::of_1_13());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    let gone = relayer.go().await;
    client.get_until("/state", |response| response.headers.contains_key("age")).await;
    let relayer = gone.come_back();
    relayer.change(|script| script.chains[0]["max_gas"] = 7.into());
    client.get_until("/chain/ibc-0", |response| response.text().contains(r#""max_gas":7,"#)).await;
}

/// A host that begins to write to a fleet requests them, since its own may be older than those of
/// the writer before.
#[tokio::test]
async fn versions_and_chains_are_refreshed_on_request() {
    let relayer = Relayer::start(Script::of_1_13());
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let state = server.publisher.reader();
    until("all chains are confirmed", || state.chains_confirmed().is_some()).await;
    let requests = || relayer.seen().paths["/version"];
    let before = requests();
    relayer.change(|script| script.chains[0]["max_gas"] = 7.into());
    let changed = Instant::now();
    assert!(state.chains_confirmed() < Some(changed));
    server.publisher.request_refresh();
    until("they are confirmed again", || state.chains_confirmed() >= Some(changed)).await;
    let chain = server.get("/chain/ibc-0").await;
    assert!(chain.text().contains(r#""max_gas":7,"#), "{chain:?}");
    assert_eq!(requests(), before + 1);
}

#[tokio::test]
async fn a_temporarily_refused_chain_is_requested_again() {
    let relayer = Relayer::start(Script::of_0_7());
    relayer.change(|script| script.refused_chain = Some("ibc-1".to_owned()));
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    let request_count = || relayer.seen().paths.get("/chain/ibc-1").copied().unwrap_or_default();
    client.get_until("/chain/ibc-1", |_| request_count() > 0).await;
    client.get_until("/chain/ibc-0", |response| response.status == 200).await;
    let refused = client.get("/chain/ibc-1").await;
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("cannot be read; the log has the cause"), "{refused:?}");
    relayer.change(|script| script.refused_chain = None);
    client.get_until("/chain/ibc-1", |response| response.status == 200).await;
}

/// A requested chain is the third response of the relayer, and the state the next one.
#[tokio::test]
async fn a_chain_that_is_requested_at_the_start_follows_the_list() {
    let relayer = Relayer::start(Script { tick: DEADLINE, ..Script::of_1_13() });
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    assert_eq!(client.get("/chain/ibc-1").await.status, 503);
    let requests = || relayer.seen().paths.values().sum::<u32>();
    for count in 1..=3 {
        until("the next request", || requests() == count).await;
        relayer.permit();
    }
    client.get_until("/chain/ibc-1", |response| response.status == 200).await;
    until("the state is requested", || relayer.seen().paths.contains_key("/state")).await;
    assert_eq!(relayer.seen().paths.len(), 4);
    assert_eq!(client.get("/state").await.status, 503);
}

/// A relayer that responds only when the test permits it.
#[tokio::test]
async fn chains_are_served_as_soon_as_each_is_known_and_requested_ones_first() {
    let script = Script::of_1_13();
    let ids: Vec<_> = (0..40).map(|number| format!("chain-{number:02}")).collect();
    let chain = |id: &String| {
        let mut chain = script.chains[0].clone();
        chain["id"] = id.as_str().into();
        chain
    };
    let chains = ids.iter().map(chain).collect();
    let relayer = Relayer::start(Script { chains, tick: DEADLINE, ..script });
    let server = TestServer::builder().upstream(relayer.upstream()).start().await;
    let mut client = server.connect().await;
    let requests = || relayer.seen().paths.values().sum::<u32>();
    // The version, the list, the state and the first chain.
    for count in 1..=4 {
        until("the next request", || requests() == count).await;
        relayer.permit();
    }
    client.get_until("/chain/chain-00", |response| response.status == 200).await;
    let all = client.get("/chains").await;
    let expected = serde_json::json!({"status": "success", "result": ids});
    all.check(200, &expected.to_string());
    // The next request was sent before a client asks for the last chain.
    let last = client.get("/chain/chain-39").await;
    assert_eq!((last.status.as_u16(), last.header("retry-after")), (503, "1"));
    assert!(last.text().contains("has not reported its configuration yet"), "{last:?}");
    for count in 5..=7 {
        until("the next request", || requests() >= count).await;
        relayer.permit();
    }
    client.get_until("/chain/chain-39", |response| response.status == 200).await;
    assert_eq!(client.get("/chain/chain-20").await.status, 503);
    assert_eq!(client.get("/chain/unknown").await.status, 404);
}
