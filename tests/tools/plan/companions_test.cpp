#include "tools/plan/companions.h"

#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

#include <unistd.h>

using namespace booster;
using namespace booster::plan;

TEST_CASE("companions work from when they are told until they are ended") {
  const TemporaryFolder folder;
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  const auto work = [&] {
    folder.write(std::to_string(getpid()), "here");
    pause();
  };
  {
    Companions two(2, work);
    for (int i = 0; i < 5; ++i) pause();
    CHECK(folder.entries() == 0);
    two.begin();
    for (int i = 0; i < 1000 && folder.entries() < 2; ++i) pause();
    CHECK(folder.entries() == 2);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    std::filesystem::remove(entry.path());
  { const Companions none(0, work); }
  { const Companions never(3, work); }  // never started
  for (int i = 0; i < 5; ++i) pause();
  CHECK(folder.entries() == 0);
}
