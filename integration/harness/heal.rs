//! Undoing what a test did to a topology.

use anyhow::ensure;

use super::{server::Server, topology::Topology};

/// Variables that follow from others, and must not be set back for their own sake.
const NOT_SET_BACK: [&str; 2] = ["gtid_purged", "gtid_executed"];

impl Topology {
    /// Makes every server run again with its first options and variables, and
    /// every replica follow without a delay; returns when all have caught up.
    ///
    /// Fails for what cannot be undone: a promotion, and transactions that only
    /// a replica has.
    pub(crate) async fn heal(&self) -> anyhow::Result<()> {
        ensure!(self.has_first_source(), "{} was promoted", self.source());
        for server in self.servers() {
            server.heal().await?;
        }
        for replica in self.replicas() {
            self.heal_replication(replica).await?;
        }
        self.wait_caught_up().await?;
        self.ensure_no_errant().await
    }

    /// Ends what an earlier test left behind: its connections, and the content of `app`.
    pub(crate) async fn clear(&self) -> anyhow::Result<()> {
        for server in self.servers() {
            server.resume()?;
            if server.is_alive()? {
                server.end_clients().await?;
            }
        }
        self.heal().await?;
        let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'app'";
        if self.source().value::<u64>(tables).await? > 0 {
            self.source()
                .execute_all(&["DROP DATABASE app", "CREATE DATABASE app"])
                .await?;
            self.wait_caught_up().await?;
        }
        Ok(())
    }

    async fn heal_replication(&self, replica: &Server) -> anyhow::Result<()> {
        let sql = "SELECT receiver.SERVICE_STATE, applier.SERVICE_STATE, setting.DESIRED_DELAY \
                   FROM performance_schema.replication_connection_status receiver \
                   JOIN performance_schema.replication_applier_status applier USING (CHANNEL_NAME) \
                   JOIN performance_schema.replication_applier_configuration setting USING (CHANNEL_NAME)";
        let state = replica.query::<(String, String, u32)>(sql).await?;
        if matches!(&state[..], [(receiver, applier, 0)] if receiver == "ON" && applier == "ON") {
            return Ok(());
        }
        replica.execute("STOP REPLICA").await?;
        replica
            .execute("CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0")
            .await?;
        self.follow(replica).await
    }

    async fn ensure_no_errant(&self) -> anyhow::Result<()> {
        for replica in self.replicas() {
            let (has, may) = (replica.executed().await?, self.source().executed().await?);
            let sql = format!(r"SELECT REPLACE(GTID_SUBTRACT('{has}', '{may}'), '\n', '')");
            let errant: String = self.source().value(&sql).await?;
            ensure!(errant.is_empty(), "{replica} alone has {errant}");
        }
        Ok(())
    }
}

impl Server {
    async fn heal(&self) -> anyhow::Result<()> {
        self.resume()?;
        if !self.is_alive()? || self.options() != self.spec.options {
            let options: Vec<_> = self.spec.options.iter().map(String::as_str).collect();
            return self.restart_with(&options).await;
        }
        let (first, now) = (self.initial_variables(), self.variables().await?);
        for name in self.variables_set().await? {
            if let Some(value) = first
                .get(&name)
                .filter(|value| now.get(&name) != Some(value))
                && !NOT_SET_BACK.contains(&name.as_str())
            {
                self.execute(&format!("SET GLOBAL {name} = {}", literal(value)))
                    .await?;
            }
        }
        Ok(())
    }
}

/// A variable's value as `SET` takes it: numbers bare, all else quoted.
fn literal(value: &str) -> String {
    if value.parse::<f64>().is_ok() {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}
