// Calls that CUDA's documents forbid during stream capture are errors here, and invalidate the
// capture. Calls that they allow are recorded, and run only in launches.
#include "kernels/cuda/runtime/device.h"
#include "tests/cuda_on_host/faults/apart.h"
#include "tests/cuda_on_host/include/cuda_runtime_api.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>
#include <vector>

using namespace cuda_on_host::faults;

namespace {

constexpr int seeds = 6;

struct Capturing {
  Capturing() {
    cudaMalloc(&memory, 64);
    cudaMallocHost(&pinned, 64);
    for (cudaStream_t* each : {&stream, &other})
      cudaStreamCreateWithFlags(each, cudaStreamNonBlocking);
    for (cudaEvent_t* each : {&event, &earlier})
      cudaEventCreateWithFlags(each, cudaEventDisableTiming);
    cudaEventRecord(earlier, other);
  }
  cudaError_t begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    return cudaStreamBeginCapture(stream, mode);
  }
  cudaError_t end() { return cudaStreamEndCapture(stream, &graph); }
  cudaError_t set(int value, cudaStream_t in) { return cudaMemsetAsync(memory, value, 64, in); }
  cudaError_t fork() {
    cudaEventRecord(event, stream);
    return cudaStreamWaitEvent(other, event);
  }
  cudaError_t join() {
    cudaEventRecord(event, other);
    return cudaStreamWaitEvent(stream, event);
  }
  cudaStreamCaptureStatus status(cudaStream_t of) const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(of, &status);
    return status;
  }
  int first_byte() const {
    unsigned char byte = 0;
    cudaMemcpyAsync(&byte, memory, 1, cudaMemcpyDefault, other);
    cudaStreamSynchronize(other);
    return byte;
  }

  void *memory = nullptr, *pinned = nullptr;
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr, earlier = nullptr;
  cudaGraph_t graph = nullptr;
};

struct Rule {
  const char* name;
  cudaError_t (*broken)(Capturing&, Capturing& second);
  cudaError_t error;
};

const Rule rules[] = {
    {"cudaMalloc",
     [](Capturing&, Capturing&) {
       void* more = nullptr;
       return cudaMalloc(&more, 64);
     },
     cudaErrorStreamCaptureUnsupported},
    {"cudaFree", [](Capturing& c, Capturing&) { return cudaFree(c.memory); },
     cudaErrorStreamCaptureUnsupported},
    {"cudaMallocHost",
     [](Capturing&, Capturing&) {
       void* more = nullptr;
       return cudaMallocHost(&more, 64);
     },
     cudaErrorStreamCaptureUnsupported},
    {"cudaFreeHost", [](Capturing& c, Capturing&) { return cudaFreeHost(c.pinned); },
     cudaErrorStreamCaptureUnsupported},
    {"cudaStreamSynchronize",
     [](Capturing& c, Capturing&) { return cudaStreamSynchronize(c.stream); },
     cudaErrorStreamCaptureUnsupported},
    {"cudaStreamSynchronize of a stream that was drawn in",
     [](Capturing& c, Capturing&) {
       c.fork();
       return cudaStreamSynchronize(c.other);
     },
     cudaErrorStreamCaptureUnsupported},
    {"cudaStreamQuery", [](Capturing& c, Capturing&) { return cudaStreamQuery(c.stream); },
     cudaErrorStreamCaptureUnsupported},
    {"cudaDeviceSynchronize", [](Capturing&, Capturing&) { return cudaDeviceSynchronize(); },
     cudaErrorStreamCaptureUnsupported},
    {"cudaDeviceSynchronize of another thread",
     [](Capturing&, Capturing&) {
       cudaError_t status = cudaSuccess;
       std::thread([&] { status = cudaDeviceSynchronize(); }).join();
       return status;
     },
     cudaErrorStreamCaptureUnsupported},
    {"cudaEventSynchronize",
     [](Capturing& c, Capturing&) {
       cudaEventRecord(c.event, c.stream);
       return cudaEventSynchronize(c.event);
     },
     cudaErrorCapturedEvent},
    {"cudaEventQuery in relaxed mode",
     [](Capturing& c, Capturing&) {
       cudaEventRecord(c.event, c.stream);
       cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
       cudaThreadExchangeStreamCaptureMode(&mode);
       const cudaError_t status = cudaEventQuery(c.event);
       cudaThreadExchangeStreamCaptureMode(&mode);
       return status;
     },
     cudaErrorCapturedEvent},
    {"cudaEventQuery of an event from before",
     [](Capturing& c, Capturing&) { return cudaEventQuery(c.earlier); },
     cudaErrorStreamCaptureUnsupported},
    {"a wait for an event from before",
     [](Capturing& c, Capturing&) { return cudaStreamWaitEvent(c.stream, c.earlier); },
     cudaErrorStreamCaptureIsolation},
    {"a copy to pageable memory",
     [](Capturing& c, Capturing&) {
       char byte = 0;
       return cudaMemcpyAsync(&byte, c.memory, 1, cudaMemcpyDefault, c.stream);
     },
     cudaErrorStreamCaptureUnsupported},
    {"the end in a stream that was drawn in",
     [](Capturing& c, Capturing&) {
       c.fork();
       return cudaStreamEndCapture(c.other, &c.graph);
     },
     cudaErrorStreamCaptureUnmatched},
    {"two captures that would become one",
     [](Capturing& c, Capturing& second) {
       second.begin();
       cudaEventRecord(c.event, c.stream);
       const cudaError_t status = cudaStreamWaitEvent(second.stream, c.event);
       return second.end() == cudaErrorStreamCaptureInvalidated ? status : cudaSuccess;
     },
     cudaErrorStreamCaptureMerge},
};

