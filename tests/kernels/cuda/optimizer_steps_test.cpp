// Optimizer steps on a GPU.
#include "tests/kernels/cuda/compare.h"

#include <random>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

struct Kind {
  DType value, grad, copy;
  UpdateRounding rounding = UpdateRounding::nearest;
};
const Kind kinds[] = {{DType::f32, DType::bf16, DType::bf16},
                      {DType::f32, DType::f32, DType::f16},
                      {DType::f64, DType::f64, DType::f16},
                      {DType::bf16, DType::bf16, DType::bf16},
                      {DType::bf16, DType::bf16, DType::bf16, UpdateRounding::stochastic},
                      {DType::bf16, DType::bf16, DType::bf16, UpdateRounding::kahan}};

// A parameter; its slot points some elements past the start of each tensor.
struct Parameter {
  Parameter(const Kind& kind, int64_t size, const std::vector<int64_t>& shifts, uint32_t seed)
      : size(size), shifts(shifts) {
    const DType state = wide(kind.value);
    const auto room = [&](size_t k) { return Index{shifts[k] + size + 1}; };
    tensors = {random(kind.value, room(0), seed), random(kind.grad, room(1), seed + 1),
               test::zeros(state, room(2)),       test::zeros(state, room(3)),
               test::zeros(kind.copy, room(4)),   test::zeros(DType::bf16, room(5)),
               test::zeros(state, room(6))};
  }
  int64_t size, begin = 0;
  std::vector<int64_t> shifts;
  // value, grad, state1, state2, copy, compensation and state3
  std::vector<Plain> tensors;
};

struct Parameters {
  Parameters(const Kind& kind, std::vector<Parameter> all)
      : rounding(kind.rounding), all(std::move(all)) {}
  explicit Parameters(const Kind& kind) : rounding(kind.rounding) {
    uint32_t seed = 1;
    for (const int64_t size : {1, 0, 1023, 16385, 40000}) {
      all.emplace_back(kind, size, std::vector<int64_t>(7), seed);
      seed += 2;
    }
  }
  // Returns slots that point to address(parameter, tensor).
  template <class Address>
  std::vector<OptimizerSlot> slots(const int64_t* taken, bool first, Address&& address) const {
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0; i < all.size(); ++i) {
      const auto& t = all[i].tensors;
      const auto at = [&](size_t k) -> void* {
        return static_cast<char*>(address(i, k)) + all[i].shifts[k] * size_of(t[k].dtype);
      };
      slots.push_back({at(0), t[0].dtype, at(1), t[1].dtype, at(2), at(3),
                       rounding == UpdateRounding::nearest ? at(4) : nullptr, t[4].dtype,
                       all[i].size, taken, first, rounding, at(5), /*noise_seed=*/9 + i,
                       all[i].begin, at(6)});
    }
    return slots;
  }
  UpdateRounding rounding;
  std::vector<Parameter> all;
};

// Copies of all tensors in the GPU's memory.
struct Copies {
  explicit Copies(const Parameters& parameters) {
    for (const Parameter& parameter : parameters.all) {
      of.emplace_back();
      for (const Plain& t : parameter.tensors) of.back().push_back(std::make_unique<GpuCopy>(t));
    }
  }
  std::vector<std::vector<std::unique_ptr<GpuCopy>>> of;
};

// Draws sizes and offsets for which none, one or all accesses of a GPU's threads are aligned.
Parameters draw_parameters(const Kind& kind, std::mt19937& draw) {
  const int64_t around[] = {0, 4, 1024, 16384, 32768};
  std::vector<Parameter> all;
  for (int i = 0; i < 4; ++i) {
    const bool aligned = draw() % 3 == 0;
    std::vector<int64_t> shifts(7);
    for (int64_t& shift : shifts) shift = aligned ? draw() % 2 * 8 : draw() % 9;
    const int64_t size = around[draw() % 5] + static_cast<int64_t>(draw() % 8);
    all.emplace_back(kind, size, shifts, static_cast<uint32_t>(draw()));
    all.back().begin = static_cast<int64_t>(draw() % 100);
  }
  return {kind, std::move(all)};
}

