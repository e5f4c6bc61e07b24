//! Fences: shared, bounded, and never of before the request.

use std::sync::atomic::Ordering;

use causeway::gtid::GtidSet;
use causeway::router::Write;

use crate::harness::{Tracked, shared};
use crate::support::{router, set};

/// However many ask, the source sees a bounded number of fence queries.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_fences_share_queries() -> anyhow::Result<()> {
    let topology = shared().await;
    let router = router(&topology, "[observe]\nfences_per_second_max = 200\n").await?;
    let source = router.view().source().expect("the source is known").ix;
    let stats = || {
        let stats = router.hub().stats(source);
        (
            stats.fence_queries.load(Ordering::Relaxed),
            stats.fence_requests.load(Ordering::Relaxed),
        )
    };
    let before = stats();
    let started = causeway::clock::now();
    let asking = (0..64).map(|n| {
        let router = router.clone();
        tokio::spawn(async move {
            for _ in 0..50 {
                let session = format!("u{n}");
                router
                    .wrote(&Write {
                        session: Some(&session),
                        gtid: None,
                    })
                    .await?;
            }
            anyhow::Ok(())
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await??;
    }
    let seconds = causeway::clock::now().since(started).as_secs_f64();
    let (queries, requests) = (stats().0 - before.0, stats().1 - before.1);
    println!("{requests} fenced writes in {seconds:.2} s took {queries} fence queries");
    // The sweep of settled sessions asks now and then as well.
    assert!(requests >= 64 * 50, "{requests} requests");
    // The rate, and the burst that may precede it.
    assert!(
        (queries as f64) <= 200.0 * seconds + 22.0,
        "{queries} queries in {seconds} s"
    );
    assert!(
        queries * 10 <= requests,
        "{queries} queries for {requests} requests"
    );
    router.stop().await;
    Ok(())
}

/// A query that was under way when the fence was asked for proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_covers_every_commit_that_returned_before_it() -> anyhow::Result<()> {
    let topology = shared().await;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        .await?;
    let router = router(&topology, "").await?;
    let noise = {
        let router = router.clone();
        tokio::spawn(async move {
            loop {
                let write = Write::default();
                let noise = (0..8).map(|_| router.wrote(&write));
                for fenced in futures_util::future::join_all(noise).await {
                    fenced.expect("the source answers");
                }
            }
        })
    };
    let mut tracked = Tracked::connect(topology.source())?;
    for _ in 0..300 {
        let gtid: GtidSet = set(&tracked.write("INSERT INTO app.t VALUES ()")?);
        let token = router.wrote(&Write::default()).await?;
        assert!(token.contains_set(&gtid), "the fence lacks {gtid}");
    }
    noise.abort();
    router.stop().await;
    Ok(())
}
