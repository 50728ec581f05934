// BERTs against Hugging Face (tests/golden/make_bert.py): folders load and are written back;
// outputs, losses, gradients and steps agree.
#include "booster/booster.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "core/nn/models/bert.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/distance.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

using namespace booster;

namespace {

namespace files = std::filesystem;

// The golden folders, or those of `make_bert.py --drawn` that BERT_FOLDERS names.
std::vector<files::path> bert_folders() {
  const char* drawn = std::getenv("BERT_FOLDERS");
  std::vector<files::path> folders;
  for (const auto& entry :
       files::directory_iterator(drawn ? drawn : test::golden_folder() + "/bert"))
    folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

files::path golden_bert(const std::string& name) { return test::golden_folder() + "/bert/" + name; }

TensorMap expected_of(const files::path& folder) {
  return load_safetensors(folder / "expected.safetensors");
}

std::string text_of(const files::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Model evaluated(const files::path& folder, DType dtype = DType::f32) {
  Model model = from_pretrained(folder, dtype);
  model.eval();
  return model;
}

Tensor loss_of(const Tensor& logits, const Tensor& labels) {
  return logits.ndim() == 2 ? cross_entropy(logits, labels)
                            : cross_entropy(flatten(logits, 0, 1), flatten(labels));
}

// Prints a row of the drawn comparison.
void tell(const files::path& folder, const std::string& what, double got, double theirs = -1) {
  if (!std::getenv("BERT_FOLDERS")) return;
  fmt::print("{:<36} {:<10} {:.1e}{}\n", folder.filename().string(), what, got,
             theirs < 0 ? "" : fmt::format("  transformers {:.1e}", theirs));
}

// Trains a step and writes the folder for `make_bert.py --check`, with the outputs.
void write_trained(const files::path& folder, const Model& model, const Tensor& input) {
  const char* written = std::getenv("BERT_WRITTEN");
  if (!written) return;
  AdamW optimizer(model.parameters(), {.lr = 1e-2});
  const Tensor y = model(input);
  backward(sum(y * y));
  optimizer.step();
  const files::path target = files::path(written) / folder.filename();
  save_pretrained(model, target);
  save_safetensors(target / "ours.safetensors",
                   {{"input", untracked::contiguous(input)},
                    {"output", untracked::contiguous(model(input).detach())}},
                   {{"format", "pt"}});
}

// Writes a config.json with one key changed and returns the error of reading it.
std::string bert_error_with(const std::string& key, nlohmann::json value) {
  const TemporaryFolder folder;
  nlohmann::json config = nlohmann::json::parse(text_of(golden_bert("sequences") / "config.json"));
  config[key] = std::move(value);
  std::ofstream(folder / "config.json") << config.dump();
  return error_of([&] { model_of_config(folder / "config.json"); });
}

}  // namespace

TEST_CASE("berts have Hugging Face's outputs, with padding and token types and without") {
  for (const auto& folder : bert_folders()) {
    CAPTURE(folder.string());
    const TensorMap want = expected_of(folder);
    const Tensor input = want.at("input"), ids = select(input, 1, 0);
    const NoGradGuard no_grad;
    const Model model = evaluated(folder), wide = evaluated(folder, DType::f64);
    const double f32 = test::distance(model(input), want.at("output")),
                 plain = test::distance(model(ids), want.at("plain")),
                 f64 = test::distance(wide(input), want.at("output"));
    tell(folder, "f32", std::max(f32, plain));
    CHECK(f32 < 5e-6);
    CHECK(plain < 5e-6);
    CHECK(f64 < 1e-6);
    const double half = test::distance(evaluated(folder, DType::bf16)(input), want.at("output")),
                 theirs = test::distance(want.at("half"), want.at("output"));
    tell(folder, "bf16", half, theirs);
    CHECK(half < 1.5 * theirs + 0.01);
    if (!want.contains("features")) continue;
    auto& bert = dynamic_cast<models::Bert&>(model.module());
    CHECK(test::distance(bert.bert(input), want.at("features")) < 5e-6);
  }
}

TEST_CASE("texts become a bert's input as with Hugging Face's tokenizers") {
  const Tokenizer tokenizer = Tokenizer::from_file(test::golden_folder() + "/text/bert.json");
  std::vector<std::vector<int32_t>> tokens, types;
  for (const auto& [first, second] : {std::pair{"Hello, world!", "The quick brown fox jumps."},
                                      {"One", "two three"},
                                      {"\u00dcber na\u00efve \u6f22\u5b57", ""}}) {
    const Encoded encoded = tokenizer.encode_pair(first, second);
    tokens.push_back(encoded.tokens);
    types.push_back(encoded.segments);
  }
  const Tensor want = expected_of(golden_bert("texts")).at("input");
  const Tensor input = models::bert_input(tokens, types);
  CHECK(input.shape() == want.shape());
  CHECK(input.to_vector<int64_t>() == want.to_vector<int64_t>());
}

TEST_CASE("berts have Hugging Face's losses, gradients and ten steps of AdamW") {
  for (const auto& folder : bert_folders()) {
    CAPTURE(folder.string());
    const TensorMap want = expected_of(folder);
    if (!want.contains("labels")) continue;
    const Tensor input = want.at("input"), labels = want.at("labels");
    const Model model = evaluated(folder);
    AdamW optimizer(model.parameters(),
                    {.lr = 1e-3, .betas = {0.9, 0.95}, .eps = 1e-5, .weight_decay = 0.1});
    const auto losses = want.at("losses").to_vector<double>();
    double worst_gradient = 0, worst_loss = 0;
    for (size_t step = 0; step < losses.size(); ++step) {
      optimizer.zero_grad();
      const Tensor loss = loss_of(model(input), labels);
      backward(loss);
      if (step == 0)
        for (const auto& [own, p] : model.parameters()) {
          CAPTURE_PART(own);
          const Tensor gradient = want.at("gradient." + own);
          // Keys' biases move all scores of a query alike: their gradients are rounding.
          if (own.ends_with("key.bias")) continue;
          const double far = norm(p.grad() - gradient).item() /
                             std::max(norm(gradient).item(), 1e-3 * loss.item());
          worst_gradient = std::max(worst_gradient, far);
          CHECK(far < 5e-5);
        }
      worst_loss = std::max(worst_loss, std::abs(loss.item() / losses[step] - 1));
      CHECK(loss.item() == doctest::Approx(losses[step]).epsilon(2e-5));
      optimizer.step();
    }
    tell(folder, "gradient", worst_gradient);
    tell(folder, "losses", worst_loss);
  }
}

TEST_CASE("ten steps of berts in bf16 stay near Hugging Face's in double") {
  for (const auto& folder : bert_folders()) {
    CAPTURE(folder.string());
    const TensorMap want = expected_of(folder);
    if (!want.contains("labels")) continue;
    const Model model = evaluated(folder);
    Booster booster({.mixed_precision = "bf16"});
    const AdamWOptions options = {
        .lr = 1e-3, .betas = {0.9, 0.95}, .eps = 1e-5, .weight_decay = 0.1};
    auto [net, optimizer] = booster.boost(model, AdamW(model.parameters(), options));
    double worst = 0;
    for (const double loss_in_double : want.at("losses").to_vector<double>()) {
      optimizer.zero_grad();
      const Tensor loss = loss_of(net(want.at("input")), want.at("labels"));
      booster.backward(loss, optimizer);
      optimizer.step();
      worst = std::max(worst, std::abs(loss.item() / loss_in_double - 1));
    }
    tell(folder, "bf16 losses", worst);
    CHECK(worst < 0.015);
  }
}

TEST_CASE("a bert learns the hidden words of a text") {
  const Tokenizer tokenizer = Tokenizer::from_file(test::golden_folder() + "/text/bert.json");
  std::string text;
  for (int i = 0; i < 20; ++i) text += "The quick brown fox jumps over the lazy dog. ";
  std::vector<int64_t> tokens;
  for (const int32_t token : tokenizer.encode(text, {.special_tokens = false}))
    tokens.push_back(token);
  const auto id = [&](const char* token) -> int64_t { return *tokenizer.id_of(token); };
  const MaskedTokens data(
      TokenDataset(from_vector(tokens, {static_cast<int64_t>(tokens.size())}), {.length = 30}),
      {.vocab_size = tokenizer.vocabulary_size(),
       .mask_token = id("[MASK]"),
       .first_token = id("[CLS]"),
       .last_token = id("[SEP]")});
  manual_seed(1);
  const Model model = models::bert({.vocab_size = tokenizer.vocabulary_size(),
                                    .hidden_size = 32,
                                    .num_hidden_layers = 2,
                                    .num_attention_heads = 2,
                                    .intermediate_size = 64,
                                    .hidden_dropout_prob = 0,
                                    .attention_probs_dropout_prob = 0,
                                    .max_position_embeddings = 32,
                                    .initializer_range = 0.1});
  Booster booster;
  DataLoader loader =
      booster.prepare_dataloader(data, {.batch_size = 8, .shuffle = true, .workers = 0});
  auto [net, optimizer, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 3e-3}), Criterion(loss_of));
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 200; ++epoch) {
    double sum = 0;
    for (auto& [input, label] : loader) {
      optimizer.zero_grad();
      const Tensor loss = loss_fn(net(input), label);
      booster.backward(loss, optimizer);
      optimizer.step();
      sum += loss.item() / static_cast<double>(loader.size());
    }
    (epoch == 0 ? first : last) = sum;
  }
  CHECK(first > 4);
  CHECK(last < 0.5);
}

