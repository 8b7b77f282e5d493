use sluicegate_control::{Control, ControlError, MigrationStatus, Options};

use crate::harness::{Store, on_postgres, on_sqlite};

fn on_empty_databases(test: impl AsyncFn(&Store)) {
    on_sqlite(false, &test);
    on_postgres(false, &test);
}

#[test]
fn the_status_tells_what_is_pending_without_changing_anything() {
    on_empty_databases(async |store| {
        let before = store.control.migration_status().await.unwrap();
        assert!(before.applied.is_empty());
        assert_eq!(before.pending[0], (1, "control plane".to_owned()));
        assert_eq!(store.control.migration_status().await.unwrap(), before);
        store.control.migrate().await.unwrap();
        let versions = before.pending.iter().map(|(version, _)| *version).collect();
        let after = MigrationStatus { applied: versions, pending: Vec::new() };
        assert_eq!(store.control.migration_status().await.unwrap(), after);
    });
}

#[test]
fn any_number_of_processes_may_migrate_at_once() {
    on_empty_databases(async |store| {
        let mut others = Vec::new();
        for _ in 0..4 {
            others.push(store.second().await);
        }
        let [a, b, c, d] = others.as_slice() else { panic!("four") };
        let results = tokio::join!(a.migrate(), b.migrate(), c.migrate(), d.migrate());
        results.0.unwrap();
        results.1.unwrap();
        results.2.unwrap();
        results.3.unwrap();
        store.tenant("acme").await;
    });
}

#[test]
fn an_old_program_runs_on_a_newer_schema() {
    on_empty_databases(async |store| {
        store.control.migrate().await.unwrap();
        store
            .sql(
                "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             SELECT 9999, 'of the future', success, checksum, execution_time FROM _sqlx_migrations
             WHERE version = 1",
            )
            .await
            .unwrap();
        store.control.migrate().await.unwrap();
        let status = store.control.migration_status().await.unwrap();
        assert_eq!(status.applied.last(), Some(&9999));
        assert!(status.pending.is_empty());
    });
}

#[test]
fn a_migration_that_was_altered_afterwards_is_refused() {
    on_empty_databases(async |store| {
        store.control.migrate().await.unwrap();
        store
            .sql(
                "UPDATE _sqlx_migrations SET checksum = description || ''"
                    .replace("description || ''", if store.is_postgres() { "'\\x00'::bytea" } else { "x'00'" })
                    .as_str(),
            )
            .await
            .unwrap();
        let error = store.control.migrate().await.unwrap_err();
        assert!(matches!(error, ControlError::Migration(_)), "{error:?}");
        // The lock is free again.
        store.control.migrate().await.unwrap_err();
    });
}

#[test]
fn both_databases_have_the_same_migrations() {
    let names = |database: &str| {
        let folder = format!("{}/migrations/{database}", env!("CARGO_MANIFEST_DIR"));
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names("sqlite"), names("postgres"));
    assert!(!names("sqlite").is_empty());
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused_without_repeating_it() {
    for url in ["mysql://root:hunter2@localhost/x", "sqlite:", "hunter2", "postgres://u:hunter2@/ %%"] {
        let error = Control::connect(url, Options::default()).await.unwrap_err();
        let printed = format!("{error} {}", error.inside());
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
