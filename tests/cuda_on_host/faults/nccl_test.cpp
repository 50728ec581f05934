// The faults that the emulated NCCL detects: calls that make NCCL itself hang or give wrong
// results.
#include "tests/cuda_on_host/faults/apart.h"
#include "tests/cuda_on_host/faults/scenarios.h"
#include "tests/cuda_on_host/include/nccl.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cuda_on_host::faults;

namespace {

// A single rank with data on its GPU.
struct Rank {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;

  Rank() {
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&data), 64);
    cudaMemsetAsync(data, 0, 64, stream);
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclCommInitRankConfig(&communicator, 1, id, 0, &config);
  }
  void wait() const {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) ncclCommGetAsyncError(communicator, &state);
  }
  void reduce(cudaStream_t where) const {
    ncclAllReduce(data, data, 16, ncclFloat32, ncclSum, communicator, where);
  }
};

struct Misuse {
  const char* complaint;
  void (*commit)(Rank& rank);
};

const Misuse misuses[] = {
    {"not connected yet", [](Rank& rank) { rank.reduce(rank.stream); }},
    {"still in progress",
     [](Rank& rank) {
       rank.wait();
       for (int i = 0; i < 50; ++i) rank.reduce(rank.stream);
     }},
    {"for another device",
     [](Rank& rank) {
       rank.wait();
       cudaSetDevice(1);
       rank.reduce(rank.stream);
     }},
    {"with another stream",
     [](Rank& rank) {
       rank.wait();
       rank.reduce(rank.stream);
       rank.wait();
       cudaStream_t other = nullptr;
       cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
       rank.reduce(other);
     }},
    {"no such communicator any more",
     [](Rank& rank) {
       rank.wait();
       ncclCommAbort(rank.communicator);
       rank.reduce(rank.stream);
     }},
    {"may never return",
     [](Rank& rank) {
       rank.wait();
       ncclCommDestroy(rank.communicator);
     }},
    {"loaded, beside NCCL",
     [](Rank& rank) {
       rank.wait();
       copy_within(true);
     }},
    {"nobody has written",
     [](Rank& rank) {
       rank.wait();
       cudaMalloc(reinterpret_cast<void**>(&rank.data), 64);
       rank.reduce(rank.stream);
       rank.wait();
       cudaStreamSynchronize(rank.stream);
     }},
};

}  // namespace

TEST_CASE("what NCCL does not allow is found") {
  for (const Misuse& misuse : misuses) {
    CAPTURE(std::string(misuse.complaint));
    const Outcome outcome = run_apart(1, [&] {
      Rank rank;
      misuse.commit(rank);
      return true;
    });
    CHECK(outcome.how == Outcome::died);
    CHECK(outcome.words.find(misuse.complaint) != std::string::npos);
  }
}

TEST_CASE("what it allows is right, and not done before somebody waits") {
  const Outcome outcome = run_apart(1, [] {
    Rank rank;
    rank.wait();
    const std::vector<float> numbers(16, 3.0F);
    cudaMemcpyAsync(rank.data, numbers.data(), 64, cudaMemcpyDefault, rank.stream);
    rank.reduce(rank.stream);
    rank.wait();
    std::vector<float> result(16);
    cudaMemcpyAsync(result.data(), rank.data, 64, cudaMemcpyDefault, rank.stream);
    ncclCommFinalize(rank.communicator);
    rank.wait();
    return ncclCommDestroy(rank.communicator) == ncclSuccess && result == numbers;
  });
  CHECK(outcome.words == "");
  CHECK(outcome.how == Outcome::right);
}
