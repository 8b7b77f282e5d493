//! The envelope of a message: nothing panics, and a tool call names the tool that every JSON parser sees in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sluicegate_mcp::{Envelope, Kind};

fuzz_target!(|body: &[u8]| {
    let envelope = Envelope::read(body);
    let Kind::ToolCall(name) = &envelope.kind else { return };
    // What a general parser refuses, or reads differently, the protocol engine refuses or the tools stop.
    let Ok(message) = serde_json::from_slice::<Value>(body) else { return };
    assert_eq!(message["method"], "tools/call");
    assert_eq!(message["params"]["name"], **name);
    if let Some(id) = envelope.id {
        assert_eq!(serde_json::from_str::<Value>(id.get()).ok().as_ref(), message.get("id"));
    }
});
