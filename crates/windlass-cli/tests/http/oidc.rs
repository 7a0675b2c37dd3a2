//! Sign-in through an OpenID provider that issues real signatures.

mod provider;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use self::provider::{CLIENT, Provider, SECRET, Signed};
use super::auth::{PASSWORD, administrator, member};
use super::browser::Browser;
use super::{Answer, Server};
use crate::cli::User;

/// A server with a configured provider and additional settings.
fn server(provider: &Provider, more: &str) -> Server {
    let user = User::new();
    let secret = user.folder().join("../secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    user.configure(&format!(
        "[server.oidc.corp]\nissuer = '{}'\nclient_id = '{CLIENT}'\nclient_secret = 'file:{}'\n{more}\n",
        provider.address,
        secret.display()
    ));
    Server::start_for(user, &[])
}

const BEGIN: &str = "/api/v1/auth/oidc/corp";

/// Consents at the provider. Returns the redirect back to the server.
async fn go(
    browser: &mut Browser<'_>,
    provider: &Provider,
    signed: Signed,
    change: impl FnOnce(&mut Value),
) -> String {
    let begun = browser.get(BEGIN).await.is(StatusCode::SEE_OTHER);
    provider.consent(begun.headers["location"].to_str().unwrap(), signed, change)
}

async fn sign_in(
    browser: &mut Browser<'_>,
    provider: &Provider,
    signed: Signed,
    change: impl FnOnce(&mut Value),
) -> Answer {
    let back = go(browser, provider, signed, change).await;
    browser.get(&back).await
}

