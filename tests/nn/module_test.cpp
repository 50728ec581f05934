// Features of every module, shown on small ones.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/criterion.h"
#include "core/nn/layers.h"
#include "core/nn/module.h"
#include "tests/error_of.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

class Classifier : public Module {
 public:
  Classifier() : Module("Classifier") {}
  Linear& hidden = add<Linear>("hidden", 4, 6);
  BatchNorm2d& norm = add<BatchNorm2d>("norm", 6);
  Linear& head = add<Linear>("head", 6, 3);

 private:
  Tensor forward(const Tensor& x) override { return head(relu(hidden(x))); }
};

std::vector<std::string> tensor_names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, x] : tensors) names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("parameters and buffers have dotted names in the order of registration") {
  const Model model = Classifier();
  CHECK(tensor_names(model.parameters()) == Names{"hidden.weight", "hidden.bias", "norm.weight",
                                                  "norm.bias", "head.weight", "head.bias"});
  CHECK(tensor_names(model.buffers()) ==
        Names{"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"});
  CHECK(model.state_dict().size() == 9);
  CHECK(model.state_dict()[4].name == "norm.running_mean");
  CHECK(model->parameter_count() == 4 * 6 + 6 + 12 + 18 + 3);
}

namespace {

class Pieces : public Module {
 public:
  Pieces() : Module("Pieces") {}
  Conv2d& conv = add<Conv2d>("conv", 3, 8, 3, {.stride = 2, .padding = 1, .bias = false});
  Linear& fc = add<Linear>("fc", 8, 2, {.bias = false});
  LayerNorm& norm = add<LayerNorm>("norm", 8, {.eps = 1e-3});
  MaxPool2d& pool = add<MaxPool2d>("pool", 2, {.ceil_mode = true});
  Linear& with_named_options = add<Linear>("named", 8, 2, LinearOptions{.bias = false});
  ModuleList& blocks = add<ModuleList>("blocks");

 private:
  Tensor forward(const Tensor& x) override { return pool(conv(x)); }
};

}  // namespace

TEST_CASE("a part is added with its options in braces") {
  Pieces pieces;
  CHECK(pieces(zeros({1, 3, 9, 9})).shape() == Shape{1, 8, 3, 3});
  CHECK_FALSE(pieces.fc.bias.defined());
  CHECK_FALSE(pieces.with_named_options.bias.defined());
  CHECK(pieces.norm.eps == 1e-3);
}

TEST_CASE("losses without options are made of empty braces") {
  CHECK(CrossEntropyLoss({}).name() == "cross_entropy");
  CHECK(KLDivLoss({}).name() == "kl_div");
  CHECK(KLDivLoss({.log_target = true}).name() == "kl_div");
  CHECK(NLLLoss({}).name() == "nll_loss");
  CHECK(BCELoss({}).name() == "binary_cross_entropy");
  CHECK_THROWS_AS(mse_loss(zeros({2}), zeros({2}), Reduction::batch_mean), Error);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 2}), zeros({2}, {.dtype = DType::i64}),
                                {.reduction = Reduction::batch_mean}),
                  Error);
}

