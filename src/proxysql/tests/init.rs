use super::*;
use crate::config::Config;
use crate::proxysql::survey::testing::{add_rule, empty, healthy, key, pair, put, set};
use crate::proxysql::survey::{Rule, User};

fn origin() -> Origin {
    Origin {
        address: "127.0.0.1:6032".to_owned(),
        user: "admin".to_owned(),
        password: PasswordKey::Env(PROXYSQL_PASSWORD_ENV.to_owned()),
    }
}

fn env(name: &str) -> Option<String> {
    [MYSQL_PASSWORD_ENV, PROXYSQL_PASSWORD_ENV]
        .contains(&name)
        .then(|| format!("value of {name}"))
}

fn parsed(text: &str) -> Config {
    Config::parse(text, &env).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What would be run for this ProxySQL, through the text.
fn configured(survey: &Survey) -> Config {
    let draft = draft(survey, None).expect("a draft");
    parsed(&text(survey, &draft, &origin()))
}

fn addresses(config: &Config) -> Vec<&str> {
    let servers = config.servers.iter();
    servers.map(|server| &*server.address).collect()
}

fn base(config: &Config) -> u32 {
    let proxysql = config.proxysql.as_ref().expect("a section [proxysql]");
    proxysql.managed.hints.expect("hints").base
}

/// A hint row as Causeway makes it.
fn hint(survey: &mut Survey, hostgroup: u32, address: &str) {
    put(survey, hostgroup, address, |row| {
        row.comment = MANAGED.to_owned();
        row.weight = WEIGHT_OWN;
    });
}

#[test]
fn a_pair_becomes_a_configuration_with_the_writer_first() {
    let mut survey = healthy();
    put(&mut survey, 10, "10.0.0.9:3306", |_| ());
    survey.snapshot.runtime.remove(&key(10, "10.0.0.1:3306"));
    put(&mut survey, 20, "10.0.0.1:3306", |_| ());
    let config = configured(&survey);
    let servers = [
        "10.0.0.9:3306",
        "10.0.0.1:3306",
        "10.0.0.2:3306",
        "10.0.0.3:3306",
    ];
    assert_eq!(addresses(&config), servers);
    assert_eq!(config.servers[0].name, "db1");
    assert_eq!(config.login.user, "monitor");
    assert_eq!(config.login.password, "value of CAUSEWAY_MYSQL_PASSWORD");
    let proxysql = config.proxysql.as_ref().expect("a section [proxysql]");
    assert_eq!(proxysql.instances[0].address, "127.0.0.1:6032");
    assert_eq!(
        proxysql.instances[0].password,
        "value of CAUSEWAY_PROXYSQL_PASSWORD"
    );
    assert_eq!((base(&config), proxysql.managed.tiers.len()), (9000, 0));
}

#[test]
fn a_tier_is_switched_on_by_taking_away_its_marks() {
    let survey = healthy();
    let draft = draft(&survey, None).expect("a draft");
    let text = text(&survey, &draft, &origin());
    let (head, tier) = text.split_once("# [[proxysql.tier]]").expect("a tier");
    let tier = format!("# [[proxysql.tier]]{tier}").replace("# ", "");
    let config = parsed(&format!("{head}{tier}"));
    let managed = config.proxysql.expect("a section [proxysql]").managed;
    assert_eq!(managed.tiers[0].hostgroup, 20);
}

#[test]
fn without_a_server_there_is_no_configuration() {
    assert_eq!(draft(&empty(), None), Err(InitError::NoServers));
    let mut survey = empty();
    put(&mut survey, 10, "10.0.0.1:3306", |row| {
        row.status = Status::OfflineHard;
    });
    put(&mut survey, 10, "/run/mysqld.sock:0", |_| ());
    assert_eq!(draft(&survey, None), Err(InitError::NoServers));
}

#[test]
fn without_pairs_every_server_is_named_and_the_text_says_so() {
    let mut survey = healthy();
    survey.snapshot.placements.clear();
    let config = configured(&survey);
    assert_eq!(
        addresses(&config),
        ["10.0.0.1:3306", "10.0.0.2:3306", "10.0.0.3:3306"]
    );
    let text = text(&survey, &draft(&survey, None).expect("a draft"), &origin());
    assert!(text.contains("no pair") && !text.contains("tier"), "{text}");
}

#[test]
fn one_of_several_topologies_is_chosen_by_its_writer_hostgroup() {
    let mut survey = healthy();
    survey.snapshot.placements.push(pair(110, 120));
    put(&mut survey, 110, "10.0.9.1:3306", |_| ());
    put(&mut survey, 120, "10.0.9.2:3306", |_| ());
    let several = Err(InitError::SeveralTopologies(vec![10, 110]));
    assert_eq!(draft(&survey, None), several);
    let known = vec![10, 110];
    let none = Err(InitError::NoSuchWriter { wanted: 20, known });
    assert_eq!(draft(&survey, Some(20)), none);
    let draft = draft(&survey, Some(110)).expect("a draft");
    let text = text(&survey, &draft, &origin());
    assert_eq!(
        addresses(&parsed(&text)),
        ["10.0.9.1:3306", "10.0.9.2:3306"]
    );
    assert!(
        text.contains("# Of another topology: 10.0.0.2:3306"),
        "{text}"
    );
    assert!(text.contains("# hostgroup = 120"), "{text}");
}

#[test]
fn names_and_odd_characters_survive_the_text() {
    let mut survey = empty();
    for address in [
        "db-1.example:3306",
        "[fe80::1]:3307",
        "a\"b\n#\u{7f}\\c:3308",
    ] {
        put(&mut survey, 0, address, |_| ());
    }
    set(&mut survey, "mysql-monitor_username", "o'ne\"il\n[x]");
    survey.snapshot.cluster = vec!["px\n2:6032".to_owned()];
    let config = configured(&survey);
    assert_eq!(
        addresses(&config),
        [
            "a\"b\n#\u{7f}\\c:3308",
            "db-1.example:3306",
            "[fe80::1]:3307"
        ]
    );
    assert_eq!(config.login.user, "o'ne\"il\n[x]");
    let named: Vec<Address> = config.servers.iter().map(Address::of).collect();
    assert!(
        named.contains(&key(0, "[fe80::1]:3307").address),
        "{named:?}"
    );
}

#[test]
fn encryption_follows_use_ssl() {
    let mut survey = healthy();
    assert_eq!(
        configured(&survey).login.tls,
        crate::observe::Tls::Preferred
    );
    for address in ["10.0.0.1:3306", "10.0.0.2:3306", "10.0.0.3:3306"] {
        for hostgroup in [10, 20] {
            put(&mut survey, hostgroup, address, |row| row.use_ssl = 1);
        }
    }
    assert_eq!(configured(&survey).login.tls, crate::observe::Tls::Required);
}

#[test]
fn hint_hostgroups_are_free_ones() {
    let uses: [fn(&mut Survey); 6] = [
        |survey| put(survey, 9050, "10.0.0.2:3306", |_| ()),
        |survey| survey.snapshot.placements[0].others = vec![9001],
        |survey| {
            let destination = Some(9002);
            add_rule(
                survey,
                Rule {
                    id: 1,
                    destination,
                    ..Rule::default()
                },
            );
        },
        |survey| {
            let mirror = Some(9002);
            add_rule(
                survey,
                Rule {
                    id: 1,
                    mirror,
                    ..Rule::default()
                },
            );
        },
        |survey| {
            survey.users.push(User {
                name: "report".to_owned(),
                default_hostgroup: 9003,
                transaction_persistent: true,
                fast_forward: false,
            });
        },
        |survey| survey.elsewhere = [9004].into(),
    ];
    for change in uses {
        let mut survey = healthy();
        change(&mut survey);
        assert_eq!(base(&configured(&survey)), 10_000);
    }
}

#[test]
fn servers_keep_their_numbers_over_a_failover() {
    let mut survey = healthy();
    for (number, host) in [(1, 1), (2, 2), (3, 3)] {
        hint(&mut survey, 9000 + number, &format!("10.0.0.{host}:3306"));
    }
    // The source stands by everywhere.
    put(&mut survey, 9002, "10.0.0.1:3306", |row| {
        row.comment = MANAGED.to_owned();
    });
    let before = configured(&survey);
    survey.snapshot.runtime.remove(&key(10, "10.0.0.1:3306"));
    survey.snapshot.runtime.remove(&key(20, "10.0.0.2:3306"));
    put(&mut survey, 10, "10.0.0.2:3306", |_| ());
    put(&mut survey, 20, "10.0.0.1:3306", |_| ());
    put(&mut survey, 20, "10.0.0.0:3306", |_| ());
    let after = configured(&survey);
    assert_eq!((base(&before), base(&after)), (9000, 9000));
    let kept = [
        "10.0.0.1:3306",
        "10.0.0.2:3306",
        "10.0.0.3:3306",
        "10.0.0.0:3306",
    ];
    assert_eq!(addresses(&after), kept);
}

#[test]
fn numbers_that_cannot_be_kept_make_way_for_others() {
    let mut survey = healthy();
    hint(&mut survey, 9001, "10.0.0.7:3306"); // gone
    hint(&mut survey, 9002, "10.0.0.2:3306");
    assert_eq!(base(&configured(&survey)), 10_000);
    let mut survey = healthy();
    hint(&mut survey, 9004, "10.0.0.2:3306"); // more servers then
    assert_eq!(base(&configured(&survey)), 10_000);
}
