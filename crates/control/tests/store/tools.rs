use std::time::Duration;

use sluicegate_control::{Actor, JsonText, PageRequest, Reach, Role, ToolDefinition};

use crate::harness::{START, kind, on_both, tool};

on_both! {
    async fn a_registered_tool_reads_back(store: &Store) {
        let definition = ToolDefinition {
            title: Some("Export".to_owned()),
            input_schema: serde_json::json!({ "type": "object" }).into(),
            declared_limits: serde_json::json!({ "rate_limit": "100/min" }).into(),
            ..tool("export")
        };
        let tools = store.control.tools();
        tools.register(&store.root, std::slice::from_ref(&definition)).await.unwrap();
        let read = tools.get(&store.root, "export").await.unwrap();
        assert_eq!(read.definition, definition);
        assert_eq!((read.first_seen_at, read.last_seen_at), (START, START));
        assert_eq!(kind(&tools.get(&store.root, "exprt").await), "unknown tool");
    }

    async fn to_register_the_same_tools_again_is_no_change(store: &Store) {
        store.tools(&["export", "import"]).await;
        let revision = store.control.policy().revision().await.unwrap();
        store.clock.advance(Duration::from_secs(1));
        store.tools(&["export"]).await;
        assert_eq!(store.control.policy().revision().await.unwrap(), revision);
        let page = store.control.tools().list(&store.root, &PageRequest::default()).await.unwrap();
        let seen: Vec<_> =
            page.items.iter().map(|t| (t.definition.name.as_str(), t.last_seen_at - START)).collect();
        assert_eq!(seen, [("export", 1000), ("import", 0)]);
    }

    async fn an_altered_tool_is_a_change_with_what_it_was_before(store: &Store) {
        store.tools(&["export"]).await;
        let altered = ToolDefinition {
            declared_limits: serde_json::json!({ "rate_limit": "1/s" }).into(),
            ..tool("export")
        };
        store.control.tools().register(&store.root, &[altered]).await.unwrap();
        let log = store.control.audit().list(&store.root, None, &PageRequest::first(1)).await.unwrap();
        let entry = &log.items[0];
        assert_eq!((entry.action.as_str(), entry.target.as_str()), ("tool.register", "tool export"));
        assert!(entry.before.as_ref().is_some_and(|before| before.as_str().contains("{}")));
        assert!(entry.after.as_ref().map(JsonText::as_str).unwrap().contains("1/s"));
    }

    async fn a_tools_name_is_well_formed(store: &Store) {
        for name in ["", "a b", "a*", &"a".repeat(129)] {
            let refused = store.control.tools().register(&store.root, &[tool(name)]).await;
            assert_eq!(kind(&refused), "invalid", "{name:?}");
        }
    }

    async fn a_switch_is_part_of_the_policy_and_goes_with_its_tenant(store: &Store) {
        store.tools(&["export"]).await;
        let acme = store.tenant("acme").await.id;
        let tools = store.control.tools();
        let start = store.control.policy().revision().await.unwrap();
        let off = tools.disable(&store.root, "export", Some(&"acme".into())).await.unwrap();
        assert_eq!((off.tenant_id, off.enabled), (Some(acme), false));
        assert_eq!(tools.disable(&store.root, "export", Some(&"acme".into())).await.unwrap(), off, "once is enough");
        let delta = store.control.policy().changes_since(start).await.unwrap();
        assert_eq!(delta.tool_switches, std::slice::from_ref(&off));
        assert_eq!(store.control.policy().load_all().await.unwrap().tool_switches, std::slice::from_ref(&off));
        assert!(store.control.policy().changes_since(delta.revision).await.unwrap().tool_switches.is_empty());
        assert!(tools.switches(&store.root, None).await.unwrap().is_empty());
        assert_eq!(tools.switches(&store.root, Some(&"acme".into())).await.unwrap(), [off]);
        assert_eq!(kind(&tools.disable(&store.root, "exprot", None).await), "unknown tool");
        store.control.tenants().delete(&store.root, &"acme".into()).await.unwrap();
        assert!(store.control.policy().load_all().await.unwrap().tool_switches.is_empty());
    }

    async fn the_switches_of_a_tool_are_everybodys_and_those_of_tenants_that_one_sees(store: &Store) {
        store.tools(&["export", "echo"]).await;
        let acme = store.tenant("acme").await.id;
        store.tenant("globex").await;
        let tools = store.control.tools();
        for tenant in ["acme", "globex"] {
            tools.disable(&store.root, "export", Some(&tenant.into())).await.unwrap();
        }
        tools.disable(&store.root, "export", None).await.unwrap();
        tools.disable(&store.root, "echo", None).await.unwrap();
        let all = tools.switches_of(&store.root, "export").await.unwrap();
        assert_eq!((all.len(), all[0].tenant_id), (3, None));
        let anna = Actor::user("anna", Role::Viewer, Reach::Tenant(acme));
        let own = tools.switches_of(&anna, "export").await.unwrap();
        assert_eq!(own.iter().map(|switch| switch.tenant_id).collect::<Vec<_>>(), [None, Some(acme)]);
    }
}