TEST_CASE("a module list holds modules in order and is not called itself") {
  ModuleList list({Linear(2, 3), ReLU()});
  list.append(Linear(3, 1));
  CHECK(list.size() == 3);
  CHECK(tensor_names(list.parameters()) == Names{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(list[2](list[1](list[0](ones({4, 2})))).shape() == Shape{4, 1});
  CHECK(&list[-1] == &list[2]);
  CHECK_THROWS_AS(list[3], Error);
  CHECK_THROWS_WITH_AS(list(ones({4, 2})), doctest::Contains("has no forward"), Error);
}

TEST_CASE("a state is loaded from a map of names") {
  const Model from = Linear(3, 2), to = Linear(3, 2);
  std::map<std::string, Tensor> state;
  for (const auto& [name, x] : from.state_dict()) state[name] = x.detach().clone();
  to.load_state_dict(state);
  CHECK(to.parameters()[0].tensor.to_vector<float>() ==
        from.parameters()[0].tensor.to_vector<float>());
  state.erase("bias");
  CHECK_THROWS_WITH_AS(to.load_state_dict(state), doctest::Contains("1 missing: bias"), Error);
  using Words = std::vector<std::string>;
  CHECK(to.load_state_dict(state, false).missing == Words{"bias"});
  const NameDifferences found =
      to.load_state_dict({{"bias", zeros({2})}, {"module.weight", zeros({2, 3})}}, false);
  CHECK(found.missing == Words{"weight"});
  CHECK(found.unexpected == Words{"module.weight"});
}

TEST_CASE("copies of a model handle share its parameters") {
  const Model model = Classifier();
  const Model copy = model;
  const NoGradGuard no_grad;
  model.parameters()[0].tensor.fill_(7);
  CHECK(copy.parameters()[0].tensor.to_vector<float>()[5] == 7);
  CHECK_THROWS_WITH_AS(Model()(ones({1})), doctest::Contains("empty handle"), Error);
}

TEST_CASE("a module used twice appears once among parameters and twice in the state") {
  const Model layer = Linear(3, 3);
  const Model model = Sequential({layer, ReLU(), layer});
  CHECK(tensor_names(model.parameters()) == Names{"0.weight", "0.bias"});
  CHECK(tensor_names(model.state_dict()) == Names{"0.weight", "0.bias", "2.weight", "2.bias"});
}

TEST_CASE("a loaded state gives the same outputs") {
  manual_seed(1);
  const Model from = Classifier(), to = Classifier();
  const Tensor x = hashed({5, 4}, 1);
  CHECK(from(x).to_vector<float>() != to(x).to_vector<float>());
  to.load_state_dict(from.state_dict());
  CHECK(from(x).to_vector<float>() == to(x).to_vector<float>());
}

TEST_CASE("a state that does not fit changes nothing and says what differs") {
  manual_seed(1);
  const Model model = Classifier();
  StateDict state;
  for (const auto& [name, x] : model.state_dict()) state.push_back({name, ones(x.shape())});
  state[0].tensor = ones({6, 5});
  state[1].name = "hidden.offset";
  const auto before = model.parameters()[2].tensor.to_vector<float>();
  const std::string text = error_of([&] { model.load_state_dict(state); });
  CHECK(text ==
        "load_state_dict: state does not match this Classifier; 1 missing: hidden.bias; 1 "
        "unexpected: "
        "hidden.offset; 1 of another shape: hidden.weight (got (6, 5), want (6, 4))");
  CHECK(model.state_dict()[8].tensor.to_vector<float>() != state[8].tensor.to_vector<float>());
  CHECK(model.parameters()[2].tensor.to_vector<float>() == before);
  state[0].tensor = ones({6, 4});
  model.load_state_dict(state, /*strict=*/false);
  CHECK(model.parameters()[0].tensor.to_vector<float>()[0] == 1);
  state.push_back(state[0]);
  CHECK(doctest::String(error_of([&] { model.load_state_dict(state, false); }).c_str()) ==
        doctest::Contains("two tensors have the name hidden.weight"));
}

TEST_CASE("a state of another dtype is converted") {
  const Model model = Linear(2, 2);
  StateDict state;
  for (const auto& [name, x] : model.state_dict())
    state.push_back({name, full(x.shape(), 1.5, {.dtype = DType::bf16})});
  model.load_state_dict(state);
  CHECK(model.parameters()[0].tensor.dtype() == DType::f32);
  CHECK(model.parameters()[0].tensor.to_vector<float>()[3] == 1.5f);
}

TEST_CASE("train and eval reach every module") {
  const Model model = Sequential({Linear(2, 2), Sequential({Dropout(0.5)})});
  model.eval();
  for (auto& [name, module] : model->named_modules()) CHECK_FALSE(module->training());
  const Tensor x = ones({3, 2});
  CHECK(model(x).to_vector<float>() == model(x).to_vector<float>());
  model.train();
  for (auto& [name, module] : model->named_modules()) CHECK(module->training());
}

TEST_CASE("frozen parameters get no gradient") {
  const Model model = Classifier();
  model->freeze();
  CHECK_FALSE(model(ones({2, 4})).requires_grad());
  model->requires_grad_();
  static_cast<Classifier&>(model.module()).hidden.freeze();
  sum(model(ones({2, 4}))).backward();
  CHECK_FALSE(model.parameters()[0].tensor.grad().defined());
  CHECK(model.parameters()[4].tensor.grad().defined());
  model.zero_grad();
  CHECK_FALSE(model.parameters()[4].tensor.grad().defined());
}

TEST_CASE("modules can be walked by name and by type, parts before wholes by apply") {
  const Model model = Classifier();
  Names names;
  for (auto& [name, module] : model->named_modules()) names.push_back(name);
  CHECK(names == Names{"", "hidden", "norm", "head"});
  Names kinds;
  model->apply([&](Module& module) { kinds.push_back(module.kind()); });
  CHECK(kinds == Names{"Linear", "BatchNorm2d", "Linear", "Classifier"});
}

TEST_CASE("a change of dtype reaches tensors held elsewhere and may spare some modules") {
  const Model model = Classifier();
  const Parameters held = model.parameters();
  for (auto& [name, module] : model->named_modules())
    if (!dynamic_cast<BatchNorm2d*>(module)) module->convert_own(DType::bf16);
  CHECK(held[0].tensor.dtype() == DType::bf16);
  CHECK(held[2].tensor.dtype() == DType::f32);
  const Tensor y = model(ones({2, 4}, {.dtype = DType::bf16}));
  CHECK(y.dtype() == DType::bf16);
  sum(y).backward();
  CHECK(held[0].tensor.grad().dtype() == DType::bf16);
  model->to(DType::f64);
  CHECK(held[0].tensor.dtype() == DType::f64);
  CHECK_FALSE(held[0].tensor.grad().defined());
  CHECK(held[0].tensor.requires_grad());
  CHECK(model.buffers()[0].tensor.dtype() == DType::f64);
  CHECK(model.buffers()[2].tensor.dtype() == DType::i64);
  CHECK_THROWS_AS(model->to(DType::i32), Error);
  const uint32_t version = held[0].tensor.version();
  model->to(DType::f32);
  CHECK(held[0].tensor.version() > version);  // a cached 16-bit copy for autocast is stale
}

TEST_CASE("a parameter that is replaced by a part of itself is that part for every holder") {
  Classifier classifier;
  const Tensor weight = classifier.hidden.weight;
  const uint32_t version = weight.version();
  weight.set_grad(ones({6, 4}));
  const auto last = untracked::narrow(weight.detach(), 0, 4, 2).to_vector<float>();
  replace_(weight, untracked::narrow(weight.detach(), 0, 4, 2));
  CHECK(classifier.hidden.weight.shape() == Shape{2, 4});
  CHECK(classifier.parameters()[0].tensor.to_vector<float>() == last);
  CHECK_FALSE(weight.grad().defined());
  CHECK(weight.requires_grad());
  CHECK(weight.version() > version);
  CHECK(error_of([&] {
          replace_(weight, ones({2, 4}, {.dtype = DType::f16}));
        }) ==
        "replace_: wrong dtype or device of the numbers; got f16, want f32 on the same device");
}

TEST_CASE("hooks see and may replace inputs and outputs until they are removed") {
  const Model model = Identity();
  const int before =
      model->register_forward_pre_hook([](Module&, const Tensor& x) { return x * 2; });
  const int after =
      model->register_forward_hook([](Module& module, const Tensor& x, const Tensor& y) {
        CHECK(module.kind() == "Identity");
        return x + y;
      });
  CHECK(model(ones({1})).item() == 4);
  model->remove_hook(after);
  CHECK(model(ones({1})).item() == 2);
  model->remove_hook(before);
  CHECK(model(ones({1})).item() == 1);
  CHECK_THROWS_WITH_AS(model->remove_hook(before), doctest::Contains("no such hook"), Error);
}

TEST_CASE("names of parts must be new and without dots") {
  class Bad : public Module {
   public:
    explicit Bad(const std::string& name) : Module("Bad") {
      add<ReLU>("part");
      add<ReLU>(name);
    }

   private:
    Tensor forward(const Tensor& x) override { return x; }
  };
  CHECK_THROWS_WITH_AS(Bad("part"), doctest::Contains("two parts have the same name"), Error);
  CHECK_THROWS_WITH_AS(Bad("a.b"), doctest::Contains("without dots"), Error);
  CHECK_THROWS_WITH_AS(Bad(""), doctest::Contains("wrong name"), Error);
}

TEST_CASE("a description shows the tree") {
  const Model model = Sequential({Linear(2, 3), Sequential({GELU(GeluForm::tanh)})});
  CHECK(model.to_string() ==
        "Sequential(\n  (0): Linear(2, 3, bias=true)\n  (1): Sequential(\n    (0): "
        "GELU(form=tanh)\n  )\n)");
}

TEST_CASE("a criterion says by what its mean divides: a sum of losses is its mean times that") {
  const Tensor label = from_vector(std::vector<int64_t>{0, 2, -100, 1, 2}, {5});
  const Tensor weight = from_vector(std::vector<float>{1, 0.5F, 2}, {3});
  Generator generator(3);
  const Tensor logits = uniform({5, 3}, -1, 1, {}, generator);
  const auto sum_by_divisor = [](const Criterion& criterion, const Tensor& y, const Tensor& t) {
    return criterion(y, t).item() * criterion.divisor(t).item();
  };
  for (const Tensor& weights : {Tensor(), weight}) {
    const CrossEntropyOptions options = {.weight = weights, .reduction = Reduction::sum};
    CHECK(sum_by_divisor(CrossEntropyLoss({.weight = weights}), logits, label) ==
          doctest::Approx(cross_entropy(logits, label, options).item()));
    CHECK(sum_by_divisor(NLLLoss({.weight = weights}), log_softmax(logits, 1), label) ==
          doctest::Approx(cross_entropy(logits, label, options).item()));
  }
  const Tensor probabilities = softmax(uniform({5, 3}, -1, 1, {}, generator), 1);
  CHECK(sum_by_divisor(CrossEntropyLoss(), logits, probabilities) ==
        doctest::Approx(
            cross_entropy(logits, probabilities, {.reduction = Reduction::sum}).item()));
  CHECK(sum_by_divisor(MSELoss(), logits, probabilities) ==
        doctest::Approx(mse_loss(logits, probabilities, Reduction::sum).item()));
  CHECK(KLDivLoss({.reduction = Reduction::batch_mean}).divisor(logits).item() == 5);
  const Criterion own = [](const Tensor& y, const Tensor&) { return mean(y); };
  CHECK(own.divisor(logits).item() == 5);
  CHECK_THROWS_WITH_AS(MSELoss(Reduction::sum).divisor(logits),
                       doctest::Contains("mse_loss: only a mean has a divisor"), Error);
}

TEST_CASE("criteria are called with output and target, and any function can be one") {
  const Tensor logits = hashed({4, 3}, 1), classes = from_vector<int64_t>({0, 1, 2, 0}, {4});
  Criterion criterion = CrossEntropyLoss({.label_smoothing = 0.1});
  CHECK(criterion.name() == "cross_entropy");
  CHECK(criterion(logits, classes).item() ==
        cross_entropy(logits, classes, {.label_smoothing = 0.1}).item());
  const Tensor target = hashed({4, 3}, 2, 0, 1);
  CHECK(MSELoss()(logits, target).item() == mse_loss(logits, target).item());
  CHECK(L1Loss()(logits, target).item() == l1_loss(logits, target).item());
  CHECK(HuberLoss(0.5)(logits, target).item() == huber_loss(logits, target, 0.5).item());
  CHECK(SmoothL1Loss(0.5)(logits, target).item() == smooth_l1_loss(logits, target, 0.5).item());
  CHECK(BCEWithLogitsLoss()(logits, target).item() ==
        binary_cross_entropy_with_logits(logits, target).item());
  CHECK(BCELoss()(target, target).item() == binary_cross_entropy(target, target).item());
  CHECK(NLLLoss()(logits, classes).item() == nll_loss(logits, classes).item());
  criterion = [](const Tensor& y, const Tensor& t) { return sum(y - t); };
  CHECK(criterion(target, target).item() == 0);
  CHECK_THROWS_AS(CrossEntropyLoss({.label_smoothing = 2}), Error);
}
