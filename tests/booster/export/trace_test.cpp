// ONNX files of models that the library does not know, from a traced forward pass.
#include "booster/config/pretrained.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/nn/sequence_layers.h"
#include "tests/booster/export/onnx_reader.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <functional>

using namespace booster;

namespace {

using Sizes = std::vector<std::string>;
using Function = std::function<Tensor(const Tensor&)>;

// A model that is one function, with a weight.
class Inline : public Module {
 public:
  explicit Inline(Function function)
      : Module("Inline"),
        weight(add_parameter("weight", ones({4}))),
        function_(std::move(function)) {}
  const Tensor weight;

 private:
  Tensor forward(const Tensor& x) override { return function_(x); }
  Function function_;
};

test::ReadOnnx exported(const Model& model, const Shape& sample, const OnnxOptions& options = {}) {
  const TemporaryFolder folder;
  export_onnx(model, sample, folder / "model.onnx", options);
  return test::ReadOnnx(folder.read("model.onnx"));
}

test::ReadOnnx exported(const Function& function, const Shape& sample = {4}) {
  return exported(Model(std::make_shared<Inline>(function)), sample);
}

std::string refusal(const Function& function) {
  return error_of([&] { exported(function); });
}

class Reader : public Module {
 public:
  Reader() : Module("Reader") {}
  Embedding& table = add<Embedding>("table", 11, 8);
  MultiheadAttention& attend = add<MultiheadAttention>(
      "attend", 8, 2, MultiheadAttentionOptions{.batch_first = true, .causal = true});
  Linear& head = add<Linear>("head", 8, 3);

 private:
  Tensor forward(const Tensor& ids) override {
    const Tensor places = cast(arange(ids.size(1)), DType::f32);
    const Tensor x = table(ids) + sin(unsqueeze(places, 1));
    return head(mean(rms_norm(x + attend(x), {8}), {1}));
  }
};

class Counter : public Module {
 public:
  Counter() : Module("Counter") {}
  LSTM& memory = add<LSTM>("memory", 4, 5, RecurrentOptions{.batch_first = true});
  LayerNorm& norm = add<LayerNorm>("norm", 5);

 private:
  Tensor forward(const Tensor& x) override { return norm(select(memory(x), 1, -1)); }
};

class Nested : public Module {
 public:
  explicit Nested(Function function) : Module("Nested") {
    add_existing("inside", std::make_shared<Inline>(std::move(function)));
  }

 private:
  Tensor forward(const Tensor& x) override { return (*children()[0].second)(x); }
};

}  // namespace

TEST_CASE("a model of tokens is exported for any batch and any number of tokens") {
  const test::ReadOnnx file = exported(std::make_shared<Reader>(), {6}, {.indices = 11});
  CHECK(file.operator_set == 17);
  CHECK(file.input_type == 7);  // i64
  CHECK(file.input == Sizes{"batch", "tokens"});
  CHECK(file.output == Sizes{"batch", "3"});
  for (const char* name : {"table.weight", "attend.in_proj_weight", "head.bias"})
    CHECK_MESSAGE(file.weights.contains(name), name);
  CHECK(file.weights.at("table.weight") == std::vector<int64_t>{11, 8});
  CHECK(file.count("Softmax") == 1);
  CHECK(file.count("LessOrEqual") == 1);  // hides the future
  CHECK(file.count("Range") == 3);        // places: of embeddings, queries and keys
}

TEST_CASE("a recurrent model is exported step by step for any batch") {
  const test::ReadOnnx file = exported(std::make_shared<Counter>(), {3, 4});
  CHECK(file.input == Sizes{"batch", "3", "4"});  // other steps are other ops
  CHECK(file.output == Sizes{"batch", "5"});
  CHECK(file.count("Sigmoid") == 9);
  CHECK(file.count("LayerNormalization") == 1);
  CHECK(file.count("Expand") == 2);  // the first state and cell, zeros for each row
}

TEST_CASE("sizes that follow the input's are computed, others are written") {
  // The batch stays at its place; then it becomes part of another size, then another place.
  CHECK(exported([](const Tensor& x) {
          return reshape(x, {x.size(0), 2, 2});
        }).count("Shape") == 0);
  const test::ReadOnnx joined = exported([](const Tensor& x) { return reshape(x, {-1, 2}); });
  CHECK(joined.count("Shape") == 1);
  CHECK(joined.count("Mul") == 1);
  CHECK(joined.output == Sizes{"logits_0", "2"});
  const test::ReadOnnx turned = exported([](const Tensor& x) {
    return reshape(transpose(x, 0, 1), {4, x.size(0), 1});
  });
  CHECK(turned.output == Sizes{"4", "batch", "1"});
  CHECK(exported([](const Tensor& x) { return flip(x, {0}); }).count("Range") == 1);
  CHECK(exported([](const Tensor& x) { return x + zeros({x.size(0), 1}); }).count("Expand") == 1);
}

TEST_CASE("only ops that the output needs are exported") {
  const test::ReadOnnx file = exported([](const Tensor& x) {
    exp(x);
    return sin(x);
  });
  CHECK(file.nodes.size() == 2);  // Sin, and Identity for the name of the output
  CHECK(file.weights.empty());
}

TEST_CASE("what a graph cannot do is refused with the op and its module") {
  const auto has = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(contains(text, part), text);
  };
  has(refusal([](const Tensor& x) { return x * sum(x).item(); }), "mul in the model itself");
  has(refusal([](const Tensor& x) { return x + normal(x.shape()); }), "no recorded op made it");
  has(refusal([](const Tensor& x) { return x[greater(x, 0.0)]; }), "index_select");
  has(refusal([](const Tensor& x) { return x.size(0) > 3 ? exp(x) : sin(x); }), "different ops");
  has(refusal([](const Tensor&) { return zeros({3}); }), "does not depend on the input");
  const auto changed_in_place = [](const Tensor& x) {
    Tensor y = x * 2.0;
    y.add_(x);
    return exp(y);
  };
  has(refusal(changed_in_place), "exp: an op changed its argument in place");
  const auto unknown = [](const Tensor& x) {
    return record(untracked::clone(x), "cube", {x}, [](const Tensor&, Gradients&) {});
  };
  has(refusal(unknown), "onnx: cube in the model itself: no translation");
  const Model nested = std::make_shared<Nested>(unknown);
  CHECK_THROWS_WITH_AS(exported(nested, {4}), doctest::Contains("cube in inside"), Error);
}

TEST_CASE("models of several inputs or outputs are refused by one sentence") {
  class Several : public Module {
   public:
    explicit Several(bool takes_two) : Module("Several"), takes_two_(takes_two) {}
    Linear& linear = add<Linear>("linear", 4, 4);
    Tensors example_inputs(int64_t rows) const override {
      const Tensor x = ones({rows, 4});
      return takes_two_ ? Tensors({{"a", x}, {"b", x}}) : Tensors(x);
    }

   private:
    Tensors forward_named(const Tensors& x) override {
      return {{"y", linear(x.begin()->tensor)}, {"z", x.begin()->tensor}};
    }
    bool takes_two_;
  };
  const auto text_of = [](bool takes_two) {
    return error_of([&] { export_onnx(Several(takes_two), {4}, "never_written.onnx"); });
  };
  CHECK(
      text_of(true) ==
      "onnx: a Several takes several tensors; got a, b, want a model of one input and one output");
  CHECK(
      text_of(false) ==
      "onnx: a Several gives several tensors; got y, z, want a model of one input and one output");
}
