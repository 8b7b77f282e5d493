//! Tools that ask their caller, in rounds: what is kept between them belongs to the caller, the tool and the arguments.

use serde_json::{Value, json};
use sluicegate_tests::{Answer, Client, Database, Era, TestServer, on_both_databases};

async fn confirm(client: &Client, dataset: &str, more: Value) -> Answer {
    let body = Client::call_body(Era::Modern, "confirm", json!({ "dataset": dataset }), more);
    client.modern("tools/call", "confirm").send(body).await
}

/// The answer of a person, with what the server gave along.
fn agreed(state: &Value) -> Value {
    json!({
        "requestState": state,
        "inputResponses": { "agree": { "action": "accept", "content": { "really": true } } },
    })
}

on_both_databases! {
    async fn a_question_ends_the_call_and_its_answer_finishes_it(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let asked = confirm(&client, "sales", json!({})).await.json()["result"].clone();
        assert_eq!(asked["resultType"], "input_required");
        assert_eq!(asked["inputRequests"]["agree"]["params"]["message"], "Delete sales?");
        // The tool runs once at a time: a person who thinks holds nothing.
        let again = confirm(&client, "sales", json!({})).await.json();
        assert_eq!(again["result"]["resultType"], "input_required");
        assert_eq!(confirm(&client, "sales", agreed(&asked["requestState"])).await.ok_text(), "sales is deleted");
        let declined = json!({ "inputResponses": { "agree": { "action": "decline" } } });
        assert_eq!(confirm(&client, "sales", declined).await.ok_text(), "sales is kept");
    }

    async fn what_is_kept_is_good_for_nobody_and_nothing_else(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let other = server.client("acme", "u-43").await;
        let state = confirm(&client, "sales", json!({})).await.json()["result"]["requestState"].clone();
        let refused = |answer: Answer| {
            let error = answer.error();
            assert_eq!(error["code"], -32602, "{error}");
            assert!(error["message"].as_str().is_some_and(|message| message.contains("requestState")), "{error}");
        };
        refused(confirm(&other, "sales", agreed(&state)).await);
        refused(confirm(&client, "customers", agreed(&state)).await);
        let mut tampered = state.as_str().expect("a text").to_owned();
        let last = if tampered.ends_with('A') { 'B' } else { 'A' };
        tampered.pop();
        tampered.push(last);
        refused(confirm(&client, "sales", agreed(&json!(tampered))).await);
        assert_eq!(confirm(&client, "sales", agreed(&state)).await.ok_text(), "sales is deleted");
    }

    async fn whoever_cannot_be_asked_learns_it_at_once(database: Database) {
        let server = TestServer::start(&database).await;
        let client = server.client("acme", "u-42").await;
        let legacy = client.call("confirm", json!({ "dataset": "sales" })).await;
        assert!(legacy.text.contains("-32021") || legacy.text.contains("cannot be asked"), "{legacy:?}");
        let none = json!({ "_meta": { "io.modelcontextprotocol/clientCapabilities": Value::Null } });
        let body = Client::call_body(Era::Modern, "confirm", json!({ "dataset": "sales" }), none);
        let body = body.replace(r#""io.modelcontextprotocol/clientCapabilities":null"#, r#""io.modelcontextprotocol/clientCapabilities":{}"#);
        let modern = client.modern("tools/call", "confirm").send(body).await;
        assert_eq!(modern.error()["code"], -32021);
    }
}
