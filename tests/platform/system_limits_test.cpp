// Errors that name the limit of the system that was met.
#include "platform/system_limits.h"

#include "tests/booster/command.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <new>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace booster;

TEST_CASE("what the system refuses is told with the limit's name") {
  const auto refused = [](int error) {
    return text_of_error(std::system_error(error, std::generic_category()));
  };
  CHECK(contains(refused(EAGAIN), "ulimit -u"));
  CHECK(contains(refused(EMFILE), "ulimit -n"));
  CHECK(contains(text_of_error(std::bad_alloc()), "ulimit -v"));
  CHECK(refused(EACCES) == "Permission denied");
  CHECK(text_of_error(Error("as it is")) == "as it is");
}

TEST_CASE("a thread that the system refuses is an error with its purpose and the limit") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit one = {1, 1};
    if (::getuid() == 0 && ::setuid(65534) != 0) ::_exit(2);  // root has no such limit
    ::setrlimit(RLIMIT_NPROC, &one);
    const std::string text = error_of([] { start_thread("workers", [] {}).join(); });
    ::_exit(contains(text, "workers: ") && contains(text, "ulimit -u") ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("more threads than the kernels may have are an error, not a crash") {
  const CommandResult result = run_command(fmt::format(
      "OMP_NUM_THREADS=100000 '{}/examples/language_model' --set train.max_steps=1 --set "
      "train.output_dir=/nonexistent/out",
      build_folder().string()));
  CHECK(result.code == 2);
  CHECK_MESSAGE(result.says("OMP_NUM_THREADS: out of range; got 100000, want 1 to 4096"),
                result.output);
}
