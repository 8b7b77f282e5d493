use std::time::Duration;

use secrecy::SecretString;
use sluicegate_control::{
    Actor, AdminUser, Control, JsonText, NewToken, NewUser, PageRequest, Reach, Role, SessionState, TenantRef,
};

use crate::harness::{START, Store, kind, on_both};

const HOUR: i64 = 60 * 60 * 1_000;

fn secret(text: &str) -> SecretString {
    text.to_owned().into()
}

fn new_user(name: &str, role: Role, tenant: Option<&str>) -> NewUser {
    let password = secret("correct horse battery");
    NewUser { name: name.to_owned(), password, role, tenant: tenant.map(TenantRef::from) }
}

async fn user(store: &Store, name: &str, role: Role, tenant: Option<&str>) -> AdminUser {
    store.control.users().create(&store.root, new_user(name, role, tenant)).await.unwrap()
}

async fn sign_in(control: &Control, name: &str, password: &str) -> Option<AdminUser> {
    control.users().sign_in(name, &secret(password), Some("192.0.2.1".to_owned()), None).await.unwrap()
}

fn state(user: Option<&AdminUser>) -> SessionState {
    SessionState {
        user: user.map(|user| user.id),
        data: JsonText::empty_object(),
        address: Some("192.0.2.1".to_owned()),
        user_agent: None,
        idle_ends_at: START + HOUR,
        ends_at: START + 12 * HOUR,
    }
}

