// Collectives between GPUs, by NCCL: one rank per GPU. What a call starts runs on a stream of the
// communicator's own, so that it overlaps with what the GPU computes; moments order the two.
//
// An interface without CUDA's or NCCL's headers: parallel/backends/nccl.cpp reaches it through the
// CUDA module's table (kernels/device/module_table.h).
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/device/moment.h"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace booster::kernels {

// For bool, sum and max mean "any", product and min mean "all".
enum class Reduction : uint8_t { sum, mean, max, min, product };

// Memory that goes to a rank, or comes from one.
struct GpuMessage {
  int peer;
  void* data;
  size_t bytes;
};

// One rank's end. Calls come from one thread at a time. All of them return at once, also while NCCL
// still connects ranks: before the next one, and before mark(), is_ready() must say so. Errors of
// NCCL are raised by the call or by is_ready().
class Communicator {
 public:
  // Gives up what has not run, unless leave() has come to its end.
  virtual ~Communicator() = default;

  // Whether NCCL has taken everything so far: the connection, or the last call.
  virtual bool is_ready() = 0;
  // What is called from now on runs behind that moment.
  virtual void follow(Moment& moment) = 0;

  virtual void all_reduce(void* data, int64_t count, DType dtype, Reduction reduction) = 0;
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  // `out` holds as many times `bytes` as there are ranks.
  virtual void all_gather(void* out, const void* in, size_t bytes) = 0;
  // `count` elements come out.
  virtual void reduce_scatter(void* out, const void* in, int64_t count, DType dtype,
                              Reduction reduction) = 0;
  // All at once; none to or from this rank itself.
  virtual void exchange(std::span<const GpuMessage> sent, std::span<const GpuMessage> received) = 0;
  // Kernels and copies that `body` calls run on the communicator's stream.
  virtual void compute(const std::function<void()>& body) = 0;
  // Memory for what runs there, of this size or larger; the same until a larger one is asked for.
  virtual void* scratch(size_t bytes) = 0;

  // Everything so far.
  virtual std::shared_ptr<Moment> mark() = 0;
  // What has gone wrong since a call returned, in NCCL's words; "" for nothing.
  virtual std::string trouble() = 0;
  // Ends what runs, wherever it is stuck. Memory that it was to write holds anything; from now on
  // host copies from this GPU raise an error with this reason.
  virtual void abort(const std::string& reason) = 0;
  // This rank needs it no more; is_ready() says when all ranks have come so far. Nothing may run.
  virtual void leave() = 0;
};

// What NCCL offers here.
struct Collectives {
  // Such as 22809 for 2.28.9; 0 if there is no NCCL.
  int (*version)();
  // Why; "" if there is.
  const std::string& (*missing)();
  // Which GPU it is: the same for all processes, another one for every GPU.
  std::array<std::byte, 16> (*identify)(int device);
  // What the ranks that connect must all be given; one of them makes it.
  std::string (*make_id)();
  std::unique_ptr<Communicator> (*connect)(int device, const std::string& id, int rank, int size);
};

}  // namespace booster::kernels
