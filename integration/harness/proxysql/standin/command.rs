//! `LOAD …` and `SAVE …`: which part of the configuration goes from where to where.

/// A part of the configuration, moved as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    Servers,
    QueryRules,
    Users,
    MysqlVariables,
    AdminVariables,
    ProxysqlServers,
}

/// Where a copy of the configuration lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Runtime,
    Memory,
    Disk,
}

/// One `LOAD` or `SAVE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) module: Module,
    pub(super) from: Layer,
    pub(super) to: Layer,
}

impl Module {
    pub(super) const ALL: [Self; 6] = [
        Self::Servers,
        Self::QueryRules,
        Self::Users,
        Self::MysqlVariables,
        Self::AdminVariables,
        Self::ProxysqlServers,
    ];

    /// The tables that it moves.
    pub(super) fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Servers => &[
                "mysql_servers",
                "mysql_replication_hostgroups",
                "mysql_group_replication_hostgroups",
            ],
            Self::QueryRules => &["mysql_query_rules"],
            Self::Users => &["mysql_users"],
            Self::MysqlVariables | Self::AdminVariables => &["global_variables"],
            Self::ProxysqlServers => &["proxysql_servers"],
        }
    }

    /// The rows of those tables that are its own.
    pub(super) fn condition(self) -> &'static str {
        match self {
            Self::MysqlVariables => "variable_name LIKE 'mysql-%'",
            Self::AdminVariables => "variable_name LIKE 'admin-%'",
            _ => "1",
        }
    }

    /// Its name in `runtime_checksums_values`.
    pub(super) fn checksum(self) -> &'static str {
        match self {
            Self::Servers => "mysql_servers",
            Self::QueryRules => "mysql_query_rules",
            Self::Users => "mysql_users",
            Self::MysqlVariables => "mysql_variables",
            Self::AdminVariables => "admin_variables",
            Self::ProxysqlServers => "proxysql_servers",
        }
    }

    fn named(words: &[String]) -> Option<Self> {
        let name = words.join(" ");
        Some(match name.as_str() {
            "MYSQL SERVERS" => Self::Servers,
            "MYSQL QUERY RULES" => Self::QueryRules,
            "MYSQL USERS" => Self::Users,
            "MYSQL VARIABLES" => Self::MysqlVariables,
            "ADMIN VARIABLES" => Self::AdminVariables,
            "PROXYSQL SERVERS" => Self::ProxysqlServers,
            _ => return None,
        })
    }
}

impl Command {
    /// `None` for anything else, a comment before the command included: ProxySQL
    /// knows the commands by how they begin.
    pub(super) fn parse(sql: &str) -> Option<Self> {
        let sql = sql.trim().trim_end_matches(';').to_uppercase();
        let words: Vec<String> = sql.split_whitespace().map(str::to_owned).collect();
        let [verb, module @ .., preposition, place] = &words[..] else {
            return None;
        };
        let (from, to) = match (verb.as_str(), preposition.as_str(), place.as_str()) {
            ("LOAD", "TO", "RUNTIME" | "RUN") | ("LOAD", "FROM", "MEMORY" | "MEM") => {
                (Layer::Memory, Layer::Runtime)
            }
            ("SAVE", "TO", "MEMORY" | "MEM") | ("SAVE", "FROM", "RUNTIME" | "RUN") => {
                (Layer::Runtime, Layer::Memory)
            }
            ("LOAD", "TO", "MEMORY" | "MEM") | ("LOAD", "FROM", "DISK") => {
                (Layer::Disk, Layer::Memory)
            }
            ("SAVE", "TO", "DISK") | ("SAVE", "FROM", "MEMORY" | "MEM") => {
                (Layer::Memory, Layer::Disk)
            }
            _ => return None,
        };
        let module = Module::named(module)?;
        Some(Self { module, from, to })
    }
}
