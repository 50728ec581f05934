// hybrid_parallel gives what one process gives, in every strategy, however ranks lie on the mesh.
#include "tests/error_of.h"
#include "tests/plugins/spread_training.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

std::string beside(const HybridParallelOptions& options) {
  std::string text;
  if (options.tp_size > 1) text += fmt::format(", tensor {}", options.tp_size);
  if (options.zero_stage > 0) text += fmt::format(", zero {}", options.zero_stage);
  return text;
}

// Layers 3 and 5 are cut, layer 0 is whole on every rank.
template <int tensor, int zero_stage>
Spread spread(const Group& world) {
  const HybridParallelOptions options = {.tp_size = tensor, .zero_stage = zero_stage};
  const HybridParallelPlugin plugin(options, world);
  return {.name = "hybrid" + beside(options),
          .plugin = plugin,
          .model = network,
          .shares = plugin.mesh().size("data"),
          .share = plugin.mesh().place("data"),
          .broken = "3.weight"};
}

Spread stages(const Group& world, HybridParallelOptions options) {
  options.pp_size = 2;
  const HybridParallelPlugin plugin(options, world);
  return {.name = "hybrid, stages 2 " + options.pp_style + beside(options),
          .plugin = plugin,
          .model = network,
          .shares = plugin.mesh().size("data"),
          .share = plugin.mesh().place("data"),
          .by_pipeline = true,
          .broken = "5.weight"};
}
Spread stages_and_tensor(const Group& world) {
  return stages(world, {.tp_size = 2, .pp_style = "zero_bubble"});
}
Spread stages_and_data(const Group& world) { return stages(world, {}); }
Spread stages_and_zero(const Group& world) {
  return stages(world, {.zero_stage = 1, .pp_style = "interleaved", .num_model_chunks = 2});
}

// Features as some tokens, blocks of a transformer on them, and features again.
class Tokens : public Module {
 public:
  Tokens() : Module("Tokens") {
    for (int i = 0; i < 2; ++i)
      blocks.append(Model(std::make_shared<models::VitBlock>(size, 4, 0.0, models::VitOptions())));
  }
  Linear& in = add<Linear>("in", features, tokens * size);
  Sequential& blocks = add<Sequential>("blocks");
  LayerNorm& norm = add<LayerNorm>("norm", size);
  Linear& out = add<Linear>("out", tokens * size, features);

 private:
  static constexpr int64_t tokens = 4, size = 16;
  Tensor forward(const Tensor& x) override {
    return out(flatten(norm(blocks(reshape(in(x), {-1, tokens, size}))), 1));
  }
};

Spread sequence(const Group& world, HybridParallelOptions options) {
  options.sequence_blocks = "blocks.*";
  options.tensor_plan = {{"*.attn.qkv", {.groups = 3}},
                         {"*.attn.proj", {.style = SplitStyle::row}},
                         {"*.mlp.fc1", {}},
                         {"*.mlp.fc2", {.style = SplitStyle::row}}};
  const HybridParallelPlugin plugin(options, world);
  return {.name = "hybrid, " + options.sequence_parallelism_mode + beside(options),
          .plugin = plugin,
          .model = [] { return Model(Tokens()); },
          .shares = plugin.mesh().size("data"),
          .share = plugin.mesh().place("data"),
          .broken = "blocks.0.mlp.fc1.weight",
          .deeper = 2};
}
Spread split_gather(const Group& world) {
  return sequence(world, {.tp_size = 2, .sequence_parallelism_mode = "split_gather"});
}
Spread all_to_all(const Group& world) {
  return sequence(world, {.sp_size = 2, .sequence_parallelism_mode = "all_to_all"});
}
Spread tensor_and_all_to_all(const Group& world) {
  return sequence(world, {.tp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "all_to_all"});
}
Spread zero_and_all_to_all(const Group& world) {
  return sequence(world,
                  {.sp_size = 2, .zero_stage = 1, .sequence_parallelism_mode = "all_to_all"});
}

Model vit(int64_t heads) {
  return models::vit("vit_tiny_patch16_224", {.num_classes = 5,
                                              .attn_drop_rate = 0.1,
                                              .proj_drop_rate = 0.1,
                                              .img_size = 48,
                                              .embed_dim = 24,
                                              .depth = 2,
                                              .num_heads = heads});
}

std::vector<float> numbers_of(const Tensor& x) { return x.to_vector<float>(); }

