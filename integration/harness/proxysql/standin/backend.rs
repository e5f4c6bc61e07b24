//! One connection to a MySQL server, on which whole answers are passed on as
//! they come: the bytes of columns and rows are never looked into.

use std::{collections::HashMap, io};

use mysql_common::{
    constants::{CapabilityFlags, SessionStateType, StatusFlags},
    crypto,
    io::{BufMutExt as _, ParseBuf},
    packets::{
        AuthPlugin, AuthSwitchRequest, CommonOkPacket, ErrPacket, HandshakePacket,
        HandshakeResponse, OkPacket, OkPacketDeserializer,
    },
    proto::MySerialize as _,
};
use tokio::net::TcpStream;

use super::{
    hosts::Key,
    rules,
    wire::{SqlError, Wire},
};

const USE: u8 = 0x02;
const QUERY: u8 = 0x03;
const PACKET_BYTES_MAX: u32 = 1 << 24;

/// What every backend is asked for; a client's own wishes are added.
const ASKED: CapabilityFlags = CapabilityFlags::CLIENT_PROTOCOL_41
    .union(CapabilityFlags::CLIENT_LONG_PASSWORD)
    .union(CapabilityFlags::CLIENT_LONG_FLAG)
    .union(CapabilityFlags::CLIENT_TRANSACTIONS)
    .union(CapabilityFlags::CLIENT_SECURE_CONNECTION)
    .union(CapabilityFlags::CLIENT_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PS_MULTI_RESULTS)
    .union(CapabilityFlags::CLIENT_PLUGIN_AUTH)
    .union(CapabilityFlags::CLIENT_SESSION_TRACK);

/// Of a client's wishes, those that a backend must know.
pub(super) const PASSED_ON: CapabilityFlags =
    CapabilityFlags::CLIENT_FOUND_ROWS.union(CapabilityFlags::CLIENT_MULTI_STATEMENTS);

/// Why there is no backend, or no more.
#[derive(Debug)]
pub(super) enum BackendError {
    /// It refused, or went away.
    Gone,
    /// It has said why.
    Refused(SqlError),
    /// The client went away.
    Client(io::Error),
}

/// What an answer has told about the session.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) status: StatusFlags,
    /// The last transaction that it committed.
    pub(super) gtid: Option<(String, i64)>,
    pub(super) failed: bool,
    /// The statement's id at the backend and its number of parameters.
    pub(super) prepared: Option<(u32, u16)>,
}

/// Where an answer goes; nowhere, if the question was the stand-in's own.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    pub(super) wire: Option<&'a mut Wire>,
    pub(super) capabilities: CapabilityFlags,
    /// The id under which the client is to know a statement.
    pub(super) statement: u32,
    /// Whether the client has got anything yet.
    pub(super) begun: bool,
}

impl Sink<'_> {
    pub(super) fn nowhere() -> Self {
        Self {
            wire: None,
            capabilities: CapabilityFlags::empty(),
            statement: 0,
            begun: false,
        }
    }

    async fn put(&mut self, packet: &[u8]) -> Result<(), BackendError> {
        let Some(wire) = &mut self.wire else {
            return Ok(());
        };
        self.begun = true;
        wire.put(packet).await.map_err(BackendError::Client)
    }

    async fn flush(&mut self) -> Result<(), BackendError> {
        let Some(wire) = &mut self.wire else {
            return Ok(());
        };
        wire.flush().await.map_err(BackendError::Client)
    }
}

/// A connection, and what has been done on it.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) key: Key,
    /// It stays its session's: something lives on it that must not be lost.
    pub(super) pinned: bool,
    pub(super) in_transaction: bool,
    pub(super) schema: Option<String>,
    /// How many of the session's `SET`s it has had.
    pub(super) sets: usize,
    /// The client's statement ids, with the backend's, and whether types are bound.
    pub(super) statements: HashMap<u32, (u32, bool)>,
    wire: Wire,
}

impl Backend {
    /// Connects and logs in.
    pub(super) async fn connect(
        key: Key,
        (user, password): (&str, &str),
        wishes: CapabilityFlags,
    ) -> Result<Self, BackendError> {
        let gone = |_| BackendError::Gone;
        let stream = TcpStream::connect((key.1.as_str(), key.2))
            .await
            .map_err(gone)?;
        let mut wire = Wire::new(stream).map_err(gone)?;
        let refused = log_in(&mut wire, user, password, wishes).await;
        if let Some(packet) = refused.map_err(gone)? {
            return Err(BackendError::Refused(error_of(&packet)));
        }
        Ok(Self {
            key,
            pinned: false,
            in_transaction: false,
            schema: None,
            sets: 0,
            statements: HashMap::new(),
            wire,
        })
    }

