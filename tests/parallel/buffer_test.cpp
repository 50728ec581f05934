// How collectives treat their tensors: versions, devices, memory kept alive.
#include <doctest/doctest.h>

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/tensor.h"
#include "parallel/backends/backend.h"
#include "parallel/groups/group.h"
#include "parallel/operations/completion.h"
#include "tests/error_of.h"
#include "tests/parallel/collective_cases.h"
#include "tests/parallel/memory_rendezvous.h"

#include <semaphore>
#include <thread>

using namespace booster;

namespace {

Tensor tensor(const Group& group, bool wide) { return zeros({wide ? group.size() : 1}); }

// Returns which versions were wrong.
std::string wrong_versions(const Group& group, const std::vector<CollectiveCase>& all) {
  std::string wrong;
  for (const CollectiveCase& one : all) {
    const Tensor out = tensor(group, one.out_is_wide), in = tensor(group, one.in_is_wide);
    const uint32_t before = out.version(), before_in = in.version();
    const Work work = one.issue(group, out, in);
    if (out.version() != before + (one.writes ? 1 : 0) || in.version() != before_in)
      wrong += one.name + " ";
    work.wait();
    if (out.version() != before + (one.writes ? 1 : 0)) wrong += one.name + " at wait ";
  }
  for (int root = 0; root < group.size(); ++root) {
    const Tensor data = zeros({3});
    const uint32_t before = data.version();
    const Work work = group.broadcast_async(data, root);
    if (data.version() != before + (root == group.rank() ? 0 : 1)) wrong += "broadcast ";
    work.wait();
  }
  return wrong;
}

// Returns memory that claims to be on a GPU; nothing may access it.
Buffer on_gpu(int64_t count, bool is_output = false) {
  static float nothing[2];
  return {&nothing[is_output], count, DType::f32, {DeviceType::cuda, 1}};
}

}  // namespace

TEST_CASE("a collective raises the version of what it writes, when it is issued") {
  const auto body = [](const Group& group) {
    if (const auto wrong = wrong_versions(group, collective_cases(group.size())); !wrong.empty())
      throw Error(wrong);
  };
  for (int size : {1, 2, 3}) CHECK(run_as_threads(size, Meeting::with_folder, body) == "");
}

TEST_CASE("a weight that a collective wrote is cast to 16 bits anew") {
  const auto body = [](const Group& group) {
    OpPolicy policy{.lower = DType::bf16, .name = "test"};
    policy.set(Op::matmul, OpClass::lower_precision);
    const Tensor w = full({1, 1}, group.rank() + 1.0).requires_grad_();
    const auto value = [&] {
      const PolicyScope scope(&policy);
      return matmul(w, ones({1, 1})).item();
    };
    if (value() != group.rank() + 1) throw Error("before");
    {
      const NoGradGuard no_grad;
      group.broadcast(w, 1);
    }
    if (value() != 2) throw Error("an old copy was used");
  };
  CHECK(run_as_threads(2, Meeting::with_folder, body) == "");
}

TEST_CASE("a collective on what the tape saved is an error of backward") {
  const Tensor x = ones({3}).requires_grad_();
  const Tensor saved = exp(x);
  const Tensor loss = sum(saved);
  Group().all_reduce(saved);
  const std::string error = error_of([&] { loss.backward(); });
  CAPTURE(error);
  CHECK(error.find("was changed in place before its gradient was computed") != std::string::npos);
}

TEST_CASE("a window's collective raises the version of the whole storage") {
  const Tensor flat = zeros({10});
  const Tensor window = untracked::narrow(flat, 0, 2, 3), other = untracked::narrow(flat, 0, 7, 2);
  const uint32_t before = flat.version();
  Group().all_reduce(window);
  CHECK(flat.version() == before + 1);
  CHECK(other.version() == before + 1);
}

TEST_CASE("a collective that is refused raises no version") {
  const Group alone;
  const Tensor out = zeros({3}), in = zeros({2});
  const uint32_t before = out.version();
  CHECK_THROWS_AS(alone.all_gather(out, in), Error);
  CHECK_THROWS_AS(alone.broadcast(out, 1), Error);
  CHECK(out.version() == before);
}

TEST_CASE("a group of one moves nothing where nothing changes, on any device") {
  const Group alone;
  CHECK(error_of([&] {
          alone.all_reduce(on_gpu(1));
          alone.broadcast(on_gpu(1));
          alone.barrier();
        }) == "");
  std::vector<float> host(1);
  CHECK(error_of([&] { alone.all_gather(host, on_gpu(1)); }) ==
        "all_gather: output and input differ in device; got the CPU and cuda:1");
}

TEST_CASE("a buffer knows the device and the storage of its tensor") {
  const Tensor values = zeros({4});
  const Buffer buffer = values;
  CHECK(buffer.device == Device{});
  CHECK(buffer.storage.get() == values.body()->storage.get());
  kernels::View view = values.view();
  view.device = {DeviceType::cuda, 1};
  CHECK(Buffer(view).device == Device{DeviceType::cuda, 1});
  CHECK_THROWS_AS(Buffer(Tensor{}), Error);
  CHECK_THROWS_AS(Buffer(untracked::transpose(zeros({2, 3}), 0, 1)), Error);
}

TEST_CASE("work is done when the other ranks have come, and not before") {
  std::binary_semaphore gate(0);
  const auto body = [&](const Group& group) {
    std::vector<float> data = {1};
    if (group.rank() == 1) {
      gate.acquire();
      group.all_reduce(data);
    } else {
      const Work work = group.all_reduce_async(data);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const bool early = work.is_done();
      gate.release();
      work.wait();
      if (early || !work.is_done() || data[0] != 2) throw Error("done at the wrong time");
    }
    group.barrier();
  };
  CHECK(run_as_threads(2, Meeting::with_folder, body) == "");
  CHECK(Work().is_done());
}

TEST_CASE("work on a device orders a stream and does not block the host") {
  struct Event : Completion {
    std::vector<void*> ordered;
    bool done = false;
    void order(kernels::Stream stream) override { ordered.push_back(stream.handle); }
    void synchronize() override { done = true; }
    bool is_done() override { return done; }
  };
  int compute, copy;
  const auto event = std::make_shared<Event>();
  const Work work(event, {{DeviceType::cuda, 0}, &compute});
  work.wait();
  work.wait({{DeviceType::cuda, 0}, &copy});
  CHECK(event->ordered == std::vector<void*>{&compute, &copy});
  CHECK_FALSE(work.is_done());
  work.synchronize();
  CHECK(work.is_done());
}