OptimizerSlots multi(const std::vector<OptimizerSlot>& slots) {
  return {slots.data(), static_cast<int64_t>(slots.size())};
}

// Returns the magnitude of a parameter's tensor k. A value that rounds the other way moves by a
// unit of bf16, which weight decay carries into the moments; a compensation is at most such a unit.
double magnitude(UpdateRounding rounding, size_t k) {
  if (rounding == UpdateRounding::nearest) return 0.1;
  return k == 2 || k == 3 || k == 6 ? 20 : 1;
}

// Runs four steps with kernel(table, slots, control) on both devices, of which the third is
// skipped. All outputs must agree, and surrounding memory must be unchanged.
template <class Kernel>
void compare_steps_of(const Parameters& work, Kernel&& kernel) {
  const Copies copies(work);
  for (int64_t taken = 0; taken < 4; ++taken) {
    const float factors[] = {taken == 2 ? 1.0f : 0.0f, 0.5f};
    const double clip = 0.3;
    const GpuCopy there(factors, sizeof factors), clip_there(&clip, sizeof clip);
    const auto* device_factors = static_cast<const float*>(there.data());
    const GpuCopy taken_there(&taken, sizeof taken);
    const auto on_device = work.slots(static_cast<const int64_t*>(taken_there.data()), taken == 0,
                                      [&](size_t i, size_t k) { return copies.of[i][k]->data(); });
    kernel(on(gpu), multi(on_device),
           StepControl{device_factors, device_factors + 1,
                       static_cast<const double*>(clip_there.data())});
    const auto on_host = work.slots(&taken, taken == 0, [&](size_t i, size_t k) -> void* {
      return work.all[i].tensors[k].bytes->data();
    });
    kernel(on({}), multi(on_host), StepControl{factors, factors + 1, &clip});
  }
  for (size_t i = 0; i < work.all.size(); ++i)
    for (size_t k = 0; k < copies.of[i].size(); ++k) {
      const Plain& want = work.all[i].tensors[k];
      CAPTURE(i);
      CAPTURE(k);
      check_same(copies.of[i][k]->fetch(want), want, want.dtype,
                 magnitude(work.rounding, k));
    }
}

template <class Kernel>
void compare_steps(Kernel&& kernel) {
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(name_of(kind.value)));
    CAPTURE(static_cast<int>(kind.rounding));
    compare_steps_of(Parameters(kind), kernel);
  }
}

// Calls body with the step's numbers in memory that the table's kernels can read.
template <class Body>
void with_numbers(const Table& table, StepNumbers numbers, Body&& body) {
  if (&table == &on({})) return body(&numbers);
  const StepNumbers none = {};
  const GpuCopy there(&none, sizeof none);
  auto* at = static_cast<StepNumbers*>(there.data());
  table.write_step_numbers(at, numbers);
  body(at);
}

void lamb_step(const Table& table, OptimizerSlots slots, StepControl control, double most) {
  const LambStep lamb = {0.01, 0.9, 0.99, 1e-6, 0.05, true, false, false, true, false, most};
  std::vector<double> squares(2 * static_cast<size_t>(slots.count) + 1, NAN);
  squares.back() = 40;  // the gradients' norm
  const GpuCopy squares_there(squares.data(), squares.size() * sizeof(double));
  double* sums = &table == &on({}) ? squares.data() : static_cast<double*>(squares_there.data());
  const double* norm = most > 0 ? sums + squares.size() - 1 : nullptr;
  with_numbers(table, {.lamb = lamb}, [&](const StepNumbers* numbers) {
    table.lamb_moments(slots, &numbers->lamb, norm, sums, control);
    table.lamb_apply(slots, &numbers->lamb, norm, sums, control);
  });
}

}  // namespace

