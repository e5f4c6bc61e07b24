//! The HTTP interface over real servers: answers, errors, limits, shutdown.

use std::net::SocketAddr;
use std::time::Duration;

use causeway::router::Router;
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::{Topology, shared, until};
use crate::support::{SOON, config, knows_every_server};

/// A Causeway listening in this process.
pub(crate) struct Api {
    pub(crate) base: String,
    pub(crate) router: Router,
    http: Client,
    stop: CancellationToken,
    task: JoinHandle<Result<(), causeway::api::ServeError>>,
}

impl Api {
    pub(crate) async fn start(topology: &Topology, more: &str) -> anyhow::Result<Self> {
        let config = config(topology, more);
        let router = Router::start(&config);
        let app = causeway::api::routes(&router, &config.api);
        let (stop, (ready, address)) = (CancellationToken::new(), oneshot::channel::<SocketAddr>());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let tell = |address| ready.send(address).expect("the test waits for the address");
            causeway::api::serve(app, &config.api, stopped, tell).await
        });
        let base = format!("http://{}", address.await?);
        let http = Client::builder().no_proxy().build()?;
        let api = Self {
            base,
            router,
            http,
            stop,
            task,
        };
        knows_every_server(&api.router).await?;
        until("Causeway to be ready", SOON, || async {
            Ok((api.status("/readyz").await? == StatusCode::OK).then_some(()))
        })
        .await?;
        Ok(api)
    }

    pub(crate) async fn status(&self, path: &str) -> anyhow::Result<StatusCode> {
        Ok(self
            .http
            .get(format!("{}{path}", self.base))
            .send()
            .await?
            .status())
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<(StatusCode, Value)> {
        let response = self.http.get(format!("{}{path}", self.base)).send().await?;
        Ok((
            response.status(),
            serde_json::from_str(&response.text().await?)?,
        ))
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let response = self
            .http
            .post(format!("{}{path}", self.base))
            .body(body)
            .send()
            .await?;
        Ok((
            response.status(),
            serde_json::from_str(&response.text().await?)?,
        ))
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.task.await??;
        self.router.stop().await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_have_the_shape_of_the_contract() -> anyhow::Result<()> {
    let topology = shared().await;
    let api = Api::start(&topology, "").await?;
    let gtid = topology
        .source()
        .write("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let (status, wrote) = api
        .post(
            "/v1/writes",
            json!({ "session": "u42", "gtid": gtid }).to_string(),
        )
        .await?;
    assert_eq!(
        (status, &wrote),
        (StatusCode::OK, &json!({ "session": "u42", "token": gtid }))
    );
    topology.stop_applier(0).await?;
    topology.stop_applier(1).await?;
    let later = topology
        .source()
        .write("INSERT INTO app.t VALUES (1)")
        .await?;
    api.post(
        "/v1/writes",
        json!({ "session": "u42", "gtid": later }).to_string(),
    )
    .await?;
    let (status, session) = api.get("/v1/sessions/u42").await?;
    assert_eq!(status, StatusCode::OK);
    assert!(
        session["token"]
            .as_str()
            .is_some_and(|token| token.ends_with(later.rsplit(':').next().unwrap_or_default())),
        "{session}"
    );
    let (status, route) = api
        .post(
            "/v1/route",
            json!({ "session": "u42", "explain": true }).to_string(),
        )
        .await?;
    assert_eq!(status, StatusCode::OK);
    for field in [
        "server",
        "address",
        "role",
        "consistency",
        "reason",
        "degraded",
        "waited_us",
        "staleness_us",
        "token",
        "candidates",
    ] {
        assert!(route.get(field).is_some(), "{field} is missing: {route}");
    }
    assert_eq!(
        (&route["role"], &route["consistency"], &route["degraded"]),
        (&json!("source"), &json!("session"), &json!(false))
    );
    assert_eq!(route["candidates"].as_array().map(Vec::len), Some(3));
    let (_, by_query) = api.get("/v1/route?session=u42&max_wait_ms=1").await?;
    assert_eq!(by_query["role"], "source");
    until("the stopped applier to be told of", SOON, || async {
        let (_, servers) = api.get("/v1/servers").await?;
        assert_eq!(
            (
                &servers["source"],
                servers["servers"].as_array().map(Vec::len)
            ),
            (&json!("db1"), Some(3))
        );
        Ok((servers["servers"][1]["warnings"] == json!(["applier is stopped"])).then_some(()))
    })
    .await?;
    let (_, openapi) = api.get("/openapi.json").await?;
    assert!(openapi["paths"]["/v1/route"]["post"].is_object());
    api.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_problem_documents_that_name_the_field() -> anyhow::Result<()> {
    let topology = shared().await;
    let api = Api::start(&topology, "").await?;
    let uuid = topology.source().uuid();
    let cases = [
        (
            "/v1/writes",
            r#"{"gtid":"nonsense"}"#.to_owned(),
            400,
            "malformed",
            "gtid",
        ),
        (
            "/v1/writes",
            format!(r#"{{"gtid":"{uuid}:5-x"}}"#),
            400,
            "malformed",
            "gtid",
        ),
        (
            "/v1/writes",
            r#"{"gtid":""}"#.to_owned(),
            400,
            "malformed",
            "gtid",
        ),
        (
            "/v1/writes",
            r#"{"sesion":"u"}"#.to_owned(),
            400,
            "malformed",
            "sesion",
        ),
        (
            "/v1/route",
            r#"{"token":"x"}"#.to_owned(),
            400,
            "malformed",
            "token",
        ),
        (
            "/v1/route",
            r#"{"session":""}"#.to_owned(),
            400,
            "malformed",
            "session",
        ),
        (
            "/v1/route",
            format!(r#"{{"session":"{}"}}"#, "s".repeat(2000)),
            400,
            "malformed",
            "session",
        ),
        (
            "/v1/route",
            r#"{"max_wait_ms":-1}"#.to_owned(),
            400,
            "malformed",
            "max_wait_ms",
        ),
        (
            "/v1/route",
            r#"{"max_wait_ms":1e300}"#.to_owned(),
            400,
            "malformed",
            "max_wait_ms",
        ),
        (
            "/v1/route",
            r#"{"max_wait_ms":60000}"#.to_owned(),
            400,
            "malformed",
            "max_wait_ms",
        ),
        (
            "/v1/route",
            r#"{"consistency":"causal"}"#.to_owned(),
            400,
            "malformed",
            "consistency",
        ),
        (
            "/v1/route",
            r#"{"consistency":"bounded"}"#.to_owned(),
            400,
            "malformed",
            "max_staleness_ms",
        ),
    ];
    for (path, body, code, kind, field) in cases {
        let (status, problem) = api.post(path, body.clone()).await?;
        assert_eq!(status.as_u16(), code, "{path} {body}: {problem}");
        assert_eq!(problem["type"], format!("urn:causeway:{kind}"), "{problem}");
        assert_eq!(problem["field"], field, "{path} {body}: {problem}");
    }
    for (path, body) in [
        ("/v1/route", "{"),
        ("/v1/route", r#"{"consistency":"causal"}"#),
        ("/v1/route", "\u{0}\u{1}"),
        ("/v1/writes", "[]"),
    ] {
        assert_eq!(
            api.post(path, body).await?.0,
            StatusCode::BAD_REQUEST,
            "{body}"
        );
    }
    assert_eq!(
        api.post("/v1/route", vec![b' '; 65 << 10]).await?.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(api.get("/nowhere").await?.0, StatusCode::NOT_FOUND);
    assert_eq!(
        api.get("/v1/writes").await?.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(
        api.get("/v1/route?max_wait_ms=soon").await?.0,
        StatusCode::BAD_REQUEST
    );
    topology.stop_applier(0).await?;
    topology.stop_applier(1).await?;
    let gtid = topology
        .source()
        .write("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let (status, problem) = api
        .post(
            "/v1/route",
            json!({ "token": gtid, "on_timeout": "error", "max_wait_ms": 20 }).to_string(),
        )
        .await?;
    assert_eq!(
        (status, &problem["type"]),
        (
            StatusCode::GATEWAY_TIMEOUT,
            &json!("urn:causeway:wait-timeout")
        )
    );
    api.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_asked_for_where_one_is_configured() -> anyhow::Result<()> {
    let topology = shared().await;
    let api = Api::start(&topology, "token = \"s3cret\"\n").await?;
    assert_eq!(api.get("/v1/servers").await?.0, StatusCode::UNAUTHORIZED);
    for (given, expected) in [("s3cre", 401), ("s3cret2", 401), ("s3cret", 200)] {
        let request = api
            .http
            .get(format!("{}/v1/servers", api.base))
            .bearer_auth(given);
        assert_eq!(request.send().await?.status().as_u16(), expected, "{given}");
    }
    assert_eq!(api.status("/healthz").await?, StatusCode::OK);
    api.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_over_the_limit_are_turned_away() -> anyhow::Result<()> {
    let topology = shared().await;
    let api = Api::start(&topology, "in_flight_max = 2\n").await?;
    topology.stop_applier(0).await?;
    topology.stop_applier(1).await?;
    let gtid = topology
        .source()
        .write("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let waiting = json!({ "token": gtid, "on_timeout": "error", "max_wait_ms": 5000 }).to_string();
    let (one, two) = (
        api.post("/v1/route", waiting.clone()),
        api.post("/v1/route", waiting.clone()),
    );
    let third = async {
        until("both to wait", SOON, || async {
            let waiting: usize = api
                .router
                .view()
                .servers
                .iter()
                .map(|server| api.router.hub().waiting(server.ix))
                .sum();
            Ok((waiting >= 4).then_some(()))
        })
        .await?;
        let answer = api.post("/v1/route", "{}").await?;
        topology.start_applier(0).await?;
        anyhow::Ok(answer)
    };
    let (one, two, third) = tokio::join!(one, two, third);
    assert_eq!(third?.0, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((one?.0, two?.0), (StatusCode::OK, StatusCode::OK));
    api.stop().await
}

/// A request that waits when the stop comes is still answered; the Unix socket's
/// file goes, and no new connection is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_what_is_under_way() -> anyhow::Result<()> {
    let topology = shared().await;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("api.sock");
    let api = Api::start(&topology, &format!("socket = {socket:?}\n")).await?;
    let over_socket = Client::builder()
        .no_proxy()
        .unix_socket(socket.as_path())
        .build()?;
    assert_eq!(
        over_socket
            .get("http://causeway/readyz")
            .send()
            .await?
            .status(),
        StatusCode::OK
    );
    topology.stop_applier(0).await?;
    topology.stop_applier(1).await?;
    let gtid = topology
        .source()
        .write("CREATE TABLE app.t (id INT PRIMARY KEY)")
        .await?;
    let (base, http) = (api.base.clone(), api.http.clone());
    let body = json!({ "token": gtid, "on_timeout": "error", "max_wait_ms": 4000 }).to_string();
    let waiting = tokio::spawn(async move {
        http.post(format!("{base}/v1/route"))
            .body(body)
            .send()
            .await
    });
    until("the request to wait", SOON, || async {
        let waiting: usize = api
            .router
            .view()
            .servers
            .iter()
            .map(|server| api.router.hub().waiting(server.ix))
            .sum();
        Ok((waiting > 0).then_some(()))
    })
    .await?;
    api.stop.cancel();
    let address = api.base.trim_start_matches("http://").to_owned();
    until("no new connection to be taken", SOON, || async {
        Ok(tokio::net::TcpStream::connect(&address)
            .await
            .is_err()
            .then_some(()))
    })
    .await?;
    topology.start_applier(0).await?;
    assert_eq!(waiting.await??.status(), StatusCode::OK);
    api.stop().await?;
    assert!(!socket.exists(), "the socket's file is left");
    Ok(())
}

/// Between the API and the table nothing gets lost, whoever else is at work.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_lost_between_the_api_and_the_table() -> anyhow::Result<()> {
    let topology = shared().await;
    let api = Api::start(&topology, "").await?;
    topology.stop_applier(0).await?;
    topology.stop_applier(1).await?;
    topology
        .source()
        .execute("CREATE TABLE app.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        .await?;
    let mut gtids = Vec::new();
    for _ in 0..40 {
        gtids.push(
            topology
                .source()
                .write("INSERT INTO app.t VALUES ()")
                .await?,
        );
    }
    let posts = (0..400).map(|n| {
        let body = json!({ "session": format!("s{}", n % 100), "gtid": gtids[n % 40] }).to_string();
        let post = api.post("/v1/writes", body);
        async move { anyhow::Ok(post.await?.0) }
    });
    for status in futures_util::future::join_all(posts).await {
        assert_eq!(status?, StatusCode::OK);
    }
    for session in 0..100_usize {
        let (_, state) = api.get(&format!("/v1/sessions/s{session}")).await?;
        let kept: causeway::gtid::GtidSet = state["token"].as_str().unwrap_or_default().parse()?;
        for n in (session..400).step_by(100) {
            assert!(
                kept.contains_set(&gtids[n % 40].parse()?),
                "session {session} lost {}: {state}",
                gtids[n % 40]
            );
        }
    }
    api.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_in_prometheus_form() -> anyhow::Result<()> {
    let topology = shared().await;
    let api = Api::start(&topology, "").await?;
    api.post("/v1/route", "{}").await?;
    let text = api
        .http
        .get(format!("{}/metrics", api.base))
        .send()
        .await?
        .text()
        .await?;
    for expected in [
        "causeway_route_decisions_total{consistency=\"session\",reason=\"replica_fresh\"} 1",
        "causeway_server_up{server=\"db2\"} 1",
        "causeway_server_staleness_seconds{server=\"db2\"}",
        "causeway_server_transactions_behind{server=\"db1\"} 0",
        "causeway_server_queries_total{kind=\"fence\",server=\"db1\"}",
        "causeway_sessions_unsettled 0",
        "# TYPE causeway_route_decisions_total counter",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    let ready = tokio::time::timeout(Duration::from_secs(5), api.status("/readyz")).await??;
    assert_eq!(ready, StatusCode::OK);
    api.stop().await
}
