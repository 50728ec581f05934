// Collectives between GPUs, by NCCL: one rank per GPU. Calls run on the communicator's own stream,
// so that they overlap with the GPU's computation. Events order the two.
//
// An interface without CUDA's or NCCL's headers: parallel/backends/nccl.cpp reaches it through the
// CUDA module's table (kernels/device/module_table.h).
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/device/event.h"

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace booster::kernels {

// For bool, sum and max mean "any", product and min mean "all".
enum class Reduction : uint8_t { sum, mean, max, min, product };

// Memory that goes to a rank, or comes from it.
struct GpuMessage {
  int peer;
  void* data;
  size_t bytes;
};

// One rank's end. Calls come from one thread at a time. All of them return immediately, even while
// NCCL still connects ranks. Before the next call, and before mark(), is_ready() must return true.
// The call or is_ready() throws NCCL's errors.
class Communicator {
 public:
  // Abandons operations that have not run, unless leave() has completed.
  virtual ~Communicator() = default;

  // Returns true once NCCL has accepted everything so far: the connection, or the last call.
  virtual bool is_ready() = 0;
  // Makes all later calls run after the event.
  virtual void follow(Event& event) = 0;

  virtual void all_reduce(void* data, int64_t count, DType dtype, Reduction reduction) = 0;
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  // Gathers `in` of all ranks; `out` holds `bytes` times the number of ranks.
  virtual void all_gather(void* out, const void* in, size_t bytes) = 0;
  // Reduces and scatters; `out` has `count` elements.
  virtual void reduce_scatter(void* out, const void* in, int64_t count, DType dtype,
                              Reduction reduction) = 0;
  // Sends and receives all messages together; none to or from this rank itself.
  virtual void exchange(std::span<const GpuMessage> sent, std::span<const GpuMessage> received) = 0;
  // Runs `body`; its kernels and copies go to the communicator's stream.
  virtual void compute(const std::function<void()>& body) = 0;
  // Returns memory for such work, of at least this size; the same until a larger one is requested.
  virtual void* scratch(size_t bytes) = 0;

  // Returns the event after everything so far.
  virtual std::shared_ptr<Event> mark() = 0;
  // Returns NCCL's text for a failure since a call returned; "" for none.
  virtual std::string trouble() = 0;
  // Ends running operations, even stuck ones. The memory that they write becomes undefined. From
  // now on host copies from this GPU throw an error with this reason.
  virtual void abort(const std::string& reason) = 0;
  // Announces that this rank is finished. is_ready() returns true once all ranks have done so. No
  // operation may be running.
  virtual void leave() = 0;
};

// The NCCL functions of this build.
struct Collectives {
  // Returns the version, such as 22809 for 2.28.9; 0 if there is no NCCL.
  int (*version)();
  // Returns why there is no NCCL; "" if there is.
  const std::string& (*missing)();
  // Returns the identity of a GPU, the same in all processes and different for every GPU.
  std::array<std::byte, 16> (*identify)(int device);
  // Makes the id that all connecting ranks must receive. One of them calls it.
  std::string (*make_id)();
  std::unique_ptr<Communicator> (*connect)(int device, const std::string& id, int rank, int size);
};

}  // namespace booster::kernels
