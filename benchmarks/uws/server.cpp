// uWebSockets (C++) as a peer of benchmark runs, one thread: the plain protocol at /ws with
// uWebSockets' own topics as rooms, and bare WebSocket at / (a letter decides: j joins, e… is
// echoed, p… goes to everyone who joined). Prints one JSON line with its port and pid.
//
// Built by build.sh against the library inside the PyPI package `socketify`, of which only the C
// interface declared here is used.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>

extern "C" {
struct Options {
  const char *key_file, *cert_file, *passphrase, *dh_params, *ca_file, *ciphers;
  int low_memory;
};
struct ListenConfig {
  int port;
  const char *host;
  int options;
};
struct App;
struct Socket;
struct Response;
struct Request;
struct Context;
struct Listener;
using OnSocket = void (*)(Socket *, void *);
using OnMessage = void (*)(Socket *, const char *, size_t, int, void *);
using OnPing = void (*)(Socket *, const char *, size_t, void *);
using OnClose = void (*)(Socket *, int, const char *, size_t, void *);
using OnUpgrade = void (*)(Response *, Request *, Context *, void *);
using OnSubscription = void (*)(Socket *, const char *, size_t, int, int, void *);
struct Behavior {
  int compression;
  unsigned int max_payload;
  unsigned short idle_timeout;
  unsigned int max_backpressure;
  bool close_on_backpressure, reset_idle_on_send, send_pings;
  unsigned short max_lifetime;
  OnUpgrade upgrade;
  OnSocket open;
  OnMessage message;
  OnSocket drain;
  OnPing ping, pong;
  OnClose close;
  OnSubscription subscription;
};
App *uws_create_app(int ssl, Options options);
void uws_ws(int ssl, App *, const char *pattern, Behavior, void *user_data);
void uws_app_listen_with_config(int ssl, App *, ListenConfig,
                                void (*)(Listener *, ListenConfig, void *), void *user_data);
void uws_app_run(int ssl, App *);
int us_socket_local_port(int ssl, Listener *);
bool uws_ws_subscribe(int ssl, Socket *, const char *, size_t);
bool uws_ws_unsubscribe(int ssl, Socket *, const char *, size_t);
int uws_ws_send(int ssl, Socket *, const char *, size_t, int opcode);
bool uws_ws_publish_with_options(int ssl, Socket *, const char *topic, size_t, const char *message,
                                 size_t, int opcode, bool compress);
bool uws_publish(int ssl, App *, const char *topic, size_t, const char *message, size_t, int opcode,
                 bool compress);
}

namespace {

constexpr int kText = 1;
constexpr std::string_view kBench = "bench";
App *app;

/// What stands behind `key` up to `end`, in the part of a message before its payload.
std::string_view field(std::string_view head, std::string_view key, char end) {
  auto at = head.find(key);
  if (at == std::string_view::npos) return {};
  auto rest = head.substr(at + key.size());
  return rest.substr(0, rest.find(end));
}

void publish(std::string_view room, std::string_view message) {
  uws_publish(0, app, room.data(), room.size(), message.data(), message.size(), kText, false);
}

void on_plain(Socket *socket, const char *data, size_t length, int, void *) {
  std::string_view message(data, length);
  auto payload_at = message.find("\"payload\":");
  auto head = message.substr(0, payload_at);
  auto type = field(head, "\"type\":\"", '"');
  auto room = field(head, "\"room\":\"", '"');
  auto id = field(head, "\"id\":", ',');
  if (!id.empty() && id.back() == '}') id.remove_suffix(1);
  if (type == "join") {
    uws_ws_subscribe(0, socket, room.data(), room.size());
  } else if (type == "leave") {
    uws_ws_unsubscribe(0, socket, room.data(), room.size());
  } else if (payload_at != std::string_view::npos && type != "got") {
    std::string event;
    event.reserve(length);
    event.append("{\"type\":\"").append(type).append("\",\"room\":\"").append(room).append("\",");
    event.append(message.substr(payload_at));
    // As in ../scenarios.toml: `push` and `tick` go to the others, everything else to all.
    if (type == "push" || type == "tick") {
      uws_ws_publish_with_options(0, socket, room.data(), room.size(), event.data(), event.size(),
                                  kText, false);
    } else {
      publish(room, event);
    }
  }
  if (!id.empty()) {
    std::string ack = "{\"type\":\"ack\",\"id\":";
    ack.append(id).append(",\"payload\":null}");
    uws_ws_send(0, socket, ack.data(), ack.size(), kText);
  }
}

void on_bare(Socket *socket, const char *data, size_t length, int, void *) {
  std::string_view message(data, length);
  if (message.empty()) return;
  switch (message.front()) {
    case 'e': uws_ws_send(0, socket, data, length, kText); break;
    case 'p': publish(kBench, message.substr(1)); break;
    case 'j':
      uws_ws_subscribe(0, socket, kBench.data(), kBench.size());
      uws_ws_send(0, socket, "j", 1, kText);
      break;
  }
}

Behavior behavior(OnMessage message) {
  Behavior behavior{};
  behavior.max_payload = 64 * 1024;
  behavior.max_backpressure = 1024 * 1024;
  behavior.idle_timeout = 120;
  behavior.send_pings = true;
  behavior.message = message;
  return behavior;
}

void on_listen(Listener *listener, ListenConfig, void *) {
  if (!listener) {
    std::fputs("cannot listen\n", stderr);
    std::exit(1);
  }
  std::printf("{\"port\":%d,\"pid\":%d}\n", us_socket_local_port(0, listener), getpid());
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::signal(SIGTERM, [](int) { _exit(0); });
  const char *port = std::getenv("PORT");
  app = uws_create_app(0, Options{});
  uws_ws(0, app, "/ws", behavior(on_plain), nullptr);
  uws_ws(0, app, "/", behavior(on_bare), nullptr);
  uws_app_listen_with_config(0, app, {port ? std::atoi(port) : 0, "127.0.0.1", 0}, on_listen,
                             nullptr);
  uws_app_run(0, app);
}
