// HTTP/1.1 over TCP, as far as the example needs it: requests with a Content-Length, connections
// that stay open. No TLS, no chunks: a real service stands behind a proxy that has them.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace server {

struct Request {
  std::string method, path, body;
};
struct Response {
  int status = 200;
  std::string body;
};
using Handler = std::function<Response(const Request& request)>;

// Listens on 127.0.0.1, with a thread for each connection. The destructor closes all of them.
class HttpServer {
 public:
  // Port 0: a free one. Throws if the port is taken. `handler` is called on several threads.
  HttpServer(int port, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  int port() const { return port_; }

 private:
  struct Connection {
    int socket;
    std::atomic<bool> has_ended = false;
    std::thread thread;
  };
  void accept_connections();
  void serve(Connection& connection);

  Handler handler_;
  int socket_, port_;
  std::list<Connection> connections_;  // of the accepting thread
  std::thread thread_;
};

struct Message {
  std::string first_line, body;
};
// Reads one message from a socket. Returns nothing at the end of the stream, and for what is no
// message or is longer than 16 MiB. `rest` keeps what follows the message.
std::optional<Message> read_message(int socket, std::string& rest);
// Returns false if the other side has closed.
bool send_all(int socket, std::string_view bytes);
// Connects to 127.0.0.1. Throws if nothing listens there.
int connect_to(int port);

}  // namespace server