Model gpt2() {
  return models::gpt2("gpt2", {.vocab_size = 17, .n_positions = 8, .n_embd = 24, .n_layer = 2,
                               .n_head = 6});
}

// A model by the plan that comes with it: what it gives, and each step's norm, against the whole
// model.
void check_model(const std::function<Model()>& make, const HybridParallelOptions& options,
                 const Tensor& x, const Tensor& target) {
  const Group world = launch_from_env().group();
  manual_seed(1);
  Model whole = make();
  manual_seed(2 + world.rank());  // rank 0's numbers come with boost
  Model parts = make();
  if (world.rank() == 0) parts.load_state_dict(whole.state_dict());
  Booster booster({.plugin = HybridParallelPlugin(options, world)}),
      one({.plugin = SinglePlugin({.on_every_rank = true})});
  auto [net, optimizer] = booster.boost(parts, SGD(parts.parameters(), {.lr = 0.1}));
  auto [alone, its_optimizer] = one.boost(whole, SGD(whole.parameters(), {.lr = 0.1}));
  net.eval();
  alone.eval();
  const auto loss = [&](const Tensor& y) {
    return cross_entropy(reshape(y, {-1, y.shape().back()}), target);
  };
  for (int step = 0; step < 3; ++step) {
    const Tensor y = net(x), want = alone(x);
    CHECK(y.shape() == want.shape());
    const auto got = numbers_of(y), wanted = numbers_of(want);
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-4));
    booster.backward(loss(y), optimizer);
    one.backward(loss(want), its_optimizer);
    CHECK(optimizer.step().grad_norm() ==
          doctest::Approx(its_optimizer.step().grad_norm()).epsilon(1e-4));
    optimizer.zero_grad();
    its_optimizer.zero_grad();
  }
}

void check_vit(const HybridParallelOptions& options) {
  Generator generator(7);
  check_model([] { return vit(6); }, options, uniform({3, 3, 48, 48}, -1, 1, {}, generator),
              from_vector(std::vector<int64_t>{4, 0, 2}, {3}));
}

void check_gpt2(const HybridParallelOptions& options) {
  check_model(gpt2, options, from_vector(std::vector<int64_t>{0, 16, 3, 9, 8, 3, 3, 12}, {2, 4}),
              from_vector(std::vector<int64_t>{16, 3, 9, 1, 3, 3, 12, 0}, {8}));
}

// Both by the plans and blocks that come with them.
void check_models() {
  const int64_t ranks = launch_from_env().size;
  std::vector<HybridParallelOptions> all = {{.tp_size = ranks}};
  if (ranks == 2) {
    all.push_back({.tp_size = 2, .sequence_parallelism_mode = "split_gather"});
    all.push_back({.sp_size = 2, .sequence_parallelism_mode = "all_to_all"});
    all.push_back({.sp_size = 2, .zero_stage = 3, .sequence_parallelism_mode = "all_to_all"});
  }
  for (const HybridParallelOptions& options : all) {
    INFO(options.sequence_parallelism_mode);
    check_vit(options);
    check_gpt2(options);
  }
}

// What is dropped in a layer that is cut differs between ranks; what all have stays the same.
void check_dropout(const HybridParallelOptions& options, bool everywhere) {
  const Group world = launch_from_env().group();
  manual_seed(3 + world.rank());  // whatever the program did before
  Model model = vit(6);
  Booster booster({.plugin = HybridParallelPlugin(options, world)});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  std::vector<Tensor> dropped;
  for (const auto& [name, module] : model->named_modules())
    if (name == (everywhere ? "blocks.0.mlp.drop2" : "blocks.0.mlp.drop1"))
      module->register_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
        dropped.push_back(cast(equal(y, 0) * not_equal(x, 0), DType::f32));
        return Tensor();
      });
  manual_seed(9);
  const Tensor x = uniform({2, 3, 48, 48}, -1, 1);
  for (int step = 0; step < 3; ++step) {
    if (world.rank() == 1) uniform({5});  // a rank draws for itself
    booster.backward(sum(net(x)), optimizer);
    optimizer.step();
    optimizer.zero_grad();
  }
  CHECK(dropped.size() == 3);
  Tensor mask = dropped[2].clone();
  CHECK(sum(mask).item() > 0);
  auto of_rank_0 = numbers_of(mask);
  world.broadcast(of_rank_0);
  CHECK((numbers_of(mask) == of_rank_0) == (world.rank() == 0));
  for (const NamedTensor& parameter : model.parameters()) {
    if (parameter.name != "norm.weight" && parameter.name != "blocks.1.mlp.fc2.bias") continue;
    auto same = numbers_of(parameter.tensor);
    world.broadcast(same);
    CHECK(numbers_of(parameter.tensor) == same);
  }
}

