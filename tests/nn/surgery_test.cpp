// Choosing, freezing and replacing parts of a model; buffers that no file holds; members that are
// no parts.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/models.h"
#include "core/nn/module.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {

// Gives twice what its part gives.
class Twice : public Module {
 public:
  explicit Twice(const Model& part) : Module("Twice"), part_(add_existing("part", part.shared())) {}

 private:
  Tensor forward(const Tensor& x) override { return part_(x) * 2; }
  Module& part_;
};

// A part by a reference, a part of a list, and a part that is used twice.
class Several : public Module {
 public:
  Several() : Module("Several") {
    for (int i = 0; i < 2; ++i) list.append(Sequential({Linear(6, 6), GELU()}));
  }
  Linear& in = add<Linear>("in", 5, 6);
  ModuleList& list = add<ModuleList>("list");
  LayerNorm& norm = add<LayerNorm>("norm", 6);

 private:
  Tensor forward(const Tensor& x) override {
    return norm(list[1](norm(list[0](in(x)))));
  }
};

struct Subject {
  std::string name;
  Model model;
  Tensor input;
};

Subject subject(unsigned number) {
  const Tensor tokens = randint(0, 11, {2, 5});
  switch (number % 7) {
    case 0: return {"several", Several(), normal({3, 5})};
    case 1:
      return {"vit",
              models::vit("vit_tiny_patch16_224", {.num_classes = 3, .img_size = 8, .patch_size = 4,
                                                   .embed_dim = 8, .depth = 2, .num_heads = 2}),
              normal({2, 3, 8, 8})};
    case 2:
      return {"gpt2",
              models::gpt2("gpt2", {.vocab_size = 11, .n_positions = 6, .embd_pdrop = 0,
                                    .attn_pdrop = 0, .resid_pdrop = 0, .n_embd = 8, .n_layer = 2,
                                    .n_head = 2}),
              tokens};
    case 3:
    case 4:
      return {number % 7 == 3 ? "llama" : "qwen3",
              models::decoder(number % 7 == 3 ? "llama" : "qwen3",
                              {.vocab_size = 11, .hidden_size = 8, .intermediate_size = 12,
                               .num_hidden_layers = 2, .num_attention_heads = 2,
                               .num_key_value_heads = 1, .head_dim = 4}),
              tokens};
    case 5:
      return {"bert",
              models::bert({.architecture = "BertForSequenceClassification", .vocab_size = 11,
                            .hidden_size = 8, .num_hidden_layers = 2, .num_attention_heads = 2,
                            .intermediate_size = 12, .hidden_dropout_prob = 0,
                            .attention_probs_dropout_prob = 0, .max_position_embeddings = 8}),
              tokens};
    default: return {"resnet20", models::resnet20({.num_classes = 3}), normal({2, 3, 8, 8})};
  }
}

std::vector<float> numbers(const Tensor& x) { return x.detach().to_vector<float>(); }

// The output, and the gradient of every parameter, by its order.
std::vector<std::vector<float>> results(const Subject& subject) {
  subject.model.zero_grad();
  const Tensor y = subject.model(subject.input);
  sum(y * y).backward();
  std::vector<std::vector<float>> all = {numbers(y)};
  for (const auto& [name, x] : subject.model.parameters())
    all.push_back(x.grad().defined() ? numbers(x.grad()) : std::vector<float>());
  return all;
}

