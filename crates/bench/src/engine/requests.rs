//! Owns what a user asks for over HTTP: the upgrade to a WebSocket, an event stream, and Engine.IO's polls and posts. A polling
//! user has two connections, as a browser has: one for the GET that waits, one for POSTs.

use super::connection::{Link, Role};
use super::deflate;
use super::http;
use super::plan::Plan;
use super::socket::KEY;
use super::tally::Tally;
use super::user::User;
use crate::loss::Loss;
use crate::scenario::{Protocol, Transport};

/// Opens the first socket of a connect; more turns carry it out.
pub fn begin_connect(plan: &Plan, user: &mut User, tally: &mut Tally) -> Result<(), Loss> {
    let endpoint = plan.endpoint(user);
    match (endpoint.protocol, endpoint.transport) {
        (Protocol::Sse, _) => ask_stream(plan, user, tally),
        (Protocol::SocketIo, Transport::Polling | Transport::Upgrade) => {
            user.connection.http = Some(Box::default());
            user.connection.link = Link::PollHandshake;
            poll(plan, user, tally)
        }
        _ => ask_websocket(plan, user, tally, ""),
    }
}

/// `sid`: session that the WebSocket is to take over.
pub fn ask_websocket(
    plan: &Plan,
    user: &mut User,
    tally: &mut Tally,
    sid: &str,
) -> Result<(), Loss> {
    let target = match (plan.speaks(user, Protocol::SocketIo), sid) {
        (true, "") => plan.target(user, "EIO=4&transport=websocket"),
        (true, sid) => plan.target(user, &format!("EIO=4&transport=websocket&sid={sid}")),
        (false, _) => plan.target(user, ""),
    };
    let mut extra = plan.authorization(user);
    if plan.endpoint(user).compression {
        extra.push_str(deflate::OFFER);
    }
    let mut request = Vec::new();
    let (host, extra) = (plan.host(user), extra.as_bytes());
    wire::websocket::handshake::write_request(&mut request, host, &target, KEY, extra);
    user.connection.ws.close();
    ask(plan, user, tally, Role::WebSocket, &request)?;
    if sid.is_empty() {
        user.connection.link = Link::Upgrading;
    }
    Ok(())
}

fn ask_stream(plan: &Plan, user: &mut User, tally: &mut Tally) -> Result<(), Loss> {
    let target = plan.target(user, "");
    let extra = plan.authorization(user);
    let extra = format!("Accept: text/event-stream\r\nCache-Control: no-store\r\n{extra}");
    let mut request = Vec::new();
    http::write_get(&mut request, plan.host(user), &target, &extra);
    user.connection.http = Some(Box::default());
    ask(plan, user, tally, Role::Get, &request)?;
    user.connection.link = Link::StreamHead;
    Ok(())
}

/// Sends the next GET, unless one waits already or the WebSocket is about to take over.
pub fn poll(plan: &Plan, user: &mut User, tally: &mut Tally) -> Result<(), Loss> {
    let Some(http) = &mut user.connection.http else {
        return Ok(());
    };
    if http.polling || http.paused {
        return Ok(());
    }
    http.polling = true;
    let query = match &*http.sid {
        "" => "EIO=4&transport=polling".to_owned(),
        sid => format!("EIO=4&transport=polling&sid={sid}"),
    };
    let target = plan.target(user, &query);
    let mut request = Vec::new();
    http::write_get(&mut request, plan.host(user), &target, "");
    ask(plan, user, tally, Role::Get, &request)
}

/// Posts the packets that wait, if no POST is under way.
pub fn post_queued(plan: &Plan, user: &mut User, tally: &mut Tally) -> Result<(), Loss> {
    let Some(http) = &mut user.connection.http else {
        return Ok(());
    };
    if http.posting || http.queue.is_empty() || http.sid.is_empty() {
        return Ok(());
    }
    http.posting = true;
    let body = std::mem::take(&mut http.queue);
    let query = format!("EIO=4&transport=polling&sid={}", http.sid);
    let target = plan.target(user, &query);
    let mut request = Vec::new();
    http::write_post(&mut request, plan.host(user), &target, &body);
    ask(plan, user, tally, Role::Post, &request)
}

/// Sends a request, on a new connection if the server ended the old one.
fn ask(
    plan: &Plan,
    user: &mut User,
    tally: &mut Tally,
    role: Role,
    request: &[u8],
) -> Result<(), Loss> {
    tally.totals.bytes_sent += request.len() as u64;
    match user.connection.stream(role) {
        Some(stream) if stream.is_open() => return stream.send(request),
        Some(_) => {}
        None => return Ok(()),
    }
    let fresh = plan.open(user, role)?;
    if let Some(stream) = user.connection.stream(role) {
        *stream = fresh;
        stream.queue(request);
    }
    Ok(())
}
