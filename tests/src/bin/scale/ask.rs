//! Asks for every page of the panel and every list of the admin API, and measures what comes back.

use std::time::Instant;

use http::header;
use sluicegate::control::{NewToken, Role};
use sluicegate_tests::TestServer;
use sluicegate_tests::server::actor;
use sluicegate_tests::visitor::Visitor;

use crate::seed::Seeded;

/// One page or list.
pub(crate) struct Measured {
    pub(crate) path: String,
    /// Median time to the last byte of the answer, in milliseconds.
    pub(crate) ms: f64,
    pub(crate) bytes: usize,
}

const RANGES: [&str; 4] = ["1h", "24h", "7d", "30d"];

/// `{tenant}` is the one with the most agents, `{agent}` the one that calls most, `{key}` one of its keys.
const PAGES: &[&str] = &[
    "/admin",
    "/admin/throttling?range={range}",
    "/admin/throttling?range={range}&tenant={tenant}",
    "/admin/throttling?range={range}&tool=seeded_tool_00&show=share",
    "/admin/throttling/cell?tenant={tenant}&agent={agent}&tool=seeded_tool_00&range={range}",
    "/admin/events",
    "/admin/events?tenant={tenant}",
    "/admin/alerts",
    "/admin/tenants",
    "/admin/tenants?search=99",
    "/admin/tenants/new",
    "/admin/tenants/{tenant}",
    "/admin/tenants/{tenant}/keys",
    "/admin/tenants/{tenant}/usage?range={range}",
    "/admin/tenants/{tenant}/audit",
    "/admin/tenants/{tenant}/settings",
    "/admin/agents",
    "/admin/agents?tenant={tenant}",
    "/admin/tenants/{tenant}/agents/{agent}?range={range}",
    "/admin/tenants/{tenant}/agents/{agent}/keys/new",
    "/admin/keys/{key}",
    "/admin/limits",
    "/admin/limits?tenant={tenant}&agent={agent}",
    "/admin/limits/new?scope=tenant&tenant={tenant}",
    "/admin/plans",
    "/admin/tools?range={range}",
    "/admin/tool?name=seeded_tool_00&range={range}",
    "/admin/audit",
    "/admin/audit?tenant={tenant}",
    "/admin/audit?action=limit.set&target=limit",
    "/admin/audit?actor=user:nobody",
    "/admin/people",
    "/admin/system",
];

const LISTS: &[&str] = &[
    "/tenants",
    "/tenants?search=99",
    "/tenants/{tenant}",
    "/tenants/{tenant}/agents",
    "/tenants/{tenant}/agents/{agent}",
    "/tenants/{tenant}/keys",
    "/tenants/{tenant}/keys?agent={agent}",
    "/keys/{key}",
    "/limits",
    "/limits?tenant={tenant}",
    "/limits/explain?tenant={tenant}&agent={agent}&tool=echo",
    "/limits/effective?tenant={tenant}&agent={agent}",
    "/plans",
    "/tools",
    "/tool-switches?tenant={tenant}",
    "/usage?range={range}",
    "/usage?range={range}&tenant={tenant}&agent={agent}",
    "/usage/by-tool?range={range}",
    "/usage/by-tool?range={range}&tenant={tenant}&agent={agent}",
    "/usage/series?range={range}",
    "/usage/series?range={range}&tenant={tenant}&agent={agent}&tool=seeded_tool_00",
    "/throttle_by_tool?range={range}",
    "/throttle_by_tool?range={range}&tenant={tenant}",
    "/throttle_by_tool/series?range={range}&tenant={tenant}&agent={agent}&tool=seeded_tool_00",
    "/runaways",
    "/events",
    "/events?tenant={tenant}&agent={agent}",
    "/alerts",
    "/alerts/open",
    "/alert-rules",
    "/audit",
    "/audit?tenant={tenant}",
    "/audit?actor=user:nobody",
    "/users",
    "/tokens",
    "/me",
    "/version",
    "/health",
    "/instances",
];

fn paths(templates: &[&str], seeded: &Seeded) -> Vec<String> {
    let fill = |path: &str| {
        path.replace("{tenant}", "tenant-0000").replace("{agent}", &seeded.agent).replace("{key}", &seeded.key)
    };
    let of = |template: &&str| match template.contains("{range}") {
        true => RANGES.map(|range| fill(&template.replace("{range}", range))).to_vec(),
        false => vec![fill(template)],
    };
    templates.iter().flat_map(of).collect()
}

/// Measures each, and tells it at once: to seed takes long.
pub(crate) async fn everything(
    server: &TestServer,
    seeded: &Seeded,
    rounds: usize,
    mut tell: impl FnMut(&Measured),
) -> Vec<Measured> {
    let base = format!("http://{}", server.address());
    let visitor =
        Visitor::sign_in(server.control(), &base, &format!("olga-{}", std::process::id()), Role::Owner, None).await;
    let new = NewToken { name: "ci".to_owned(), role: Role::Owner, tenant: None, expires_at: None };
    let minted = server.control().admin_tokens().create(&actor(), new).await.expect("a token");
    let bearer = format!("Bearer {}", minted.token.expose());
    let pages = paths(PAGES, seeded).into_iter().map(|path| (path.clone(), path, header::COOKIE, visitor.cookie()));
    let lists =
        paths(LISTS, seeded).into_iter().map(|path| (format!("/api/v1{path}"), path, header::AUTHORIZATION, &*bearer));
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut measured = Vec::new();
    for (target, path, name, value) in pages.chain(lists) {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for _ in 0..rounds {
            let began = Instant::now();
            let answer = http.get(format!("{base}{target}")).header(&name, value).send().await.expect("an answer");
            let status = answer.status();
            let body = answer.bytes().await.expect("a body");
            times.push(began.elapsed().as_secs_f64() * 1_000.0);
            assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&body));
            bytes = body.len();
        }
        times.sort_by(f64::total_cmp);
        let found = Measured { path, ms: times[times.len() / 2], bytes };
        tell(&found);
        measured.push(found);
    }
    measured
}
