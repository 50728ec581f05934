#include "platform/environment.h"
#include "platform/name_pattern.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace booster;

namespace {

constexpr const char* name = "BOOSTER_TEST_VARIABLE";

// Sets the variable while it exists.
struct Variable {
  explicit Variable(const char* value) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name); }
  Variable(const Variable&) = delete;
};

}  // namespace

TEST_CASE("a variable that is not set is empty, and gives what is standard") {
  CHECK_FALSE(environment::is_set(name));
  CHECK(environment::text(name).empty());
  CHECK_FALSE(environment::flag(name));
  CHECK(environment::flag(name, true));
  CHECK(environment::number(name, 2.5) == 2.5);
  const Variable empty("");
  CHECK(environment::is_set(name));
  CHECK(environment::flag(name, true));
  CHECK(environment::number(name, 2.5) == 2.5);
}

TEST_CASE("a flag is off if its text begins with 0, and a number is one or nan") {
  for (const char* off : {"0", "0 "}) {
    const Variable variable(off);
    CHECK_FALSE(environment::flag(name, true));
  }
  for (const char* on : {"1", "yes", "off"}) {
    const Variable variable(on);
    CHECK(environment::flag(name));
    CHECK(environment::text(name) == on);
  }
  {
    const Variable variable("0.25");
    CHECK(environment::number(name, 1) == 0.25);
  }
  const Variable variable("0,25");
  CHECK(std::isnan(environment::number(name, 1)));
}

TEST_CASE("a pattern matches whole names") {
  CHECK(matches_name("blocks.*.attn", "blocks.11.attn"));
  CHECK(matches_name("block?", "block1"));
  CHECK(matches_name("head[12]", "head2"));
  CHECK_FALSE(matches_name("blocks", "blocks.0"));
  CHECK_FALSE(matches_name("head[12]", "head3"));
}
