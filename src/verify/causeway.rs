//! One session as a user of Causeway: it reports its writes and asks where to
//! read, carrying its promise in a session id or in a token.

use std::sync::Arc;

use super::api::{Api, RouteAnswer};
use super::args::{Carrier, VerifyArgs, VerifyServer, WriteReport};
use super::checker::{Consistency, Promise};
use super::chooser::Choice;
use super::recorder::Routing;

/// A token longer than this is replaced by a fenced one, which covers it.
const TOKEN_BYTES_MAX: usize = 4_096;

const NO_COMMENT: &str =
    "route: no comment in the answer: is [proxysql.hints] configured, and in force?";

/// A session's state towards Causeway.
#[derive(Debug)]
pub(super) struct CausewaySession {
    api: Arc<Api>,
    session: String,
    carrier: Carrier,
    writes: WriteReport,
    asked: Option<Consistency>,
    /// ProxySQL, where reads go through it.
    through: Option<VerifyServer>,
    bound_us: Option<u64>,
    /// What the client carries, with [`Carrier::Token`].
    token: Option<String>,
    /// Whether Causeway knows of every acknowledged write, and has reported none
    /// as lost in a failover: else it cannot be held to read-your-writes.
    told: bool,
}

impl CausewaySession {
    pub(super) fn new(args: &VerifyArgs, api: Arc<Api>, session: String) -> Self {
        Self {
            api,
            session,
            carrier: args.via,
            writes: args.writes,
            asked: args.consistency,
            through: args.through.clone(),
            bound_us: args.max_staleness_ms.map(|ms| ms.saturating_mul(1_000)),
            token: None,
            told: true,
        }
    }

    /// Whether Causeway owes this session its own writes.
    pub(super) fn is_promised(&self) -> bool {
        self.told
    }

    /// Reports a write. On an error the promise is off until a later report: the
    /// session only writes one row, so the next write covers this one.
    pub(super) async fn wrote(&mut self, gtid: Option<&str>) -> Result<(), String> {
        self.told = false;
        let gtid = gtid.filter(|_| self.writes == WriteReport::Gtid);
        let session = self.session_id().map(str::to_owned);
        let answer = self.api.wrote(session.as_deref(), gtid).await;
        let token = answer.map_err(|error| error.to_string())?;
        if self.carrier == Carrier::Token {
            self.carry(token).await?;
        }
        self.told = true;
        Ok(())
    }