cudaGraphExec_t made_of(const Capturing& capturing) {
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiateWithFlags(&executable, capturing.graph, 0) == cudaSuccess);
  return executable;
}

template <class Body>
void check_in_any_order(Body&& body) {
  for (int seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Outcome outcome = run_apart(seed, body);
    CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
  }
}

}  // namespace

TEST_CASE("what a capture forbids is an error and invalidates it; the stream goes on after it") {
  for (const Rule& rule : rules) {
    CAPTURE(std::string(rule.name));
    const Outcome outcome = run_apart(1, [&] {
      Capturing c, second;
      const bool began = c.begin() == cudaSuccess && c.set(1, c.stream) == cudaSuccess;
      const bool refused = rule.broken(c, second) == rule.error;
      const bool is_invalid = c.status(c.stream) == cudaStreamCaptureStatusInvalidated;
      const bool refuses_more = c.set(2, c.stream) == cudaErrorStreamCaptureInvalidated;
      const bool ended = c.end() == cudaErrorStreamCaptureInvalidated && !c.graph;
      const bool goes_on = c.set(3, c.stream) == cudaSuccess &&
                           cudaStreamSynchronize(c.stream) == cudaSuccess && c.first_byte() == 3;
      return began && refused && is_invalid && refuses_more && ended && goes_on;
    });
    CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
  }
}

TEST_CASE("a stream that is drawn in and not joined is an error, and one that is joined is part") {
  check_in_any_order([] {
    Capturing left, joined;
    left.begin();
    left.fork();
    left.set(1, left.other);
    const bool refused = left.end() == cudaErrorStreamCaptureUnjoined && !left.graph &&
                         left.status(left.other) == cudaStreamCaptureStatusNone;
    joined.begin();
    joined.set(1, joined.stream);
    joined.fork();
    joined.set(2, joined.other);
    joined.join();
    joined.set(3, joined.stream);
    if (joined.end() != cudaSuccess) return false;
    const cudaGraphExec_t executable = made_of(joined);
    cudaGraphLaunch(executable, joined.stream);
    cudaStreamSynchronize(joined.stream);
    return refused && joined.first_byte() == 3;
  });
}

