//! What there is to count about ProxySQL, per instance and per tier.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use crate::proxysql::controller::InstanceStats;
use crate::proxysql::{Controller, Held};

type Count = fn(&InstanceStats) -> &AtomicU64;

const COUNTERS: [(&str, &str, Count); 7] = [
    (
        "causeway.proxysql.loads",
        "LOADs of mysql_servers",
        |stats| &stats.loads,
    ),
    (
        "causeway.proxysql.rows_changed",
        "Rows changed in force",
        |stats| &stats.rows_changed,
    ),
    (
        "causeway.proxysql.changed_by_hand",
        "Managed rows that somebody changed by hand",
        |stats| &stats.by_hand,
    ),
    (
        "causeway.proxysql.unverified",
        "LOADs after which something was not as wanted",
        |stats| &stats.unverified,
    ),
    (
        "causeway.proxysql.errors",
        "Failed looks and changes",
        |stats| &stats.errors,
    ),
    (
        "causeway.proxysql.restarts",
        "Restarts of the instance that were seen",
        |stats| &stats.restarts,
    ),
    (
        "causeway.proxysql.apply_us",
        "Microseconds spent in changing rows and LOAD",
        |stats| &stats.apply_us,
    ),
];

const GAUGES: [(&str, &str, Count); 2] = [
    (
        "causeway.proxysql.pending",
        "Rows that differ from what is wanted",
        |stats| &stats.pending,
    ),
    (
        "causeway.proxysql.respected",
        "Rows left alone since somebody changed them",
        |stats| &stats.respected,
    ),
];

pub(super) fn instruments(meter: &Meter, controller: &Arc<Controller>) {
    for (name, what, count) in COUNTERS {
        let of = Arc::clone(controller);
        let each = move |out: &dyn AsyncInstrument<u64>| each(&of, out, |stats| load(count(stats)));
        meter
            .u64_observable_counter(name)
            .with_description(what)
            .with_callback(each)
            .build();
    }
    for (name, what, count) in GAUGES {
        gauge(meter, controller, name, what, move |stats| {
            load(count(stats))
        });
    }
    let up = |stats: &InstanceStats| u64::from(stats.up.load(Ordering::Relaxed));
    gauge(
        meter,
        controller,
        "causeway.proxysql.up",
        "The instance answers",
        up,
    );
    held(meter, controller);
    lease(meter, controller);
    members(meter, controller);
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn gauge(
    meter: &Meter,
    controller: &Arc<Controller>,
    name: &'static str,
    what: &'static str,
    value: impl Fn(&InstanceStats) -> u64 + Send + Sync + 'static,
) {
    let of = Arc::clone(controller);
    meter
        .u64_observable_gauge(name)
        .with_description(what)
        .with_callback(move |out| each(&of, out, &value))
        .build();
}

fn each(
    controller: &Controller,
    out: &dyn AsyncInstrument<u64>,
    value: impl Fn(&InstanceStats) -> u64,
) {
    for (login, stats) in controller.settings.instances.iter().zip(&controller.stats) {
        out.observe(
            value(stats),
            &[KeyValue::new("instance", login.name.clone())],
        );
    }
}

fn held(meter: &Meter, controller: &Arc<Controller>) {
    let of = Arc::clone(controller);
    meter
        .u64_observable_gauge("causeway.proxysql.held")
        .with_description("1 while a difference is held back, by reason")
        .with_callback(move |out| {
            for (login, stats) in of.settings.instances.iter().zip(&of.stats) {
                let now = stats.held.lock().as_ref().map(Held::kind);
                for kind in Held::KINDS {
                    let labels = [
                        KeyValue::new("instance", login.name.clone()),
                        KeyValue::new("reason", kind),
                    ];
                    out.observe(u64::from(now == Some(kind)), &labels);
                }
            }
        })
        .build();
}

fn lease(meter: &Meter, controller: &Arc<Controller>) {
    let of = Arc::clone(controller);
    meter
        .u64_observable_gauge("causeway.proxysql.lease_held")
        .with_description("1 while this Causeway is the one that writes to ProxySQL")
        .with_callback(move |out| out.observe(u64::from(of.holds_lease()), &[]))
        .build();
}

fn members(meter: &Meter, controller: &Arc<Controller>) {
    let of = Arc::clone(controller);
    meter
        .u64_observable_gauge("causeway.proxysql.tier_members")
        .with_description("Servers that a tier offers: within its bound, or as the last resort")
        .with_callback(move |out| {
            let tiers = &of.settings.managed.tiers;
            for (tier, members) in tiers.iter().zip(of.members()) {
                let kinds = [
                    ("within", members.within),
                    ("last_resort", members.last_resort),
                ];
                for (kind, servers) in kinds {
                    let labels = [
                        KeyValue::new("hostgroup", i64::from(tier.hostgroup)),
                        KeyValue::new("kind", kind),
                    ];
                    out.observe(servers.len() as u64, &labels);
                }
            }
        })
        .build();
}
