//! Takeovers between two ends of a pair of sockets, of which one may be hostile.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use relayer_rest_state::{StatePublisher, StateReader};
use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::channel::Channel;
use super::handover::{Handover, Session};
use super::message::{PROTOCOL, Role};
use super::successor::Takeover;
use crate::config::ListenAddress;
use crate::control::ControlSocket;
use crate::http::Listener;
use crate::registry::{Mount, Registry, test_module};

/// A server with a TCP and a control socket.
struct Old {
    listener: Option<Listener>,
    control: super::super::listener::Listener,
    handover: Handover,
    registry: Arc<Registry>,
    state: StateReader,
    folder: tempfile::TempDir,
}

impl Old {
    async fn new() -> Self {
        let address: ListenAddress = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address.into()).await.unwrap();
        let handover = Handover::new(std::slice::from_ref(&listener));
        let folder = tempfile::tempdir().unwrap();
        let control = ControlSocket::bind(&folder.path().join("c.sock")).unwrap();
        let control = super::super::listener::Listener::of_owner(control);
        handover.add(Role::Control, &control.socket);
        let registry = Arc::new(Registry::new(Mount::api(test_module(0))));
        let state = StatePublisher::new().reader();
        Self { listener: Some(listener), control, handover, registry, state, folder }
    }

    fn begin(&self) -> Session {
        self.handover.begin(&self.registry, &self.state).unwrap()
    }

    fn refusal(&self) -> String {
        self.handover.begin(&self.registry, &self.state).err().unwrap().to_string()
    }

    fn control(&self) -> &Path {
        self.control.socket.file().unwrap().path()
    }
}

fn channels() -> (Channel, Channel) {
    let (one, other) = UnixStream::pair().unwrap();
    (Channel::new(one, Bytes::new()), Channel::new(other, Bytes::new()))
}

#[tokio::test]
async fn sockets_belong_to_the_new_process_after_it_confirms() {
    let old = Old::new().await;
    let (one, other) = UnixStream::pair().unwrap();
    let session = old.begin();
    assert_eq!(old.refusal(), "another takeover is in progress; wait for its end");
    let giving = tokio::spawn(async move {
        session.hand_over(Channel::new(one, Bytes::new())).await.map_err(|error| error.to_string())
    });
    let mut takeover = Takeover::on(other, Bytes::new()).await.unwrap();
    assert_eq!(takeover.process, std::process::id());
    assert_eq!(takeover.mounts[0].digest, test_module(0).digest().to_string());
    let address = old.listener.as_ref().unwrap().address().unwrap();
    assert_eq!(takeover.sockets[0].address().unwrap(), address);
    let sockets = |listener: &Listener| listener.socket().descriptors().len();
    let count = sockets(old.listener.as_ref().unwrap());
    let path = old.control().to_owned();
    assert_eq!(takeover.sockets[1].address().unwrap(), ListenAddress::Unix(path.clone()));
    let control = takeover.sockets.pop().unwrap().into_control_socket().unwrap();
    let control = super::super::listener::Listener::of_owner(control);
    let listener = takeover.sockets.pop().unwrap().into_listener();
    assert_eq!(sockets(&listener), count);
    let handover = Handover::new(std::slice::from_ref(&listener));
    handover.add(Role::Control, &control.socket);
    takeover.confirm(&handover).await.unwrap();
    assert_eq!(giving.await.unwrap(), Ok(std::process::id()));
    old.handover.completed().await;
    let draining = "the server is shutting down; start a server without --takeover after its end";
    assert_eq!(old.refusal(), draining);
    let folder = old.folder;
    drop(old.control);
    assert!(path.exists());
    drop(control);
    assert!(!path.exists());
    drop(folder);
}

