//! Metrics: the router's own counters, exported through OpenTelemetry's
//! observable instruments, so that counting costs the hot path one atomic add.

mod feeds;
mod proxysql;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder, Registry, TextEncoder};

use crate::clock;
use crate::feed::Feeds;
use crate::fleet::ServerView;
use crate::observe::ServerStats;
use crate::route::{Consistency, Reason};
use crate::router::{Router, WAIT_BUCKETS_US};

/// The instruments and the registry they end up in.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    meter: Meter,
    wait: Histogram<f64>,
    // Dropping the provider would end the export.
    _provider: SdkMeterProvider,
}

impl Metrics {
    pub(crate) fn over(router: &Router) -> Self {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build();
        let provider = SdkMeterProvider::builder()
            .with_reader(exporter.expect("a new registry has no clashing names"))
            .build();
        let meter = provider.meter("causeway");
        routing(&meter, router);
        sessions(&meter, router);
        servers(&meter, router);
        questions(&meter, router);
        if let Some(controller) = router.proxysql() {
            proxysql::instruments(&meter, controller);
        }
        let bounds = WAIT_BUCKETS_US.iter().map(|us| *us as f64 / 1e6).collect();
        let wait = meter
            .f64_histogram("causeway.route.wait")
            .with_unit("s")
            .with_description("Time that routed reads waited or asked inside Causeway")
            .with_boundaries(bounds)
            .build();
        Self {
            registry,
            meter,
            wait,
            _provider: provider,
        }
    }

    /// Adds what the feeds count.
    pub(crate) fn with_feeds(self, router: &Router, feeds: &Arc<Feeds>) -> Self {
        feeds::add(&self.meter, router, feeds);
        self
    }

    pub(crate) fn waited(&self, waited: Duration, consistency: Consistency) {
        self.wait.record(
            waited.as_secs_f64(),
            &[KeyValue::new("consistency", consistency.name())],
        );
    }

    /// Everything, in Prometheus' text form.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut text)
            .expect("writing to memory");
        text
    }
}

fn routing(meter: &Meter, router: &Router) {
    let of = router.clone();
    meter
        .u64_observable_counter("causeway.route.decisions")
        .with_description("Routed reads by promise and reason")
        .with_callback(move |out| {
            for consistency in Consistency::ALL {
                for reason in Reason::ALL {
                    let labels = [
                        KeyValue::new("consistency", consistency.name()),
                        KeyValue::new("reason", reason.name()),
                    ];
                    observe_if_any(out, of.stats().decisions(consistency, reason), &labels);
                }
            }
        })
        .build();
    let of = router.clone();
    meter
        .u64_observable_counter("causeway.route.failures")
        .with_description("Reads that got no server, by promise and kind")
        .with_callback(move |out| {
            for consistency in Consistency::ALL {
                let (no_server, timeout) = of.stats().failures(consistency);
                for (kind, count) in [("no_server", no_server), ("wait_timeout", timeout)] {
                    observe_if_any(
                        out,
                        count,
                        &[
                            KeyValue::new("consistency", consistency.name()),
                            KeyValue::new("kind", kind),
                        ],
                    );
                }
            }
        })
        .build();
    counter(
        meter,
        router,
        "causeway.route.degraded",
        "Reads answered without keeping the promise",
        |router| &router.stats().degraded,
    );
    counter(
        meter,
        router,
        "causeway.writes",
        "Commits reported",
        |router| &router.stats().writes,
    );
    counter(
        meter,
        router,
        "causeway.writes.lost",
        "Reads whose required writes were gone from the source",
        |router| &router.stats().lost_writes,
    );
}

fn sessions(meter: &Meter, router: &Router) {
    let of = router.clone();
    meter
        .u64_observable_gauge("causeway.sessions.unsettled")
        .with_description("Sessions kept in memory")
        .with_callback(move |out| out.observe(of.sessions().len() as u64, &[]))
        .build();
    counter(
        meter,
        router,
        "causeway.sessions.settled",
        "Sessions that every usable server satisfied",
        |router| &router.sessions().counters().settled,
    );
    counter(
        meter,
        router,
        "causeway.sessions.expired",
        "Sessions whose time had passed",
        |router| &router.sessions().counters().expired,
    );
    counter(
        meter,
        router,
        "causeway.sessions.dropped",
        "Sessions sent to the source for want of room",
        |router| &router.sessions().counters().dropped,
    );
}

