//! Every server's standing for one request, for people who ask why.

use super::Ask;
use super::fit::Fit;
use crate::fleet::{FleetView, Role, ServerIx};
use crate::moment::Moment;

/// One server as a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The server.
    pub server: ServerIx,
    /// Whether it fits, or why not.
    pub fit: Fit,
    /// Required transactions that it has not executed; `None` without evidence.
    pub missing: Option<u64>,
}

/// How every server stood against the request.
pub fn explain(view: &FleetView, ask: &Ask, now: Moment) -> Vec<Candidate> {
    let candidate = |server: &crate::fleet::ServerView| {
        let fit = match server.role {
            Role::Source => ask.fit_earlier_reads(view, server),
            _ => ask.fit(view, server, now),
        };
        let need = ask.need_on(view, server).to_set();
        let missing = server
            .executed()
            .map(|executed| need.subtract(executed).count());
        Candidate {
            server: server.ix,
            fit,
            missing,
        }
    };
    view.servers.iter().map(candidate).collect()
}
