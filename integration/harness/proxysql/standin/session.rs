//! One client's traffic: each of its commands goes to a server of the hostgroup
//! that hints, rules and its user say, and the answer comes back as it is.

use std::{collections::HashMap, io, sync::Arc};

use tokio::net::TcpStream;

use super::{
    Shared,
    backend::{Backend, BackendError, Outcome, Sink},
    choose::Plan,
    hosts::Key,
    rules::{User, digest},
    wire::{Client, SqlError, Wire},
};

const QUIT: u8 = 0x01;
const USE: u8 = 0x02;
const QUERY: u8 = 0x03;
const PING: u8 = 0x0e;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const CLOSE: u8 = 0x19;
const RESET_STATEMENT: u8 = 0x1a;
const SET_OPTION: u8 = 0x1b;
const RESET: u8 = 0x1f;

/// How many `SET`s a session may have told; each new backend gets them all.
const SETS_MAX: usize = 100;

/// A client and all that is its own.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) client: Client,
    pub(super) user: User,
    /// Backends that the next query may have.
    pub(super) idle: HashMap<Key, Backend>,
    /// Backends that a hostgroup's queries must have: in a transaction, or pinned.
    pub(super) held: HashMap<u32, Backend>,
    /// The last transaction committed in each hostgroup.
    pub(super) gtids: HashMap<u32, (String, i64)>,
    wire: Wire,
    schema: Option<String>,
    sets: Vec<String>,
    statements: HashMap<u32, Statement>,
    statements_made: u32,
}

/// A prepared statement, which a backend gets when it first runs there.
#[derive(Clone, Debug)]
struct Statement {
    sql: String,
    params: u16,
    /// The parameters' types, which a client sends only the first time.
    types: Vec<u8>,
}

