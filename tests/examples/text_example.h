// The example that trains language models, run on a small text and model.
#pragma once

#include "tests/examples/example.h"

namespace booster {

// A text that repeats one sentence, and a small model.
class TextExample {
 public:
  static constexpr const char* sentence = "the quick brown fox jumps over the lazy dog. ";

  TextExample() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += sentence;
    folder_.write("text", text);
  }

  // `sets`: settings, separated by spaces. `before`: text before the program.
  std::string command(const std::string& sets, const std::string& out = "out",
                      const std::string& before = "") const {
    const std::string build = build_folder().string(), root = folder_.path().string();
    std::string all = fmt::format(
        "data.file={}/text train.output_dir={}/{} model.n_positions=32 "
        "model.n_embd=32 model.n_layer=2 model.n_head=2 data.tokens=32 data.batch_size=8 "
        "optimizer.name=adamw optimizer.lr=0.01 lr_scheduler.name=cosine_warmup "
        "lr_scheduler.warmup_steps=2 lr_scheduler.total_steps=100 train.epochs=20 "
        "train.log_every=1 train.checkpoint_every=4 {}",
        root, root, out, sets);
    std::string command = "OMP_NUM_THREADS=1 ";
    if (!before.empty()) command += fmt::format("'{}/tools/booster' {} ", build, before);
    command += fmt::format("'{}/examples/language_model'", build);
    std::istringstream words(all);
    for (std::string word; words >> word;) command += fmt::format(" --set '{}'", word);
    return command;
  }
  CommandResult run(const std::string& sets, const std::string& out = "out",
                    const std::string& before = "") const {
    return run_command(command(sets, out, before));
  }
  std::vector<nlohmann::json> metrics(const std::string& out = "out") const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(folder_.read(out + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  // Returns the loss of each step.
  std::vector<double> losses(const std::string& out = "out") const {
    std::vector<double> all;
    for (const auto& line : metrics(out))
      if (line.contains("loss")) {
        CHECK(line["step"] == all.size() + 1);
        all.push_back(line["loss"]);
      }
    return all;
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

}  // namespace booster
