//! The client of the GTID feeds: it dials `gtid_port` of every server that has
//! one, and forgets what a feed has said when its connection ends.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    feed_set::{Fatal, FeedSet},
    hosts::{Hosts, Status},
    store::Store,
};

type Address = (String, u16);

/// Every feed, by its server's address.
#[derive(Debug, Default)]
pub(super) struct Feeds(BTreeMap<Address, Feed>);

#[derive(Debug)]
struct Feed {
    port: u16,
    /// `None` while there is no connection.
    set: Option<FeedSet>,
    stop: CancellationToken,
}

impl Feeds {
    /// Whether the server's feed has said that this transaction is there.
    pub(super) fn contains(&self, address: &Address, gtid: &(String, i64)) -> bool {
        let set = self.0.get(address).and_then(|feed| feed.set.as_ref());
        set.is_some_and(|set| set.contains(&gtid.0, gtid.1))
    }

    /// Writes `stats_mysql_gtid_executed`.
    pub(super) fn show(&self, store: &Store) -> rusqlite::Result<()> {
        store.change("DELETE FROM stats_mysql_gtid_executed", ())?;
        for ((host, port), feed) in &self.0 {
            let set = feed.set.as_ref();
            let text = set.map_or_else(|| "NULL".to_owned(), ToString::to_string);
            let events = set.map_or(0, |set| set.events);
            store.change(
                "INSERT INTO stats_mysql_gtid_executed VALUES (?1, ?2, ?3, ?4)",
                (host, port, text, events),
            )?;
        }
        Ok(())
    }

    /// Ends the feeds that no server has any more, and returns those to dial.
    fn renew(&mut self, hosts: &Hosts) -> Vec<(Address, u16, CancellationToken)> {
        let wanted: BTreeMap<Address, u16> = hosts
            .0
            .iter()
            .filter(|(_, host)| host.gtid_port > 0 && host.status != Status::OfflineHard)
            .map(|((_, name, port), host)| ((name.clone(), *port), host.gtid_port))
            .collect();
        self.0.retain(|address, feed| {
            let stays = wanted.get(address) == Some(&feed.port);
            if !stays {
                feed.stop.cancel();
            }
            stays
        });
        let mut to_dial = Vec::new();
        for (address, port) in wanted {
            let feed = self.0.entry(address.clone()).or_insert_with(|| Feed {
                port,
                set: None,
                stop: CancellationToken::new(),
            });
            if feed.set.is_none() {
                // Whoever still dials in vain gives way.
                feed.stop.cancel();
                feed.stop = CancellationToken::new();
                to_dial.push((address, port, feed.stop.clone()));
            }
        }
        to_dial
    }

    fn of(&mut self, address: &Address) -> Option<&mut Option<FeedSet>> {
        self.0.get_mut(address).map(|feed| &mut feed.set)
    }
}

/// Dials what must be dialled: after each LOAD, and each retry interval.
pub(super) async fn keep_feeds(shared: Arc<Shared>) {
    loop {
        let (to_dial, pause) = {
            let mut state = shared.state.lock();
            let hosts = state.hosts.clone();
            let pause = state.millis("mysql-binlog_reader_connect_retry_msec");
            (state.feeds.renew(&hosts), pause)
        };
        for (address, port, stop) in to_dial {
            let reading = read_feed(Arc::clone(&shared), address, port);
            shared.spawn(async move { stop.run_until_cancelled_owned(reading).await });
        }
        // A LOAD dials at once.
        let _ = tokio::time::timeout(pause, shared.loaded.notified()).await;
    }
}

async fn read_feed(shared: Arc<Shared>, address: Address, port: u16) {
    let Ok(stream) = TcpStream::connect((address.0.as_str(), port)).await else {
        return;
    };
    let update = |set: Option<FeedSet>| {
        if let Some(feed) = shared.state.lock().feeds.of(&address) {
            *feed = set;
        }
    };
    update(Some(FeedSet::default()));
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut state = shared.state.lock();
        let Some(Some(set)) = state.feeds.of(&address) else {
            break;
        };
        if let Err(Fatal) = set.line(&line) {
            eprintln!("proxysql: stand-in: this line would end ProxySQL 2.7.1: {line:?}");
            break;
        }
    }
    update(None);
}
