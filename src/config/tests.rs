use super::*;

const SHIPPED: &str = include_str!("../../config/causeway.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, &|name| {
        (name == "CAUSEWAY_MYSQL_PASSWORD").then(|| "secret".to_owned())
    })
}

fn error(text: &str) -> String {
    parse(text).expect_err("this must not parse").to_string()
}

const MINIMAL: &str = r#"
[mysql]
user = "causeway"
servers = [{ name = "db1", address = "127.0.0.1:3306" }]
"#;

#[test]
fn the_shipped_file_shows_the_defaults() {
    let shipped = parse(SHIPPED).expect("config/causeway.toml parses");
    let minimal = parse(MINIMAL).expect("a minimal configuration parses");
    assert_eq!(shipped.login.password, "secret");
    assert_eq!(shipped.servers.len(), 3);
    assert_eq!(
        (
            shipped.api,
            shipped.routing,
            shipped.sessions,
            shipped.observe
        ),
        (
            minimal.api,
            minimal.routing,
            minimal.sessions,
            minimal.observe
        )
    );
}

#[test]
fn every_key_of_the_file_format_is_in_the_shipped_file() {
    let keys = [
        "user",
        "password",
        "password_env",
        "password_file",
        "tls",
        "tls_ca",
        "servers",
        "listen",
        "socket",
        "token_env",
        "token_file",
    ];
    for key in keys {
        let shown = SHIPPED.lines().any(|line| {
            line.trim_start_matches("# ")
                .starts_with(&format!("{key} = "))
        });
        assert!(shown, "{key} is not in config/causeway.toml");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let text = error(&MINIMAL.replace("user =", "usr =\"x\"\nuser ="));
    assert!(text.contains("line 3") && text.contains("usr"), "{text}");
}

#[test]
fn a_bad_duration_names_key_line_and_value() {
    let text = error(&format!(
        "{MINIMAL}\n[routing]\nmax_wait = \"50 parsecs\"\n"
    ));
    assert!(
        text.contains("max_wait") && text.contains("50 parsecs") && text.contains("line 7"),
        "{text}"
    );
}

#[test]
fn values_that_cannot_be_right_are_named() {
    let check = |change: &str, expected: &str| {
        let text = error(&format!("{MINIMAL}\n{change}\n"));
        assert!(text.contains(expected), "{change}: {text}");
    };
    check("[routing]\nmax_wait = \"1m\"", "routing.max_wait");
    check(
        "[routing]\nconsistency = \"bounded\"",
        "routing.max_staleness",
    );
    check("[routing]\nconsistency = \"causal\"", "read_your_writes");
    check("[sessions]\nmax = 0", "sessions.max");
    check("[sessions]\nttl = \"3s\"", "sessions.ttl");
    check("[observe]\nbarriers = 0", "observe.barriers");
    check(
        "[observe]\nsource_heartbeat = \"0s\"",
        "observe.source_heartbeat",
    );
    check("[api]\ntoken = \"a\"\ntoken_env = \"B\"", "api.token");
}

#[test]
fn servers_must_be_distinct_and_have_an_address() {
    let with = |servers: &str| error(&format!("[mysql]\nuser = \"c\"\nservers = [{servers}]\n"));
    assert!(with("").contains("mysql.servers"));
    assert!(
        with(r#"{ name = "a", address = "h:1" }, { name = "a", address = "h:2" }"#)
            .contains("used twice")
    );
    assert!(
        with(r#"{ name = "a", address = "h:1" }, { name = "b", address = "h:1" }"#)
            .contains("used twice")
    );
    assert!(with(r#"{ name = "a", address = "h" }"#).contains("host:port"));
}

#[test]
fn a_missing_environment_variable_is_named() {
    let text = Config::parse(SHIPPED, &|_| None)
        .expect_err("the variable is not set")
        .to_string();
    assert!(text.contains("CAUSEWAY_MYSQL_PASSWORD"), "{text}");
}

/// The shipped file with the settings of its optional section in force.
fn shipped_with_proxysql() -> String {
    SHIPPED.replace("\n#:", "\n")
}

#[test]
fn the_optional_section_of_the_shipped_file_shows_the_defaults() {
    let parse = |text: &str| Config::parse(text, &|_| Some("secret".to_owned()));
    let shipped = parse(&shipped_with_proxysql()).expect("the optional section parses");
    let minimal = r#"
[proxysql]
user = "admin"
password = "secret"
instances = [{ name = "px1", address = "127.0.0.1:6032" }]
[proxysql.hints]
base = 9000
[[proxysql.tier]]
hostgroup = 21
max_staleness = "500ms"
"#;
    let minimal = parse(&format!("{MINIMAL}{minimal}")).expect("a minimal section parses");
    assert!(shipped.proxysql.is_some());
    assert_eq!(shipped.proxysql, minimal.proxysql);
}

#[test]
fn a_feed_belongs_to_a_server_and_an_address_to_one_feed() {
    let with = |feed: &str| {
        let second = r#"{ name = "db2", address = "127.0.0.1:3307" }]"#;
        let servers = MINIMAL.replace("}]", &format!("}}, {second}"));
        parse(&format!("{servers}\n[feed]\nlisten = {{ {feed} }}\n"))
    };
    let good = with(r#"db2 = "0.0.0.0:6020", db1 = "0.0.0.0:6021""#).unwrap();
    let places: Vec<_> = good
        .feed
        .listen
        .iter()
        .map(|l| (l.server.0, l.address.port()))
        .collect();
    assert_eq!(places, [(0, 6021), (1, 6020)]);
    assert!(parse(MINIMAL).unwrap().feed.listen.is_empty());
    let error = |feed: &str| with(feed).expect_err("this must not parse").to_string();
    let unknown = error(r#"db9 = "0.0.0.0:6020""#);
    assert!(
        unknown.contains("feed.listen.db9") && unknown.contains("mysql.servers"),
        "{unknown}"
    );
    let twice = error(r#"db1 = "0.0.0.0:6020", db2 = "0.0.0.0:6020""#);
    assert!(
        twice.contains("feed.listen.db2") && twice.contains("used twice"),
        "{twice}"
    );
    let api = error(r#"db1 = "127.0.0.1:7071""#);
    assert!(
        api.contains("feed.listen.db1") && api.contains("used twice"),
        "{api}"
    );
    let syntax = error(r#"db1 = "6020""#);
    assert!(
        syntax.contains("line 7") && syntax.contains("db1"),
        "{syntax}"
    );
    assert!(with(r#"db1 = "127.0.0.1:0", db2 = "127.0.0.1:0""#).is_ok());
}
