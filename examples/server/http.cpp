#include "examples/server/http.h"

#include <booster/booster.h>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace server {

using booster::check;

namespace {

constexpr size_t longest_head = 16 << 10, longest_body = 16 << 20;

sockaddr_in address_of(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool read_more(int socket, std::string& text) {
  char bytes[1 << 16];
  const ssize_t n = recv(socket, bytes, sizeof bytes, 0);
  if (n > 0) text.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

// Returns the body's length; nothing for a wrong one. `head` ends with a line break.
std::optional<size_t> content_length(std::string_view head) {
  constexpr std::string_view name = "content-length:";
  for (size_t at = 0; at < head.size(); at = head.find('\n', at) + 1) {
    if (strncasecmp(head.data() + at, name.data(), name.size()) != 0) continue;
    std::string_view value = head.substr(at + name.size(), head.find('\r', at) - at - name.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
    size_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
    return length;
  }
  return 0;
}

}  // namespace

std::optional<Message> read_message(int socket, std::string& rest) {
  size_t end;
  while ((end = rest.find("\r\n\r\n")) == std::string::npos)
    if (rest.size() > longest_head || !read_more(socket, rest)) return std::nullopt;
  const size_t begin = end + 4;
  const auto length = content_length(std::string_view(rest).substr(0, end + 2));
  if (!length || *length > longest_body) return std::nullopt;
  while (rest.size() < begin + *length)
    if (!read_more(socket, rest)) return std::nullopt;
  Message message = {rest.substr(0, rest.find('\r')), rest.substr(begin, *length)};
  rest.erase(0, begin + *length);
  return message;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

int connect_to(int port) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(port);
  if (s < 0 || connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    booster::fail_run("server: cannot connect to port {}: {}", port, std::strerror(errno));
  const int on = 1;
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

HttpServer::HttpServer(int port, Handler handler)
    : handler_(std::move(handler)), socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  check(port >= 0 && port <= 65535, "server: port is out of range; got {}, want 0 to 65535", port);
  const int on = 1;
  setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = address_of(port);
  socklen_t size = sizeof address;
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  if (socket_ < 0 || bind(socket_, place, size) != 0 || listen(socket_, 128) != 0 ||
      getsockname(socket_, place, &size) != 0) {
    const int error = errno;
    close(socket_);
    booster::fail_run("server: cannot listen on port {}: {}", port, std::strerror(error));
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { accept_connections(); });
}

HttpServer::~HttpServer() {
  shutdown(socket_, SHUT_RDWR);
  thread_.join();
  close(socket_);
}

void HttpServer::accept_connections() {
  const auto join = [](Connection& connection) {
    connection.thread.join();
    close(connection.socket);
  };
  for (int s; (s = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    std::erase_if(connections_, [&](Connection& old) {
      if (!old.has_ended) return false;
      join(old);
      return true;
    });
    Connection& connection = connections_.emplace_back();
    connection.socket = s;
    connection.thread = std::thread([this, &connection] { serve(connection); });
  }
  for (Connection& connection : connections_) shutdown(connection.socket, SHUT_RDWR);
  for (Connection& connection : connections_) join(connection);
}

void HttpServer::serve(Connection& connection) {
  const int on = 1;
  setsockopt(connection.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  std::string rest;
  while (auto message = read_message(connection.socket, rest)) {
    const std::string& line = message->first_line;
    const size_t method = line.find(' '), path = line.find(' ', method + 1);
    if (method == line.npos || path == line.npos) break;
    const Response response =
        handler_({line.substr(0, method), line.substr(method + 1, path - method - 1),
                  std::move(message->body)});
    if (!send_all(connection.socket,
                  fmt::format("HTTP/1.1 {} {}\r\nContent-Type: application/json\r\n"
                              "Content-Length: {}\r\n\r\n{}",
                              response.status, response.status == 200 ? "OK" : "Error",
                              response.body.size(), response.body)))
      break;
  }
  shutdown(connection.socket, SHUT_RDWR);
  connection.has_ended = true;
}

}  // namespace server