std::string refusal(const Model& model, HybridParallelOptions options, const Group& world) {
  return error_of([&] {
    Booster booster({.plugin = HybridParallelPlugin(options, world)});
    booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  });
}

void check_refusals() {
  const Group world = launch_from_env().group();
  const auto contains = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  contains(refusal(vit(3), {.tp_size = 2}, world),
           "tp_size 2 does not fit blocks.0.attn.qkv, which has 3 heads; want tp_size 1, 3");
  const std::string to_all = "all_to_all";
  contains(refusal(vit(3), {.sp_size = 2, .sequence_parallelism_mode = to_all}, world),
           "sp_size 2 does not fit blocks.0.attn.qkv, which has 3 heads");
  contains(refusal(vit(6), {.sp_size = 2}, world), "sp_size 2 has no effect");
  contains(refusal(vit(6), {.sequence_parallelism_mode = "ulysses"}, world),
           "unknown sequence_parallelism_mode; got ulysses");
  contains(refusal(vit(6), {.sp_size = 2, .sequence_parallelism_mode = to_all,
                            .sequence_blocks = "layers.*"}, world),
           "sequence_blocks: matches no module; got layers.*");
  Booster odd({.plugin = HybridParallelPlugin(
                   {.sp_size = 2, .sequence_parallelism_mode = to_all}, world)});
  Model model = models::vit("vit_tiny_patch16_224", {.img_size = 32, .num_heads = 4});
  auto [net, optimizer] = odd.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  contains(error_of([&, &net = net] { net(zeros({1, 3, 32, 32})); }),
           "5 tokens do not divide among 2 ranks; want 1, 5 ranks");
  contains(refusal(vit(6), {.tp_size = 2, .tensor_plan = {{"blocks.*.attn.q", {}}}}, world),
           "matches no module; got blocks.*.attn.q");
  contains(refusal(vit(6), {.tp_size = 2, .tensor_plan = {{"norm", {}}}}, world),
           "norm: style column wants a linear layer; got a LayerNorm");
  contains(refusal(vit(6), {.tp_size = 2, .tensor_plan = {{"*.fc1", {}}, {"*mlp.fc1", {}}}}, world),
           "is planned twice, by *.fc1 and *mlp.fc1");
  contains(refusal(models::resnet20(), {.tp_size = 2}, world), "no tensor plan comes with a");
  contains(refusal(vit(6), {.tp_size = 3}, world), "3");
}

// An embedding by its entries, and a row parallel layer that is given all features.
void check_styles() {
  const Group world = launch_from_env().group();
  const auto make = [] { return Sequential({Embedding(7, 6, 3), Linear(6, 5), Linear(5, 3)}); };
  const TensorPlan plan = {{"0", {.style = SplitStyle::vocabulary}},
                           {"1", {.style = SplitStyle::row}},
                           {"2", {.gather = true}}};
  manual_seed(1);
  Model whole = make(), parts = make();
  parts.load_state_dict(whole.state_dict());
  Booster booster({.plugin = HybridParallelPlugin({.tp_size = world.size(), .tensor_plan = plan},
                                                  world)}),
      one({.plugin = SinglePlugin({.on_every_rank = true})});
  auto [net, optimizer] = booster.boost(parts, SGD(parts.parameters(), {.lr = 0.02}));
  auto [alone, its_optimizer] = one.boost(whole, SGD(whole.parameters(), {.lr = 0.02}));
  const Tensor ids = from_vector(std::vector<int64_t>{0, 6, 3, 5, 1, 1}, {2, 3});
  for (int step = 0; step < 4; ++step) {
    const Tensor y = net(ids), want = alone(ids);
    const auto got = numbers_of(y), wanted = numbers_of(want);
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-4));
    booster.backward(sum(y * y), optimizer);
    one.backward(sum(want * want), its_optimizer);
    CHECK(optimizer.step().grad_norm() ==
          doctest::Approx(its_optimizer.step().grad_norm()).epsilon(1e-4));
    optimizer.zero_grad();
    its_optimizer.zero_grad();
  }
  const Tensor bad = from_vector(std::vector<int64_t>{7}, {1});
  CHECK(error_of([&] { net(bad); }).find("got 7 at position 0, want 0 to 6") != std::string::npos);
}

}  // namespace

