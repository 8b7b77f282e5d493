//! Two servers on one database: what is changed through one is obeyed by the other within a second.

use serde_json::json;
use sluicegate::control::KeyScopes;
use sluicegate_tests::server::actor;
use sluicegate_tests::{Client, Database, TestServer, on_both_databases};

on_both_databases! {
    async fn a_key_revoked_through_one_is_refused_by_the_other(database: Database) {
        let (one, other) = (TestServer::start(&database).await, TestServer::start(&database).await);
        let (client, key) = one.client_with("acme", "u-42", KeyScopes::all()).await;
        let client = Client::new(other.endpoint(), client.key().to_owned());
        assert!(client.call("echo", json!({ "text": "x" })).await.is_ok());
        one.control().keys().revoke(&actor(), key).await.expect("revoked");
        other.caught_up().await;
        assert_eq!(client.call("echo", json!({ "text": "x" })).await.status, 401);
    }

    async fn a_tenant_suspended_through_one_is_refused_by_the_other(database: Database) {
        let (one, other) = (TestServer::start(&database).await, TestServer::start(&database).await);
        let client = Client::new(other.endpoint(), one.client("acme", "u-42").await.key().to_owned());
        assert!(client.call("echo", json!({ "text": "x" })).await.is_ok());
        one.control().tenants().suspend(&actor(), &"acme".into()).await.expect("suspended");
        other.caught_up().await;
        assert_eq!(client.call("echo", json!({ "text": "x" })).await.status, 403);
    }
}