    /// Adds a write's token to what the session carries: as GTID sets, they add
    /// up by a comma.
    async fn carry(&mut self, new: String) -> Result<(), String> {
        let sum = match self.token.take() {
            Some(old) if !old.is_empty() => format!("{old},{new}"),
            _ => new,
        };
        let too_long = sum.len() > TOKEN_BYTES_MAX;
        self.token = Some(sum);
        if too_long {
            let fenced = self.api.wrote(None, None).await;
            self.token = Some(fenced.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Asks where to read.
    pub(super) async fn route(&mut self) -> Result<Choice, String> {
        let token = self.token.as_deref();
        let answer = self.api.route(self.session_id(), token).await;
        let answer = answer.map_err(|error| error.to_string())?;
        self.take_over(&answer);
        self.choice(answer)
    }

    /// The answer's token replaces the carried one, since it covers it; that of
    /// a degraded answer does not. A write reported as lost is owed no more.
    fn take_over(&mut self, answer: &RouteAnswer) {
        if self.carrier == Carrier::Token && !answer.degraded && answer.token.is_some() {
            self.token.clone_from(&answer.token);
        }
        if answer.lost.is_some() {
            self.told = false;
        }
    }

    fn choice(&self, answer: RouteAnswer) -> Result<Choice, String> {
        let server = self.server(&answer)?;
        let answered = Consistency::from_name(&answer.consistency)
            .ok_or_else(|| format!("route: unknown consistency `{}`", answer.consistency))?;
        // What was asked for is what is owed, unless the answer says `degraded`.
        let mut promise = Promise::new(self.asked.unwrap_or(answered), self.bound_us);
        promise.own_writes &= self.told;
        let off_source = !matches!(answer.role.as_str(), "source" | "primary");
        // Behind ProxySQL it is measured, since the source may stand in there.
        let off_source = self.through.is_none().then_some(off_source);
        let reason = answer.reason;
        Ok(Choice {
            server,
            comment: answer.comment.filter(|_| self.through.is_some()),
            routing: Routing { reason, off_source },
            promise,
            degraded: answer.degraded,
        })
    }

    /// Where to connect for the read: the server itself, or ProxySQL, which is told
    /// of the server by the comment.
    fn server(&self, answer: &RouteAnswer) -> Result<VerifyServer, String> {
        let Some(through) = &self.through else {
            let server = VerifyServer::new(&answer.server, &answer.address);
            return server.map_err(|error| format!("route: {error}"));
        };
        if answer.comment.is_none() {
            return Err(NO_COMMENT.into());
        }
        let name = answer.server.clone();
        Ok(VerifyServer {
            name,
            ..through.clone()
        })
    }

    fn session_id(&self) -> Option<&str> {
        (self.carrier == Carrier::Session).then_some(self.session.as_str())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        verify: VerifyArgs,
    }

    fn session(options: &[&str]) -> CausewaySession {
        let words = ["verify"].iter().chain(options);
        let args = Cli::try_parse_from(words).unwrap().verify;
        let api = Arc::new(Api::new(&args).unwrap());
        CausewaySession::new(&args, api, "s".into())
    }

    fn answer(token: &str, degraded: bool, lost: Option<&str>) -> RouteAnswer {
        RouteAnswer {
            server: "db2".into(),
            address: "127.0.0.1:3307".into(),
            role: "replica".into(),
            comment: None,
            consistency: "session".into(),
            reason: "replica_fresh".into(),
            degraded,
            token: Some(token.into()),
            lost: lost.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn tokens_add_up_and_only_a_kept_promise_replaces_them() {
        let mut session = session(&["--via", "token"]);
        session.carry("a:1".into()).await.unwrap();
        session.carry("b:2".into()).await.unwrap();
        assert_eq!(session.token.as_deref(), Some("a:1,b:2"));
        session.take_over(&answer("a:1", true, None));
        assert_eq!(session.token.as_deref(), Some("a:1,b:2"));
        session.take_over(&answer("a:1-9,b:2", false, None));
        assert_eq!(session.token.as_deref(), Some("a:1-9,b:2"));
    }

    #[test]
    fn a_session_id_needs_no_token() {
        let mut session = session(&[]);
        session.take_over(&answer("a:1", false, None));
        assert_eq!(
            (session.token.as_deref(), session.session_id()),
            (None, Some("s"))
        );
    }

    #[test]
    fn what_was_asked_for_is_owed_whatever_the_answer_claims() {
        let strong = session(&["--consistency", "strong"]);
        let choice = strong.choice(answer("a:1", false, None)).unwrap();
        assert_eq!(choice.promise, Promise::new(Consistency::Strong, None));
        let configured = session(&["--max-staleness-ms", "7"]);
        let choice = configured.choice(answer("a:1", false, None)).unwrap();
        assert_eq!(
            choice.promise,
            Promise::new(Consistency::Session, Some(7_000))
        );
    }

    #[test]
    fn a_write_reported_as_lost_is_owed_no_more() {
        let mut session = session(&[]);
        let lost = answer("", false, Some("a:7"));
        session.take_over(&lost);
        assert!(!session.is_promised());
        assert!(!session.choice(lost).unwrap().promise.own_writes);
    }

    #[test]
    fn through_proxysql_a_read_carries_the_comment_or_is_not_made() {
        let through = session(&["--through", "127.0.0.1:6033"]);
        let mut hinted = answer("", false, None);
        assert_eq!(through.choice(hinted.clone()).unwrap_err(), NO_COMMENT);
        hinted.comment = Some("/* hostgroup=9002 */".into());
        let choice = through.choice(hinted.clone()).unwrap();
        assert_eq!(choice.comment, hinted.comment);
        assert_eq!(
            (choice.server.name.as_str(), choice.server.port),
            ("db2", 6033)
        );
        let direct = session(&[]).choice(hinted).unwrap();
        assert_eq!((direct.comment, direct.server.port), (None, 3307));
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_an_error() {
        let session = session(&[]);
        let mut unknown = answer("", false, None);
        unknown.consistency = "psychic".into();
        assert!(session.choice(unknown).unwrap_err().contains("psychic"));
        let mut nowhere = answer("", false, None);
        nowhere.address = "db2".into();
        assert!(session.choice(nowhere).is_err());
    }
}