TEST_CASE("rank: tensor 2" * doctest::skip()) { train_all(spread<2, 0>); }
TEST_CASE("rank: tensor 4" * doctest::skip()) { train_all(spread<4, 0>); }
TEST_CASE("rank: tensor 2 and zero 1" * doctest::skip()) { train_all(spread<2, 1>); }
TEST_CASE("rank: tensor 2 and fsdp" * doctest::skip()) { train_all(spread<2, 3>); }

TEST_CASE("rank: models" * doctest::skip()) { check_models(); }
TEST_CASE("rank: dropout" * doctest::skip()) {
  check_dropout({.tp_size = 2}, false);
  check_dropout({.tp_size = 2, .sequence_parallelism_mode = "split_gather"}, false);
  check_dropout({.tp_size = 2, .sequence_parallelism_mode = "split_gather"}, true);
  check_dropout({.sp_size = 2, .sequence_parallelism_mode = "all_to_all"}, true);
}
TEST_CASE("rank: stages" * doctest::skip()) { train_all(stages_and_data); }
TEST_CASE("rank: stages and tensor" * doctest::skip()) { train_all(stages_and_tensor); }
TEST_CASE("rank: stages and zero" * doctest::skip()) { train_all(stages_and_zero); }
TEST_CASE("rank: split gather" * doctest::skip()) { train_all(split_gather); }
TEST_CASE("rank: all to all" * doctest::skip()) { train_all(all_to_all); }
TEST_CASE("rank: tensor and all to all" * doctest::skip()) { train_all(tensor_and_all_to_all); }
TEST_CASE("rank: zero and all to all" * doctest::skip()) { train_all(zero_and_all_to_all); }
TEST_CASE("rank: refusals" * doctest::skip()) { check_refusals(); }
TEST_CASE("rank: styles" * doctest::skip()) { check_styles(); }

TEST_CASE("Vision Transformers and GPT-2 give in parts what they give whole") {
  run_ranks("models", 2);
  run_ranks("models", 3);
}
TEST_CASE("dropout differs where layers are cut and agrees where they are not") {
  run_ranks("dropout", 2);
}
TEST_CASE("plans and sizes that do not fit are refused with those that would") {
  run_ranks("refusals", 2);
}
TEST_CASE("embeddings by entries and rows of whole features give what whole layers give") {
  run_ranks("styles", 2);
}
TEST_CASE("layers cut over 2 ranks train as one process does in every strategy") {
  run_ranks("tensor 2", 2);
}
TEST_CASE("layers cut over 4 ranks train as one process does in every strategy") {
  run_ranks("tensor 4", 4);
}
TEST_CASE("tensor and data parallel together train as one process does in every strategy") {
  run_ranks("tensor 2", 4);
}
TEST_CASE("tensor parallel with ZeRO 1 trains as one process does in every strategy") {
  run_ranks("tensor 2 and zero 1", 4);
}
TEST_CASE("tensor parallel with fsdp trains as one process does in every strategy") {
  run_ranks("tensor 2 and fsdp", 4);
}
TEST_CASE("tokens shared by tensor ranks train as one process does in every strategy") {
  run_ranks("split gather", 2);
}
TEST_CASE("tokens against heads train as one process does in every strategy") {
  run_ranks("all to all", 2);
}
TEST_CASE("tensor ranks and tokens against heads train as one process does in every strategy") {
  run_ranks("tensor and all to all", 4);
}
TEST_CASE("tokens against heads with ZeRO 1 train as one process does in every strategy") {
  run_ranks("zero and all to all", 4);
}
TEST_CASE("stages of a pipeline train as one process does in every strategy") {
  run_ranks("stages", 2);
}
TEST_CASE("stages and data parallelism train as one process does in every strategy") {
  run_ranks("stages", 4);
}
TEST_CASE("stages whose layers are cut train as one process does in every strategy") {
  run_ranks("stages and tensor", 4);
}
TEST_CASE("interleaved stages with ZeRO 1 train as one process does in every strategy") {
  run_ranks("stages and zero", 4);
}
