// Checkpoints that are temporarily unreadable: an unreachable server, no permission, no
// descriptors.
#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/manifest.h"
#include "platform/files/file.h"
#include "tests/booster/checkpoint/newest.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tests/file_faults.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <optional>
#include <string>

#include <sys/resource.h>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

namespace fs = std::filesystem;

CheckpointContents at_step(int64_t step) {
  CheckpointContents c;
  c.step = step;
  c.model = {{"weight", full({8}, static_cast<double>(step))}};
  c.optimizer = {{"weight.exp_avg", full({8}, 1)}};
  return c;
}

struct NormalReads {
  ~NormalReads() { fail_file_read(0, 0); }
};

fs::path folder_of(const TemporaryFolder& root, int step) {
  return root / fmt::format("step-{:09}", step);
}

}  // namespace

TEST_CASE("whatever cannot be read, the newest checkpoint is found or the search fails") {
  const NormalReads afterwards;
  const TemporaryFolder root;
  for (int step = 1; step <= 3; ++step) save_checkpoint(root.path(), at_step(step), {.keep = 3});
  for (const int error : {EIO, EACCES, EMFILE, ESTALE, ENOMEM}) {
    CAPTURE(error);
    int64_t failed = 0;
    for (bool finished = false; !finished;) {
      CAPTURE(failed);
      fail_file_read(failed + 1, error);
      try {
        const auto newest = latest_checkpoint(root.path(), ignore_line);
        CHECK(newest == folder_of(root, 3));
        finished = true;
      } catch (const Error& problem) {
        CHECK(problem.kind() == ErrorKind::failed);
        ++failed;
      }
    }
    CHECK(failed > 10);
  }
}

TEST_CASE("a folder of checkpoints that cannot be listed is an error, not an empty one") {
  const TemporaryFolder root;
  CHECK_FALSE(latest_checkpoint(root / "nowhere", ignore_line));
  root.write("file", "no folder");
  CHECK_FALSE(latest_checkpoint(root / "file", ignore_line));
  save_checkpoint(root.path(), at_step(1));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::string said;
  try {
    latest_checkpoint(root.path(), ignore_line);
  } catch (const Error& error) {
    said = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(said == root.path().string() + ": cannot list: Too many open files (EMFILE)");
  CHECK(latest_checkpoint(root.path(), ignore_line) == folder_of(root, 1));
}

TEST_CASE("a file that is missing makes a checkpoint broken, one that cannot be read does not") {
  const TemporaryFolder root;
  for (int step = 1; step <= 2; ++step) save_checkpoint(root.path(), at_step(step));
  const fs::path model = folder_of(root, 2) / "model.safetensors";
  const fs::path manifest = folder_of(root, 2) / manifest_name;
  fs::remove(model);
  CHECK(latest_checkpoint(root.path(), ignore_line) == folder_of(root, 1));
  fs::remove(manifest);
  fs::create_symlink("/proc/self/mem", manifest);  // its first byte cannot be read (EIO)
  CHECK_THROWS_WITH_AS(latest_checkpoint(root.path(), ignore_line),
                       Contains("cannot be read, and may be whole"), Error);
}

TEST_CASE("whatever cannot be read while a save clears up, no complete checkpoint is removed") {
  const NormalReads afterwards;
  for (int64_t n = 1, removed = 0; removed < 3; ++n) {
    CAPTURE(n);
    REQUIRE(n < 100);
    const TemporaryFolder root;
    for (int step = 1; step <= 3; ++step) save_checkpoint(root.path(), at_step(step), {.keep = 3});
    fail_file_read(n, EIO);
    save_checkpoint(root.path(), at_step(4), {.keep = 3});
    fail_file_read(0, 0);
    for (const int step : {2, 3, 4}) CHECK_NOTHROW(verify_checkpoint(folder_of(root, step)));
    removed += !fs::exists(folder_of(root, 1));  // a later save removes what is left now
    save_checkpoint(root.path(), at_step(5), {.keep = 3});
    CHECK_FALSE(fs::exists(folder_of(root, 2)));
    CHECK_FALSE(fs::exists(folder_of(root, 1)));
  }
}
