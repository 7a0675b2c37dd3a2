//! `/team`: the people of a workspace and their invitations, for its administrators.

mod sessions;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::Principal;

use crate::account::Role;
use crate::account::link::{INVITE_S, Link, LinkUse, Maker};
use crate::account::people::member::{Member, MemberChange, NewMember};
use crate::account::people::user::fold_email;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::cookie::Base;
use crate::http::etag::{ETag, IfMatch, Seen};
use crate::http::input::{Body, Path, Query};
use crate::http::page::{Page, PageQuery};
use crate::http::problem::Problem;

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new()
        .routes(routes!(list, add))
        .routes(routes!(one, change, deactivate))
        .routes(routes!(reset))
        .routes(routes!(invites, invite))
        .routes(routes!(take_back))
        .merge(sessions::routes())
}

/// A person of the workspace.
#[derive(Serialize, ToSchema)]
struct MemberInfo {
    /// Its id.
    id: String,
    /// Its address.
    email: Option<String>,
    /// How people call it.
    name: String,
    /// What it may do.
    role: Role,
    /// Whether it may sign in.
    active: bool,
    /// What its runs may cost altogether, in US dollars; absent: as much as the budgets allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    credit_usd: Option<f64>,
    /// When it was made, in milliseconds since the Unix epoch.
    created_at: u64,
}

impl From<Member> for MemberInfo {
    fn from(Member { user, .. }: Member) -> Self {
        Self {
            id: user.id.to_string(),
            email: user.email,
            name: user.name,
            role: user.role,
            active: user.active,
            credit_usd: user.credit_micro_usd.map(|credit| credit as f64 / 1e6),
            created_at: user.created_at.0,
        }
    }
}

fn tag(member: &Member) -> ETag {
    ETag::strong(&member.version)
}

/// The version that a change is meant for; none where it is meant for whichever there is.
async fn meant(
    app: &Shared,
    caller: &Caller,
    id: &Principal,
    seen: Seen,
    headers: &HeaderMap,
) -> Result<Option<u64>, Problem> {
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(None);
    }
    let member = app.accounts.member(caller.workspace(), id).await?;
    seen.allows(&tag(&member))?;
    Ok(Some(member.version))
}

/// The people of the workspace, inactive ones too
#[utoipa::path(get, path = "/team/members", tag = "team", params(PageQuery),
    responses((status = 200, body = Page<MemberInfo>), (status = 403, body = Problem)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<MemberInfo>>, Problem> {
    caller.administers()?;
    let (limit, after) = (query.limit()?, query.after::<String>()?);
    let members = app.accounts.members(caller.workspace(), after.as_deref(), limit + 1).await?;
    let rows = members.into_iter().map(MemberInfo::from).collect();
    Ok(Json(Page::of(rows, limit, |row: &MemberInfo| row.id.clone())))
}

/// A person who is to be added.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AddBody {
    email: String,
    /// 8 to 1,024 bytes.
    #[schema(format = Password)]
    password: String,
    /// `member` unless something else is said.
    role: Option<Role>,
    #[serde(default)]
    name: String,
}

/// Add a person with a password; an inactive one with the address comes back
#[utoipa::path(post, path = "/team/members", tag = "team", request_body = AddBody,
    responses((status = 201, body = MemberInfo), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
async fn add(
    State(app): State<Shared>,
    caller: Caller,
    Body(body): Body<AddBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let AddBody { email, password, role, name } = body;
    let draft = NewMember { email, password, role: role.unwrap_or(Role::Member), name };
    let member = app.accounts.add_member(&caller.0, draft).await?;
    let place = [(header::LOCATION, format!("/api/v1/team/members/{}", member.user.id))];
    let tag = tag(&member);
    Ok(tag.on((StatusCode::CREATED, place, Json(MemberInfo::from(member)))))
}

/// A person of the workspace
#[utoipa::path(get, path = "/team/members/{member}", tag = "team",
    params(("member" = String, Path, description = "the account's id")),
    responses((status = 200, body = MemberInfo), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let member = app.accounts.member(caller.workspace(), &id).await?;
    Ok(tag(&member).json(MemberInfo::from(member)))
}

/// What is changed of a person; what is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangeBody {
    role: Option<Role>,
    active: Option<bool>,
    name: Option<String>,
    /// What the person's runs may cost altogether, in US dollars; null takes the bound away.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 1000000000)]
    credit_usd: Option<Option<f64>>,
}

/// Tells null from what is absent.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::<f64>::deserialize(deserializer).map(Some)
}

/// Dollars as they are kept.
fn micro_usd(usd: f64) -> Result<u64, Problem> {
    if !(0.0..=1e9).contains(&usd) {
        return Err(Problem::invalid(format!("`credit_usd` is {usd}; it must be 0 to 1000000000")));
    }
    // In range, and a part of a millionth is nothing.
    Ok((usd * 1e6).round() as u64)
}

/// Change a person's role, state or name, where `If-Match` is still right
#[utoipa::path(patch, path = "/team/members/{member}", tag = "team", request_body = ChangeBody,
    params(("member" = String, Path, description = "the account's id"), IfMatch),
    responses((status = 200, body = MemberInfo), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 412, body = Problem)))]
