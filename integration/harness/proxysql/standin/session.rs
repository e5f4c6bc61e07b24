//! One client's traffic.

use std::{io, sync::Arc};

use tokio::net::TcpStream;

use super::Shared;

/// Serves one client until it leaves.
pub(super) async fn serve(_shared: Arc<Shared>, _stream: TcpStream) -> io::Result<()> {
    Ok(())
}