bool are_close(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (size_t j = 0; j < a[i].size(); ++j)
      if (a[i][j] != doctest::Approx(b[i][j]).epsilon(1e-3)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a module in the place of a part gives what a hook on the part gives, in every model") {
  for (const unsigned seed : testing::draws(140)) {
    std::mt19937 random(seed);
    manual_seed(seed);
    const Subject one = subject(seed);
    CAPTURE(one.name);
    one.model.train(false);
    std::vector<std::string> parts;
    for (const auto& [name, module] : one.model->named_modules())
      if (!name.empty() && module->kind() != "ModuleList" && module->link_count() == 1)
        parts.push_back(name);
    const std::string name = parts[random() % parts.size()];
    CAPTURE(name);
    if (random() % 3 == 0)
      one.model->apply([&](Module& module) { module.set_recompute(random() % 4 == 0); });
    const auto before = results(one);
    Module* part = nullptr;
    for (const auto& [each, module] : one.model->named_modules())
      if (each == name) part = module;
    const int hook = part->register_forward_hook(
        [](Module&, const Tensors&, const Tensors& y) -> Tensors { return y.only() * 2; });
    const auto hooked = results(one);
    part->remove_hook(hook);
    Model old;
    CHECK(one.model->replace_modules(name, [&](const Model& given) -> Model {
      old = given;
      return Twice(given);
    }) == 1);
    CHECK(are_close(results(one), hooked));
    if (!part->parameters().empty()) {
      bool is_renamed = false;
      for (const auto& [each, x] : one.model.parameters())
        is_renamed |= each.starts_with(name + ".part.");
      CHECK(is_renamed);
    }
    // Twice in its place again, and then the part itself.
    one.model->replace_modules(name, [](const Model& given) -> Model { return Twice(given); });
    CHECK(one.model->replace_modules(name, [&](const Model&) { return old; }) == 1);
    CHECK(are_close(results(one), before));
  }
}

TEST_CASE("what cannot be replaced is an error, and nothing is changed") {
  const Model model = Several();
  const std::string before = model.to_string();
  CHECK(contains(error_of([&] {
                   model->replace_modules("lst.*", [](const Model& part) { return part; });
                 }),
                 "replace_modules: lst.* matches no part of a Several"));
  int calls = 0;
  CHECK(contains(error_of([&] {
                   model->replace_modules("list.*", [&](const Model& part) {
                     return ++calls == 2 ? Model() : Model(Twice(part));
                   });
                 }),
                 "no module for list.1"));
  CHECK(model.to_string() == before);
}

TEST_CASE("patterns choose parameters, take some out, and freeze") {
  const Model model = Several();
  const auto names = [&](const std::vector<std::string>& patterns) {
    std::string text;
    for (const auto& [name, x] : model->parameters(patterns)) text += name + " ";
    return text;
  };
  CHECK(names({"in"}) == "in.weight in.bias ");
  CHECK(names({"list.?.0.bias"}) == "list.0.0.bias list.1.0.bias ");
  CHECK(names({"*.bias", "!list"}) == "in.bias norm.bias ");
  CHECK(names({"!list", "!*.bias"}) == "in.weight norm.weight ");
  CHECK(names({"*", "!*", "norm.weight"}) == "norm.weight ");
  CHECK(names({}) == "");
  CHECK(contains(error_of([&] { model->parameters({"im"}); }), "did you mean in"));
  CHECK(contains(error_of([&] { model->freeze({"!hed"}); }), "hed matches no parameter or module"));
  model->freeze({"!norm"});
  for (const auto& [name, x] : model.parameters())
    CHECK(x.requires_grad() == name.starts_with("norm"));
}

namespace {

class Member : public Module {
 public:
  Member() : Module("Member") {}
  Linear& in = add<Linear>("in", 3, 3);
  Linear out{3, 2};
  Model frozen = Linear(2, 2);

 private:
  Tensor forward(const Tensor& x) override { return frozen(out(ReLU()(in(x)))); }
};

class Table : public Module {
 public:
  Table() : Module("Table") {}
  const Tensor weight = add_parameter("weight", transpose(normal({4, 3}), 0, 1));
  const Tensor table = add_buffer("table", linspace(0, 1, 3), Role::unsaved);

 private:
  Tensor forward(const Tensor& x) override { return matmul(x * table.to(x.dtype()), weight); }
};

}  // namespace

TEST_CASE("the first forward finds a layer that is a plain member") {
  Member member;
  const Model model = Member();
  for (const auto& call : {std::function<void()>([&] { member(ones({1, 3})); }),
                           std::function<void()>([&] { model(ones({1, 3})); })})
    CHECK(contains(error_of(call), "Linear: a module calls it that does not own it"));
  static_cast<Member&>(model.module()).out.freeze();  // such as a fixed projection
  CHECK(model(ones({1, 3})).shape() == Shape{1, 2});
}

TEST_CASE("an unsaved buffer is in no state, and goes where the module goes") {
  const Model model = Table();
  CHECK(model.state_dict().size() == 1);
  CHECK(model.buffers().empty());
  model.load_state_dict(model.state_dict());
  CHECK(model->own(Role::unsaved).size() == 1);
  const Table& table = static_cast<Table&>(model.module());
  model->to(DType::f64);
  CHECK(table.table.dtype() == DType::f64);
  CHECK(model(ones({2, 3}, {.dtype = DType::f64})).dtype() == DType::f64);
  CHECK(contains(error_of([] {
                   class Clash : public Module {
                    public:
                     Clash() : Module("Clash") {
                       add_buffer("x", ones({1}), Role::unsaved);
                       add_parameter("x", ones({1}));
                     }
                   } clash;
                 }),
                 "two parts have the same name"));
}

TEST_CASE("a parameter made of a permuted tensor is dense, as optimizers want it") {
  const Tensor permuted = transpose(normal({4, 3}), 0, 1);
  const Model model = Table();
  const Tensor weight = model.parameters()[0].tensor;
  CHECK(weight.is_contiguous());
  CHECK(weight.shape() == Shape{3, 4});
  CHECK(weight.requires_grad());
  CHECK(!permuted.is_contiguous());
}