async fn change(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
    seen: Seen,
    headers: HeaderMap,
    Body(body): Body<ChangeBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let ChangeBody { role, active, name, credit_usd } = body;
    let credit_micro_usd = credit_usd.map(|usd| usd.map(micro_usd).transpose()).transpose()?;
    let change = MemberChange { role, active, name, email: None, credit_micro_usd };
    let version = meant(&app, &caller, &id, seen, &headers).await?;
    let member = app.accounts.change_member(&caller.0, &id, &change, version).await?;
    Ok(tag(&member).json(MemberInfo::from(member)))
}

/// Deactivate a person: their sessions and keys end, what they did stays
#[utoipa::path(delete, path = "/team/members/{member}", tag = "team",
    params(("member" = String, Path, description = "the account's id"), IfMatch),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, body = Problem), (status = 412, body = Problem)))]
async fn deactivate(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<Principal>,
    seen: Seen,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    let change = MemberChange { active: Some(false), ..MemberChange::default() };
    let version = meant(&app, &caller, &id, seen, &headers).await?;
    app.accounts.change_member(&caller.0, &id, &change, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A one-time link that was just made. It is shown now and never again.
#[derive(Serialize, ToSchema)]
struct MadeLink {
    /// Its id, by which it can be taken back.
    id: String,
    /// The link.
    url: String,
    /// The token in it.
    token: String,
    /// The moment from which it no longer counts, in milliseconds since the Unix epoch.
    expires_at: u64,
}

impl MadeLink {
    fn of((link, token): (Link, String), base: &Base) -> Self {
        let url = crate::http::link(&base.url, &token);
        Self { id: link.id, url, token, expires_at: link.expires_at.0 }
    }
}

/// Make a one-time link by which a person chooses a new password
#[utoipa::path(post, path = "/team/members/{member}/reset", tag = "team",
    params(("member" = String, Path, description = "the account's id")),
    responses((status = 201, body = MadeLink), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn reset(
    State(app): State<Shared>,
    caller: Caller,
    base: Base,
    Path(id): Path<Principal>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    let made = app.accounts.reset_link(Maker::Caller(&caller.0), caller.workspace(), &id).await?;
    Ok((StatusCode::CREATED, Json(MadeLink::of(made, &base))))
}

/// An open invitation.
#[derive(Serialize, ToSchema)]
struct Invite {
    /// Its id.
    id: String,
    /// What whoever takes it may do.
    role: Role,
    /// The one address that it is for.
    email: Option<String>,
    /// Whoever made it.
    made_by: Option<String>,
    /// When it was made, in milliseconds since the Unix epoch.
    created_at: u64,
    /// The moment from which it no longer counts, in milliseconds since the Unix epoch.
    expires_at: u64,
}

/// The open invitations of a workspace.
#[derive(Serialize, ToSchema)]
struct Invites {
    /// The newest first.
    data: Vec<Invite>,
}

/// The invitations that nobody has taken yet
#[utoipa::path(get, path = "/team/invites", tag = "team",
    responses((status = 200, body = Invites), (status = 403, body = Problem)))]
async fn invites(State(app): State<Shared>, caller: Caller) -> Result<Json<Invites>, Problem> {
    caller.administers()?;
    let links = app.accounts.links(caller.workspace()).await?;
    let open = links.into_iter().filter_map(|link| match link.used_for {
        LinkUse::Invite { role, email } => Some(Invite {
            id: link.id,
            role,
            email,
            made_by: link.made_by.map(|user| user.to_string()),
            created_at: link.created_at.0,
            expires_at: link.expires_at.0,
        }),
        LinkUse::SignIn { .. } | LinkUse::Reset { .. } => None,
    });
    Ok(Json(Invites { data: open.collect() }))
}

/// An invitation that is to be made.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct InviteBody {
    /// `member` unless something else is said.
    role: Option<Role>,
    /// The one address that it is for; without one, whoever has the link registers.
    email: Option<String>,
    /// Seconds for which it counts: 60 to 2,592,000, a week unless something else is said.
    expires_in: Option<u64>,
}

/// Invite somebody by a one-time link
#[utoipa::path(post, path = "/team/invites", tag = "team", request_body = InviteBody,
    responses((status = 201, body = MadeLink), (status = 403, body = Problem), (status = 409, body = Problem),
        (status = 422, body = Problem)))]
async fn invite(
    State(app): State<Shared>,
    caller: Caller,
    base: Base,
    Body(body): Body<InviteBody>,
) -> Result<impl IntoResponse, Problem> {
    caller.administers()?;
    if app.config.settings.server.registration() == crate::account::Registration::Closed {
        let detail = "nobody can register here; add the account with a password";
        return Err(Problem::conflict("registration_closed", detail));
    }
    let email = body.email.map(|email| fold_email(&email)).transpose()?;
    let used_for = LinkUse::Invite { role: body.role.unwrap_or(Role::Member), email };
    let seconds = body.expires_in.unwrap_or(INVITE_S);
    let maker = Maker::Caller(&caller.0);
    let made = app.accounts.make_link(maker, caller.workspace(), used_for, seconds).await?;
    Ok((StatusCode::CREATED, Json(MadeLink::of(made, &base))))
}

/// Take an invitation, or a link to choose a password, back
#[utoipa::path(delete, path = "/team/invites/{link}", tag = "team",
    params(("link" = String, Path, description = "the link's id")),
    responses((status = 204), (status = 403, body = Problem), (status = 404, body = Problem)))]
async fn take_back(
    State(app): State<Shared>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.administers()?;
    app.accounts.take_link_back(&caller.0, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}
