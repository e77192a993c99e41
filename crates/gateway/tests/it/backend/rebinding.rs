//! A name that leads to an endpoint first and inside later. The binary's own lookups and connects pass a library of the test.

use super::receiver::{Receiver, Reply, Told};
use super::webhook::secure;
use crate::harness::{Gateway, PATIENCE, SocketIo, eventually};
use crate::tls::pki::Pki;
use serde_json::json;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// An address on the Internet. The library leads connects to it to the receiver.
const PUBLIC: &str = "93.184.216.34";

/// `shop.test` leads to the addresses in a file. Lookups and connects of IP are noted, one a line.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void note(const char *what, const char *address) {
    FILE *notes = fopen(getenv("TEST_NOTES"), "a");
    fprintf(notes, "%s %s\n", what, address);
    fclose(notes);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");
    if (!name || strcmp(name, "shop.test")) return real(name, service, hints, found);
    FILE *hosts = fopen(getenv("TEST_HOSTS"), "r");
    char address[64];
    *found = NULL;
    while (fscanf(hosts, "%63s", address) == 1) {
        int failed = real(address, service, hints, found);
        if (failed) return failed;
        note("lookup", address);
        while (*found) found = &(*found)->ai_next;
    }
    fclose(hosts);
    return 0;
}

int connect(int socket, const struct sockaddr *to, socklen_t len) {
    int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    char address[64] = "";
    struct sockaddr_in v4;
    if (to->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)to)->sin6_addr, address, sizeof address);
        note("connect", address);
    }
    if (to->sa_family == AF_INET) {
        memcpy(&v4, to, sizeof v4);
        inet_ntop(AF_INET, &v4.sin_addr, address, sizeof address);
        note("connect", address);
        if (!strcmp(address, "93.184.216.34")) {
            v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            v4.sin_port = htons(atoi(getenv("TEST_PORT")));
            to = (const struct sockaddr *)&v4;
        }
    }
    return real(socket, to, len);
}
"#;

fn compile(folder: &Path) -> String {
    let (source, library) = (folder.join("names.c"), folder.join("names.so"));
    std::fs::write(&source, LIBRARY).expect("write");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl");
    assert!(compiler.status().expect("a C compiler").success());
    library.display().to_string()
}

/// Answers, and closes: the next request needs the name again.
fn shop(told: &Told) -> Reply {
    match told.events()[0]["event"].as_str() {
        Some("away") => Reply(
            307,
            "Connection: close\r\nLocation: https://127.0.0.1/\r\n",
            String::new(),
        ),
        _ => Reply(200, "Connection: close\r\n", String::new()),
    }
}

#[test]
fn an_endpoint_whose_name_leads_inside_later_is_not_called_there() {
    let pki = Pki::new();
    pki.renew("tls", "shop.test");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let receiver = Receiver::on(listener, Some(secure(&pki)), shop);
    let file = |name: &str| pki.path(name).to_str().expect("a path").to_owned();
    let (hosts, notes) = (file("hosts"), file("notes"));
    pki.write("notes", "");
    let library = compile(pki.path("tls.pem").parent().expect("a folder"));
    let config = "profile = \"socket.io\"\n[server]\nshards = 1\n[namespaces.\"/\"]\nbackend = \"shop\"\n[backends.shop]\n\
                  url = \"https://shop.test/\"\nretry_min = \"10ms\"\nretry_max = \"20ms\"\n";
    let port = receiver.addr.port().to_string();
    pki.write("hosts", PUBLIC);
    let gateway = Gateway::start_in(
        config,
        &[
            ("LD_PRELOAD", &library),
            ("SSL_CERT_FILE", &file("tls.pem")),
            ("TEST_HOSTS", &hosts),
            ("TEST_NOTES", &notes),
            ("TEST_PORT", &port),
        ],
    );
    let noted = || std::fs::read_to_string(&notes).expect("the notes");
    let told = |number: usize| {
        let events = receiver.events().into_iter();
        let mut numbers = events.filter(|event| event["event"] == "note");
        numbers.any(|event| event["args"] == json!([number]))
    };
    let mut client = SocketIo::connect(gateway.addr);
    assert_eq!(client.ask(1, &json!(["fine"])), json!([]));
    let away = client.ask(2, &json!(["away"]));
    assert!(away[0]["error"].is_string(), "{away}");
    let inside = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:192.168.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "fd00::1",
        "fe80::1",
    ];
    for (number, address) in inside.iter().enumerate() {
        pki.write("hosts", address);
        client.emit(&json!(["note", number]));
        let line = format!("lookup {address}\n");
        let tried = || noted().matches(&line).count() >= 2;
        assert!(eventually(PATIENCE, tried), "{address}: {}", noted());
        assert!(!told(number), "{address}");
        // One of two addresses is outside: that one is called, and has what waited.
        pki.write("hosts", &format!("{address}\n{PUBLIC}"));
        assert!(eventually(PATIENCE, || told(number)), "{address}");
    }
    assert!(gateway.logged("shop.test leads to 127.0.0.1", PATIENCE));
    let noted = noted();
    let connects = noted.lines().filter(|line| line.starts_with("connect"));
    let (outside, inside): (Vec<_>, Vec<_>) = connects.partition(|line| line.ends_with(PUBLIC));
    assert_eq!(inside, [""; 0]);
    assert!(outside.len() > 12, "{noted}");
}
