//! Owns the comparison with polling by a timer: requests, bytes of headers, and how late news is.

use super::Facts;
use super::sheet::{Sheet, figure};

/// The same users asking again and again. Whole numbers below 2^53 come out exactly.
pub fn compare(facts: &Facts, sheet: &mut Sheet) {
    sheet.section("The same by polling");
    let (day, gb) = (figure(86_400.0, "s"), figure(1e9, "B/GB"));
    let every = figure(facts.question.poll_seconds as f64, "s");
    let header = figure(facts.question.poll_header_bytes as f64, "B");
    let users = facts.load.connections * facts.average();
    let users = sheet.reckon("users who ask", "users", users);
    let requests = (users * day / every).down();
    let requests = sheet.reckon("requests a day", "requests", requests);
    let headers = sheet.reckon("headers a day", "B", requests * header);
    let headers = sheet.reckon("that is", "GB", headers / gb);
    let late = every / figure(2.0, "");
    let late = sheet.reckon("news is late on average by", "s", late);
    let pushed = facts.load.bytes_out_per_s * facts.average() * day / gb;
    let pushed = sheet.reckon("connections send instead, in a day", "GB", pushed);
    sheet.answer("polling", format!("every {every} it would be {requests} a day with {headers} of headers, news {late} late; connections: {pushed} a day in all"));
}