TEST_CASE("GPU: SGD, AdamW, RMSprop and LAMB step as on the CPU" * on_gpu()) {
  for (const double momentum : {0.0, 0.9})
    compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
      const SgdStep sgd = {0.1, momentum, 0.1, 0.01, momentum > 0, false};
      with_numbers(table, {.sgd = sgd}, [&](const StepNumbers* numbers) {
        table.sgd_step(slots, &numbers->sgd, momentum > 0, control);
      });
    });
  for (const bool decoupled : {false, true})
    compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
      const AdamStep adam = {0.01, 0.9, 0.99, 1e-8, 0.05, decoupled, true};
      with_numbers(table, {.adam = adam}, [&](const StepNumbers* numbers) {
        table.adam_step(slots, &numbers->adam, control);
      });
    });
  for (const bool momentum : {false, true})
    for (const bool centered : {false, true})
      compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
        // A large eps: for small v a step is then the gradient divided by eps, with its rounding.
        const RmspropStep rmsprop = {0.01, 0.9, 0.5, 0.01, 0.8, false};
        with_numbers(table, {.rmsprop = rmsprop}, [&](const StepNumbers* numbers) {
          table.rmsprop_step(slots, &numbers->rmsprop, momentum, centered, control);
        });
      });
  for (const double most : {0.0, 0.5})
    compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
      lamb_step(table, slots, control, most);
    });
}

TEST_CASE("GPU: drawn parameters step as on the CPU wherever their numbers begin" * on_gpu()) {
  std::mt19937 draw(5);
  for (int round = 0; round < 4; ++round)
    for (const Kind& kind : kinds) {
      CAPTURE(round);
      CAPTURE(std::string(name_of(kind.value)));
      CAPTURE(static_cast<int>(kind.rounding));
      const Parameters work = draw_parameters(kind, draw);
      compare_steps_of(work, [=](const Table& table, OptimizerSlots slots, StepControl control) {
        if (round % 2) return lamb_step(table, slots, control, 0);
        const AdamStep adam = {0.01, 0.9, 0.99, 1e-8, 0.05, true, false};
        with_numbers(table, {.adam = adam}, [&](const StepNumbers* numbers) {
          table.adam_step(slots, &numbers->adam, control);
        });
      });
    }
}

TEST_CASE("GPU: values are rounded as on the CPU, bit for bit, wherever they begin" * on_gpu()) {
  std::mt19937 draw(6);
  const SgdStep plain = {1, 0, 0, 0, false, false};  // p - g, which no compiler fuses differently
  for (int round = 0; round < 4; ++round)
    for (const Kind& kind : kinds) {
      CAPTURE(round);
      CAPTURE(static_cast<int>(kind.rounding));
      const Parameters work = draw_parameters(kind, draw);
      const Copies copies(work);
      const int64_t taken = 3;
      const GpuCopy taken_there(&taken, sizeof taken);
      const auto there = work.slots(static_cast<const int64_t*>(taken_there.data()), false,
                                    [&](size_t i, size_t k) { return copies.of[i][k]->data(); });
      const auto here = work.slots(&taken, false, [&](size_t i, size_t k) -> void* {
        return work.all[i].tensors[k].bytes->data();
      });
      with_numbers(on(gpu), {.sgd = plain}, [&](const StepNumbers* numbers) {
        on(gpu).sgd_step(multi(there), &numbers->sgd, false, {});
      });
      on({}).sgd_step(multi(here), &plain, false, {});
      for (size_t i = 0; i < work.all.size(); ++i)
        for (size_t k = 0; k < copies.of[i].size(); ++k) {
          const Plain& want = work.all[i].tensors[k];
          CAPTURE(k);
          CHECK(*copies.of[i][k]->fetch(want).bytes == *want.bytes);
        }
    }
}

TEST_CASE("GPU: steps are counted as on the CPU, unless they are skipped" * on_gpu()) {
  for (const float found : {0.0f, 1.0f})
    compare_all({random(DType::i64, {40'000}, 1), random(DType::i64, {1}, 2)},
                {from_numbers(DType::f32, {1}, {found})},
                [](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
                  const TensorSpan counters[] = {{out[0].data, out[0].shape[0], DType::i64},
                                                 {out[1].data, 1, DType::i64}};
                  table.count_steps({counters, 2}, in[0].as<const float>());
                  table.count_steps({counters, 1}, nullptr);
                });
}
