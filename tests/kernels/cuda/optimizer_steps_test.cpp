// Optimizer steps on a GPU.
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

struct Parameters {
  Parameters(DType value, DType grad, DType copy, UpdateRounding rounding) : rounding(rounding) {
    uint32_t seed = 1;
    for (const int64_t size :
         {int64_t(1), int64_t(0), int64_t(1023), int64_t(16385), int64_t(40000)}) {
      const DType state = wide(value);
      tensors.push_back({random(value, {size}, seed++), random(grad, {size}, seed++),
                         test::zeros(state, {size}), test::zeros(state, {size}),
                         test::zeros(copy, {size}), test::zeros(DType::bf16, {size}),
                         test::zeros(state, {size})});
    }
  }
  // Slots that point to `address(tensor, part)`.
  template <class Address>
  std::vector<OptimizerSlot> slots(const int64_t* taken, bool first, Address&& address) const {
    std::vector<OptimizerSlot> slots;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& t = tensors[i];
      slots.push_back({address(i, 0), t[0].dtype, address(i, 1), t[1].dtype, address(i, 2),
                       address(i, 3), rounding == UpdateRounding::nearest ? address(i, 4) : nullptr,
                       t[4].dtype, t[0].shape[0], taken, first, rounding, address(i, 5),
                       /*noise_seed=*/9 + i});
      slots.back().state3 = address(i, 6);
    }
    return slots;
  }
  UpdateRounding rounding;
  // value, grad, state1, state2, copy, compensation and state3 of each parameter
  std::vector<std::vector<Plain>> tensors;
};

OptimizerSlots multi(const std::vector<OptimizerSlot>& slots) {
  return {slots.data(), static_cast<int64_t>(slots.size())};
}

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

// Of what tensor k of a parameter holds. A value that is rounded the other way moves by a unit of
// bf16, which weight decay carries into the moments; a compensation is such a unit or less.
double magnitude(UpdateRounding rounding, size_t k) {
  if (rounding == UpdateRounding::nearest) return 0.1;
  return k == 2 || k == 3 || k == 6 ? 20 : 1;
}

// Four steps by kernel(table, slots, control) on both devices, of which the third is skipped;
// everything that they write agrees.
template <class Kernel>
void compare_steps(Kernel&& kernel) {
  for (const Kind& kind : kinds) {
    CAPTURE(std::string(name_of(kind.value)));
    CAPTURE(static_cast<int>(kind.rounding));
    const Parameters work(kind.value, kind.grad, kind.copy, kind.rounding);
    std::vector<std::vector<std::unique_ptr<GpuCopy>>> copies;
    for (const auto& tensors : work.tensors) {
      copies.emplace_back();
      for (const Plain& t : tensors) copies.back().push_back(std::make_unique<GpuCopy>(t));
    }
    for (int64_t taken = 0; taken < 4; ++taken) {
      const float factors[] = {taken == 2 ? 1.0f : 0.0f, 0.5f};
      const double clip = 0.3;
      const GpuCopy there(factors, sizeof factors), clip_there(&clip, sizeof clip);
      const auto* device_factors = static_cast<const float*>(there.data());
      const GpuCopy taken_there(&taken, sizeof taken);
      const auto on_device = work.slots(static_cast<const int64_t*>(taken_there.data()), taken == 0,
                                        [&](size_t i, int k) { return copies[i][k]->data(); });
      kernel(on(gpu), multi(on_device),
             StepControl{device_factors, device_factors + 1,
                         static_cast<const double*>(clip_there.data())});
      const auto on_host = work.slots(
          &taken, taken == 0, [&](size_t i, int k) { return work.tensors[i][k].bytes->data(); });
      kernel(on({}), multi(on_host), StepControl{factors, factors + 1, &clip});
    }
    for (size_t i = 0; i < copies.size(); ++i)
      for (size_t k = 0; k < copies[i].size(); ++k)
        check_same(copies[i][k]->fetch(work.tensors[i][k]), work.tensors[i][k],
                   work.tensors[i][k].dtype, magnitude(kind.rounding, k));
  }
}

}  // namespace

TEST_CASE("GPU: SGD, AdamW, RMSprop and LAMB step as on the CPU" * on_gpu()) {
  // Gives body(its numbers where the table's kernels read them).
  const auto with_numbers = [](const Table& table, StepNumbers numbers, auto&& body) {
    if (&table == &on({})) return body(&numbers);
    const StepNumbers none = {};
    const GpuCopy there(&none, sizeof none);
    auto* at = static_cast<StepNumbers*>(there.data());
    table.write_step_numbers(at, numbers);
    body(at);
  };
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
        // A large eps: where v is small a step is the gradient over it, with its rounding.
        const RmspropStep rmsprop = {0.01, 0.9, 0.5, 0.01, 0.8, false};
        with_numbers(table, {.rmsprop = rmsprop}, [&](const StepNumbers* numbers) {
          table.rmsprop_step(slots, &numbers->rmsprop, momentum, centered, control);
        });
      });
  for (const double most : {0.0, 0.5})
    compare_steps([=](const Table& table, OptimizerSlots slots, StepControl control) {
      const LambStep lamb = {0.01, 0.9, 0.99, 1e-6, 0.05, true, false, false, true, false, most};
      std::vector<double> squares(2 * static_cast<size_t>(slots.count) + 1, NAN);
      squares.back() = 40;  // the gradients' norm
      const GpuCopy squares_there(squares.data(), squares.size() * sizeof(double));
      double* sums =
          &table == &on({}) ? squares.data() : static_cast<double*>(squares_there.data());
      const double* norm = most > 0 ? sums + squares.size() - 1 : nullptr;
      with_numbers(table, {.lamb = lamb}, [&](const StepNumbers* numbers) {
        table.lamb_moments(slots, &numbers->lamb, norm, sums, control);
        table.lamb_apply(slots, &numbers->lamb, norm, sums, control);
      });
    });
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
