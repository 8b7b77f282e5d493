//! The rules that let one SQL text serve both databases, each tried on both.

use crate::harness::on_both;

on_both! {
    async fn texts_sort_by_their_bytes(store: &Store) {
        for slug in ["b", "a-1", "a1", "a", "-"] {
            store.tenant(slug).await;
        }
        let slugs = store.texts("SELECT slug FROM tenants ORDER BY slug").await;
        assert_eq!(slugs, ["-", "a", "a-1", "a1", "b"]);
        for name in ["Ä", "z", "B", "a"] {
            store.agent("a", name).await;
        }
        assert_eq!(store.texts("SELECT name FROM agents ORDER BY name").await, ["B", "a", "z", "Ä"]);
    }

    async fn lower_of_a_column_ignores_the_case_of_ascii_only(store: &Store) {
        store.control.tenants().create(&store.root, "a", "ACME Übung").await.unwrap();
        let found = async |pattern: &str| {
            let sql = format!("SELECT slug FROM tenants WHERE lower(name) LIKE '{pattern}'");
            !store.texts(&sql).await.is_empty()
        };
        assert!(found("acme%").await && found("% Übung").await);
        assert!(!found("%übung").await);
    }

    async fn an_optional_filter_is_a_cast_parameter(store: &Store) {
        store.tenant("acme").await;
        let sql = "SELECT slug FROM tenants WHERE CAST(NULL AS TEXT) IS NULL OR slug = NULL";
        assert_eq!(store.texts(sql).await, ["acme"]);
    }

    async fn a_sum_is_cast_to_bigint(store: &Store) {
        store.tenant("acme").await;
        let sql = "SELECT CAST(CAST(SUM(revision) AS BIGINT) AS TEXT) FROM tenants";
        assert_eq!(store.texts(sql).await, ["1"]);
    }

    async fn foreign_keys_are_on(store: &Store) {
        let orphan = "INSERT INTO agents (id, tenant_id, name, status, origin, created_at, revision)
             VALUES ('agt_1', 'ten_1', 'x', 'active', 'created', 0, 0)";
        store.sql(orphan).await.unwrap_err();
        let (reader, writer) = (store.second().await, store.second().await);
        writer.tenants().create(&store.root, "acme", "x").await.unwrap();
        reader.tenants().get(&store.root, &"acme".into()).await.unwrap();
    }

    async fn writers_wait_for_each_other_instead_of_failing(store: &Store) {
        let second = store.second().await;
        for n in 0..10 {
            let (a, b) = (format!("a-{n}"), format!("b-{n}"));
            let (one, other) = tokio::join!(
                store.control.tenants().create(&store.root, &a, "x"),
                second.tenants().create(&store.root, &b, "x"),
            );
            one.unwrap();
            other.unwrap();
        }
    }
}
