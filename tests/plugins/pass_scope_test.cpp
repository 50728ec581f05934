// PassScope: the order in which the parts of a pass end, and what remains if the pass throws.
#include "plugins/interface/plugin.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace booster;

namespace {

using Log = std::vector<std::string>;

PassScope::Part part(Log& log, const std::string& name) {
  return {.end = [&log, name] { log.push_back(name + " ends"); },
          .abandon = [&log, name] { log.push_back(name + " is abandoned"); },
          .restore = [&log, name] { log.push_back(name + " restores"); }};
}

}  // namespace

TEST_CASE("parts of a pass end from the inside out, and each restores after its end") {
  Log log;
  {
    PassScope pass(part(log, "outer"));
    pass.add(PassScope(part(log, "inner")));
    pass.end();
  }
  CHECK(log == Log{"inner ends", "inner restores", "outer ends", "outer restores"});
}

TEST_CASE("a pass that throws is abandoned from the inside out, and restores all the same") {
  Log log;
  {
    PassScope pass(part(log, "outer"));
    pass.add(part(log, "inner"));
  }
  CHECK(log == Log{"inner is abandoned", "inner restores", "outer is abandoned", "outer restores"});
}

TEST_CASE("a part whose end throws is abandoned, and so are those around it") {
  Log log;
  {
    PassScope pass(part(log, "outer"));
    pass.add({.end = [] { fail("no"); }, .abandon = [&log] { log.push_back("abandoned"); }});
    CHECK_THROWS_WITH_AS(pass.end(), "no", Error);
  }
  CHECK(log == Log{"abandoned", "outer is abandoned", "outer restores"});
}

TEST_CASE("a scope that was moved from does nothing") {
  Log log;
  {
    PassScope first(part(log, "part"));
    PassScope second = std::move(first);
    second.end();
  }
  CHECK(log == Log{"part ends", "part restores"});
}
