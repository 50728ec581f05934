// The CUDA module's own code around the runtime, in error cases.
#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/libraries/libraries.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/device/gpu_times.h"
#include "tests/cuda_on_host/faults/apart.h"
#include "tests/cuda_on_host/faults/scenarios.h"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

using namespace booster::kernels::cuda;
using namespace cuda_on_host::faults;
namespace fs = std::filesystem;

namespace {

constexpr size_t megabyte = size_t{1} << 20;

// Returns the text of the exception that `body` throws, or "no error".
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

struct TemporaryFolder {
  TemporaryFolder() {
    char name[] = "/tmp/booster_libraries_XXXXXX";
    REQUIRE(mkdtemp(name));
    path = name;
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path path;
};

}  // namespace

TEST_CASE("what a thread keeps for kernels becomes one piece once it is given back") {
  const Outcome outcome = run_apart(1, [] {
    use(0);
    for (int round = 0; round < 2; ++round) {
      char* first = static_cast<char*>(take_scratch(megabyte));
      char* second = static_cast<char*>(take_scratch(2 * megabyte));
      give_scratch(2 * megabyte);
      give_scratch(megabyte);
      if ((second == first + megabyte) != (round == 1)) return false;
    }
    return true;
  });
  CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
}

TEST_CASE("it is given back without an error, in destructors, when the GPU works no more") {
  const Outcome outcome = run_apart(1, [] {
    use(0);
    take_scratch(megabyte);
    take_scratch(2 * megabyte);
    ends_in_launch();
    const bool is_broken = says(error_of([] { synchronize(0); }), "no longer");
    give_scratch(2 * megabyte);
    give_scratch(megabyte);
    return is_broken;
  });
  CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
}

TEST_CASE("events have times once they are past, if they were made for that") {
  const Outcome outcome = run_apart(1, [] {
    use(0);
    cudaEvent_t begin = nullptr, end = nullptr, untimed = nullptr;
    cudaEventCreateWithFlags(&begin, 0);
    cudaEventCreateWithFlags(&end, 0);
    cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming);
    for (cudaEvent_t event : {begin, untimed, end}) cudaEventRecord(event, current_stream());
    float milliseconds = -1;
    const bool too_early = cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady;
    cudaEventSynchronize(end);
    const bool has_time = cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess;
    const bool has_none =
        cudaEventElapsedTime(&milliseconds, untimed, end) == cudaErrorInvalidResourceHandle;
    use(1);
    const bool is_elsewhere =
        cudaEventRecord(begin, current_stream()) == cudaErrorInvalidResourceHandle;
    return too_early && has_time && milliseconds >= 0 && has_none && is_elsewhere;
  });
  CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
}

TEST_CASE(
    "on a GPU that works no more kernels have no times, and nothing is thrown for want of them") {
  const Outcome outcome = run_apart(1, [] {
    use(0);
    end_time(begin_time());
    const bool was_measured = take_times().times.at(0).device == 0;
    const int64_t open = begin_time();
    ends_in_launch();
    const bool is_broken = says(error_of([] { synchronize(0); }), "no longer");
    end_time(open);
    return was_measured && is_broken && open == 1 && begin_time() == -1 &&
           take_times().times.at(0).device == -1;
  });
  CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
}

TEST_CASE("a GPU that is too old for the build is told with both capabilities") {
  const Outcome outcome = run_apart(1, [] {
    setenv("CUDA_ON_HOST_CAPABILITY", "7.5", 1);
    const std::string old = error_of([] { use(0); });
    std::fputs(old.c_str(), stderr);
    return says(old, "too old") && says(old, "7.5") && says(old, "want 8.0 or later") &&
           says(old, "-Dgpu_arch=75");
  });
  CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
  const Outcome later = run_apart(1, [] {
    setenv("CUDA_ON_HOST_CAPABILITY", "12.0", 1);
    use(0);
    return true;
  });
  CHECK_MESSAGE(later.how == Outcome::right, later.words);
}

TEST_CASE("an error that stays says that the process is lost, and one that does not does not") {
  const auto words = [](cudaError_t status) {
    return error_of([=] { require(status, "cudaFree(x)"); });
  };
  for (const cudaError_t lasting :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress}) {
    CHECK(says(words(lasting), "can no longer use its GPU"));
    CHECK(says(words(lasting), "BOOSTER_CUDA_DEBUG=1"));
    CHECK(says(words(lasting), "from cudaFree(x)"));
  }
  CHECK(says(words(cudaErrorNoKernelImageForDevice), "-Dgpu_arch"));
  CHECK(says(words(cudaErrorInvalidValue), "cudaFree(x) failed; got \"invalid argument\""));
  CHECK(!says(words(cudaErrorInvalidValue), "no longer"));
}

TEST_CASE("with BOOSTER_CUDA_DEBUG the call that did it has the error") {
  for (const bool debugging : {false, true}) {
    CAPTURE(debugging);
    const Outcome outcome = run_apart(1, [=] {
      setenv("BOOSTER_CUDA_DEBUG", debugging ? "1" : "0", 1);
      return ends_in_launch();
    });
    CHECK_MESSAGE(outcome.how == (debugging ? Outcome::right : Outcome::wrong), outcome.words);
  }
}

TEST_CASE("NVIDIA's libraries are found in a Python environment, a toolkit and a named folder") {
  const TemporaryFolder folder;
  const fs::path packages = folder.path / "lib/python3.12/site-packages";
  const fs::path of_package = packages / "nvidia/cu13/lib", of_toolkit = folder.path / "cuda/lib64";
  for (const fs::path& each : {of_package, of_toolkit, folder.path / "own"})
    fs::create_directories(each);
  Dl_info libc = {};
  REQUIRE(dladdr(reinterpret_cast<void*>(&std::getenv), &libc));
  const auto found_with = [&](const char* variable, const fs::path& value, const fs::path& in) {
    const Outcome outcome = run_apart(1, [&] {
      for (const char* name : {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"})
        unsetenv(name);
      const std::string file = "libnobodys.so.7";
      const bool absent = !open_library({file}).handle;
      setenv(variable, value.c_str(), 1);
      fs::create_symlink(fs::canonical(libc.dli_fname), in / file);
      const bool there = open_library({"libnothing.so.1", file}).handle != nullptr;
      fs::remove(in / file);
      std::fputs(open_library({"libabsent.so.9"}).missing.c_str(), stderr);
      return absent && there;
    });
    CAPTURE(std::string(variable));
    CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
    CHECK(says(outcome.words, in.c_str()));
    CHECK(says(outcome.words, "libabsent.so.9"));
  };
  found_with("VIRTUAL_ENV", folder.path, of_package);
  found_with("CONDA_PREFIX", folder.path, of_package);
  found_with("CUDA_HOME", folder.path / "cuda", of_toolkit);
  found_with("BOOSTER_CUDA_LIBRARIES", folder.path / "own", folder.path / "own");
  found_with("BOOSTER_CUDA_LIBRARIES", "/nowhere:" + packages.string(), of_package);
}
