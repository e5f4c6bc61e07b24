//! All that a stand-in knows, and what the admin's statements do to it.

use std::{collections::BTreeMap, path::Path, sync::LazyLock, time::Duration};

use regex::Regex;

use super::{
    command::{Command, Layer, Module},
    feed::Feeds,
    hosts::{Hosts, Pair},
    rules::{Rules, User},
    schema,
    store::{Answer, Store, place},
    wire::SqlError,
};

/// What `SELECT @@version` says, and the greeting of the admin.
pub(super) const VERSION: &str = "2.7.1-standin";

/// The runtime, and the tables it was loaded from.
#[derive(Debug)]
pub(super) struct State {
    pub(super) hosts: Hosts,
    pub(super) pairs: Vec<Pair>,
    pub(super) rules: Rules,
    pub(super) users: Vec<User>,
    pub(super) feeds: Feeds,
    variables: BTreeMap<String, String>,
    sums: BTreeMap<&'static str, Sum>,
    started: i64,
    store: Store,
}

/// A row of `runtime_checksums_values`.
#[derive(Clone, Debug, Default)]
struct Sum {
    version: i64,
    epoch: i64,
    checksum: String,
}

impl State {
    /// The runtime that the saved configuration describes.
    pub(super) fn open(file: &Path) -> Result<Self, SqlError> {
        let store = Store::open(file)?;
        let mut state = Self {
            started: store.epoch()?,
            store,
            hosts: Hosts::default(),
            pairs: Vec::new(),
            rules: Rules::default(),
            users: Vec::new(),
            feeds: Feeds::default(),
            variables: BTreeMap::new(),
            sums: BTreeMap::new(),
        };
        for module in Module::ALL {
            for (from, to) in [
                (Layer::Disk, Layer::Memory),
                (Layer::Memory, Layer::Runtime),
            ] {
                state.move_configuration(Command { module, from, to })?;
            }
        }
        Ok(state)
    }

    /// Runs one query of an admin client: its first statement.
    pub(super) fn execute(&mut self, sql: &str) -> Result<Answer, SqlError> {
        if let Some(command) = Command::parse(sql) {
            self.move_configuration(command)?;
            return Ok(Answer::Done(0));
        }
        let sql = sql.trim();
        let first = sql.split([' ', '\t', '\n', ';']).next().unwrap_or_default();
        match first.to_uppercase().as_str() {
            "BEGIN" | "START" | "COMMIT" | "ROLLBACK" => return Ok(Answer::Done(0)),
            "SET" => return self.set(sql),
            _ => {}
        }
        if let Some(answer) = version(sql) {
            return Ok(answer);
        }
        self.show(&sql.to_lowercase())?;
        Ok(self.store.run(sql)?)
    }

    /// A variable as it is at runtime.
    pub(super) fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    /// A variable that counts milliseconds.
    pub(super) fn millis(&self, name: &str) -> Duration {
        let default = schema::VARIABLES.iter().find(|(known, _)| *known == name);
        let default = default.and_then(|(_, value)| value.parse().ok());
        let value = self.variable(name).parse().ok().or(default);
        Duration::from_millis(value.unwrap_or_default())
    }

    /// A variable that is true or false.
    pub(super) fn is_on(&self, name: &str) -> bool {
        matches!(self.variable(name), "true" | "1")
    }

    /// Notes that the monitor moved servers: the checksum follows, the version does not.
    pub(super) fn servers_moved(&mut self) -> Result<(), SqlError> {
        self.note_sum("mysql_servers", false)
    }

    fn move_configuration(&mut self, command: Command) -> Result<(), SqlError> {
        let Command { module, from, to } = command;
        if module == Module::Servers && (from == Layer::Runtime || to == Layer::Runtime) {
            self.move_servers(to)?;
        } else {
            self.store.copy(module, from, to)?;
        }
        if to != Layer::Runtime {
            return Ok(());
        }
        match module {
            Module::Servers => self.pairs = self.store.pairs()?,
            Module::QueryRules => {
                self.store
                    .change("DELETE FROM runtime_mysql_query_rules WHERE active = 0", ())?;
                self.rules = Rules::load(&self.store)?;
            }
            Module::Users => self.users = User::load(&self.store)?,
            Module::MysqlVariables | Module::AdminVariables => {
                let sql = "SELECT variable_name, variable_value FROM runtime_global_variables";
                let rows = self.store.rows(sql, |row| Ok((row.get(0)?, row.get(1)?)))?;
                self.variables = rows.into_iter().collect();
            }
            Module::ProxysqlServers => {}
        }
        self.note_sum(module.checksum(), true)?;
        if module == Module::Servers {
            self.note_sum("mysql_servers_v2", true)?;
        }
        Ok(())
    }