on_both! {
    async fn somebody_signs_in_with_name_and_password_and_nothing_else(store: &Store) {
        store.tenant("acme").await;
        let alice = user(store, "alice", Role::Operator, Some("acme")).await;
        let found = sign_in(&store.control, "alice", "correct horse battery").await.unwrap();
        assert_eq!((found.id, found.last_login_at), (alice.id, Some(START)));
        assert_eq!(found.actor().label(), "user:alice");
        assert_eq!(found.actor().reach(), Reach::Tenant(alice.tenant_id.unwrap()));
        for (name, password) in [("alice", "correct horse batterY"), ("bob", "correct horse battery"), ("alice", "")] {
            assert!(sign_in(&store.control, name, password).await.is_none(), "{name} {password}");
        }
        store.control.users().suspend(&store.root, &"alice".into()).await.unwrap();
        assert!(sign_in(&store.control, "alice", "correct horse battery").await.is_none());
        let log = store.control.audit().list(&store.root, None, &PageRequest::default()).await.unwrap();
        let actions: Vec<_> = log.items.iter().map(|entry| &*entry.action).collect();
        assert_eq!(actions, ["user.suspend", "user.sign_in", "user.create", "tenant.create"]);
        assert_eq!((&*log.items[1].actor, log.items[1].address.as_deref()), ("user:alice", Some("192.0.2.1")));
        for row in store.texts("SELECT CAST(COALESCE(before, '') AS TEXT) || COALESCE(after, '') FROM audit_log").await {
            assert!(!row.contains("argon2") && !row.contains("horse"), "{row}");
        }
    }

    async fn a_password_is_kept_as_argon2id_and_must_be_long(store: &Store) {
        user(store, "alice", Role::Owner, None).await;
        let hashes = store.texts("SELECT password_hash FROM admin_users").await;
        assert!(hashes[0].starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hashes:?}");
        let short = NewUser { password: secret("eleven char"), ..new_user("bob", Role::Viewer, None) };
        let error = store.control.users().create(&store.root, short).await.unwrap_err();
        assert_eq!(error.to_string(), "a password must have at least 12 characters");
        assert!(!format!("{error:?}").contains("eleven"));
        for name in ["", "Alice", "a b", "ä"] {
            let bad = new_user(name, Role::Viewer, None);
            assert_eq!(kind(&store.control.users().create(&store.root, bad).await), "invalid", "{name:?}");
        }
        assert_eq!(kind(&store.control.users().create(&store.root, new_user("alice", Role::Viewer, None)).await), "conflict");
    }

    async fn the_last_owner_of_the_server_stays_one(store: &Store) {
        store.tenant("acme").await;
        user(store, "alice", Role::Owner, None).await;
        user(store, "local", Role::Owner, Some("acme")).await;
        let users = store.control.users();
        let alice = "alice".into();
        assert_eq!(kind(&users.delete(&store.root, &alice).await), "conflict");
        assert_eq!(kind(&users.suspend(&store.root, &alice).await), "conflict");
        assert_eq!(kind(&users.set_role(&store.root, &alice, Role::Operator, None).await), "conflict");
        assert_eq!(kind(&users.set_role(&store.root, &alice, Role::Owner, Some(&"acme".into())).await), "conflict");
        user(store, "bob", Role::Owner, None).await;
        users.delete(&store.root, &alice).await.unwrap();
        assert_eq!(kind(&users.suspend(&store.root, &"bob".into()).await), "conflict");
    }

    async fn a_confined_owner_makes_people_of_its_tenant_only(store: &Store) {
        let acme = store.tenant("acme").await.id;
        store.tenant("globex").await;
        user(store, "root", Role::Owner, None).await;
        user(store, "theirs", Role::Viewer, Some("globex")).await;
        let owner = Actor::user("o", Role::Owner, Reach::Tenant(acme));
        let users = store.control.users();
        users.create(&owner, new_user("ours", Role::Owner, Some("acme"))).await.unwrap();
        assert_eq!(kind(&users.create(&owner, new_user("x", Role::Viewer, None)).await), "forbidden");
        assert_eq!(kind(&users.create(&owner, new_user("x", Role::Viewer, Some("globex"))).await), "not found");
        for foreign in ["root", "theirs"] {
            let foreign = foreign.into();
            assert_eq!(kind(&users.get(&owner, &foreign).await), "not found");
            assert_eq!(kind(&users.reset_password(&owner, &foreign, &secret("correct horse battery")).await), "not found");
            assert_eq!(kind(&users.delete(&owner, &foreign).await), "not found");
            assert_eq!(kind(&users.set_role(&owner, &foreign, Role::Owner, Some(&"acme".into())).await), "not found");
        }
        assert_eq!(kind(&users.set_role(&owner, &"ours".into(), Role::Owner, None).await), "forbidden");
        let listed = users.list(&owner, &PageRequest::default()).await.unwrap();
        assert_eq!(listed.items.iter().map(|user| &*user.name).collect::<Vec<_>>(), ["ours"]);
        let tokens = store.control.admin_tokens();
        let token = |tenant: Option<&str>| NewToken {
            name: "ci".to_owned(), role: Role::Owner, tenant: tenant.map(TenantRef::from), expires_at: None,
        };
        assert_eq!(kind(&tokens.create(&owner, token(None)).await), "forbidden");
        let global = tokens.create(&store.root, token(None)).await.unwrap().record;
        assert_eq!(kind(&tokens.revoke(&owner, global.id).await), "not found");
        let own = tokens.create(&owner, token(Some("acme"))).await.unwrap().record;
        assert_eq!(tokens.list(&owner, &PageRequest::default()).await.unwrap().items, [own]);
    }

    async fn a_new_password_ends_the_sessions(store: &Store) {
        let alice = user(store, "alice", Role::Owner, None).await;
        let sessions = store.control.sessions();
        assert!(sessions.create("s", &state(Some(&alice))).await.unwrap());
        let (old, new) = (secret("correct horse battery"), secret("another long password"));
        let users = store.control.users();
        let wrong = users.change_own_password(alice.id, &new, &new).await;
        assert_eq!(kind(&wrong), "invalid");
        assert!(sessions.load("s").await.unwrap().is_some());
        users.change_own_password(alice.id, &old, &new).await.unwrap();
        assert!(sessions.load("s").await.unwrap().is_none());
        assert!(sign_in(&store.control, "alice", "another long password").await.is_some());
        assert!(sign_in(&store.control, "alice", "correct horse battery").await.is_none());
    }

    async fn a_token_opens_what_its_role_may_until_it_ends(store: &Store) {
        let new = NewToken { name: "ci".to_owned(), role: Role::Operator, tenant: None, expires_at: Some(START + HOUR) };
        let minted = store.control.admin_tokens().create(&store.root, new.clone()).await.unwrap();
        let text = minted.token.expose();
        assert!(text.starts_with("sgadmin_") && text.len() == 51, "{}", text.len());
        assert!(!format!("{minted:?}").contains(text));
        let tokens = store.control.admin_tokens();
        let found = tokens.authenticate(text).await.unwrap().unwrap();
        assert_eq!((found.actor().label(), found.actor().role()), ("token:ci", Role::Operator));
        assert_eq!(tokens.get(&store.root, found.id).await.unwrap().last_used_at, Some(START));
        assert!(tokens.authenticate(&text[..50]).await.unwrap().is_none());
        assert!(tokens.authenticate("").await.unwrap().is_none());
        store.clock.advance(Duration::from_hours(1));
        assert!(tokens.authenticate(text).await.unwrap().is_none());
        let other = tokens.create(&store.root, NewToken { expires_at: None, ..new }).await.unwrap();
        tokens.revoke(&store.root, other.record.id).await.unwrap();
        assert!(tokens.authenticate(other.token.expose()).await.unwrap().is_none());
        let stored = store.texts("SELECT token_hash FROM admin_tokens").await;
        assert!(stored.iter().all(|hash| hash.len() == 64));
    }

    async fn a_session_ends_when_it_is_idle_and_at_its_end_in_any_case(store: &Store) {
        let alice = user(store, "alice", Role::Owner, None).await;
        let sessions = store.control.sessions();
        assert!(sessions.create("secret", &state(None)).await.unwrap());
        assert!(!sessions.create("secret", &state(None)).await.unwrap());
        let signed_in = state(Some(&alice));
        sessions.save("secret", &signed_in).await.unwrap();
        assert_eq!(sessions.load("secret").await.unwrap(), Some(signed_in.clone()));
        assert_eq!(sessions.load("other").await.unwrap(), None);
        assert!(!store.texts("SELECT hash FROM admin_sessions").await.contains(&"secret".to_owned()));
        store.clock.advance(Duration::from_hours(1));
        assert_eq!(sessions.load("secret").await.unwrap(), None);
        let later = SessionState { idle_ends_at: START + 24 * HOUR, ends_at: START + 99 * HOUR, ..signed_in };
        sessions.save("secret", &later).await.unwrap();
        assert_eq!(sessions.load("secret").await.unwrap().unwrap().ends_at, START + 12 * HOUR);
        store.clock.advance(Duration::from_hours(11));
        assert_eq!(sessions.load("secret").await.unwrap(), None);
        assert_eq!(sessions.forget_ended().await.unwrap(), 1);
        sessions.create("again", &SessionState { idle_ends_at: START + 99 * HOUR, ..later }).await.unwrap();
        sessions.delete("again").await.unwrap();
        assert_eq!(sessions.load("again").await.unwrap(), None);
    }

    async fn sessions_are_listed_and_ended_by_their_user_and_by_owners(store: &Store) {
        let acme = store.tenant("acme").await.id;
        let root = user(store, "root", Role::Owner, None).await;
        let viewer = user(store, "viewer", Role::Viewer, Some("acme")).await;
        let other = user(store, "other", Role::Operator, Some("acme")).await;
        let sessions = store.control.sessions();
        sessions.create("r", &state(Some(&root))).await.unwrap();
        sessions.create("v", &state(Some(&viewer))).await.unwrap();
        sessions.create("w", &state(Some(&viewer))).await.unwrap();
        let own = sessions.list(&viewer.actor(), viewer.id).await.unwrap();
        assert_eq!(own.len(), 2);
        assert_eq!(kind(&sessions.list(&other.actor(), viewer.id).await), "forbidden");
        assert_eq!(kind(&sessions.list(&other.actor(), root.id).await), "not found");
        let local = Actor::user("local", Role::Owner, Reach::Tenant(acme));
        let of_root = sessions.list(&root.actor(), root.id).await.unwrap()[0].id;
        assert_eq!(kind(&sessions.revoke(&local, of_root).await), "not found");
        sessions.revoke(&local, own[0].id).await.unwrap();
        sessions.revoke(&viewer.actor(), own[1].id).await.unwrap();
        sessions.save("v", &state(Some(&viewer))).await.unwrap();
        assert!(sessions.load("v").await.unwrap().is_none(), "whoever still writes to it does not begin it again");
        assert!(sessions.list(&root.actor(), viewer.id).await.unwrap().is_empty());
        assert!(sessions.load("r").await.unwrap().is_some());
        store.control.users().suspend(&root.actor(), &viewer.id.into()).await.unwrap();
        sessions.create("x", &state(Some(&viewer))).await.unwrap();
        assert!(sessions.load("x").await.unwrap().is_none(), "whoever is suspended has no session");
    }

    async fn the_first_owner_is_made_once_by_a_printed_token(store: &Store) {
        let setup = store.control.setup();
        assert!(setup.is_open().await.unwrap());
        let (one, other) = (setup.offer(&store.root).await.unwrap().unwrap(), setup.offer(&store.root).await.unwrap().unwrap());
        assert!(setup.accepts(one.expose()).await.unwrap() && setup.accepts(other.expose()).await.unwrap());
        let password = secret("correct horse battery");
        let redeem = async |token: &str| setup.redeem(token, "alice", &password, None, None).await.unwrap();
        assert!(redeem("sgsetup_guess").await.is_none());
        let (first, second) = tokio::join!(redeem(one.expose()), redeem(other.expose()));
        assert!(first.is_some() != second.is_some(), "exactly one makes the owner");
        let alice = first.or(second).unwrap();
        assert_eq!((alice.role, alice.tenant_id), (Role::Owner, None));
        assert!(!setup.accepts(one.expose()).await.unwrap() && !setup.is_open().await.unwrap());
        assert!(redeem(one.expose()).await.is_none() && redeem(other.expose()).await.is_none());
        assert!(setup.offer(&store.root).await.unwrap().is_none());
    }

    async fn a_set_up_token_is_good_for_a_day(store: &Store) {
        let token = store.control.setup().offer(&store.root).await.unwrap().unwrap();
        store.clock.advance(Duration::from_hours(24));
        assert!(!store.control.setup().accepts(token.expose()).await.unwrap());
    }

    async fn a_deleted_tenant_takes_its_people_along(store: &Store) {
        store.tenant("acme").await;
        let alice = user(store, "alice", Role::Owner, Some("acme")).await;
        store.control.sessions().create("s", &state(Some(&alice))).await.unwrap();
        store.control.tenants().delete(&store.root, &"acme".into()).await.unwrap();
        assert!(sign_in(&store.control, "alice", "correct horse battery").await.is_none());
        assert!(store.control.sessions().load("s").await.unwrap().is_none());
    }
}
