#include "parallel/rendezvous/store/socket.h"

#include "platform/error.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

namespace booster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses addresses_of(const Endpoint& endpoint, std::string& problem) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (error) problem = fmt::format("cannot resolve {}: {}", endpoint.host, gai_strerror(error));
  return Addresses(error ? nullptr : list);
}

int open_socket(int family) {
  return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

void switch_on(int file, int level, int option) {
  const int on = 1;
  setsockopt(file, level, option, &on, sizeof on);
}

// Returns true only for 127.0.0.1 and ::1. Many machines give their own name the address 127.0.1.1
// or similar.
bool is_loopback_itself(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool is_in_loopback_net(const sockaddr* address) {
  if (address->sa_family != AF_INET) return is_loopback_itself(address);
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
}

sockaddr_in any_address(int port) {
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<uint16_t>(port));
  return any;
}

Socket listen_at(const sockaddr* address, socklen_t size, std::string& problem) {
  Socket made(open_socket(address->sa_family));
  if (made.defined()) switch_on(made.file(), SOL_SOCKET, SO_REUSEADDR);
  if (made.defined() && bind(made.file(), address, size) == 0 && listen(made.file(), 4096) == 0)
    return made;
  const int error = errno;
  problem = std::strerror(error);
  made = {};
  errno = error;  // lets the caller tell a taken port from another machine's address
  return {};
}

bool wait_until(int file, short events, Clock::time_point end) {
  pollfd waiting = {file, events, 0};
  int found = -1;
  do {
    const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
    found = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  } while (found < 0 && errno == EINTR);  // a signal that the program handles
  return found > 0;
}

// Returns "" once connected, else the error.
std::string connect_to(int file, const addrinfo& to, Clock::time_point end) {
  if (connect(file, to.ai_addr, to.ai_addrlen) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  if (!wait_until(file, POLLOUT, end)) return "no answer";
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &size);
  return error ? std::strerror(error) : "";
}

sockaddr_storage own_end(int file) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(file, reinterpret_cast<sockaddr*>(&address), &size);
  return address;
}

// Returns true for a connection to itself. If no process listens, the system may choose the port
// that it connects to as the connection's own port.
bool has_met_itself(int file) {
  sockaddr_storage other = {};
  socklen_t size = sizeof other;
  const sockaddr_storage own = own_end(file);
  return getpeername(file, reinterpret_cast<sockaddr*>(&other), &size) == 0 &&
         std::memcmp(&own, &other, sizeof own) == 0;
}

}  // namespace

Endpoint Endpoint::from(const std::string& place) {
  constexpr std::string_view scheme = "tcp://";
  Endpoint endpoint;
  const size_t colon = place.rfind(':');
  const bool named = place.starts_with(scheme) && colon != place.npos && colon > scheme.size();
  if (named) {
    endpoint.host = place.substr(scheme.size(), colon - scheme.size());
    if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']'))
      endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    else if (endpoint.host.find_first_of(":[]") != endpoint.host.npos)
      fail(
          "rendezvous: an address with colons needs brackets; got '{}', want a form such as "
          "tcp://[fd00::1]:29500",
          place);
    const char* end = place.data() + place.size();
    const auto [rest, error] = std::from_chars(place.data() + colon + 1, end, endpoint.port);
    if (error != std::errc() || rest != end) endpoint.port = 0;
  }
  check(named && endpoint.port >= 1 && endpoint.port <= 65535 && !endpoint.host.empty(),
        "rendezvous: wrong address; got '{}', want tcp://HOST:PORT with a port from 1 to 65535",
        place);
  return endpoint;
}

std::string Endpoint::text() const {
  return host.find(':') == host.npos ? fmt::format("tcp://{}:{}", host, port)
                                     : fmt::format("tcp://[{}]:{}", host, port);
}

Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}
Socket::~Socket() {
  if (file_ >= 0) close(file_);
}

Socket Socket::listening(const Endpoint& endpoint, std::string& problem) {
  const Addresses found = addresses_of(endpoint, problem);
  for (const addrinfo* at = found.get(); at; at = at->ai_next) {
    const bool means_elsewhere =
        is_in_loopback_net(at->ai_addr) && !is_loopback_itself(at->ai_addr);
    if (means_elsewhere) continue;
    Socket made = listen_at(at->ai_addr, at->ai_addrlen, problem);
    if (made.defined() || errno == EADDRINUSE) return made;
  }
  if (!found) return {};
  const sockaddr_in any = any_address(endpoint.port);
  return listen_at(reinterpret_cast<const sockaddr*>(&any), sizeof any, problem);
}

Socket Socket::connected(const Endpoint& endpoint, milliseconds limit, std::string& problem) {
  const auto end = Clock::now() + limit;
  const Addresses found = addresses_of(endpoint, problem);
  for (const addrinfo* at = found.get(); at; at = at->ai_next) {
    Socket made(open_socket(at->ai_family));
    if (!made.defined()) continue;
    problem = connect_to(made.file(), *at, end);
    if (problem.empty() && has_met_itself(made.file())) problem = "nobody listens";
    if (!problem.empty()) continue;
    switch_on(made.file(), IPPROTO_TCP, TCP_NODELAY);
    return made;
  }
  return {};
}

Socket Socket::accept() const {
  Socket made(accept4(file_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made.defined()) switch_on(made.file(), IPPROTO_TCP, TCP_NODELAY);
  return made;
}

bool Socket::read_into(std::string& bytes) const {
  char piece[16 << 10];
  const ssize_t n = recv(file_, piece, sizeof piece, 0);
  if (n > 0) bytes.append(piece, static_cast<size_t>(n));
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

bool Socket::write_from(std::string& bytes) const {
  const ssize_t n = send(file_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (n > 0) bytes.erase(0, static_cast<size_t>(n));
  return n >= 0 || errno == EAGAIN || errno == EINTR;
}

bool Socket::write_all(std::string_view bytes, milliseconds limit) const {
  const auto end = Clock::now() + limit;
  for (std::string left(bytes); !left.empty();) {
    if (!write_from(left)) return false;
    if (!left.empty() && !wait_until(file_, POLLOUT, end)) return false;
  }
  return true;
}

void Socket::end_sending() const { shutdown(file_, SHUT_WR); }

std::string Socket::own_address() const {
  const sockaddr_storage end = own_end(file_);
  char host[NI_MAXHOST] = {};
  const bool known = getnameinfo(reinterpret_cast<const sockaddr*>(&end), sizeof end, host,
                                 sizeof host, nullptr, 0, NI_NUMERICHOST) == 0;
  return known ? host : "";
}

bool Socket::is_loopback() const {
  const sockaddr_storage end = own_end(file_);
  return is_in_loopback_net(reinterpret_cast<const sockaddr*>(&end));
}

}  // namespace booster