#[tokio::test]
async fn a_server_that_drains_is_not_taken_over() {
    let mut old = Old::new().await;
    let session = old.begin();
    let (one, other) = UnixStream::pair().unwrap();
    let giving =
        tokio::spawn(async move { session.hand_over(Channel::new(one, Bytes::new())).await });
    let takeover = Takeover::on(other, Bytes::new()).await.unwrap();
    old.listener = None;
    let draining = "the server is shutting down; start a server without --takeover after its end";
    let error = takeover.confirm(&Handover::new(&[])).await.unwrap_err().to_string();
    assert_eq!(error, format!("the running server has aborted the takeover: {draining}"));
    assert_eq!(giving.await.unwrap().unwrap_err().to_string(), draining);
    assert_eq!(old.refusal(), draining);
    drop(old.control.socket);
    assert_eq!(old.folder.path().read_dir().unwrap().count(), 0, "the file is removed");
}

/// Returns the failure of a server whose successor sends these messages, and then ends.
async fn failure(old: &Old, messages: &[Value]) -> String {
    let (mut one, other) = channels();
    for message in messages {
        one.send(message, &[]).await.unwrap();
    }
    drop(one);
    let error = old.begin().hand_over(other).await.unwrap_err().to_string();
    assert!(old.control().exists());
    error
}

#[tokio::test]
async fn the_server_goes_on_after_a_hostile_successor() {
    let old = Old::new().await;
    let hello = json!({"hello": {"protocol": PROTOCOL, "version": "1"}});
    let closed = "the other process has closed the connection";
    assert_eq!(failure(&old, &[]).await, closed);
    assert_eq!(failure(&old, &[json!("ready")]).await, "an unexpected message");
    let other = json!({"hello": {"protocol": 2, "version": "1"}});
    let error = failure(&old, &[other]).await;
    assert!(error.starts_with("version 2 of the takeover protocol, and"), "{error}");
    for invalid in [json!(1), json!({}), json!({"hello": {}}), json!({"hello": {"protocol": -1}})] {
        let error = failure(&old, &[invalid]).await;
        assert!(error.starts_with("a message is not of this protocol: "), "{error}");
    }
    for messages in [&[hello.clone()][..], &[hello.clone(), json!("ready")]] {
        assert_eq!(failure(&old, messages).await, closed);
    }
    // It ends when the sockets belong to it.
    let (mut one, other) = channels();
    for message in [hello, json!("ready")] {
        one.send(&message, &[]).await.unwrap();
    }
    let session = old.begin();
    let giving = tokio::spawn(async move { session.hand_over(other).await });
    for _ in ["offer", "handed-over"] {
        one.receive::<Value>().await.unwrap();
    }
    drop(one);
    assert_eq!(giving.await.unwrap().unwrap_err().to_string(), closed);
    // The next takeover succeeds.
    let (one, other) = UnixStream::pair().unwrap();
    let session = old.begin();
    let giving =
        tokio::spawn(async move { session.hand_over(Channel::new(one, Bytes::new())).await });
    let takeover = Takeover::on(other, Bytes::new()).await.unwrap();
    takeover.confirm(&Handover::new(&[])).await.unwrap();
    giving.await.unwrap().unwrap();
}

