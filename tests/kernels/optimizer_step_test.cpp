// The optimizers' kernels over many tensors, on every CPU variant, against their formulae in
// double.
#include "tests/kernels/many_tensors.h"

#include <map>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

// The tensors that a step reads and writes; slots point into them.
struct Work {
  Work(DType value_dtype, DType grad_dtype, DType copy_dtype)
      : values(random_tensors(value_dtype, 1)),
        grads(random_tensors(grad_dtype, 50)),
        state1(zero_tensors(wide(value_dtype))),
        state2(zero_tensors(wide(value_dtype))),
        state3(zero_tensors(wide(value_dtype))),
        copies(zero_tensors(copy_dtype)) {}
  std::vector<OptimizerSlot> slots(int64_t step, bool with_copy) {
    std::vector<OptimizerSlot> slots;
    taken = step - 1;
    for (size_t i = 0; i < values.size(); ++i) {
      slots.push_back({values[i].bytes->data(), values[i].dtype, grads[i].bytes->data(),
                       grads[i].dtype, state1[i].bytes->data(), state2[i].bytes->data(),
                       with_copy ? copies[i].bytes->data() : nullptr, copies[i].dtype,
                       values[i].shape[0], &taken, step == 1});
      slots.back().state3 = state3[i].bytes->data();
    }
    return slots;
  }
  Numbers everything() const {
    Numbers all = joined(values);
    for (const auto* tensors : {&state1, &state2, &state3, &copies})
      for (double x : joined(*tensors)) all.push_back(x);
    return all;
  }
  std::vector<Plain> values, grads, state1, state2, state3, copies;
  int64_t taken = 0;
};

struct DTypes {
  DType value, grad, copy;
};
const DTypes dtype_cases[] = {
    {DType::f32, DType::f32, DType::bf16},   {DType::f32, DType::bf16, DType::bf16},
    {DType::f32, DType::f16, DType::f16},    {DType::f64, DType::f64, DType::bf16},
    {DType::bf16, DType::bf16, DType::bf16}, {DType::f16, DType::f16, DType::f16}};

const float inverse_scale = 0.5f;
const double clip = 0.3;
const StepControl control = {nullptr, &inverse_scale, &clip};

// Runs both passes; the sums of squares between them are 0 if the step is skipped.
void lamb_step(const Table& table, const OptimizerSlots& slots, const LambStep& step,
               const StepControl& by) {
  Numbers squares(2 * static_cast<size_t>(slots.count), -1.0);
  table.lamb_moments(slots, &step, nullptr, squares.data(), by);
  if (by.found_inf) CHECK(squares == Numbers(squares.size(), 0.0));
  table.lamb_apply(slots, &step, nullptr, squares.data(), by);
}

// Runs `steps` kernel steps, and the same with `reference(value, grad, m, v, step)` in double. Each
// reference step starts from the kernel's rounded value, so that errors do not accumulate.
template <class Kernel, class Reference>
void check_steps(Kernel&& kernel, Reference&& reference) {
  for (const DTypes& dtypes : dtype_cases) {
    CAPTURE(std::string(name_of(dtypes.value)));
    CAPTURE(std::string(name_of(dtypes.grad)));
    everywhere([&](const Table& table) {
      Work work(dtypes.value, dtypes.grad, dtypes.copy);
      const Numbers grads = joined(work.grads);
      Numbers m(grads.size()), v(grads.size());
      for (int step = 1; step <= 3; ++step) {
        Numbers want = joined(work.values);
        for (size_t i = 0; i < want.size(); ++i)
          want[i] =
              reference(want[i], grads[i] * double(inverse_scale) * clip, m[i], v[i], step);
        auto slots = work.slots(step, true);
        kernel(table, OptimizerSlots{slots.data(), static_cast<int64_t>(slots.size())});
        check_close(joined(work.values), want, rounding(dtypes.value), 0x1p-20);
        check_close(joined(work.copies), joined(work.values), rounding(dtypes.copy), 0x1p-24);
      }
    });
  }
}

}  // namespace

TEST_CASE("SGD's kernel follows the formula in every dtype and rewrites the 16-bit copy") {
  const SgdStep step = {0.1, 0.9, 0.25, 0.3, true, true};
  check_steps([&](const Table& t, OptimizerSlots s) { t.sgd_step(s, &step, true, control); },
              [&](double p, double g, double& m, double&, int t) {
                const double d = -g + 0.3 * p;
                m = t == 1 ? d : 0.9 * m + 0.75 * d;
                return p - 0.1 * (d + 0.9 * m);
              });
}

