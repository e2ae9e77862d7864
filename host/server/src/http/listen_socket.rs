//! The sockets that listen on an address: of TCP, or a Unix socket with its file.

use std::io;
use std::net::TcpListener as StdTcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::available_parallelism;

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tracing::warn;

use super::listen_config::ListenAddress;
use crate::unix_socket::{SocketFile, UnixSocket};

/// The maximum number of sockets of an address. With more, a takeover of many addresses would pass
/// more descriptors than the kernel does.
const MAX_GROUP: usize = 16;

/// The connections that each socket lets wait.
const BACKLOG: i32 = 1024;

/// The sockets that listen on an address.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    /// One socket, for one acceptor.
    Tcp(TcpListener),
    /// Sockets with `SO_REUSEPORT`, among which the kernel distributes connections.
    TcpGroup(Vec<StdTcpListener>),
    /// The file is removed at the end, unless another program has created it.
    Unix(UnixListener, Option<SocketFile>),
}

impl ListenSocket {
    /// Adds sockets to one that listens, so that there is one for each core, up to 16, if the
    /// system distributes connections among them, as Linux does.
    ///
    /// The first is bound without `SO_REUSEPORT`, so that an address in use is found.
    pub(crate) fn group(first: TcpListener) -> io::Result<Self> {
        let first = first.into_std()?;
        let cores = if cfg!(target_os = "linux") { available_parallelism().ok() } else { None };
        let count = cores.map_or(1, usize::from).min(MAX_GROUP);
        let mut group = vec![first];
        if count > 1 {
            let first = SockRef::from(&group[0]);
            first.listen(BACKLOG)?;
            first.set_reuse_port(true)?;
        }
        while group.len() < count {
            match another(&group[0]) {
                Ok(socket) => group.push(socket),
                Err(error) => {
                    warn!(%error, sockets = group.len(), wanted = count, "cannot listen on a socket for each thread");
                    break;
                }
            }
        }
        Ok(Self::TcpGroup(group))
    }

    /// Returns the descriptors of all sockets.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Tcp(listener) => vec![listener.as_fd()],
            Self::TcpGroup(listeners) => listeners.iter().map(AsFd::as_fd).collect(),
            Self::Unix(listener, _) => vec![listener.as_fd()],
        }
    }

    /// Returns the address, with the port that the system has chosen for port 0.
    pub(crate) fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::from),
            Self::TcpGroup(listeners) => listeners[0].local_addr().map(ListenAddress::from),
            Self::Unix(_, Some(file)) => Ok(ListenAddress::Unix(file.path().to_owned())),
            Self::Unix(listener, None) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(ToOwned::to_owned);
                Ok(ListenAddress::Unix(path.unwrap_or_default()))
            }
        }
    }

    /// Returns the file that is removed at the end, if there is one.
    #[cfg(feature = "control")]
    pub(crate) fn file(&self) -> Option<&SocketFile> {
        match self {
            Self::Tcp(_) | Self::TcpGroup(_) => None,
            Self::Unix(_, file) => file.as_ref(),
        }
    }
}

impl From<UnixSocket> for ListenSocket {
    fn from(UnixSocket { listener, file }: UnixSocket) -> Self {
        Self::Unix(listener, Some(file))
    }
}

/// Listens on the address of a socket, too.
fn another(first: &StdTcpListener) -> io::Result<StdTcpListener> {
    let address = first.local_addr()?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(SockRef::from(first).only_v6()?)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{ListenSocket, MAX_GROUP};
    use std::io::ErrorKind;
    use std::net::{SocketAddr, TcpStream};
    use std::thread::available_parallelism;
    use tokio::net::TcpListener;

    async fn group(address: &str) -> Option<(ListenSocket, SocketAddr)> {
        let first = TcpListener::bind(address).await.ok()?;
        let address = first.local_addr().unwrap();
        Some((ListenSocket::group(first).unwrap(), address))
    }

    #[tokio::test]
    async fn a_group_has_a_socket_for_each_core_and_an_address_of_its_own() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            // There may be no IPv6.
            let Some((group, address)) = group(address).await else { continue };
            let cores = available_parallelism().unwrap().get().min(MAX_GROUP);
            assert_eq!(group.descriptors().len(), cores);
            let error = TcpListener::bind(address).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AddrInUse);
        }
    }

    #[tokio::test]
    async fn each_socket_of_a_group_gets_connections() {
        let (group, address) = group("127.0.0.1:0").await.unwrap();
        let ListenSocket::TcpGroup(listeners) = group else { panic!("it is no group") };
        let mut counts = vec![0; listeners.len()];
        while counts.contains(&0) {
            let client = TcpStream::connect(address).unwrap();
            for (listener, count) in listeners.iter().zip(&mut counts) {
                while listener.accept().is_ok() {
                    *count += 1;
                }
            }
            drop(client);
        }
    }
}