    /// Runs a statement whose answer nobody sees.
    pub(super) async fn run(&mut self, sql: &str) -> Result<Outcome, BackendError> {
        let packet = [&[QUERY], sql.as_bytes()].concat();
        self.ask(&packet, &mut Sink::nowhere()).await
    }

    /// Makes `schema` the current one.
    pub(super) async fn enter(&mut self, schema: &str) -> Result<Outcome, BackendError> {
        let packet = [&[USE], schema.as_bytes()].concat();
        self.schema = Some(schema.to_owned());
        self.ask(&packet, &mut Sink::nowhere()).await
    }

    /// Sends a command and passes its answer on.
    pub(super) async fn ask(
        &mut self,
        command: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<Outcome, BackendError> {
        self.send(command).await?;
        let mut outcome = Outcome::default();
        loop {
            let packet = self.next().await?;
            match packet.first() {
                Some(0x00) => {
                    let ok = outcome.note_ok(&packet, sink.capabilities)?;
                    sink.put(&ok).await?;
                }
                Some(0xff) => {
                    outcome.failed = true;
                    sink.put(&packet).await?;
                    break;
                }
                // LOAD DATA LOCAL, which nobody was offered.
                Some(0xfb) | None => return Err(BackendError::Gone),
                _ => {
                    sink.put(&packet).await?;
                    self.pass_until_end(&mut outcome, sink).await?;
                    if !outcome.failed {
                        self.pass_until_end(&mut outcome, sink).await?;
                    }
                }
            }
            if outcome.failed
                || !outcome
                    .status
                    .contains(StatusFlags::SERVER_MORE_RESULTS_EXISTS)
            {
                break;
            }
        }
        self.in_transaction = outcome.in_transaction(self.in_transaction);
        sink.flush().await?;
        Ok(outcome)
    }

    /// Prepares a statement; the client gets its own id for it.
    pub(super) async fn prepare(
        &mut self,
        command: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<Outcome, BackendError> {
        self.send(command).await?;
        let mut outcome = Outcome::default();
        let mut packet = self.next().await?;
        if packet.first() == Some(&0xff) {
            outcome.failed = true;
            sink.put(&packet).await?;
            sink.flush().await?;
            return Ok(outcome);
        }
        let Some([a, b, c, d, columns @ .., e, f]) = packet.get(1..9) else {
            return Err(BackendError::Gone);
        };
        let params = u16::from_le_bytes([*e, *f]);
        outcome.prepared = Some((u32::from_le_bytes([*a, *b, *c, *d]), params));
        let has_columns = columns != [0, 0];
        packet[1..5].copy_from_slice(&sink.statement.to_le_bytes());
        sink.put(&packet).await?;
        for part in [params > 0, has_columns] {
            if part {
                self.pass_until_end(&mut outcome, sink).await?;
            }
        }
        sink.flush().await?;
        Ok(outcome)
    }

    /// Sends a command that has no answer.
    pub(super) async fn send(&mut self, command: &[u8]) -> Result<(), BackendError> {
        self.wire
            .command(command)
            .await
            .map_err(|_| BackendError::Gone)
    }

    // Columns end as rows do, and an error may end either.
    async fn pass_until_end(
        &mut self,
        outcome: &mut Outcome,
        sink: &mut Sink<'_>,
    ) -> Result<(), BackendError> {
        loop {
            let packet = self.next().await?;
            sink.put(&packet).await?;
            match packet[..] {
                [0xfe, _, _, low, high] => {
                    let bits = u16::from_le_bytes([low, high]);
                    outcome.status = StatusFlags::from_bits_retain(bits);
                    return Ok(());
                }
                [0xff, ..] => {
                    outcome.failed = true;
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    async fn next(&mut self) -> Result<Vec<u8>, BackendError> {
        self.wire.expect().await.map_err(|_| BackendError::Gone)
    }
}

impl Outcome {
    // An error's packet has no status: most errors leave a transaction open.
    fn in_transaction(&self, before: bool) -> bool {
        if self.failed {
            return before;
        }
        self.status.contains(StatusFlags::SERVER_STATUS_IN_TRANS)
    }

    /// Reads an OK packet, and gives it the form that the client can read.
    fn note_ok(&mut self, packet: &[u8], client: CapabilityFlags) -> Result<Vec<u8>, BackendError> {
        let parsed = ParseBuf(packet)
            .parse::<OkPacketDeserializer<'_, CommonOkPacket>>(ASKED)
            .map_err(|_| BackendError::Gone)?;
        let ok = OkPacket::from(parsed);
        self.status = ok.status_flags();
        self.gtid = last_gtid(&ok).or(self.gtid.take());
        if client.contains(CapabilityFlags::CLIENT_SESSION_TRACK) {
            return Ok(packet.to_vec());
        }
        let mut plain = vec![0];
        plain.put_lenenc_int(ok.affected_rows());
        plain.put_lenenc_int(ok.last_insert_id().unwrap_or_default());
        let status = self.status - StatusFlags::SERVER_SESSION_STATE_CHANGED;
        plain.extend(status.bits().to_le_bytes());
        plain.extend(ok.warnings().to_le_bytes());
        if let Some(info) = ok.info_ref() {
            plain.put_lenenc_str(info);
        }
        Ok(plain)
    }
}

/// The transaction that an OK packet names. The payload is a byte for the
/// encoding and a string with its length.
fn last_gtid(ok: &OkPacket<'_>) -> Option<(String, i64)> {
    let changes = ok.session_state_info().ok()?;
    let gtids = SessionStateType::SESSION_TRACK_GTIDS;
    let change = changes.iter().find(|change| change.data_type() == gtids)?;
    let text = change.data_ref().get(2..)?;
    rules::gtid(std::str::from_utf8(text).ok()?)
}

fn error_of(packet: &[u8]) -> SqlError {
    match ParseBuf(packet).parse::<ErrPacket<'_>>(ASKED) {
        Ok(ErrPacket::Error(error)) => {
            SqlError::new(error.error_code(), "28000", error.message_str())
        }
        _ => SqlError::new(2013, "HY000", "the server's error cannot be read"),
    }
}

/// Logs in with the server's own method. The answer is the error packet, if any.
async fn log_in(
    wire: &mut Wire,
    user: &str,
    password: &str,
    wishes: CapabilityFlags,
) -> io::Result<Option<Vec<u8>>> {
    let packet = wire.expect().await?;
    if packet.first() == Some(&0xff) {
        return Ok(Some(packet));
    }
    let greeting: HandshakePacket<'_> = ParseBuf(&packet).parse(())?;
    let mut nonce = greeting.nonce();
    let plugin = greeting
        .auth_plugin()
        .unwrap_or(AuthPlugin::MysqlNativePassword);
    let response = HandshakeResponse::new(
        Some(proof(&plugin, password, &nonce)),
        (8, 0, 0),
        Some(user.as_bytes()),
        None::<&[u8]>,
        Some(plugin),
        ASKED | wishes & PASSED_ON,
        None,
        PACKET_BYTES_MAX,
    );
    let mut bytes = Vec::new();
    response.serialize(&mut bytes);
    wire.send(&bytes).await?;
    loop {
        let packet = wire.expect().await?;
        match packet[..] {
            [0x00, ..] => return Ok(None),
            [0xff, ..] => return Ok(Some(packet)),
            [0xfe, ..] => {
                let switch: AuthSwitchRequest<'_> = ParseBuf(&packet).parse(())?;
                nonce = switch.plugin_data().to_vec();
                let proof = proof(&switch.auth_plugin(), password, &nonce);
                wire.send(&proof).await?;
            }
            // It knows the password already.
            [0x01, 0x03] => {}
            // It wants the password itself, enciphered with its key.
            [0x01, 0x04] => wire.send(&[0x02]).await?,
            [0x01, ref key @ ..] => {
                let mut secret = [password.as_bytes(), &[0]].concat();
                for (byte, mask) in secret.iter_mut().zip(nonce.iter().cycle()) {
                    *byte ^= mask;
                }
                wire.send(&crypto::encrypt(&secret, key)).await?;
            }
            _ => return Err(io::Error::other("no login is like this")),
        }
    }
}

fn proof(plugin: &AuthPlugin<'_>, password: &str, nonce: &[u8]) -> Vec<u8> {
    let data = plugin.gen_data(Some(password), nonce);
    data.map(|data| data.to_vec()).unwrap_or_default()
}
