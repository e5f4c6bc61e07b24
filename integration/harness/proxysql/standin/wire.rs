//! The server's side of the MySQL protocol: packets, the login, answers as text.
//!
//! `mysql_common` knows the packets; this knows their order. No TLS, no
//! compression, no packet of 16 MiB or more.

use std::io;

use mysql_common::{
    constants::{CapabilityFlags, StatusFlags},
    io::{BufMutExt as _, ParseBuf},
    packets::{AuthPlugin, HandshakePacket, HandshakeResponse},
    proto::MySerialize as _,
    scramble::scramble_native,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream},
    net::TcpStream,
};

use super::store::Answer;

/// The longest payload of one packet; longer ones would come in pieces.
const PAYLOAD_MAX: usize = 0x00ff_ffff;
const NATIVE: &str = "mysql_native_password";
const UTF8: u16 = 33;
const VAR_STRING: u8 = 0xfd;

/// What a stand-in can do for a client.
const OFFERED: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_FOUND_ROWS)
    .union(CapabilityFlags::CLIENT_LONG_FLAG)
    .union(CapabilityFlags::CLIENT_CONNECT_WITH_DB)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_MULTI_STATEMENTS)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PS_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_SESSION_TRACK);

/// An error as the protocol carries it.
#[derive(Clone, Debug)]
pub(super) struct SqlError {
    pub(super) code: u16,
    pub(super) state: &'static str,
    pub(super) text: String,
}

impl SqlError {
    pub(super) fn new(code: u16, state: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            state,
            text: text.into(),
        }
    }
}

/// A connection, cut into packets.
#[derive(Debug)]
pub(super) struct Wire {
    stream: BufStream<TcpStream>,
    sequence: u8,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufStream::new(stream),
            sequence: 0,
        })
    }

    /// The next packet; `None` when the other side has closed.
    pub(super) async fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut head = [0; 4];
        match self.stream.read_exact(&mut head).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let [a, b, c, sequence] = head;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length == PAYLOAD_MAX {
            return Err(io::Error::other("a packet of 16 MiB or more"));
        }
        self.sequence = sequence.wrapping_add(1);
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await?;
        Ok(Some(payload))
    }

    /// The next packet, where the other side owes one.
    pub(super) async fn expect(&mut self) -> io::Result<Vec<u8>> {
        let closed = || io::Error::from(io::ErrorKind::UnexpectedEof);
        self.read().await?.ok_or_else(closed)
    }

    /// Puts a packet into the buffer.
    pub(super) async fn put(&mut self, payload: &[u8]) -> io::Result<()> {
        if payload.len() >= PAYLOAD_MAX {
            return Err(io::Error::other("a packet of 16 MiB or more"));
        }
        let length = (payload.len() as u32).to_le_bytes();
        let head = [length[0], length[1], length[2], self.sequence];
        self.sequence = self.sequence.wrapping_add(1);
        self.stream.write_all(&head).await?;
        self.stream.write_all(payload).await
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.stream.flush().await
    }

    /// Sends one packet.
    pub(super) async fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.put(payload).await?;
        self.flush().await
    }

    /// Sends the first packet of a new command.
    pub(super) async fn command(&mut self, payload: &[u8]) -> io::Result<()> {
        self.sequence = 0;
        self.send(payload).await
    }

    pub(super) async fn ok(&mut self, affected: u64) -> io::Result<()> {
        self.send(&ok(affected)).await
    }

    pub(super) async fn error(&mut self, error: &SqlError) -> io::Result<()> {
        let mut packet = vec![0xff];
        packet.extend(error.code.to_le_bytes());
        packet.push(b'#');
        packet.extend(error.state.as_bytes());
        packet.extend(error.text.as_bytes());
        self.send(&packet).await
    }

    /// Sends an answer in the text protocol.
    pub(super) async fn answer(&mut self, answer: &Answer) -> io::Result<()> {
        let (columns, rows) = match answer {
            Answer::Done(affected) => return self.ok(*affected).await,
            Answer::Rows { columns, rows } => (columns, rows),
        };
        let mut count = Vec::new();
        count.put_lenenc_int(columns.len() as u64);
        self.put(&count).await?;
        for name in columns {
            self.put(&column(name)).await?;
        }
        self.put(&END).await?;
        for row in rows {
            self.put(&text_row(row)).await?;
        }
        self.send(&END).await
    }

    /// Greets a client and checks who it is. `None` when it may not enter; it
    /// has been told so then.
    pub(super) async fn let_in(
        &mut self,
        version: &str,
        password_of: impl Fn(&str) -> Option<String>,
    ) -> io::Result<Option<Client>> {
        let nonce = nonce();
        self.send(&greeting(version, &nonce)).await?;
        let packet = self.expect().await?;
        let response: HandshakeResponse<'_> = ParseBuf(&packet).parse(())?;
        let client = Client::of(&response);
        let plugin = response.auth_plugin().map(AuthPlugin::as_bytes);
        let mut proof = response.scramble_buf().to_vec();
        if plugin.is_some_and(|plugin| plugin != NATIVE.as_bytes()) {
            self.send(&switch_to_native(&nonce)).await?;
            proof = self.expect().await?;
        }
        let password = password_of(&client.user);
        let wanted = password.map(|password| scramble_native(&nonce, password.as_bytes()));
        if wanted
            .is_some_and(|wanted| wanted.map_or(proof.is_empty(), |wanted| wanted[..] == proof))
        {
            self.ok(0).await?;
            return Ok(Some(client));
        }
        let text = format!(
            "ProxySQL Error: Access denied for user '{}'@'127.0.0.1' (using password: {})",
            client.user,
            if proof.is_empty() { "NO" } else { "YES" }
        );
        self.error(&SqlError::new(1045, "28000", text)).await?;
        Ok(None)
    }
}