TEST_CASE("folders of berts are written as Hugging Face writes them, and load again") {
  for (const auto& from : bert_folders()) {
    CAPTURE(from.string());
    const TemporaryFolder folder;
    const Model model = evaluated(from);
    save_pretrained(model, folder.path());
    if (files::exists(from / "model.safetensors"))
      CHECK(text_of(folder / "model.safetensors") == text_of(from / "model.safetensors"));
    const Model again = evaluated(folder.path());
    const Tensor input = expected_of(from).at("input");
    CHECK(again(input).to_vector<float>() == model(input).to_vector<float>());
    CHECK(config_json_of(again) == config_json_of(model));
    write_trained(from, model, input);
  }
}

TEST_CASE("a boosted bert is saved whole, also in several files") {
  const TemporaryFolder folder;
  const Model model = evaluated(golden_bert("masked"), DType::bf16);
  Booster booster;
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  save_pretrained(net, folder / "tuned");
  save_model(net, folder / "shards", {.shard = true, .size_per_shard = 0.005});
  files::copy_file(folder / "tuned" / "config.json", folder / "shards" / "config.json");
  CHECK(files::exists(folder / "shards" / "model.safetensors.index.json"));
  const Tensor input = expected_of(golden_bert("masked")).at("input");
  const NoGradGuard no_grad;
  for (const char* name : {"tuned", "shards"})
    CHECK(evaluated(folder / name, DType::bf16)(input).to_vector<float>() ==
          model(input).to_vector<float>());
}