TEST_CASE("SGD without momentum touches no state") {
  const SgdStep step = {0.1, 0, 0, 0.3, false, false};
  Work work(DType::f32, DType::f32, DType::bf16);
  auto slots = work.slots(1, false);
  for (auto& slot : slots) slot.state1 = slot.state2 = nullptr;
  Numbers want = joined(work.values);
  const Numbers grads = joined(work.grads);
  for (size_t i = 0; i < want.size(); ++i) want[i] -= 0.1 * (grads[i] + 0.3 * want[i]);
  on({}).sgd_step({slots.data(), static_cast<int64_t>(slots.size())}, &step, false, {});
  check_close(joined(work.values), want, 0x1p-20, 0x1p-22);
}

TEST_CASE("AdamW's kernel follows the formula in every dtype and rewrites the 16-bit copy") {
  const AdamStep step = {0.1, 0.8, 0.9, 1e-3, 0.2, true, false};
  check_steps([&](const Table& t, OptimizerSlots s) { t.adam_step(s, &step, control); },
              [&](double p, double g, double& m, double& v, int t) {
                m = 0.8 * m + (1 - 0.8) * g;
                v = 0.9 * v + (1 - 0.9) * g * g;
                const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(0.9, t)) + 1e-3;
                return p * (1 - 0.1 * 0.2) - 0.1 / (1 - std::pow(0.8, t)) * m / denominator;
              });
}

TEST_CASE("RMSprop's kernel follows the formula with and without momentum and centre") {
  const RmspropStep step = {0.1, 0.9, 1e-2, 0.3, 0.8, true};
  for (const bool momentum : {false, true})
    for (const bool centered : {false, true}) {
      std::map<const double*, double> averages;  // of gradients, by address of v
      check_steps([&](const Table& t,
                      OptimizerSlots s) { t.rmsprop_step(s, &step, momentum, centered, control); },
                  [&](double p, double g, double& m, double& v, int t) {
                    double& a = t == 1 ? averages[&v] = 0 : averages[&v];
                    const double d = -g + 0.3 * p;
                    v = 0.9 * v + (1 - 0.9) * d * d;
                    a = 0.9 * a + (1 - 0.9) * d;
                    const double update = d / (std::sqrt(centered ? v - a * a : v) + 1e-2);
                    m = momentum ? 0.8 * m + update : update;
                    return p - 0.1 * m;
                  });
    }
}

TEST_CASE("a large working copy is the value rounded, wherever it begins") {
  const int64_t none_taken = 0;
  constexpr int64_t size = 600001;  // exceeds caches, and is not a multiple of the pieces
  const SgdStep step = {0.1, 0, 0, 0, false, false};
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const int64_t shift : {0, 3})
      everywhere([&](const Table& table) {
        const Plain value = random(DType::f32, {size}, 1), grad = random(dtype, {size}, 2);
        const Plain copy = test::zeros(dtype, {shift + size});
        const OptimizerSlot slot = {value.bytes->data(),
                                    DType::f32,
                                    grad.bytes->data(),
                                    dtype,
                                    nullptr,
                                    nullptr,
                                    copy.bytes->data() + shift * size_of(dtype),
                                    dtype,
                                    size,
                                    &none_taken,
                                    true};
        table.sgd_step({&slot, 1}, &step, false, control);
        Numbers want = numbers(value);
        want.insert(want.begin(), static_cast<size_t>(shift), 0.0);
        check_close(numbers(copy), want, rounding(dtype), 0x1p-24);
      });
}

TEST_CASE("LAMB's kernel adapts the rate of each tensor to its norms") {
  const Work start(DType::f32, DType::f32, DType::bf16);
  const LambStep step = {0.1, 0.9, 0.99, 1e-6, 0.1, true, false, false, true, false, 0};
  everywhere([&](const Table& table) {
    Work work = start;
    auto slots = work.slots(1, false);
    lamb_step(table, {slots.data(), static_cast<int64_t>(slots.size())}, step, {});
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Numbers p = numbers(start.values[i]), g = numbers(start.grads[i]);
      Numbers update = p;
      double p_norm = 0, update_norm = 0;
      for (size_t j = 0; j < p.size(); ++j) {
        update[j] = g[j] / (std::abs(g[j]) + 1e-6) + 0.1 * p[j];
        p_norm += p[j] * p[j];
        update_norm += update[j] * update[j];
      }
      Numbers want = p;
      for (size_t j = 0; j < p.size(); ++j)
        want[j] -= 0.1 * std::sqrt(p_norm / update_norm) * update[j];
      check_close(numbers(work.values[i]), want, 0x1p-18, 0x1p-18);
    }
  });
}

