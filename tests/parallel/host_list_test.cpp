// Lists of hosts in Slurm's grammar, against drawn lists with the names that they stand for.
#include "parallel/host_list.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

using namespace booster;

namespace {

using Hosts = std::vector<std::string>;

Hosts hosts_in(const std::string& list) { return slurm_hosts(list, "LIST"); }

// Draws a list and keeps the names that it stands for.
class DrawnList {
 public:
  explicit DrawnList(uint32_t seed) : random_(seed) {
    const uint32_t entries = 1 + below(4);
    for (uint32_t i = 0; i < entries; ++i) {
      if (i > 0) text += ',';
      add_entry();
    }
  }
  std::string text;
  Hosts names;

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  void add_entry() {
    Hosts found = {literal()};
    text += found[0];
    const uint32_t brackets = below(4);
    for (uint32_t i = 0; i < brackets; ++i) {
      const Hosts numbers = add_bracket();
      const std::string behind = below(2) ? literal() : "";
      text += behind;
      Hosts longer;
      for (const std::string& begin : found)
        for (const std::string& number : numbers) longer.push_back(begin + number + behind);
      found = longer;
    }
    names.insert(names.end(), found.begin(), found.end());
  }

  std::string literal() {
    const char* texts[] = {"n", "gpu-", "rack7.", "a_b", "-ib", "0x"};
    return texts[below(6)];
  }

  Hosts add_bracket() {
    Hosts numbers;
    text += '[';
    const uint32_t ranges = 1 + below(3);
    for (uint32_t i = 0; i < ranges; ++i) {
      if (i > 0) text += ',';
      const uint32_t width = 1 + below(4), first = below(120), last = first + below(4);
      text += fmt::format("{:0{}}", first, width);
      if (last > first || below(2)) text += fmt::format("-{:0{}}", last, width);
      // Each number is at least as wide as the first one in the text.
      const size_t wide = fmt::format("{:0{}}", first, width).size();
      for (uint32_t n = first; n <= last; ++n) {
        std::string digits = std::to_string(n);
        while (digits.size() < wide) digits = "0" + digits;
        numbers.push_back(digits);
      }
    }
    text += ']';
    return numbers;
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("Slurm's lists of hosts stand for their names, each bracket for its numbers") {
  CHECK(hosts_in("login") == Hosts{"login"});
  CHECK(hosts_in("a,b[1-2]") == Hosts{"a", "b1", "b2"});
  CHECK(hosts_in("gpu[03-05,9]") == Hosts{"gpu03", "gpu04", "gpu05", "gpu9"});
  CHECK(hosts_in("foo-[10-11]-[01-02]") ==
        Hosts{"foo-10-01", "foo-10-02", "foo-11-01", "foo-11-02"});
  CHECK(hosts_in("n[8-11]-ib,x") == Hosts{"n8-ib", "n9-ib", "n10-ib", "n11-ib", "x"});
  CHECK(hosts_in("[1-2]") == Hosts{"1", "2"});
}

TEST_CASE("drawn lists of hosts stand for their names") {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const DrawnList drawn(seed);
    CAPTURE(drawn.text);
    CHECK(hosts_in(drawn.text) == drawn.names);
  }
}

TEST_CASE("lists of hosts that are none are errors with the place") {
  for (const char* list : {"",
                           ",",
                           "a,",
                           ",a",
                           "a,,b",
                           "a[",
                           "a]",
                           "a[]",
                           "a[1",
                           "a[1-]",
                           "a[-1]",
                           "a[1-2",
                           "a[1,]",
                           "a[x]",
                           "a[1-2]]",
                           "a[[1]]",
                           "a[2-1]",
                           "a b",
                           "a[1 ]",
                           "a[0-99999999]",
                           "a[0-999]b[0-999]",
                           "a[1234567890123456789]"}) {
    CAPTURE(std::string(list));
    const std::string error = error_of([&] { hosts_in(list); });
    CHECK(error.starts_with("LIST: "));
    CHECK(contains(error, "at character"));
  }
}

TEST_CASE("changed lists of hosts are names or an error, and nothing else") {
  std::mt19937 random(3);
  const std::string bytes = "[]-,0123456789ab ";
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::string list = DrawnList(seed).text;
    for (int i = 0; i < 3; ++i) list[random() % list.size()] = bytes[random() % bytes.size()];
    CAPTURE(list);
    Hosts hosts;
    const std::string error = error_of([&] { hosts = hosts_in(list); });
    CHECK(error.empty() != hosts.empty());
    for (const std::string& host : hosts) CHECK(host.find_first_of("[], ") == host.npos);
  }
}
