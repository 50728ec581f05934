// The example program as a user runs it, on a small folder of images.
#pragma once

#include "core/data/images/image.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace booster {

// Two classes of images, and a tiny training on them.
class Example {
 public:
  explicit Example(int images_per_class = 8) {
    write_classes(image(""), images_per_class);
  }

  // Writes dark images in one folder of `root`, light ones in another.
  static void write_classes(const std::filesystem::path& root, int images_per_class) {
    for (const char* name : {"dark", "light"}) {
      std::filesystem::create_directories(root / name);
      const std::string jpeg = make_jpeg(24, 20, name[0] == 'l' ? 200 : 40);
      for (int i = 1; i <= images_per_class; ++i)
        std::ofstream(root / name / fmt::format("image_{:04}.jpg", i), std::ios::binary) << jpeg;
    }
  }

  static std::string make_jpeg(int width, int height, int brightness) {
    Image image(width, height, 3);
    for (size_t i = 0; i < image.bytes(); ++i)
      image.data()[i] = static_cast<uint8_t>(brightness + i % 16);
    return encode_jpeg(image, 90);
  }

  std::filesystem::path output() const { return folder_ / "out"; }
  std::filesystem::path root() const { return folder_ / "data"; }
  std::filesystem::path image(const std::string& name) const {
    return root() / "101_ObjectCategories" / name;
  }
  std::string read(const std::string& name) const { return folder_.read("out/" + name); }
  std::string metrics() const { return read("metrics.jsonl"); }
  std::string record() const { return read("run.json"); }
  // Returns the lines of metrics.jsonl; a line that is not JSON is null.
  std::vector<nlohmann::json> metric_lines() const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(metrics());
    for (std::string line; std::getline(text, line);) {
      const auto value = nlohmann::json::parse(line, nullptr, false);
      lines.push_back(value.is_object() ? value : nlohmann::json());
    }
    return lines;
  }
  bool has_checkpoint(int step) const {
    return std::filesystem::exists(output() /
                                   fmt::format("checkpoint/step-{:09}/manifest.json", step));
  }

  // Returns the bytes of the newest checkpoint's weights; "" if there is none.
  std::string last_weights() const {
    std::filesystem::path last;
    for (const auto& entry : std::filesystem::directory_iterator(output() / "checkpoint"))
      if (entry.is_directory() && !entry.is_symlink()) last = std::max(last, entry.path());
    return read(std::filesystem::relative(last / "model.safetensors", output()).string());
  }

  // Returns the command. `sets` are settings separated by blanks; `before` precedes the program:
  // the launcher with its options. Without `images` the command names no data folder.
  std::string command(const std::string& sets = "", const std::string& before = "",
                      bool images = true) const {
    const std::string build = build_folder().string();
    std::string command =
        before.empty() ? "" : fmt::format("'{}/tools/booster' {} ", build, before);
    command += fmt::format("'{}/examples/vit_caltech101' --set train.output_dir='{}'", build,
                           output().string());
    if (images) command += fmt::format(" --set data.root='{}'", root().string());
    command +=
        " --set model.img_size=16 --set model.num_classes=2 --set data.batch_size=4"
        " --set data.validation_fraction=0.25 --set train.log_every=1";
    for (size_t begin = 0; begin < sets.size();) {
      const size_t end = std::min(sets.find(' ', begin), sets.size());
      command += fmt::format(" --set '{}'", sets.substr(begin, end - begin));
      begin = end + 1;
    }
    return command;
  }

  CommandResult run(const std::string& sets = "", const std::string& before = "") const {
    return run_command(command(sets, before));
  }

  // Starts the command. Once it has printed `mark`, or has ended without it, runs `action`, in
  // which $pid is the command's process. Then waits for its end.
  CommandResult run_and(const std::string& mark, const std::string& action,
                        const std::string& command) const {
    const std::string log = (folder_ / "log").string();
    return run_command(fmt::format(
        "{{ : >'{1}'; {0} >>'{1}' 2>&1 & pid=$!; "
        "until grep -qs -- '{2}' '{1}' || grep -q '^State:.Z' /proc/$pid/status; do sleep 0.1; "
        "done; {3}; wait $pid; code=$?; cat '{1}'; exit $code; }}",
        command, log, mark, action));
  }

  static CommandResult compare(const std::string& a, const std::string& b) {
    return run_command(fmt::format("'{}/tools/booster' compare-numerics '{}' '{}'",
                                   build_folder().string(), a, b));
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace booster
