//! Waiting for a thing to be so, by asking for it until a deadline.
//!
//! No test sleeps for a guessed time: it names what it waits for.

use std::time::Duration;

use anyhow::Context as _;

/// How long to rest between two looks. Small beside a server's own answers.
const REST: Duration = Duration::from_millis(5);

/// Asks `probe` until it answers, for at most `limit`; `what` goes into the error.
pub(crate) async fn until<T, Asked>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> Asked,
) -> anyhow::Result<T>
where
    Asked: Future<Output = anyhow::Result<Option<T>>>,
{
    let asking = async {
        loop {
            if let Some(answer) = probe().await? {
                return Ok(answer);
            }
            tokio::time::sleep(REST).await;
        }
    };
    tokio::time::timeout(limit, asking)
        .await
        .with_context(|| format!("waited {limit:?} in vain: {what}"))?
}
