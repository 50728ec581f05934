// Links two network namespaces and delays, drops, reorders or duplicates packets, resets
// connections or falls silent. Does not need the kernel's netem: packets pass through this program
// between two TUN devices.
//   bad_link NAMESPACE_A NAMESPACE_B [--delay_ms 50] [--jitter_ms 5] [--loss 0.01] [--reorder 0.2]
//            [--duplicate 0.01] [--reset_after SECONDS] [--cut_after SECONDS] [--seed 1]
// Both devices are named "bad"; the program prints "ready" when both exist. Seconds count from the
// first packet of at least 1000 bytes. A reset ends each TCP connection that sends within the
// following second.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Packet = std::vector<unsigned char>;

// A device belongs to the namespace in which its file is opened.
int open_device(const std::string& space) {
  const int place = open(("/var/run/netns/" + space).c_str(), O_RDONLY | O_CLOEXEC);
  const bool entered = place >= 0 && setns(place, CLONE_NEWNET) == 0;
  const int file = entered ? open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "bad");
  if (file < 0 || ioctl(file, TUNSETIFF, &request) != 0) {
    std::perror(("bad_link: " + space).c_str());
    std::exit(77);
  }
  close(place);
  return file;
}

// Returns the checksum of RFC 1071 over 16-bit words, starting with `sum`.
uint16_t checksum(const unsigned char* bytes, size_t count, uint32_t sum) {
  for (size_t i = 0; i + 1 < count; i += 2)
    sum += static_cast<uint32_t>(bytes[i] << 8 | bytes[i + 1]);
  if (count % 2) sum += static_cast<uint32_t>(bytes[count - 1] << 8);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

// Turns the packet into a reset of its connection, as the receiver sees it (RFC 9293, section 3.1).
void make_reset(Packet& packet) {
  if (packet.size() < sizeof(iphdr) + sizeof(tcphdr) || packet[9] != IPPROTO_TCP) return;
  const size_t ip_bytes = (packet[0] & 15U) * 4, bytes = ip_bytes + sizeof(tcphdr);
  packet.resize(bytes);
  auto* ip = reinterpret_cast<iphdr*>(packet.data());
  auto* tcp = reinterpret_cast<tcphdr*>(packet.data() + ip_bytes);
  ip->tot_len = htons(static_cast<uint16_t>(bytes));
  ip->check = 0;
  ip->check = checksum(packet.data(), ip_bytes, 0);
  tcp->doff = sizeof(tcphdr) / 4;
  tcp->rst = 1;
  tcp->check = 0;
  uint32_t pseudo = IPPROTO_TCP + sizeof(tcphdr);
  for (size_t i = 12; i < 20; i += 2)
    pseudo += static_cast<uint32_t>(packet[i] << 8 | packet[i + 1]);
  tcp->check = checksum(packet.data() + ip_bytes, sizeof(tcphdr), pseudo);
}

class Link {
 public:
  Link(int a, int b, std::map<std::string, double> options)
      : ends_{a, b},
        options_(std::move(options)),
        random_(static_cast<unsigned>(option("seed"))) {}

  [[noreturn]] void run() {
    for (;;) {
      pollfd files[] = {{ends_[0], POLLIN, 0}, {ends_[1], POLLIN, 0}};
      poll(files, 2, waiting_.empty() ? 1000 : 1);
      for (int end : {0, 1}) {
        Packet packet(65536);
        for (ssize_t n; (n = read(ends_[end], packet.data(), packet.size())) > 0;)
          take(1 - end, Packet(packet.begin(), packet.begin() + n));
      }
      while (!waiting_.empty() && waiting_.begin()->first <= Clock::now()) {
        const auto& [to, packet] = waiting_.begin()->second;
        if (write(ends_[to], packet.data(), packet.size()) < 0) std::perror("bad_link: write");
        waiting_.erase(waiting_.begin());
      }
    }
  }

 private:
  double option(const std::string& name) { return options_[name]; }
  bool happens(const char* what) {
    return std::uniform_real_distribution()(random_) < option(what);
  }
  bool is_after(const char* what, double seconds) {
    return option(what) > 0 && seconds > option(what);
  }

  void take(int to, Packet packet) {
    const auto now = Clock::now();
    if (!began_ && packet.size() >= 1000) begin_ = now, began_ = true;
    const double seconds = began_ ? std::chrono::duration<double>(now - begin_).count() : 0;
    if (is_after("cut_after", seconds) || happens("loss")) return;
    if (is_after("reset_after", seconds) && !is_after("reset_after", seconds - 1))
      make_reset(packet);
    const double jitter = std::uniform_real_distribution(-1.0, 1.0)(random_) * option("jitter_ms");
    const double delay = happens("reorder") ? 0 : std::max(0.0, option("delay_ms") + jitter);
    const auto due = now + std::chrono::microseconds(static_cast<long>(delay * 1000));
    if (happens("duplicate")) waiting_.insert({due, {to, packet}});
    waiting_.insert({due, {to, std::move(packet)}});
  }

  int ends_[2];
  std::map<std::string, double> options_;
  std::mt19937 random_;
  std::multimap<Clock::time_point, std::pair<int, Packet>> waiting_;
  Clock::time_point begin_;
  bool began_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) {
    std::fputs("usage: bad_link NAMESPACE_A NAMESPACE_B [--OPTION NUMBER]...\n", stderr);
    return 2;
  }
  std::map<std::string, double> options;
  for (int i = 3; i + 1 < argc; i += 2) options[argv[i] + 2] = std::atof(argv[i + 1]);
  const int a = open_device(argv[1]), b = open_device(argv[2]);
  std::puts("ready");
  std::fflush(stdout);
  Link(a, b, std::move(options)).run();
}