#[tokio::test]
async fn a_person_signs_in_and_is_known_the_next_time() {
    let provider = Provider::start().await;
    let server = server(&provider, "role = 'member'");
    let mut browser = Browser::new(&server);
    let options = browser.get("/api/v1/auth/options").await;
    assert_eq!(options.body["providers"], json!(["corp"]));
    browser.get("/api/v1/auth/oidc/nobody").await.is_problem(404, "not_found");
    let home = sign_in(&mut browser, &provider, Signed::Rs256, |_| {}).await.is(StatusCode::SEE_OTHER);
    assert_eq!(home.headers["location"], "/");
    assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), ["windlass_auth", "windlass_refresh"]);
    let me = browser.get("/api/v1/auth/me").await.is(StatusCode::OK).body;
    let known = (&me["email"], &me["name"], &me["role"], &me["has_password"]);
    assert_eq!(known, (&json!("ann@example.com"), &json!("Ann"), &json!("member"), &json!(false)));
    // A changed address or signature algorithm does not change the account, and the provider may rotate its keys.
    let mut other = Browser::new(&server);
    let moved = |claims: &mut Value| claims["email"] = "moved@example.com".into();
    sign_in(&mut other, &provider, Signed::Es256, moved).await.is(StatusCode::SEE_OTHER);
    assert_eq!(other.get("/api/v1/auth/me").await.body["id"], me["id"]);
    provider.change_keys();
    for signed in [Signed::Rs256, Signed::Es256] {
        let mut third = Browser::new(&server);
        sign_in(&mut third, &provider, signed, |_| {}).await.is(StatusCode::SEE_OTHER);
        assert_eq!(third.get("/api/v1/auth/me").await.body["id"], me["id"]);
    }
    // A deactivated account cannot sign in, regardless of the provider.
    let mut admin = administrator(&server).await;
    let place = format!("/api/v1/team/members/{}", me["id"].as_str().unwrap());
    admin.send(Method::DELETE, &place, None).await.is(StatusCode::NO_CONTENT);
    sign_in(&mut other, &provider, Signed::Rs256, |_| {}).await.is(StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn an_identity_token_not_issued_for_this_sign_in_is_rejected() {
    let provider = Provider::start().await;
    let server = server(&provider, "role = 'member'");
    let mut browser = Browser::new(&server);
    let past = |claims: &mut Value| {
        claims["iat"] = 1_600_000_000.into();
        claims["exp"] = 1_600_000_300.into();
    };
    type Change = Box<dyn FnOnce(&mut Value)>;
    let cases: Vec<(&str, Signed, Change)> = vec![
        ("other keys", Signed::Wrongly, Box::new(|_| {})),
        ("the client's secret", Signed::Hs256, Box::new(|_| {})),
        ("no signature", Signed::Not, Box::new(|_| {})),
        ("another sign-in", Signed::Rs256, Box::new(|claims| claims["nonce"] = "other".into())),
        ("no sign-in", Signed::Rs256, Box::new(|claims| claims["nonce"] = Value::Null)),
        ("another client", Signed::Rs256, Box::new(|claims| claims["aud"] = "other".into())),
        ("several clients", Signed::Es256, Box::new(|claims| claims["aud"] = json!([CLIENT, "other"]))),
        (
            "another issuer",
            Signed::Es256,
            Box::new(|claims| claims["iss"] = "https://evil.example.com".into()),
        ),
        ("over", Signed::Rs256, Box::new(past)),
    ];
    for (case, signed, change) in cases {
        let refused = sign_in(&mut browser, &provider, signed, change).await;
        assert_eq!(refused.status, 502, "{case}: {refused:#?}");
        assert!(browser.cookies.is_empty(), "{case}: {:?}", browser.cookies);
    }
    let log = server.get("/api/v1/audit", &server.key(&[])).await;
    let entries = log.body["data"].as_array().unwrap();
    let failed =
        entries.iter().filter(|one| one["action"] == "login.failed" && one["details"]["provider"] == "corp");
    assert_eq!(failed.count(), 9);
}

#[tokio::test]
async fn a_sign_in_is_finished_once_and_where_it_was_begun() {
    let provider = Provider::start().await;
    let server = server(&provider, "role = 'member'");
    let mut browser = Browser::new(&server);
    let back = go(&mut browser, &provider, Signed::Rs256, |_| {}).await;
    let begun = browser.clone();
    // A redirect that an attacker gives to a victim does not sign the victim in.
    let mut victim = Browser::new(&server);
    victim.get(&back).await.is(StatusCode::FORBIDDEN);
    go(&mut victim, &provider, Signed::Rs256, |_| {}).await;
    victim.get(&back).await.is(StatusCode::FORBIDDEN);
    assert!(victim.cookies.is_empty());
    // A cookie that the server signed for another purpose is rejected too.
    browser.get(&back).await.is(StatusCode::SEE_OTHER);
    let mut confused = begun.clone();
    confused.cookies.insert("windlass_oidc".into(), browser.cookies["windlass_auth"].clone());
    confused.get(&back).await.is(StatusCode::FORBIDDEN);
    // A replayed redirect with the same cookie, and a code that the provider would still accept.
    let mut replayed = begun.clone();
    replayed.get(&back).await.is(StatusCode::FORBIDDEN);
    assert!(!replayed.cookies.contains_key("windlass_auth"));
    let mut mixed = begun.clone();
    mixed.get(&format!("{back}&iss=https://evil.example.com")).await.is(StatusCode::FORBIDDEN);
    let mut declined = Browser::new(&server);
    declined.get(BEGIN).await.is(StatusCode::SEE_OTHER);
    let page = declined.get(&format!("{BEGIN}/callback?error=%3Cscript%3E")).await.is(StatusCode::FORBIDDEN);
    assert!(page.body.as_str().unwrap().contains("&lt;script&gt;"), "{page:#?}");
}

#[tokio::test]
async fn who_gets_an_account_is_configured() {
    let provider = Provider::start().await;
    let unverified = |claims: &mut Value| claims["email_verified"] = false.into();
    let named = |sub: &'static str| move |claims: &mut Value| claims["sub"] = sub.into();
    {
        let server = server(&provider, "");
        let mut browser = Browser::new(&server);
        sign_in(&mut browser, &provider, Signed::Rs256, |_| {}).await.is(StatusCode::FORBIDDEN);
    }
    {
        let server = server(&provider, "role = 'viewer'\ndomains = ['example.com']");
        let mut browser = Browser::new(&server);
        let elsewhere = |claims: &mut Value| claims["email"] = "ann@evil-example.com".into();
        sign_in(&mut browser, &provider, Signed::Rs256, elsewhere).await.is(StatusCode::FORBIDDEN);
        sign_in(&mut browser, &provider, Signed::Rs256, unverified).await.is(StatusCode::FORBIDDEN);
        // An equal address does not link to an existing account.
        let mut admin = administrator(&server).await;
        let mut ann = member(&mut admin, &server, "ann@example.com", "admin").await;
        sign_in(&mut browser, &provider, Signed::Rs256, |_| {}).await.is(StatusCode::CONFLICT);
        let bob = |claims: &mut Value| claims["email"] = "bob@example.com".into();
        sign_in(&mut browser, &provider, Signed::Rs256, bob).await.is(StatusCode::SEE_OTHER);
        assert_eq!(browser.get("/api/v1/auth/me").await.body["role"], "viewer");
        ann.get("/api/v1/auth/me").await.is(StatusCode::OK);
        // An unverified address of an account does not block its real owner.
        for email in ["else@example.com", "ann@example.com"] {
            let typed = Some(json!({"email": email, "password": PASSWORD}));
            ann.send(Method::PATCH, "/api/v1/auth/me", typed).await.is(StatusCode::OK);
        }
        let mut owner = Browser::new(&server);
        sign_in(&mut owner, &provider, Signed::Rs256, named("p-9")).await.is(StatusCode::SEE_OTHER);
        assert_eq!(owner.get("/api/v1/auth/me").await.body["email"], "ann@example.com");
        assert_eq!(ann.get("/api/v1/auth/me").await.body["email"], Value::Null);
    }
    let server = server(&provider, "link_by_email = true");
    let mut admin = administrator(&server).await;
    let mut ann = member(&mut admin, &server, "ann@example.com", "member").await;
    let mut browser = Browser::new(&server);
    sign_in(&mut browser, &provider, Signed::Rs256, unverified).await.is(StatusCode::FORBIDDEN);
    // An unverified address is not linked, unlike one that an administrator has entered.
    let typed = |email: &str| Some(json!({"email": email, "password": PASSWORD}));
    let me = "/api/v1/auth/me";
    ann.send(Method::PATCH, me, typed("else@example.com")).await.is(StatusCode::OK);
    ann.send(Method::PATCH, me, typed("ann@example.com")).await.is(StatusCode::OK);
    sign_in(&mut browser, &provider, Signed::Rs256, named("p-1")).await.is(StatusCode::FORBIDDEN);
    assert_eq!(ann.get(me).await.body["email"], "ann@example.com");
    let bob =
        |claims: &mut Value| (claims["sub"], claims["email"]) = ("p-2".into(), "bob@example.com".into());
    let mut bobs = member(&mut admin, &server, "bob@example.com", "member").await;
    let id = bobs.get(me).await.body["id"].clone();
    sign_in(&mut browser, &provider, Signed::Rs256, bob).await.is(StatusCode::SEE_OTHER);
    assert_eq!(browser.get(me).await.body["id"], id);
}
