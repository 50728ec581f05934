#include "examples/language_model/inference.h"

#include "examples/language_model/data.h"
#include "examples/language_model/evaluation.h"
#include "examples/language_model/program_config.h"
#include "examples/language_model/writing.h"
#include "examples/training/console.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

namespace language_model {

using namespace booster;
namespace fs = std::filesystem;

namespace {

fs::path model_folder(const Config& config) {
  const auto given = config.options("inference").given<std::string>("folder");
  return given ? fs::path(*given) : fs::path(config.get<std::string>("train.output_dir")) / "model";
}

// A model of a folder on the ranks of the config's plugin.
class Trained {
 public:
  Trained(const Config& config, const World& world)
      : config_(config),
        world_(world),
        booster_(Booster::from_config(config)),
        model_(from_pretrained(model_folder(config))),
        boosted_(boost()) {}

  void evaluate(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      const auto result = likelihood_of(evaluator(), *opened(name));
      if (!result) return;
      print(fmt::format("{}: {} tokens, loss {:.4f}, perplexity {:.3f}\n", terminal_text(name),
                        result->tokens, result->loss, std::exp(result->loss)));
    }
  }

  void choose(const std::string& file) const {
    const ModelSizes sizes = sizes_of(model_);
    const Tokenizer tokenizer = Tokenizer::from_file(model_folder(config_).string());
    const ChoicesResult result = answer_choices(evaluator(), tokenizer, file, sizes.positions);
    print(fmt::format("{}: {} questions, accuracy {:.2f} %, by likelihood per byte {:.2f} %\n",
                      terminal_text(file), result.questions, 100 * result.accuracy,
                      100 * result.accuracy_per_byte));
  }

 private:
  BoostedPair boost() {
    if (const Device device = device_of(config_); device != Device{}) model_->to(device);
    return booster_.boost(model_, make_optimizer(config_, model_));
  }
  Evaluator evaluator() const {
    return {booster_, boosted_.model, world_, device_of(config_),
            config_.get<int64_t>("data.batch_size")};
  }
  std::shared_ptr<const Dataset> opened(const std::string& name) const {
    const Vocabulary vocabulary = open_vocabulary(config_, model_folder(config_));
    const fs::path folder = config_.get<std::string>("train.output_dir");
    if (name == "validation") return open_data(config_, world_, vocabulary, folder).validation;
    return std::make_shared<TokenFilesDataset>(
        std::vector<WeightedTokens>{{std::make_shared<TokenFile>(name)}},
        TokenFilesOptions{.length = config_.get<int64_t>("data.tokens")});
  }
  void print(const std::string& text) const {
    if (world_.rank == 0) example::print(text);
  }

  const Config& config_;
  const World& world_;
  Booster booster_;
  Model model_;
  BoostedPair boosted_;
};

void generate_text(const Config& config) {
  const OptionValues options = config.options("inference");
  const Writer writer(model_folder(config), device_of(config));
  std::string text = *options.given<std::string>("prompt");
  const bool chat = options.get<bool>("chat");
  if (chat)
    text = ChatTemplate::from_file(model_folder(config).string())
               .render({{"user", text}}, {.add_generation_prompt = true});
  const auto prompt = writer.tokenizer().encode(text, {.special_tokens = !chat});
  check(!prompt.empty(), "inference.prompt: no tokens; want some text");
  const auto temperature = options.get<double>("temperature");
  example::print(writer.write(prompt, {.max_new_tokens = options.get<int64_t>("max_new_tokens"),
                                       .sample = temperature > 0,
                                       .temperature = temperature > 0 ? temperature : 1,
                                       .top_p = options.get<double>("top_p"),
                                       .seed = config.get<uint64_t>("train.seed")}) +
                 "\n");
}

}  // namespace

bool infer(const Config& config, const World& world) {
  const OptionValues options = config.options("inference");
  const auto files = options.get<std::vector<std::string>>("evaluate");
  const auto choices = options.given<std::string>("choices");
  const bool writes = options.given<std::string>("prompt").has_value();
  if (files.empty() && !choices && !writes) return false;
  if (!files.empty() || choices) {
    const Trained trained(config, world);
    if (!files.empty()) trained.evaluate(files);
    if (choices) trained.choose(*choices);
  }
  if (writes && world.rank == 0) generate_text(config);
  return true;
}

}  // namespace language_model