/// Returns the failure of a successor whose server sends this message with descriptors.
async fn offered(message: &Value, descriptors: &[BorrowedFd<'_>]) -> String {
    let (server, successor) = UnixStream::pair().unwrap();
    let mut server = Channel::new(server, Bytes::new());
    server.send(message, descriptors).await.unwrap();
    Takeover::on(successor, Bytes::new()).await.unwrap_err().to_string()
}

#[tokio::test]
async fn the_sockets_of_a_hostile_server_are_rejected() {
    let offer = |roles: &[&str]| {
        let sockets: Vec<_> = roles.iter().map(|role| json!({"role": role})).collect();
        json!({"offer": {
            "version": "1", "sockets": sockets, "is-passed": false, "is-ready": true, "mounts": [],
        }})
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stream, _other) = UnixStream::pair().unwrap();
    let datagram = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let null = File::open("/dev/null").unwrap();
    let one = offer(&["client"]);
    let grouped = |size: usize, role: &str| {
        let sockets = json!([{"role": role, "group": size}]);
        json!({"offer": {
            "version": "1", "sockets": sockets, "is-passed": false, "is-ready": true, "mounts": [],
        }})
    };
    let missing = "1 sockets are described, and 0 descriptors were passed";
    assert_eq!(offered(&one, &[]).await, missing);
    let more = [listener.as_fd(), listener.as_fd()];
    let error = "1 sockets are described, and 2 descriptors were passed";
    assert_eq!(offered(&one, &more).await, error);
    let served = "a received descriptor cannot be served: ";
    for (descriptor, reason) in [
        (null.as_fd(), "it is not a socket"),
        (stream.as_fd(), "it does not listen"),
        (datagram.as_fd(), "it does not listen"),
    ] {
        assert_eq!(offered(&one, &[descriptor]).await, format!("{served}{reason}"));
    }
    let control = offered(&offer(&["control"]), &[listener.as_fd()]).await;
    assert_eq!(control, format!("{served}the control socket has no file"));
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let unix = UnixListener::bind(folder.path().join("s")).unwrap();
    for (offer, descriptors) in [
        (grouped(0, "client"), &[][..]),
        (grouped(1, "admin"), &[listener.as_fd()]),
        (grouped(1, "client"), &[unix.as_fd()]),
        (grouped(2, "client"), &[listener.as_fd(), unix.as_fd()]),
        (grouped(2, "client"), &[listener.as_fd(), other.as_fd()]),
    ] {
        let error = offered(&offer, descriptors).await;
        assert_eq!(
            error,
            format!("{served}it is not in a group of clients' sockets of one address")
        );
    }
    let error = offered(&grouped(usize::MAX, "client"), &[listener.as_fd()]).await;
    let expected = format!("{} sockets are described, and 1 descriptors were passed", usize::MAX);
    assert_eq!(error, expected);
    for invalid in [json!(null), json!({"offer": {}}), offer(&["unknown"])] {
        let error = offered(&invalid, &[]).await;
        assert!(error.contains("a message is not of this protocol: "), "{error}");
    }
    let aborted = offered(&json!({"aborted": "why"}), &[]).await;
    assert_eq!(aborted, "the running server has aborted the takeover: why");
    let early = offered(&json!("handed-over"), &[]).await;
    assert_eq!(early, "the running server sent an unexpected message; its log has more");
}

#[tokio::test]
async fn hot_requests_beyond_the_limits_are_left_out() {
    let request = json!({
        "method": "GET", "target": "/", "headers": [], "status": 200, "hits": 1,
    });
    let mount = json!({
        "mount": "/", "name": "api", "digest": "", "requests": vec![request; 1_000],
    });
    let offer = json!({"offer": {
        "version": "1", "sockets": [], "is-passed": false, "is-ready": true,
        "mounts": vec![mount; 10],
    }});
    let (server, successor) = UnixStream::pair().unwrap();
    let mut server = Channel::new(server, Bytes::new());
    let (sent, takeover) =
        tokio::join!(server.send(&offer, &[]), Takeover::on(successor, Bytes::new()));
    sent.unwrap();
    let counts = takeover.unwrap().mounts.into_iter().map(|mount| mount.hot_requests().len());
    assert_eq!(counts.collect::<Vec<_>>(), [100, 100, 100, 100, 100, 0, 0, 0, 0, 0]);
}

#[tokio::test]
async fn a_successor_notices_the_end_of_the_server() {
    let old = Old::new().await;
    let (one, other) = UnixStream::pair().unwrap();
    let session = old.begin();
    let giving =
        tokio::spawn(async move { session.hand_over(Channel::new(one, Bytes::new())).await });
    let mut takeover = Takeover::on(other, Bytes::new()).await.unwrap();
    giving.abort();
    let expected = "the connection to the running server: the other process has closed the connection; its log has more";
    assert_eq!(takeover.aborted().await.to_string(), expected);
    let error = takeover.confirm(&Handover::new(&[])).await.unwrap_err();
    assert_eq!(error.to_string(), expected);
}