    // The servers at runtime are not in a table, since the monitor changes them.
    fn move_servers(&mut self, to: Layer) -> Result<(), SqlError> {
        let from = match to {
            Layer::Runtime => Layer::Memory,
            _ => Layer::Runtime,
        };
        if to == Layer::Runtime {
            self.hosts.load(self.store.servers()?);
        } else {
            self.hosts.purge();
            self.store.show_servers("mysql_servers", &self.hosts)?;
        }
        for table in &Module::Servers.tables()[1..] {
            let (from, to) = (place(from, table), place(to, table));
            self.store.change(&format!("DELETE FROM {to}"), ())?;
            self.store
                .change(&format!("INSERT INTO {to} SELECT * FROM {from}"), ())?;
        }
        Ok(())
    }

    fn note_sum(&mut self, name: &'static str, loaded: bool) -> Result<(), SqlError> {
        let (tables, condition) = match name {
            "mysql_servers_v2" => (memory_tables(), "1"),
            _ => {
                let module = Module::ALL.iter().find(|module| module.checksum() == name);
                let module = module.expect("every name is a module's");
                (
                    vec![place(Layer::Runtime, module.tables()[0])],
                    module.condition(),
                )
            }
        };
        if name == "mysql_servers" {
            self.store
                .show_servers("runtime_mysql_servers", &self.hosts)?;
        }
        let checksum = self.store.checksum(&tables, condition)?;
        let epoch = self.store.epoch()?;
        let sum = self.sums.entry(name).or_default();
        sum.version += i64::from(loaded);
        (sum.epoch, sum.checksum) = (epoch, checksum);
        Ok(())
    }

    // As in ProxySQL, such a table is written when a query names it.
    fn show(&mut self, sql: &str) -> Result<(), SqlError> {
        if sql.contains("runtime_mysql_servers") {
            self.hosts.purge();
            self.store
                .show_servers("runtime_mysql_servers", &self.hosts)?;
        }
        if sql.contains("stats_mysql_connection_pool") {
            self.store.show_pool(&self.hosts)?;
        }
        if sql.contains("stats_mysql_gtid_executed") {
            self.feeds.show(&self.store)?;
        }
        if sql.contains("stats_mysql_global") {
            let uptime = self.store.epoch()? - self.started;
            let sql = "REPLACE INTO stats_mysql_global VALUES ('ProxySQL_Uptime', ?1)";
            self.store.change(sql, [uptime.to_string()])?;
        }
        if sql.contains("runtime_checksums_values") {
            for (name, sum) in &self.sums {
                self.store.change(
                    "REPLACE INTO runtime_checksums_values VALUES (?1, ?2, ?3, ?4)",
                    (name, sum.version, sum.epoch, &sum.checksum),
                )?;
            }
        }
        Ok(())
    }

    // A variable of MySQL's, which clients set at login, is accepted and ignored.
    fn set(&mut self, sql: &str) -> Result<Answer, SqlError> {
        static SET: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r#"(?is)^SET\s+((?:mysql|admin)-\w+)\s*=\s*['"]?(.*?)['"]?\s*;?\s*$"#)
                .expect("a pattern of our own")
        });
        if let Some(parts) = SET.captures(sql) {
            let change = "UPDATE global_variables SET variable_value = ?2 WHERE variable_name = ?1";
            self.store
                .change(change, (parts[1].to_lowercase(), &parts[2]))?;
        }
        Ok(Answer::Done(0))
    }
}

fn memory_tables() -> Vec<String> {
    let tables = Module::Servers.tables().iter();
    tables.map(|table| place(Layer::Memory, table)).collect()
}

fn version(sql: &str) -> Option<Answer> {
    let asked = sql.trim_end_matches(';').to_lowercase();
    let what = asked.strip_prefix("select ")?.trim();
    let known = matches!(what, "@@version" | "version()");
    known.then(|| Answer::Rows {
        columns: vec![what.to_owned()],
        rows: vec![vec![Some(VERSION.to_owned())]],
    })
}