TEST_CASE("branches of a graph that nothing orders run in either order") {
  int found = 0;
  for (int seed = 1; seed <= 12; ++seed) {
    const Outcome outcome = run_apart(seed, [] {
      Capturing c;
      c.begin();
      c.fork();
      c.set(2, c.other);
      c.set(3, c.stream);
      c.join();
      c.end();
      cudaGraphLaunch(made_of(c), c.stream);
      cudaStreamSynchronize(c.stream);
      return c.first_byte() == 3;
    });
    found += outcome.how == Outcome::right;
  }
  CHECK(found > 0);
  CHECK(found < 12);
}

TEST_CASE("captured work is done by launches alone, in order with the stream and other launches") {
  check_in_any_order([] {
    Capturing c;
    c.begin();
    char source[64] = {1};
    cudaMemcpyAsync(c.memory, source, 64, cudaMemcpyDefault, c.stream);
    source[0] = 2;  // a capture keeps the address, not the contents
    if (c.end() != cudaSuccess) return false;
    const cudaGraphExec_t executable = made_of(c);
    cudaGraphDestroy(c.graph);
    c.set(9, c.other);
    cudaStreamSynchronize(c.stream);
    const bool nothing_yet = c.first_byte() == 9;
    source[0] = 3;
    cudaGraphLaunch(executable, c.other);
    cudaStreamSynchronize(c.other);
    const bool read_anew = c.first_byte() == 3;
    // Two launches in unordered streams, and one that is destroyed before it has run.
    cudaGraphLaunch(executable, c.other);
    cudaGraphLaunch(executable, c.stream);
    c.set(5, c.stream);
    cudaGraphExecDestroy(executable);
    cudaStreamSynchronize(c.stream);
    return nothing_yet && read_anew && c.first_byte() == 5;
  });
}

TEST_CASE("other threads' captures forbid calls by their mode, and the thread's own mode") {
  using Mode = cudaStreamCaptureMode;
  const auto allocates = [](Mode captured, Mode own, bool elsewhere) {
    const Outcome outcome = run_apart(1, [&] {
      Capturing c;
      c.begin(captured);
      cudaError_t status = cudaSuccess;
      const auto call = [&] {
        Mode mode = own;
        cudaThreadExchangeStreamCaptureMode(&mode);
        void* more = nullptr;
        status = cudaMalloc(&more, 64);
      };
      if (elsewhere) std::thread(call).join();
      else call();
      return status == cudaSuccess && c.end() == cudaSuccess;
    });
    return outcome.how == Outcome::right;
  };
  const auto global = cudaStreamCaptureModeGlobal, local = cudaStreamCaptureModeThreadLocal,
             relaxed = cudaStreamCaptureModeRelaxed;
  for (const bool elsewhere : {false, true})
    for (const auto captured : {global, local, relaxed})
      for (const auto own : {global, local, relaxed}) {
        CAPTURE(elsewhere);
        CAPTURE(static_cast<int>(captured));
        CAPTURE(static_cast<int>(own));
        const bool is_own = !elsewhere && captured != relaxed;
        const bool is_of_others = elsewhere && captured == global && own == global;
        const bool is_forbidden = own != relaxed && (is_own || is_of_others);
        CHECK(allocates(captured, own, elsewhere) == !is_forbidden);
      }
}

TEST_CASE("a capture ends in the thread that began it, unless it is relaxed, and begins once") {
  const Outcome outcome = run_apart(1, [] {
    const auto end_elsewhere = [](Capturing& c) {
      cudaError_t status = cudaSuccess;
      std::thread([&] { status = c.end(); }).join();
      return status;
    };
    Capturing strict, relaxed;
    strict.begin();
    relaxed.begin(cudaStreamCaptureModeRelaxed);
    return cudaStreamBeginCapture(strict.stream, cudaStreamCaptureModeGlobal) ==
               cudaErrorIllegalState &&
           end_elsewhere(strict) == cudaErrorStreamCaptureWrongThread &&
           strict.end() == cudaSuccess && end_elsewhere(relaxed) == cudaSuccess &&
           relaxed.end() == cudaErrorIllegalState &&
           cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
               cudaErrorStreamCaptureUnsupported;
  });
  CHECK_MESSAGE(outcome.how == Outcome::right, outcome.words);
}
