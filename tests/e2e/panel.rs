//! The panel beside the gate: where it is served, and how its first owner comes in.

use reqwest::redirect::Policy;
use sluicegate_tests::{Database, TestServer, on_both_databases};

/// A browser that follows no redirect and keeps no cookie.
fn browser() -> reqwest::Client {
    reqwest::Client::builder().redirect(Policy::none()).build().expect("a client")
}

on_both_databases! {
    async fn the_panel_stands_beside_the_gate_and_its_link_makes_one_owner(database: Database) {
        let server = TestServer::start(&database).await;
        let (browser, base) = (browser(), format!("http://{}", server.address()));
        let door = browser.get(format!("{base}/admin")).send().await.expect("an answer");
        assert_eq!(door.status(), 303);
        assert_eq!(door.headers()["location"], "/admin/sign-in?next=%2Fadmin");

        let link = server.set_up_link().await.expect("nobody can sign in yet");
        let (page, token) = link.split_once("?token=").expect("a token");
        assert_eq!(browser.get(&link).send().await.expect("an answer").status(), 200);
        let form = format!("token={token}&name=olga&password=correct+horse+battery");
        let post = |site: &str| {
            let request = browser.post(page).header("sec-fetch-site", site).body(form.clone());
            request.header("content-type", "application/x-www-form-urlencoded").send()
        };
        assert_eq!(post("cross-site").await.expect("an answer").status(), 403);
        let made = post("same-origin").await.expect("an answer");
        assert_eq!(made.status(), 303);
        let cookie = made.headers()["set-cookie"].to_str().expect("text");
        let (cookie, _) = cookie.split_once(';').expect("attributes");
        for path in ["/admin", "/admin/system", "/admin/throttling", "/admin/limits"] {
            let page = browser.get(format!("{base}{path}")).header("cookie", cookie).send().await.expect("an answer");
            assert_eq!(page.status(), 200, "{path}");
        }
        assert!(server.set_up_link().await.is_none(), "there is an owner");
        assert_eq!(post("same-origin").await.expect("an answer").status(), 410, "the link was used");
    }

    async fn a_server_can_go_without_the_panel(database: Database) {
        let server = TestServer::start_with(&database, |settings| settings.panel = false).await;
        let answer = browser().get(format!("http://{}/admin", server.address())).send().await.expect("an answer");
        assert_eq!(answer.status(), 404);
        assert!(server.set_up_link().await.is_none());
    }
}
