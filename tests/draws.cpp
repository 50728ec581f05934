#include "tests/draws.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace booster::testing {
namespace {

std::array<bool, share_count> chosen_shares(const std::string& shares) {
  std::array<bool, share_count> chosen{};
  if (shares == "all") {
    chosen.fill(true);
    return chosen;
  }
  std::istringstream list(shares);
  for (std::string one; std::getline(list, one, ',');) {
    unsigned share = share_count;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), share);
    if (error != std::errc() || end != one.data() + one.size() || share >= share_count)
      throw std::invalid_argument("TEST_SHARES: no share; got '" + shares +
                                  "', want all, or numbers below " + std::to_string(share_count) +
                                  " with commas between them");
    chosen[share] = true;
  }
  return chosen;
}

std::string shares_of_this_run() {
  const char* shares = std::getenv("TEST_SHARES");
  return shares && *shares ? shares : "0";
}

}  // namespace

std::vector<unsigned> draws_of(const std::string& shares, unsigned count) {
  const auto chosen = chosen_shares(shares);
  std::vector<unsigned> numbers;
  for (unsigned draw = 0; draw < count; ++draw)
    if (chosen[draw % share_count]) numbers.push_back(draw);
  if (numbers.empty() && count > 0) numbers.push_back(0);
  return numbers;
}

std::vector<unsigned> draws(unsigned count) { return draws_of(shares_of_this_run(), count); }

bool is_drawn(unsigned number) {
  return chosen_shares(shares_of_this_run())[number % share_count];
}

}  // namespace booster::testing