/// What a backend is to do.
#[derive(Clone, Copy, Debug)]
enum Work<'a> {
    Pass(&'a [u8]),
    Prepare(&'a [u8]),
    Execute(u32, &'a [u8]),
}

/// Serves one client until it leaves.
pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream) -> io::Result<()> {
    let mut wire = Wire::new(stream)?;
    let (version, users) = {
        let state = shared.state.lock();
        (
            state.variable("mysql-server_version").to_owned(),
            state.users.clone(),
        )
    };
    let of = |name: &str| users.iter().find(|user| user.name == name);
    let password_of = |name: &str| of(name).map(|user| user.password.clone());
    let Some(client) = wire.let_in(&version, password_of).await? else {
        return Ok(());
    };
    let user = of(&client.user).expect("it has just entered").clone();
    let mut session = Session {
        schema: client.schema.clone().or_else(|| user.schema.clone()),
        shared,
        client,
        user,
        idle: HashMap::new(),
        held: HashMap::new(),
        gtids: HashMap::new(),
        wire,
        sets: Vec::new(),
        statements: HashMap::new(),
        statements_made: 0,
    };
    let served = session.serve().await;
    session.reset();
    served
}

impl Session {
    async fn serve(&mut self) -> io::Result<()> {
        while let Some(packet) = self.wire.read().await? {
            let Some((&command, rest)) = packet.split_first() else {
                return Ok(());
            };
            match command {
                QUIT => return Ok(()),
                QUERY => self.query(&packet).await?,
                PREPARE => self.prepare(&packet).await?,
                EXECUTE => self.execute(&packet).await?,
                CLOSE => self.close(rest).await,
                USE => {
                    self.schema = Some(String::from_utf8_lossy(rest).into_owned());
                    self.wire.ok(0).await?;
                }
                RESET => {
                    self.reset();
                    self.wire.ok(0).await?;
                }
                PING | RESET_STATEMENT | SET_OPTION => self.wire.ok(0).await?,
                _ => {
                    let error = SqlError::new(1047, "08S01", "the stand-in lacks this command");
                    self.wire.error(&error).await?;
                }
            }
        }
        Ok(())
    }

    async fn query(&mut self, packet: &[u8]) -> io::Result<()> {
        let sql = String::from_utf8_lossy(&packet[1..]).into_owned();
        let words = digest(&sql).to_uppercase();
        if words.starts_with("USE ") {
            let name = sql.trim().trim_end_matches(';').rsplit(' ').next();
            self.schema = name.map(|name| name.trim_matches('`').to_owned());
            return self.wire.ok(0).await;
        }
        let is_set = words.starts_with("SET ") && !words.contains('@');
        if is_set && self.sets.len() >= SETS_MAX {
            let error = SqlError::new(1105, "HY000", "the stand-in remembers no more SETs");
            return self.wire.error(&error).await;
        }
        let done = self.work(&sql, Work::Pass(packet)).await?;
        // Others get it when they are next used; the one that has run it, once more.
        if is_set && done.is_some_and(|outcome| !outcome.failed) {
            self.sets.push(sql);
        }
        Ok(())
    }

    async fn prepare(&mut self, packet: &[u8]) -> io::Result<()> {
        let sql = String::from_utf8_lossy(&packet[1..]).into_owned();
        self.statements_made += 1;
        let done = self.work(&sql, Work::Prepare(packet)).await?;
        if let Some((_, params)) = done.and_then(|outcome| outcome.prepared) {
            let statement = Statement {
                sql,
                params,
                types: Vec::new(),
            };
            self.statements.insert(self.statements_made, statement);
        }
        Ok(())
    }

    async fn execute(&mut self, packet: &[u8]) -> io::Result<()> {
        let id = statement_id(&packet[1..]);
        let Some((id, statement)) = id.and_then(|id| Some((id, self.statements.get_mut(&id)?)))
        else {
            let error = SqlError::new(1243, "HY000", "Unknown prepared statement handler");
            return self.wire.error(&error).await;
        };
        statement.note_types(packet);
        let sql = statement.sql.clone();
        self.work(&sql, Work::Execute(id, packet)).await.map(drop)
    }

    // No answer is owed, and a backend that fails here fails again later.
    async fn close(&mut self, rest: &[u8]) {
        let Some(id) = statement_id(rest) else { return };
        self.statements.remove(&id);
        for backend in self.idle.values_mut().chain(self.held.values_mut()) {
            if let Some((own, _)) = backend.statements.remove(&id) {
                let command = [&[CLOSE][..], &own.to_le_bytes()].concat();
                let _ = backend.send(&command).await;
            }
        }
    }

    /// Finds a backend and lets it work. `None` when the client got an error
    /// of the stand-in's own.
    async fn work(&mut self, sql: &str, work: Work<'_>) -> io::Result<Option<Outcome>> {
        let plan = Plan::of(self, sql);
        loop {
            let (mut backend, is_new) = match self.acquire(&plan).await {
                Ok(acquired) => acquired,
                Err(error) => {
                    self.wire.error(&error).await?;
                    return Ok(None);
                }
            };
            let was_held = backend.pinned || backend.in_transaction;
            let mut begun = false;
            match self.do_work(&mut backend, work, &mut begun).await {
                Ok(outcome) => {
                    if let Some(gtid) = &outcome.gtid {
                        self.gtids.insert(plan.hostgroup, gtid.clone());
                    }
                    self.give_back(backend, sql);
                    return Ok(Some(outcome));
                }
                Err(BackendError::Client(error)) => {
                    self.drop_backend(&backend, true);
                    return Err(error);
                }
                // It had died while it waited: another one, as if nothing had been.
                Err(BackendError::Gone) if !is_new && !was_held && !begun => {
                    self.drop_backend(&backend, true);
                }
                Err(BackendError::Gone) if begun => {
                    self.drop_backend(&backend, true);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                Err(BackendError::Gone) => {
                    self.drop_backend(&backend, true);
                    let lost = "Lost connection to server during query";
                    self.wire.error(&SqlError::new(2013, "HY000", lost)).await?;
                    return Ok(None);
                }
                Err(BackendError::Refused(error)) => {
                    self.give_back(backend, sql);
                    self.wire.error(&error).await?;
                    return Ok(None);
                }
            }
        }
    }

    async fn do_work(
        &mut self,
        backend: &mut Backend,
        work: Work<'_>,
        begun: &mut bool,
    ) -> Result<Outcome, BackendError> {
        self.align(backend).await?;
        let mut sink = Sink {
            wire: Some(&mut self.wire),
            capabilities: self.client.capabilities,
            statement: self.statements_made,
            begun: false,
        };
        let result = match work {
            Work::Pass(packet) => backend.ask(packet, &mut sink).await,
            Work::Prepare(packet) => {
                let result = backend.prepare(packet, &mut sink).await;
                if let Ok(Outcome {
                    prepared: Some((own, _)),
                    ..
                }) = result
                {
                    backend
                        .statements
                        .insert(self.statements_made, (own, false));
                }
                result
            }
            Work::Execute(id, packet) => {
                let statement = self.statements.get(&id).expect("it was looked up");
                statement.run_on(backend, id, packet, &mut sink).await
            }
        };
        *begun = sink.begun;
        result
    }

    /// Gives a backend what the session has set meanwhile.
    async fn align(&self, backend: &mut Backend) -> Result<(), BackendError> {
        if let Some(schema) = &self.schema
            && backend.schema.as_ref() != Some(schema)
            && backend.enter(schema).await?.failed
        {
            backend.schema = None;
            let text = format!("Unknown database '{schema}'");
            return Err(BackendError::Refused(SqlError::new(1049, "42000", text)));
        }
        for sql in &self.sets[backend.sets..] {
            backend.run(sql).await?;
        }
        backend.sets = self.sets.len();
        Ok(())
    }

    /// Forgets all: no backend, no statement, no setting.
    fn reset(&mut self) {
        for (_, backend) in std::mem::take(&mut self.idle) {
            self.drop_backend(&backend, false);
        }
        for (_, backend) in std::mem::take(&mut self.held) {
            self.drop_backend(&backend, true);
        }
        self.gtids.clear();
        self.sets.clear();
        self.statements.clear();
    }
}

impl Statement {
    /// Remembers the types, if the client sends them with this execution.
    fn note_types(&mut self, packet: &[u8]) {
        let at = self.types_at();
        let length = usize::from(self.params) * 2;
        if packet.get(at) == Some(&1)
            && let Some(types) = packet.get(at + 1..at + 1 + length)
        {
            self.types = types.to_vec();
        }
    }

    async fn run_on(
        &self,
        backend: &mut Backend,
        id: u32,
        packet: &[u8],
        sink: &mut Sink<'_>,
    ) -> Result<Outcome, BackendError> {
        if !backend.statements.contains_key(&id) {
            let command = [&[PREPARE], self.sql.as_bytes()].concat();
            let outcome = backend.prepare(&command, &mut Sink::nowhere()).await?;
            let Some((own, _)) = outcome.prepared else {
                let text = "the statement cannot be prepared on this server";
                return Err(BackendError::Refused(SqlError::new(1105, "HY000", text)));
            };
            backend.statements.insert(id, (own, false));
        }
        let (own, bound) = backend.statements.get_mut(&id).expect("it is there by now");
        let mut command = packet.to_vec();
        command[1..5].copy_from_slice(&own.to_le_bytes());
        let at = self.types_at();
        if self.params > 0 && !*bound && command.get(at) == Some(&0) {
            command[at] = 1;
            command.splice(at + 1..at + 1, self.types.iter().copied());
        }
        *bound = true;
        backend.ask(&command, sink).await
    }

    /// Where an execution says whether types follow: after the command, the id,
    /// flags, the count of iterations and a bit for each NULL.
    fn types_at(&self) -> usize {
        1 + 4 + 1 + 4 + usize::from(self.params).div_ceil(8)
    }
}

fn statement_id(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}
