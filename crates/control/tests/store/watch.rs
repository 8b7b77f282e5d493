use std::time::Duration;

use sluicegate_control::{Actor, Control, Options, PolicyWatch, Revision};
use tokio::time::timeout;

use crate::harness::on_both;

async fn next(watch: &mut PolicyWatch) -> Revision {
    timeout(Duration::from_secs(1), watch.changed()).await.expect("seen within a second")
}

/// Lets the watch get its connection and look at what is there already.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(300)).await;
}

on_both! {
    async fn a_change_of_another_process_is_seen_within_a_second(store: &Store) {
        let other = store.second().await;
        let mut watch = store.control.watch().await.unwrap();
        settle().await;
        for n in 1..=3 {
            other.tenants().create(&store.root, &format!("t-{n}"), "x").await.unwrap();
            assert_eq!(next(&mut watch).await.get(), n);
        }
        assert!(timeout(Duration::from_millis(400), watch.changed()).await.is_err(), "nothing more");
    }

    async fn a_change_of_this_process_is_seen_without_polling(store: &Store) {
        let mut options = Options::default();
        (options.sqlite_poll, options.revision_poll) = (Duration::MAX, Duration::MAX);
        let control = Control::connect(&store.url, options).await.unwrap();
        let mut watch = control.watch().await.unwrap();
        settle().await;
        control.clone().tenants().create(&store.root, "acme", "x").await.unwrap();
        assert_eq!(next(&mut watch).await.get(), 1);
    }

    async fn a_change_between_two_calls_is_not_lost(store: &Store) {
        let mut watch = store.control.watch().await.unwrap();
        store.tenant("a").await;
        store.tenant("b").await;
        settle().await;
        assert_eq!(watch.revision().get(), 2);
        assert_eq!(next(&mut watch).await.get(), 2);
    }

    async fn a_lost_connection_is_made_up_for(store: &Store) {
        if !store.is_postgres() {
            return;
        }
        let other = store.second().await;
        let mut watch = store.control.watch().await.unwrap();
        settle().await;
        let listening = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'LISTEN%'";
        store.sql(listening).await.unwrap();
        other.tenants().create(&store.root, "acme", "x").await.unwrap();
        assert_eq!(next(&mut watch).await.get(), 1);
        settle().await;
        other.tenants().create(&store.root, "globex", "x").await.unwrap();
        assert_eq!(next(&mut watch).await.get(), 2, "listening again");
    }
}

#[tokio::test]
async fn a_database_in_memory_is_watched_as_well() {
    let control = Control::connect("sqlite::memory:", Options::default()).await.unwrap();
    control.migrate().await.unwrap();
    let mut watch = control.watch().await.unwrap();
    control.tenants().create(&Actor::cli("root"), "acme", "x").await.unwrap();
    assert_eq!(next(&mut watch).await.get(), 1);
}