TEST_CASE("a folder's encoder gets another head, whose weights are new") {
  const files::path masked = golden_bert("masked");
  const PretrainedOptions classifier = {
      .options = {{"architecture", "BertForSequenceClassification"},
                  {"id2label", {"bad", "fair", "good", "best"}}}};
  const Model model = from_pretrained(masked, classifier);
  const auto& bert = dynamic_cast<models::Bert&>(model.module());
  CHECK(bert.config.id2label[3] == "best");
  CHECK(bert.config.pad_token_id == 3);
  const TensorMap stored = load_safetensors(masked / "model.safetensors");
  size_t copied = 0;
  for (const auto& [name, tensor] : model.state_dict())
    if (const auto found = stored.find(name); found != stored.end()) {
      CHECK(tensor.to_vector<float>() == found->second.to_vector<float>());
      ++copied;
    }
  CHECK(copied == stored.size() - 5);  // without the head of words
  const Tensor input = expected_of(masked).at("input");
  CHECK(model(input).shape() == Shape{3, 4});
  CHECK(
      from_pretrained(golden_bert("sequences"), {.options = {{"num_labels", 7}}})(input).shape() ==
      Shape{3, 7});
  const Model features = from_pretrained(masked, {.dtype = DType::f64,
                                                  .options = {{"architecture", "BertModel"},
                                                              {"add_pooling_layer", false},
                                                              {"mask_padding", true}}});
  CHECK(features(input).shape() == Shape{3, 9, 16});
  const TemporaryFolder folder;
  save_pretrained(features, folder.path());
  CHECK(from_pretrained(folder.path())->parameter_count() == features->parameter_count());
  CHECK(contains(config_json_of(features), "\"mask_padding\": true"));
  CHECK(contains(error_of([&] {
                   from_pretrained(masked, {.options = {{"num_label", 7}}});
                 }),
                 "did you mean num_labels?"));
  CHECK(contains(error_of([&] {
                   from_pretrained(masked, {.options = {{"num_labels", "many"}}});
                 }),
                 "num_labels"));
  const nlohmann::json not_utf8 = {"\xff", "good"};
  CHECK(contains(error_of([&] {
                   from_pretrained(masked, {.options = {{"id2label", not_utf8}}});
                 }),
                 "UTF-8"));
  CHECK(contains(config_json_of(models::bert({.architecture = "BertForTokenClassification",
                                              .num_hidden_layers = 0,
                                              .id2label = {"\xff", "good"}})),
                 "\"1\": \"good\""));
}