/// Who has logged in.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) user: String,
    pub(super) schema: Option<String>,
    pub(super) capabilities: CapabilityFlags,
}

impl Client {
    fn of(response: &HandshakeResponse<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            user: text(response.user()),
            schema: response.db_name().filter(|name| !name.is_empty()).map(text),
            capabilities: response.capabilities(),
        }
    }
}

/// The end of columns and of rows; the status says that every statement commits.
const END: [u8; 5] = [0xfe, 0, 0, 2, 0];

pub(super) fn ok(affected: u64) -> Vec<u8> {
    let mut packet = vec![0];
    packet.put_lenenc_int(affected);
    packet.extend([0, 2, 0, 0, 0]);
    packet
}

fn column(name: &str) -> Vec<u8> {
    let mut packet = Vec::new();
    for text in ["def", "", "", "", name, ""] {
        packet.put_lenenc_str(text.as_bytes());
    }
    packet.push(12);
    packet.extend(UTF8.to_le_bytes());
    packet.extend(u32::from(u16::MAX).to_le_bytes());
    packet.extend([VAR_STRING, 0, 0, 0, 0, 0]);
    packet
}

fn text_row(row: &[Option<String>]) -> Vec<u8> {
    let mut packet = Vec::new();
    for value in row {
        match value {
            Some(text) => packet.put_lenenc_str(text.as_bytes()),
            None => packet.push(0xfb),
        }
    }
    packet
}

fn nonce() -> [u8; 20] {
    // A zero would end it early.
    std::array::from_fn(|_| rand::random_range(b'0'..=b'z'))
}

fn greeting(version: &str, nonce: &[u8; 20]) -> Vec<u8> {
    let (first, rest) = nonce.split_first_chunk::<8>().expect("20 is more than 8");
    let packet = HandshakePacket::new(
        10,
        version.as_bytes(),
        1,
        *first,
        Some([rest, &[0]].concat()),
        OFFERED,
        UTF8 as u8,
        StatusFlags::SERVER_STATUS_AUTOCOMMIT,
        Some(NATIVE.as_bytes()),
    );
    let mut bytes = Vec::new();
    packet.serialize(&mut bytes);
    bytes
}

fn switch_to_native(nonce: &[u8; 20]) -> Vec<u8> {
    [&[0xfe], NATIVE.as_bytes(), &[0], nonce, &[0]].concat()
}
