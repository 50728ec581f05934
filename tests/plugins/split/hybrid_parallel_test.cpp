// hybrid_parallel agrees with one process, in every strategy, for every arrangement of ranks on the
// mesh.
#include "tests/draws.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"
#include "tests/plugins/small_vit.h"
#include "tests/plugins/split/spread_models.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

using namespace booster;
using namespace booster::testing;

namespace {

// --- layouts
struct Column {
  int ranks;
  HybridParallelOptions options;
};

const std::vector<Column>& columns() {
  static const std::vector<Column> all = {
      {2, {.tp_size = 2}},
      {4, {.tp_size = 4, .parallel_output = true}},
      {4, {.tp_size = 2, .parallel_output = true}},
      {4, {.tp_size = 2, .zero_stage = 1}},
      {4, {.tp_size = 2, .zero_stage = 3}},
      {2, {.tp_size = 2, .sequence_parallelism_mode = "split_gather"}},
      {2, {.sp_size = 2, .sequence_parallelism_mode = "all_to_all"}},
      {4, {.tp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "all_to_all"}},
      {4, {.sp_size = 2, .zero_stage = 1, .sequence_parallelism_mode = "all_to_all"}},
      {2, {.sp_size = 2, .sequence_parallelism_mode = "ring_attn"}},
      {4, {.sp_size = 4, .parallel_output = true, .sequence_parallelism_mode = "ring_attn"}},
      {4, {.tp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "ring_attn"}},
      {2, {.pp_size = 2, .pp_style = "gpipe"}},
      {2, {.pp_size = 2, .pp_style = "1f1b"}},
      {2, {.pp_size = 2, .pp_style = "interleaved", .num_model_chunks = 2}},
      {2, {.pp_size = 2, .pp_style = "zero_bubble"}},
      {4, {.pp_size = 4, .pp_style = "gpipe"}},
      {4, {.pp_size = 4, .pp_style = "1f1b"}},
      {4, {.pp_size = 4, .pp_style = "interleaved", .num_model_chunks = 2}},
      {4, {.pp_size = 4, .pp_style = "zero_bubble"}},
      {4, {.tp_size = 2, .pp_size = 2, .pp_style = "zero_bubble"}},
      {4, {.pp_size = 2, .zero_stage = 1}},
      {4, {.pp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "ring_attn"}},
      {4,
       {.tp_size = 2,
        .pp_size = 2,
        .sequence_parallelism_mode = "split_gather",
        .pp_style = "zero_bubble"}},
      {4,
       {.pp_size = 2,
        .sp_size = 2,
        .sequence_parallelism_mode = "all_to_all",
        .pp_style = "interleaved",
        .num_model_chunks = 2}}};
  return all;
}

// "tp 2 x pp 2 zero_bubble"
std::string name_of(const Column& column) {
  const HybridParallelOptions& options = column.options;
  std::string name;
  const auto add = [&](const std::string& text) { name += (name.empty() ? "" : " x ") + text; };
  const bool gathers = options.sequence_parallelism_mode == "split_gather";
  if (options.tp_size > 1)
    add(fmt::format("tp {}{}", options.tp_size, gathers ? " split_gather" : ""));
  if (options.pp_size > 1) add(fmt::format("pp {} {}", options.pp_size, options.pp_style));
  if (options.sp_size > 1)
    add(fmt::format("sp {} {}", options.sp_size, options.sequence_parallelism_mode));
  const int64_t data = column.ranks / (options.tp_size * options.pp_size * options.sp_size);
  if (data > 1) add(fmt::format("dp {}", data));
  if (options.zero_stage > 0) add(fmt::format("zero {}", options.zero_stage));
  return name;
}

// The column and the model of the ranks that a test case starts.
constexpr const char* column_variable = "HYBRID_COLUMN";
constexpr const char* model_variable = "HYBRID_MODEL";

Spread chosen(const Group& world) {
  const Column& column = columns().at(std::stoul(std::getenv(column_variable)));
  const int64_t pieces = column.options.pp_size * column.options.num_model_chunks;
  const int64_t blocks = std::max<int64_t>(pieces - 2, 2);
  // One head is one block of threads, and the CPU emulator of CUDA runs blocks one after another.
  const int64_t heads = is_on_gpus() ? column.ranks : 4;
  const PluginMaker plugin = HybridParallelPlugin(column.options, world);
  Spread spread = of_model(std::getenv(model_variable), blocks, heads);
  spread.name += ", " + name_of(column);
  spread.plugin = plugin;
  spread.shares = plugin()->mesh().size("data");
  spread.share = plugin()->mesh().place("data");
  spread.by_pipeline = column.options.pp_size > 1;
  spread.rate = 0.25;
  spread.deeper = 4;
  return spread;
}

// Sequence modes refuse blocks that look at other tokens with gradients.
bool takes(size_t i, const std::string& model) {
  return model != "Encoder-decoder" || columns()[i].options.sequence_parallelism_mode == "none";
}

void choose_column(size_t i, const std::string& model) {
  ::setenv(column_variable, std::to_string(i).c_str(), 1);
  ::setenv(model_variable, model.c_str(), 1);
}

// Runs one of the models in turn and those that are drawn; all when scripts/equivalence.sh measures
// a table.
void run_column(size_t i) {
  const size_t in_turn = i % spread_models().size();
  const size_t turn = takes(i, spread_models()[in_turn]) ? in_turn : 0;
  for (size_t model = 0; model < spread_models().size(); ++model) {
    const size_t cell = i * spread_models().size() + model;
    if (model != turn && !testing::is_drawn(static_cast<unsigned>(cell))) continue;
    if (!takes(i, spread_models()[model])) continue;
    INFO(spread_models()[model]);
    choose_column(i, spread_models()[model]);
    run_ranks("rank: column", columns()[i].ranks);
  }
}

Model gpt2() {
  return models::gpt2(
      "gpt2", {.vocab_size = 17, .n_positions = 8, .n_embd = 24, .n_layer = 2, .n_head = 6});
}

// Checks a model with its built-in plan, its output and each step's norm, against the whole model.
void check_model(const std::function<Model()>& make, const HybridParallelOptions& options,
                 const Tensor& x, const Tensor& target) {
  const Group world = launch_from_env().group();
  manual_seed(1);
  Model whole = make();
  manual_seed(2 + world.rank());  // boost copies rank 0's values
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
    const auto got = y.to_vector<float>(), wanted = want.to_vector<float>();
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
  check_model([] { return small_vit(6); }, options, uniform({3, 3, 48, 48}, -1, 1, {}, generator),
              from_vector(std::vector<int64_t>{4, 0, 2}, {3}));
}

void check_gpt2(const HybridParallelOptions& options) {
  check_model(gpt2, options, from_vector(std::vector<int64_t>{0, 16, 3, 9, 8, 3, 3, 12}, {2, 4}),
              from_vector(std::vector<int64_t>{16, 3, 9, 1, 3, 3, 12, 0}, {8}));
}

// With padding and two types of tokens, which ring_attn does not take.
void check_bert(const HybridParallelOptions& options, const std::string& architecture) {
  const auto make = [&] {
    return models::bert({.architecture = architecture,
                         .vocab_size = 17,
                         .hidden_size = 24,
                         .num_hidden_layers = 2,
                         .num_attention_heads = 6,
                         .intermediate_size = 30,
                         .max_position_embeddings = 8});
  };
  const Tensor padded = models::bert_input({{16, 3, 9, 8}, {3, 12}}, {{0, 0, 1, 1}, {0, 1}});
  const bool has_words = architecture == "BertForMaskedLM";
  const Tensor target = has_words
                            ? from_vector(std::vector<int64_t>{16, 3, 9, 1, 3, -100, -100, 0}, {8})
                            : from_vector(std::vector<int64_t>{1, 0}, {2});
  const bool is_ring = options.sequence_parallelism_mode == "ring_attn";
  check_model(make, options, is_ring ? select(padded, 1, 0) : padded, target);
  if (!is_ring) return;
  Booster booster({.plugin = HybridParallelPlugin(options, launch_from_env().group())});
  Model model = make();
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  CHECK(error_of([&, &net = net] { net(padded); }).find("bert: padding in ring_attn") !=
        std::string::npos);
}

// The models with their built-in plans and blocks.
void check_models() {
  const int64_t ranks = launch_from_env().size;
  std::vector<HybridParallelOptions> all = {{.tp_size = ranks}};
  if (ranks == 2) {
    all.push_back({.tp_size = 2, .sequence_parallelism_mode = "split_gather"});
    all.push_back({.sp_size = 2, .sequence_parallelism_mode = "all_to_all"});
    all.push_back({.sp_size = 2, .zero_stage = 3, .sequence_parallelism_mode = "all_to_all"});
    all.push_back({.sp_size = 2, .sequence_parallelism_mode = "ring_attn"});
    all.push_back({.tp_size = 2, .parallel_output = true});
  }
  for (const HybridParallelOptions& options : all) {
    INFO(options.sequence_parallelism_mode);
    check_vit(options);
    check_gpt2(options);
    check_bert(options, "BertForMaskedLM");
    check_bert(options, "BertForSequenceClassification");
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
  contains(refusal(small_vit(3), {.tp_size = 2}, world),
           "tp_size 2 does not divide blocks.0.attn.qkv, which has 3 heads; want tp_size 1, 3");
  const Model few = models::gpt2("gpt2", {.vocab_size = 1, .n_embd = 8, .n_layer = 1, .n_head = 4});
  contains(refusal(few, {.tp_size = 2}, world),
           "tp_size 2 does not divide transformer.wte, which has 1 features; want tp_size 1");
  const std::string to_all = "all_to_all";
  contains(refusal(small_vit(3), {.sp_size = 2, .sequence_parallelism_mode = to_all}, world),
           "sp_size 2 does not divide the heads of blocks.0.attn.qkv; got 3 heads, want sp_size 1, "
           "3, or "
           "sequence_parallelism_mode ring_attn");
  contains(refusal(small_vit(6), {.sp_size = 2}, world), "sp_size 2 has no effect");
  contains(refusal(small_vit(6), {.sequence_parallelism_mode = "ulysses"}, world),
           "unknown sequence_parallelism_mode; got ulysses");
  contains(
      refusal(small_vit(6),
              {.sp_size = 2, .sequence_parallelism_mode = to_all, .sequence_blocks = "layers.*"},
              world),
      "sequence_blocks: matches no module; got layers.*");
  const std::string tokens = "2 ranks do not divide 5 tokens; want 1, 5 ranks";
  const Model odd = models::vit("vit_tiny_patch16_224", {.img_size = 32, .num_heads = 4});
  for (const std::string mode : {"all_to_all", "ring_attn"})  // known before the first batch
    contains(refusal(odd, {.sp_size = 2, .sequence_parallelism_mode = mode}, world), tokens);
  Model model = gpt2();
  Booster texts(
      {.plugin = HybridParallelPlugin({.sp_size = 2, .sequence_parallelism_mode = to_all}, world)});
  auto [net, optimizer] = texts.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  contains(error_of([&, &net = net] { net(zeros({1, 5}, {.dtype = DType::i64})); }), tokens);
  contains(refusal(small_vit(6), {.tp_size = 2, .tensor_plan = {{"blocks.*.attn.q", {}}}}, world),
           "matches no module; got blocks.*.attn.q");
  contains(refusal(small_vit(6), {.tp_size = 2, .tensor_plan = {{"norm", {}}}}, world),
           "norm: style column needs a linear layer; got a LayerNorm");
  contains(refusal(small_vit(6), {.tp_size = 2, .tensor_plan = {{"*.fc1", {}}, {"*mlp.fc1", {}}}},
                   world),
           "two patterns match blocks.0.mlp.fc1: *.fc1 and *mlp.fc1");
  contains(refusal(models::resnet20(), {.tp_size = 2}, world),
           "has no tensor plan; want tensor_plan");
  contains(refusal(small_vit(6), {.tp_size = 3}, world), "3");
}

// An embedding split by its entries, and a row-parallel layer that gets all features.
void check_styles() {
  const Group world = launch_from_env().group();
  const auto make = [] { return Sequential({Embedding(7, 6, 3), Linear(6, 5), Linear(5, 3)}); };
  const TensorPlan plan = {{"0", {.style = SplitStyle::vocabulary}},
                           {"1", {.style = SplitStyle::row}},
                           {"2", {.gather = true}}};
  manual_seed(1);
  Model whole = make(), parts = make();
  parts.load_state_dict(whole.state_dict());
  Booster booster(
      {.plugin = HybridParallelPlugin({.tp_size = world.size(), .tensor_plan = plan}, world)}),
      one({.plugin = SinglePlugin({.on_every_rank = true})});
  auto [net, optimizer] = booster.boost(parts, SGD(parts.parameters(), {.lr = 0.02}));
  auto [alone, its_optimizer] = one.boost(whole, SGD(whole.parameters(), {.lr = 0.02}));
  const Tensor ids = from_vector(std::vector<int64_t>{0, 6, 3, 5, 1, 1}, {2, 3});
  for (int step = 0; step < 4; ++step) {
    const Tensor y = net(ids), want = alone(ids);
    const auto got = y.to_vector<float>(), wanted = want.to_vector<float>();
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
  CHECK(error_of([&, &net = net] { net(bad); }).find("got 7 at position 0, want 0 to 6") !=
        std::string::npos);
}

}  // namespace

TEST_CASE("rank: column" * doctest::skip()) {
  train_in_turn(chosen, std::stoul(std::getenv(column_variable)) / 2);
}
TEST_CASE("rank: models" * doctest::skip()) { check_models(); }
TEST_CASE("rank: refusals of meshes" * doctest::skip()) { check_refusals(); }
TEST_CASE("rank: styles" * doctest::skip()) { check_styles(); }

TEST_CASE("Vision Transformers, GPT-2 and BERT give in parts what they give whole") {
  run_ranks("rank: models", 2);
  run_ranks("rank: models", 3);
}
TEST_CASE("plans and sizes that do not fit are refused with those that would") {
  run_ranks("rank: refusals of meshes", 2);
}
TEST_CASE("embeddings by entries and rows of whole features give what whole layers give") {
  run_ranks("rank: styles", 2);
}
TEST_CASE("every layout trains as one process does in every strategy") {
  for (size_t i = 0; i < columns().size(); ++i) {
    INFO(name_of(columns()[i]));
    run_column(i);
  }
}

TEST_CASE("hybrid_parallel trains as one process does over every connection") {
  for (const char* layout : {"tp 4", "tp 2 x dp 2 x zero 3", "sp 2 all_to_all x dp 2 x zero 1",
                             "tp 2 x pp 2 zero_bubble", "pp 2 1f1b x dp 2 x zero 1"}) {
    INFO(layout);
    const auto is_it = [&](const Column& column) { return name_of(column) == layout; };
    const auto found = std::ranges::find_if(columns(), is_it);
    REQUIRE(found != columns().end());
    const auto i = static_cast<size_t>(found - columns().begin());
    choose_column(i, spread_models()[i % spread_models().size()]);
    run_ranks_over_each("rank: column");
  }
}

// Each way to cut a model once, and the tokens in each of the three ways.
TEST_CASE("GPU: cut layers and sequences train as one process on the CPU" * on_gpu()) {
  for (size_t i = 0; i < columns().size(); ++i) {
    const HybridParallelOptions& options = columns()[i].options;
    if (columns()[i].ranks != 2 || options.pp_size > 1) continue;
    choose_column(i, "GPT-2");
    run_ranks_on_gpus("rank: column", 2);
  }
}
