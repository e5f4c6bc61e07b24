//! The leanest HTTP/1.1 client there is: fixed requests over one connection
//! that stays open, and just enough reading to find an answer's end.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A POST of this JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Where the head of the answer in `bytes` ends and the answer as a whole.
fn ends(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let after = text.split("content-length: ").nth(1)?;
    let length: usize = after.split('\r').next()?.parse().ok()?;
    Some((head, head + length))
}

fn body(bytes: &[u8]) -> anyhow::Result<Option<&[u8]>> {
    match ends(bytes) {
        Some((head, end)) if bytes.len() >= end => {
            ensure!(
                bytes.starts_with(b"HTTP/1.1 200"),
                "{}",
                String::from_utf8_lossy(bytes)
            );
            Ok(Some(&bytes[head..end]))
        }
        _ => Ok(None),
    }
}

/// A connection for asynchronous use.
#[derive(Debug)]
pub(crate) struct Client {
    stream: tokio::net::TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let buffer = vec![0; 16 << 10];
        Ok(Self { stream, buffer })
    }

    /// Sends the request and reads the answer; its body.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.stream.write_all(request).await?;
        let mut filled = 0;
        while body(&self.buffer[..filled])?.is_none() {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
        }
        body(&self.buffer[..filled])?.context("just seen")
    }
}

/// A connection for blocking use.
#[derive(Debug)]
pub(crate) struct BlockingClient {
    stream: std::net::TcpStream,
    buffer: Vec<u8>,
}

impl BlockingClient {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let buffer = vec![0; 16 << 10];
        Ok(Self { stream, buffer })
    }

    /// Sends the request and reads the answer; its body.
    pub(crate) fn ask(&mut self, request: &[u8]) -> anyhow::Result<&[u8]> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        while body(&self.buffer[..filled])?.is_none() {
            let read = self.stream.read(&mut self.buffer[filled..])?;
            ensure!(read > 0, "the server closed the connection");
            filled += read;
        }
        body(&self.buffer[..filled])?.context("just seen")
    }
}
