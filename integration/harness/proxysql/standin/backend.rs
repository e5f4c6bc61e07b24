//! One connection to a MySQL server, on which whole answers are passed on as
//! they come: the bytes of columns and rows are never looked into.

use std::{collections::HashMap, io};

use mysql_common::{
    constants::{CapabilityFlags, SessionStateType, StatusFlags},
    io::{BufMutExt as _, ParseBuf},
    packets::{CommonOkPacket, OkPacket, OkPacketDeserializer},
};
use tokio::net::TcpStream;

use super::{
    hosts::Key,
    login::{ASKED, error_of, log_in},
    rules,
    wire::{SqlError, Wire},
};

const USE: u8 = 0x02;
const QUERY: u8 = 0x03;

/// Why there is no backend, or no more.
#[derive(Debug)]
pub(super) enum BackendError {
    /// It refused, or went away.
    Gone,
    /// Its row went, or it came to lag too much, so its work is ended.
    Ended,
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
    /// Set when the client has got anything.
    pub(super) begun: Option<&'a mut bool>,
}

impl Sink<'_> {
    pub(super) fn nowhere() -> Self {
        Self {
            wire: None,
            capabilities: CapabilityFlags::empty(),
            statement: 0,
            begun: None,
        }
    }

    async fn put(&mut self, packet: &[u8]) -> Result<(), BackendError> {
        let Some(wire) = &mut self.wire else {
            return Ok(());
        };
        if let Some(begun) = &mut self.begun {
            **begun = true;
        }
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
