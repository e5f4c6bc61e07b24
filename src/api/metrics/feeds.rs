//! What the GTID feeds count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::observe_if_any;
use crate::feed::{End, Feeds, left_out};
use crate::router::Router;

pub(super) fn add(meter: &Meter, router: &Router, feeds: &Arc<Feeds>) {
    let label = |name: &str| KeyValue::new("server", name.to_owned());
    let of = Arc::clone(feeds);
    meter
        .u64_observable_gauge("causeway.feed.connections")
        .with_description("Open connections to the server's GTID feed")
        .with_callback(move |out| {
            for (name, stats) in of.all() {
                out.observe(stats.connections.load(Ordering::Relaxed), &[label(name)]);
            }
        })
        .build();
    let of = Arc::clone(feeds);
    meter
        .u64_observable_counter("causeway.feed.lines")
        .with_description("Lines sent by the server's GTID feed")
        .with_callback(move |out| {
            for (name, stats) in of.all() {
                out.observe(stats.lines.load(Ordering::Relaxed), &[label(name)]);
            }
        })
        .build();
    let of = Arc::clone(feeds);
    meter
        .u64_observable_counter("causeway.feed.closed")
        .with_description("Connections to the server's GTID feed that ended, by reason")
        .with_callback(move |out| {
            for (name, stats) in of.all() {
                for end in End::ALL {
                    let labels = [label(name), KeyValue::new("reason", end.name())];
                    observe_if_any(out, stats.ends(end), &labels);
                }
            }
        })
        .build();
    let (of, router) = (Arc::clone(feeds), router.clone());
    meter
        .u64_observable_gauge("causeway.feed.left_out")
        .with_description("Executed transactions with a tag, which no feed tells of")
        .with_callback(move |out| {
            for (name, _) in of.all() {
                let view = router.view();
                let server = view.servers.iter().find(|server| server.info.name == name);
                if let Some(count) = server.and_then(left_out) {
                    out.observe(count, &[label(name)]);
                }
            }
        })
        .build();
}
