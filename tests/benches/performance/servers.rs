//! The baseline that listens on a socket and renders responses.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::ListenerExt;
use relayer_rest_tests::client::Client;
use tokio::net::TcpListener;

use crate::native::NativeResponse;
use crate::relayers::PATHS;

/// Starts the API as a relayer would build it in: axum, and `serde_json` for each
/// request. Its data is that of another server's current responses.
pub(crate) async fn axum(other: SocketAddr) -> SocketAddr {
    async fn json(State(response): State<Arc<NativeResponse>>) -> axum::response::Response {
        axum::Json(&*response).into_response()
    }
    let mut client = Client::http1(other).await;
    let mut router = Router::new();
    for path in PATHS {
        let response = Arc::new(NativeResponse::new(path, &client.get(path).await.body));
        router = router.merge(Router::new().route(path, get(json)).with_state(response));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}
