// Collectives on GPU tensors.
#include "kernels/device/memory.h"
#include "parallel/groups/group.h"
#include "tests/on_gpu.h"
#include "tests/parallel/collective_cases.h"
#include "tests/parallel/memory_rendezvous.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

using namespace booster;

namespace {

Device own_gpu(const Group& group) {
  return Device::cuda(group.rank() % kernels::cuda_device_count());
}

// Returns values that differ by rank and position, and are exact in every dtype, even when summed.
Tensor numbers(const Group& group, int64_t count, DType dtype) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7 + static_cast<size_t>(group.rank()) * 5) % 16);
  return untracked::cast(from_vector(values, {count}), dtype);
}

// A send may end only when the receive comes, so every other rank receives first.
std::vector<CollectiveCase> cases_for(const Group& group) {
  auto cases = collective_cases(group.size());
  if (group.rank() % 2 == 1) std::swap(cases.end()[-1], cases.end()[-2]);
  return cases;
}

// Returns each collective's results. All tensors are made first: filling one waits for the device's
// stream. Ranks that are threads share that stream, so the wait could include another rank's
// operation that needs one this rank has yet to issue.
std::vector<std::vector<double>> results(const Group& group, Device device, int64_t count,
                                         DType dtype) {
  std::vector<Tensor> tensors;
  const auto make = [&](bool wide) {
    tensors.push_back(numbers(group, wide ? count * group.size() : count, dtype).to(device));
  };
  const auto cases = cases_for(group);
  for (const CollectiveCase& one : cases) {
    make(one.out_is_wide);
    make(one.in_is_wide);
  }
  std::vector<Work> works;
  for (size_t i = 0; i < cases.size(); ++i)
    works.push_back(cases[i].issue(group, tensors[2 * i], tensors[2 * i + 1]));
  for (const Work& work : works) work.wait();
  std::vector<std::vector<double>> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.to_vector<double>());
  return values;
}

void check_all(const Group& group) {
  for (const int64_t count : {0, 1, 37, 5000})
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
      const auto want = results(group, {}, count, dtype);
      const auto got = results(group, own_gpu(group), count, dtype);
      for (size_t i = 0; i < want.size(); ++i)
        if (got[i] != want[i])
          throw Error(fmt::format("{} of {} {}", cases_for(group)[i / 2].name, count,
                                  name_of(dtype)));
    }
}

// Checks that work queued after a collective's input or output is ordered correctly.
void check_order(const Group& group) {
  Tensor x = ones({1000}, {.device = own_gpu(group)});
  const Tensor one = ones({1}, {.device = own_gpu(group)});
  for (int i = 0; i < 20; ++i) {
    x.mul_(2);
    const Work work = group.all_reduce_async(x, CollectiveOp::mean);
    work.wait();
    x.add_(one);
  }
  double want = 1;
  for (int i = 0; i < 20; ++i) want = want * 2 + 1;
  if (x.to_vector<double>() != std::vector<double>(1000, want)) throw Error("out of order");
}

// Checks a broadcast from every rank, and buffers that begin within a tensor.
void check_windows(const Group& group) {
  for (int root = 0; root < group.size(); ++root) {
    const Tensor all = full({9}, group.rank(), {.device = own_gpu(group)});
    group.broadcast(untracked::narrow(all, 0, 2, 3), root);
    std::vector<double> want(9, group.rank());
    std::fill(want.begin() + 2, want.begin() + 5, root);
    if (all.to_vector<double>() != want) throw Error(fmt::format("broadcast from {}", root));
  }
}

}  // namespace

TEST_CASE("GPU: collectives give what they give on the CPU" * on_gpu()) {
  for (const int size : {1, 2, 3})
    for (const Meeting meeting : {Meeting::with_folder, Meeting::without_folder}) {
      CHECK(run_as_threads(size, meeting, check_all) == "");
      CHECK(run_as_threads(size, meeting, check_order) == "");
      CHECK(run_as_threads(size, meeting, check_windows) == "");
    }
}
