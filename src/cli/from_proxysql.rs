//! `--from-proxysql`: learning the configuration from ProxySQL's admin interface.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::config::Config;
use crate::proxysql::AdminLogin;
use crate::proxysql::init::{
    Draft, MYSQL_PASSWORD_ENV, Origin, PROXYSQL_PASSWORD_ENV, PasswordKey, draft, text,
};
use crate::proxysql::look;

/// The admin's port where none is given.
const ADMIN_PORT: u16 = 6032;
/// User and password of a ProxySQL out of the box.
const DEFAULT_USER: &str = "admin";
const DEFAULT_PASSWORD: &str = "admin";

/// `[user[:password]@]host[:port]` of an admin interface.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    user: Option<String>,
    password: Option<String>,
    address: String,
}

// Passwords stay out of logs.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Endpoint").field(&self.address).finish()
    }
}

/// Reads an endpoint.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, String> {
    let (login, address) = match text.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, text),
    };
    let (user, password) = match login.map(|login| login.split_once(':').ok_or(login)) {
        None => (None, None),
        Some(Ok((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
        Some(Err(user)) => (Some(user.to_owned()), None),
    };
    // "::1" has colons and no port; "[::1]" neither.
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let address = match has_port {
        true => address.to_owned(),
        false if address.contains(':') && !address.starts_with('[') => {
            format!("[{address}]:{ADMIN_PORT}")
        }
        false => format!("{address}:{ADMIN_PORT}"),
    };
    crate::fleet::split_address(&address)
        .ok_or_else(|| format!("{address:?} is not host:port of ProxySQL's admin interface"))?;
    Ok(Endpoint {
        user,
        password,
        address,
    })
}

/// How to log in there, and which topology is meant.
#[derive(Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// User of ProxySQL's admin interface [default: admin]
    #[arg(long, value_name = "USER", requires = "from_proxysql")]
    user: Option<String>,
    /// Environment variable with its password [default: CAUSEWAY_PROXYSQL_PASSWORD
    /// where it is set, else the password is "admin"]
    #[arg(long, value_name = "NAME", requires = "from_proxysql")]
    password_env: Option<String>,
    /// File with its password
    #[arg(
        long,
        value_name = "FILE",
        requires = "from_proxysql",
        conflicts_with = "password_env"
    )]
    password_file: Option<PathBuf>,
    /// The topology, where ProxySQL serves several
    #[arg(long, value_name = "N", requires = "from_proxysql")]
    writer_hostgroup: Option<u32>,
}

/// What was learnt, as text and as what it is made of.
pub(crate) struct Learnt {
    pub(crate) draft: Draft,
    pub(crate) text: String,
    pub(crate) origin: Origin,
    login: AdminLogin,
}

/// Asks ProxySQL.
pub(crate) async fn learn(endpoint: &Endpoint, args: &LoginArgs) -> anyhow::Result<Learnt> {
    let (key, password) = args.password(endpoint)?;
    let user = args.user.as_ref().or(endpoint.user.as_ref());
    let login = AdminLogin {
        name: "proxysql1".to_owned(),
        address: endpoint.address.clone(),
        user: user.map_or(DEFAULT_USER, String::as_str).to_owned(),
        password,
    };
    let context = || format!("ProxySQL at {}", login.address);
    let survey = look::survey(&login).await.with_context(context)?;
    let origin = Origin {
        address: login.address.clone(),
        user: login.user.clone(),
        password: key,
    };
    let draft = draft(&survey, args.writer_hostgroup).with_context(context)?;
    Ok(Learnt {
        text: text(&survey, &draft, &origin),
        draft,
        origin,
        login,
    })
}

impl LoginArgs {
    /// Where the file will find the password, and the password.
    fn password(&self, endpoint: &Endpoint) -> anyhow::Result<(PasswordKey, String)> {
        if let Some(path) = &self.password_file {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let text = text.trim_end_matches(['\r', '\n']).to_owned();
            return Ok((PasswordKey::File(path.clone()), text));
        }
        let name = self
            .password_env
            .as_deref()
            .unwrap_or(PROXYSQL_PASSWORD_ENV);
        let value = std::env::var(name).ok();
        let value = match (value, &endpoint.password, &self.password_env) {
            (value, _, Some(_)) => {
                value.with_context(|| format!("the environment variable {name} is not set"))?
            }
            (_, Some(given), None) => given.clone(),
            (Some(value), None, None) => value,
            (None, None, None) => DEFAULT_PASSWORD.to_owned(),
        };
        Ok((PasswordKey::Env(name.to_owned()), value))
    }
}

impl Learnt {
    /// The configuration to run with right now: ProxySQL's own passwords stand in
    /// for the variables that the text names, where these are not set.
    pub(crate) async fn config(&self) -> anyhow::Result<Config> {
        let monitor = match std::env::var(MYSQL_PASSWORD_ENV) {
            Ok(password) => password,
            Err(_) => look::monitor_password(&self.login).await?,
        };
        let env = |name: &str| match (&self.origin.password, name) {
            (_, MYSQL_PASSWORD_ENV) => Some(monitor.clone()),
            (PasswordKey::Env(key), name) if key == name => Some(self.login.password.clone()),
            _ => None,
        };
        Ok(Config::parse(&self.text, &env)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (Option<String>, Option<String>, String) {
        let endpoint = endpoint(text).expect("an endpoint");
        (endpoint.user, endpoint.password, endpoint.address)
    }

    #[test]
    fn endpoints_have_a_host_and_may_have_more() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parts("px:16032"), (None, None, "px:16032".into()));
        assert_eq!(parts("px"), (None, None, "px:6032".into()));
        assert_eq!(parts("::1"), (None, None, "[::1]:6032".into()));
        assert_eq!(parts("[::1]:7000"), (None, None, "[::1]:7000".into()));
        assert_eq!(parts("u@px:1"), (some("u"), None, "px:1".into()));
        let full = (some("u"), some("p:a@b"), "px:1".to_owned());
        assert_eq!(parts("u:p:a@b@px:1"), full);
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for wrong in ["", "u:p@", ":6032", "px:port", "px:99999"] {
            assert!(endpoint(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_endpoint_does_not_show_its_password() {
        let shown = format!("{:?}", endpoint("u:secret@px:1").expect("an endpoint"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