namespace {

// Steps `steps` times with -1 * gradient from 1 with a rounding mode; returns the values.
Numbers rounded_steps(const Table& table, UpdateRounding rounding, int64_t elements, int steps,
                      double gradient, Plain& compensation) {
  const Plain value = from_numbers(DType::bf16, {elements}, Numbers(elements, 1));
  const Plain grad = from_numbers(DType::f32, {elements}, Numbers(elements, -gradient));
  const SgdStep plain = {1, 0, 0, 0, false, false};
  OptimizerSlot slot = {value.bytes->data(),
                        DType::bf16,
                        grad.bytes->data(),
                        DType::f32,
                        nullptr,
                        nullptr,
                        nullptr,
                        DType::bf16,
                        elements,
                        nullptr,
                        false};
  slot.rounding = rounding;
  slot.compensation = compensation.bytes->data();
  int64_t taken = 0;
  slot.steps = &taken;
  for (; taken < steps; ++taken) table.sgd_step({&slot, 1}, &plain, false, {});
  return numbers(value);
}

}  // namespace

TEST_CASE("a thousand updates of 1e-3 to a bf16 1: lost, kept by Kahan, right on average") {
  everywhere([](const Table& table) {
    Plain c = test::zeros(DType::bf16, {3});
    CHECK(rounded_steps(table, UpdateRounding::nearest, 3, 1000, 1e-3, c) == Numbers(3, 1));
    CHECK(rounded_steps(table, UpdateRounding::kahan, 3, 1000, 1e-3, c) == Numbers(3, 2));
    CHECK(numbers(c) == Numbers(3, -0.003143310546875));
    const int64_t runs = 300;
    const Numbers ends = rounded_steps(table, UpdateRounding::stochastic, runs, 1000, 1e-3, c);
    double sum = 0;
    for (double end : ends) {
      CHECK((end > 1.7 && end < 2.3));
      sum += end;
    }
    CHECK(std::abs(sum / runs - 2) < 0.03);
  });
}

TEST_CASE("stochastic rounding goes up as often as the value lies high, and never from a bf16") {
  everywhere([](const Table& table) {
    Plain c = test::zeros(DType::bf16, {1});
    const int64_t runs = 20000;
    const auto ends = rounded_steps(table, UpdateRounding::stochastic, runs, 1, 1e-3, c);
    int64_t up = 0;
    for (double end : ends) {
      CHECK((end == 1 || end == 1.0078125));
      up += end != 1;
    }
    CHECK(std::abs(static_cast<double>(up) / runs - 0.128) < 0.01);
    CHECK(rounded_steps(table, UpdateRounding::stochastic, 100, 1, 0.25, c) == Numbers(100, 1.25));
    for (double end : rounded_steps(table, UpdateRounding::stochastic, 100, 1, infinity, c))
      CHECK(end == infinity);
    for (double end : rounded_steps(table, UpdateRounding::stochastic, 100, 1, NAN, c))
      CHECK(std::isnan(end));
  });
}

TEST_CASE("a step with found_inf changes nothing") {
  const AdamStep adam = {0.1, 0.8, 0.9, 1e-3, 0.2, true, false};
  const SgdStep sgd = {0.1, 0.9, 0, 0.3, false, false};
  const LambStep lamb = {0.1, 0.9, 0.99, 1e-6, 0.1, true, false, false, true, false, 0};
  for (float found : {1.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const StepControl skip = {&found, nullptr, nullptr};
    Work work(DType::f32, DType::f32, DType::bf16);
    const Numbers before = work.everything();
    auto slots = work.slots(1, true);
    const OptimizerSlots all = {slots.data(), static_cast<int64_t>(slots.size())};
    on({}).sgd_step(all, &sgd, true, skip);
    on({}).adam_step(all, &adam, skip);
    lamb_step(on({}), all, lamb, skip);
    CHECK(work.everything() == before);
  }
}

TEST_CASE("steps give the same bits with one thread and with two") {
  const AdamStep adam = {0.1, 0.8, 0.9, 1e-3, 0.2, true, false};
  const SgdStep sgd = {0.1, 0.9, 0, 0.3, false, false};
  const LambStep lamb = {0.1, 0.9, 0.99, 1e-6, 0.1, true, false, false, true, false, 0};
  const int threads = thread_count();
  Numbers bits[2];
  for (int count : {1, 2}) {
    set_thread_count(count);
    Work work(DType::f32, DType::bf16, DType::bf16);
    auto slots = work.slots(1, true);
    const OptimizerSlots all = {slots.data(), static_cast<int64_t>(slots.size())};
    on({}).sgd_step(all, &sgd, true, {});
    on({}).adam_step(all, &adam, {});
    lamb_step(on({}), all, lamb, {});
    bits[count - 1] = work.everything();
  }
  set_thread_count(threads);
  CHECK(bits[0] == bits[1]);
}
