//! Prepared statements: a client's one is prepared on each backend that runs it.

use super::{
    backend::{Backend, BackendError, Outcome, Sink},
    wire::SqlError,
};

const PREPARE: u8 = 0x16;

/// A prepared statement, which a backend gets when it first runs there.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) params: u16,
    /// The parameters' types, which a client sends only the first time.
    pub(super) types: Vec<u8>,
}

impl Statement {
    /// Remembers the types, if the client sends them with this execution.
    pub(super) fn note_types(&mut self, packet: &[u8]) {
        let at = self.types_at();
        let length = usize::from(self.params) * 2;
        if packet.get(at) == Some(&1)
            && let Some(types) = packet.get(at + 1..at + 1 + length)
        {
            self.types = types.to_vec();
        }
    }

    /// Runs it on a backend, which learns it first if it must.
    pub(super) async fn run_on(
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

/// The statement that a command is about.
pub(super) fn statement_id(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}
