//! Redis Cluster: everything of a tenant lies together, and what is the server's own is shared out.

use sluicegate::limits::{Algorithm, CapRule, Mode, Place, Priority, RateLimit, RateRule, Rules, Scope};
use sluicegate::testing::{Caller, Instance, Keys};
use sluicegate_tests::redis::PrivateCluster;

fn rules(count: u64) -> Rules {
    let rates = Place::ALL.map(|place| {
        let quota = format!("{count}/h").parse().expect("a quota");
        let limit = RateLimit::new(quota, None, Algorithm::SlidingWindow).expect("a limit");
        RateRule { scope: Scope::Tool, place, ordinal: 0, limit, mode: Mode::Enforce }
    });
    let caps = Place::ALL.map(|place| CapRule {
        scope: Scope::Tool,
        place,
        cap: "4".parse().expect("a cap"),
        mode: Mode::Enforce,
    });
    Rules::new(rates.into(), caps.into(), 1, Priority::Normal, false).expect("rules")
}

fn keys() -> Keys {
    Keys { prefix: "test".to_owned(), tick: 1_000 }
}

fn caller(tenant: &str) -> Caller {
    let agent = "u-42".to_owned();
    Caller { tenant: Some(tenant.to_owned()), agent, key: Some("k".to_owned()), tool: "export".to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_and_slots_of_every_place_are_decided_on_a_cluster() {
    let cluster = PrivateCluster::start().await;
    let (clock, mock) = quanta::Clock::mock();
    mock.increment(std::time::Duration::from_hours(1));
    let instances = [
        Instance::start(&cluster.urls(), true, keys(), clock.clone(), 1).await,
        Instance::start(&cluster.urls(), true, keys(), clock, 2).await,
    ];
    // Tenants lie on different nodes; each has what its limits allow, over both instances.
    let rules = rules(200);
    for tenant in 0..12 {
        let caller = caller(&format!("tenant-{tenant}"));
        let mut running = Vec::new();
        while let Ok(call) = instances[running.len() % 2].admit(&caller, &rules).await {
            running.push(call);
        }
        assert_eq!(running.len(), 4, "tenant-{tenant}");
        running.clear();
        let report = instances[0].inspect(&caller, &rules).await;
        assert_eq!(report[2].used, 4, "of the tenant, on both instances");
        assert!(instances[1].admit(&caller, &rules).await.is_ok());
    }
}