TEST_CASE("a config makes a bert with a folder's weights and a new head") {
  const nlohmann::json section = {{"name", "bert"},
                                  {"architecture", "BertForTokenClassification"},
                                  {"id2label", {"O", "B", "I"}},
                                  {"vocab_size", 40},
                                  {"hidden_size", 16},
                                  {"num_hidden_layers", 2},
                                  {"num_attention_heads", 4},
                                  {"intermediate_size", 24},
                                  {"max_position_embeddings", 16},
                                  {"weights", golden_bert("masked").string()}};
  std::string said;
  const Model model = make_model(Config::from_text(nlohmann::json{{"model", section}}.dump()),
                                 [&](const std::string& text) { said += text; });
  CHECK(contains(said, "2 new: classifier.weight, classifier.bias"));
  CHECK(model(zeros({2, 5}, {.dtype = DType::i64})).shape() == Shape{2, 5, 3});
  nlohmann::json wrong = section;
  wrong["hidden_act"] = "gelo";
  CHECK(contains(error_of([&] {
                   Config::from_text(nlohmann::json{{"model", wrong}}.dump());
                 }),
                 "did you mean gelu?"));
  wrong = section;
  wrong["num_labels"] = 2;
  CHECK(contains(error_of([&] {
                   Config::from_text(nlohmann::json{{"model", wrong}}.dump());
                 }),
                 "id2label names 3 labels; want 2"));
}

TEST_CASE("older names in files of berts are known, and what a model does not use is left") {
  const TemporaryFolder folder;
  files::copy_file(golden_bert("masked") / "config.json", folder / "config.json");
  TensorMap older;
  for (const auto& [name, tensor] : load_safetensors(golden_bert("masked") / "model.safetensors")) {
    std::string old = name;
    if (const size_t at = old.find("LayerNorm."); at != old.npos)
      old = old.substr(0, at + 10) + (old.ends_with("weight") ? "gamma" : "beta");
    older.emplace(old, tensor);
  }
  older.emplace("bert.embeddings.position_ids", arange(16));
  older.emplace("bert.pooler.dense.weight", zeros({16, 16}));
  older.emplace("bert.pooler.dense.bias", zeros({16}));
  older.emplace("cls.seq_relationship.weight", zeros({2, 16}));
  older.emplace("cls.seq_relationship.bias", zeros({2}));
  older.emplace("cls.predictions.decoder.weight",
                older.at("bert.embeddings.word_embeddings.weight"));
  older.emplace("cls.predictions.decoder.bias", older.at("cls.predictions.bias"));
  save_safetensors(folder / "model.safetensors", older, {{"format", "pt"}});
  const TensorMap want = expected_of(golden_bert("masked"));
  const NoGradGuard no_grad;
  CHECK(test::distance(evaluated(folder.path())(want.at("input")), want.at("output")) < 5e-6);
  older.emplace("bert.extra", zeros({2}));
  save_safetensors(folder / "model.safetensors", older, {{"format", "pt"}});
  CHECK(contains(error_of([&] { from_pretrained(folder.path()); }), "bert.extra"));
  files::copy_file(golden_bert("base") / "model.safetensors", folder / "model.safetensors",
                   files::copy_options::overwrite_existing);
  CHECK(contains(error_of([&] { from_pretrained(folder.path()); }), "cls.predictions.bias"));
}

TEST_CASE("what a config.json asks for and our bert does not have is refused by name") {
  CHECK(contains(bert_error_with("hidden_act", "gelo"), "did you mean gelu?"));
  CHECK(contains(bert_error_with("hiden_size", 16), "did you mean hidden_size?"));
  CHECK(contains(bert_error_with("position_embedding_type", "relative_key"),
                 R"(position_embedding_type; got "relative_key", want "absolute")"));
  CHECK(contains(bert_error_with("is_decoder", true), "is_decoder; got true, want false"));
  CHECK(contains(bert_error_with("tie_word_embeddings", false), "want true"));
  CHECK(contains(bert_error_with("architectures", {"BertForMaskLM"}),
                 "did you mean BertForMaskedLM?"));
  CHECK(contains(bert_error_with("architectures", nlohmann::json::array()),
                 "want a list of one name"));
  CHECK(contains(bert_error_with("id2label", {{"0", "a"}, {"2", "b"}}), "id2label"));
  CHECK(contains(bert_error_with("num_labels", 5), "id2label names 3 labels; want 5"));
  CHECK(contains(bert_error_with("sliding_window", 4), "sliding_window"));
  CHECK(contains(bert_error_with("hidden_size", 18), "heads do not divide"));
  CHECK(contains(bert_error_with("vocab_size", "many"), "vocab_size"));
  CHECK(bert_error_with("some_new_flag", false).empty());
  CHECK(bert_error_with("pruned_heads", nlohmann::json::object()).empty());
  CHECK(contains(bert_error_with("pruned_heads", {{"0", {1}}}), "pruned_heads"));
}