fn servers(meter: &Meter, router: &Router) {
    let seconds = |us: Option<Duration>| us.map(|span| span.as_secs_f64());
    gauge(
        meter,
        router,
        "causeway.server.up",
        "",
        "1 while the server has evidence",
        |server| Some(f64::from(u8::from(server.usable))),
    );
    gauge(
        meter,
        router,
        "causeway.server.staleness",
        "s",
        "Staleness",
        move |server| seconds(server.staleness(clock::now())),
    );
    gauge(
        meter,
        router,
        "causeway.server.behind",
        "s",
        "Time for which the oldest missing transaction has been missing",
        move |server| {
            let none_missing = server.fresh_as_of.map(|_| 0.0);
            seconds(server.behind_for(clock::now())).or(none_missing)
        },
    );
    gauge(
        meter,
        router,
        "causeway.server.epoch",
        "",
        "Epoch of the executed set",
        |server| Some(f64::from(server.epoch())),
    );
    let of = router.clone();
    meter
        .u64_observable_gauge("causeway.server.transactions_behind")
        .with_description("Transactions executed on the source and not here")
        .with_callback(move |out| {
            let view = of.view();
            for server in &view.servers {
                if let Some(behind) = view.transactions_behind(server) {
                    out.observe(behind, &[KeyValue::new("server", server.info.name.clone())]);
                }
            }
        })
        .build();
}

fn questions(meter: &Meter, router: &Router) {
    let of = router.clone();
    meter
        .u64_observable_counter("causeway.server.queries")
        .with_description("Queries sent to each server, by kind")
        .with_callback(move |out| {
            for server in &of.view().servers {
                let stats = of.hub().stats(server.ix);
                for (kind, counter) in kinds(stats) {
                    out.observe(
                        counter.load(Ordering::Relaxed),
                        &[
                            KeyValue::new("server", server.info.name.clone()),
                            KeyValue::new("kind", kind),
                        ],
                    );
                }
            }
        })
        .build();
    per_server(
        meter,
        router,
        "causeway.server.fence_requests",
        "Requests answered by fence queries",
        |stats| &stats.fence_requests,
    );
    per_server(
        meter,
        router,
        "causeway.server.losses",
        "Times the server's evidence was dropped, retries included",
        |stats| &stats.losses,
    );
    per_server(
        meter,
        router,
        "causeway.server.connections_refused",
        "Connections refused while others to the same server worked",
        |stats| &stats.refused,
    );
}

fn per_server(
    meter: &Meter,
    router: &Router,
    name: &'static str,
    description: &'static str,
    of: fn(&ServerStats) -> &AtomicU64,
) {
    let router = router.clone();
    meter
        .u64_observable_counter(name)
        .with_description(description)
        .with_callback(move |out| {
            for server in &router.view().servers {
                let count = of(router.hub().stats(server.ix)).load(Ordering::Relaxed);
                out.observe(count, &[KeyValue::new("server", server.info.name.clone())]);
            }
        })
        .build();
}

fn kinds(stats: &ServerStats) -> [(&'static str, &AtomicU64); 4] {
    [
        ("pump", &stats.pump_queries),
        ("barrier", &stats.barrier_queries),
        ("fence", &stats.fence_queries),
        ("status", &stats.status_polls),
    ]
}

fn counter(
    meter: &Meter,
    router: &Router,
    name: &'static str,
    description: &'static str,
    of: fn(&Router) -> &AtomicU64,
) {
    let router = router.clone();
    meter
        .u64_observable_counter(name)
        .with_description(description)
        .with_callback(move |out| out.observe(of(&router).load(Ordering::Relaxed), &[]))
        .build();
}

fn gauge(
    meter: &Meter,
    router: &Router,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    of: impl Fn(&ServerView) -> Option<f64> + Send + Sync + 'static,
) {
    let router = router.clone();
    let observe = move |out: &dyn AsyncInstrument<f64>| {
        for server in &router.view().servers {
            if let Some(value) = of(server) {
                out.observe(value, &[KeyValue::new("server", server.info.name.clone())]);
            }
        }
    };
    meter
        .f64_observable_gauge(name)
        .with_unit(unit)
        .with_description(description)
        .with_callback(observe)
        .build();
}

fn observe_if_any(out: &dyn AsyncInstrument<u64>, count: u64, labels: &[KeyValue]) {
    if count > 0 {
        out.observe(count, labels);
    }
}
