//! Listening, bounded, and stopping without dropping what is under way.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::config;

/// A connection on which no request's head arrives for this long is closed,
/// whether it idles or dawdles.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Pause after a failed `accept`, such as "too many open files".
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the API does not listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The TCP address cannot be used.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The Unix socket cannot be used.
    #[error("cannot listen on {}: {source}", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

/// Serves `app` until `stop`; then answers what is under way, for as long as the
/// drain deadline allows. Calls `ready` with the TCP address once it listens.
///
/// # Errors
/// When an address or the socket cannot be used.
pub async fn serve(
    app: axum::Router,
    api: &config::Api,
    stop: CancellationToken,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let listen_error = |source| ServeError::Listen {
        address: api.listen,
        source,
    };
    let tcp = TcpListener::bind(api.listen).await.map_err(listen_error)?;
    let unix = api.socket.as_ref().map(SocketFile::bind).transpose()?;
    ready(tcp.local_addr().map_err(listen_error)?);
    let server = Server {
        app,
        places: Arc::new(Semaphore::new(api.connections_max)),
        graceful: GracefulShutdown::new(),
    };
    tokio::select! {
        () = server.accept_tcp(&tcp) => {}
        () = server.accept_unix(unix.as_ref()) => {}
        () = stop.cancelled() => {}
    }
    drop((tcp, unix));
    if tokio::time::timeout(api.drain, server.graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("the drain deadline passed with requests still running");
    }
    Ok(())
}

struct Server {
    app: axum::Router,
    places: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Server {
    async fn accept_tcp(&self, listener: &TcpListener) {
        loop {
            let place = self.place().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Small answers must not wait for more data.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "no TCP_NODELAY");
                    }
                    self.spawn(stream, place);
                }
                Err(error) => pause(&error).await,
            }
        }
    }

    async fn accept_unix(&self, socket: Option<&SocketFile>) {
        let Some(socket) = socket else {
            return std::future::pending().await;
        };
        loop {
            let place = self.place().await;
            match socket.listener.accept().await {
                Ok((stream, _)) => self.spawn(stream, place),
                Err(error) => pause(&error).await,
            }
        }
    }

    async fn place(&self) -> tokio::sync::OwnedSemaphorePermit {
        Arc::clone(&self.places)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed")
    }

    fn spawn<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
        place: tokio::sync::OwnedSemaphorePermit,
    ) {
        let service = TowerToHyperService::new(self.app.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            // Answers are small: copied beside their heads, they take one plain
            // write.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service);
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
        });
    }
}

async fn pause(error: &std::io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

/// A Unix socket whose file goes when it is dropped.
struct SocketFile {
    listener: UnixListener,
    path: PathBuf,
}

impl SocketFile {
    /// A file left by a process that is gone is replaced; one in use is not.
    fn bind(path: &PathBuf) -> Result<Self, ServeError> {
        let error = |source| ServeError::Socket {
            path: path.clone(),
            source,
        };
        if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
            std::fs::remove_file(path).map_err(error)?;
        }
        let listener = UnixListener::bind(path).map_err(error)?;
        Ok(Self {
            listener,
            path: path.clone(),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, "the socket's file was gone already");
        }
    }
}
