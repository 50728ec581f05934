// The draws of a property test that this run makes:
//
//   for (const unsigned seed : testing::draws(400)) {
//     std::mt19937 random(seed);
//     ...
//
// A test has `count` draws, and each depends on its number alone. Draw n belongs to share n % 11.
// The environment variable TEST_SHARES names the shares to run, such as "0", "0,7" or "all"; unset
// means share 0. scripts/test.sh runs share 0, with --thorough all of them, and .ci/run adds one
// that the commit chooses.
#pragma once

#include <string>
#include <vector>

namespace booster::testing {

// Number of shares that the draws of a test are divided into. It is prime because many tests choose
// by `seed % 4` and the like: each share then has draws of every remainder.
constexpr unsigned share_count = 11;

// Returns the draws of this run out of 0 to count - 1, in order. Never empty while count > 0: a
// test whose draws all belong to other shares makes its first one.
// Throws std::invalid_argument for a TEST_SHARES that names no share.
std::vector<unsigned> draws(unsigned count);

// Returns whether draw `number` of a test is one of this run's; for tests whose draws are the cells
// of a table. Throws as draws().
bool is_drawn(unsigned number);

// draws() with the text of TEST_SHARES as an argument.
std::vector<unsigned> draws_of(const std::string& shares, unsigned count);

}  // namespace booster::testing
