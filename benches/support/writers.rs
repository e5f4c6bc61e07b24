//! Threads that commit on the source, at a pace or as fast as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::harness::{Server, Tracked};
use crate::support::time;

const WRITERS: u64 = 8;
/// Rows of each writer, so that writers never wait for each other's locks.
const ROWS: u64 = 1000;

/// What the writers write to.
pub(crate) const TABLE: &str = "CREATE TABLE app.pump (id BIGINT PRIMARY KEY, v BIGINT NOT NULL)";

/// Writers at work.
pub(crate) struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Default)]
struct Shared {
    committed: AtomicU64,
    newest: Mutex<String>,
    stop: AtomicBool,
}

impl Writers {
    /// Starts them: all together this many commits per second, or all they can.
    pub(crate) fn start(source: &Server, per_second: Option<f64>) -> anyhow::Result<Self> {
        let shared = Arc::<Shared>::default();
        let interval = per_second.map(|rate| Duration::from_secs_f64(WRITERS as f64 / rate));
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let (conn, shared) = (Tracked::connect(source)?, Arc::clone(&shared));
            threads.push(std::thread::spawn(move || {
                write(conn, &shared, writer, interval)
            }));
        }
        while shared.newest.lock().is_empty() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Self { shared, threads })
    }

    pub(crate) fn committed(&self) -> u64 {
        self.shared.committed.load(Ordering::Relaxed)
    }

    /// The GTID of the newest commit of one of them.
    pub(crate) fn newest(&self) -> String {
        self.shared.newest.lock().clone()
    }

    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a writer does not panic")?;
        }
        Ok(())
    }
}

fn write(
    mut conn: Tracked,
    shared: &Shared,
    writer: u64,
    interval: Option<Duration>,
) -> anyhow::Result<()> {
    let (start, mut number) = (time::now(), 0);
    while !shared.stop.load(Ordering::Relaxed) {
        let id = writer * ROWS + number % ROWS;
        let sql =
            format!("INSERT INTO app.pump VALUES ({id}, 1) ON DUPLICATE KEY UPDATE v = v + 1");
        let gtid = conn.write(&sql)?;
        shared.committed.fetch_add(1, Ordering::Relaxed);
        if writer == 0 {
            *shared.newest.lock() = gtid;
        }
        number += 1;
        if let Some(interval) = interval {
            let due = interval.mul_f64(number as f64);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    Ok(())
}
