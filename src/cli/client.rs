//! Talking to a running Causeway.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::{Method, StatusCode};
use serde_json::Value;

/// Longer than the longest wait that a request may ask for by default.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Where Causeway listens.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Target {
    /// Where Causeway listens
    #[arg(
        long,
        default_value = "http://127.0.0.1:7071",
        value_name = "URL",
        env = "CAUSEWAY_URL"
    )]
    url: String,
    /// Its Unix socket, instead of --url
    #[arg(long, value_name = "PATH", conflicts_with = "url")]
    socket: Option<PathBuf>,
    /// Environment variable that holds the API's token, if it asks for one
    #[arg(long, default_value = "CAUSEWAY_API_TOKEN", value_name = "NAME")]
    api_token_env: String,
}

pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    shown: String,
    token: Option<String>,
}

impl Target {
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let builder = reqwest::Client::builder().timeout(TIMEOUT).no_proxy();
        let (builder, base, shown) = match &self.socket {
            Some(path) => (
                builder.unix_socket(path.as_path()),
                "http://causeway".to_owned(),
                path.display().to_string(),
            ),
            None => (
                builder,
                self.url.trim_end_matches('/').to_owned(),
                self.url.clone(),
            ),
        };
        Ok(Client {
            http: builder.build()?,
            base,
            shown,
            token: std::env::var(&self.api_token_env).ok(),
        })
    }
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn health(&self) -> anyhow::Result<ExitCode> {
        let answer = self.http.get(format!("{}/healthz", self.base)).send().await;
        match answer.with_context(|| self.no_answer()) {
            Ok(response) if response.status() == StatusCode::OK => return Ok(ExitCode::SUCCESS),
            Ok(response) => eprintln!("causeway: {} answered {}", self.shown, response.status()),
            Err(error) => eprintln!("causeway: {error:#}"),
        }
        // Container engines know only 0 and 1.
        Ok(ExitCode::FAILURE)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| self.no_answer())?;
        let status = response.status();
        let text = response.text().await.with_context(|| self.no_answer())?;
        let value: Value = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} answered {status} with something that is not JSON: is that Causeway?",
                self.shown
            )
        })?;
        if !status.is_success() {
            let word = |name: &str| {
                value
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            bail!("{} ({status}): {}", word("title"), word("detail"));
        }
        Ok(value)
    }

    fn no_answer(&self) -> String {
        format!("no answer from Causeway at {}", self.shown)
    }
}
