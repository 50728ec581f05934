// Errors for invalid masks.
#include "core/autograd/functions.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>

using namespace booster;

TEST_CASE("a mask has no sign, no difference and no power, and says how it is inverted") {
  const Tensor mask = from_vector<bool>({true, false}, {2}), number = arange(2);
  const std::map<std::string, std::function<void()>> refused = {
      {"neg", [&] { -mask; }},         {"abs", [&] { abs(mask); }},
      {"floor", [&] { floor(mask); }}, {"round", [&] { round(mask); }},
      {"relu", [&] { relu(mask); }},   {"pow", [&] { pow(mask, mask); }},
      {"sub", [&] { mask - mask; }}};
  for (const auto& [name, call] : refused) {
    CAPTURE(name);
    const std::string error = error_of(call);
    CHECK(contains(error, name + ": masks are not supported"));
    CHECK(contains(error, "equal(mask, 0)"));
  }
  CHECK_THROWS_AS(number - mask, Error);
  CHECK_THROWS_AS(mask - number, Error);
  CHECK_THROWS_AS(1 - mask, Error);
  CHECK(equal(mask, 0).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(isfinite(mask).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(sign(mask).to_vector<bool>() == std::vector<bool>{true, false});
}
