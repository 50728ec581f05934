#include "examples/language_model/writing.h"

#include "examples/language_model/program_config.h"

#include <algorithm>

namespace language_model {

using namespace booster;

namespace {

Model model_on(const std::filesystem::path& folder, Device device) {
  Model model = from_pretrained(folder);
  if (device != Device{}) model->to(device);
  return model;
}

}  // namespace

Writer::Writer(const std::filesystem::path& folder, Device device)
    : model_(model_on(folder, device)),
      tokenizer_(Tokenizer::from_file(folder.string())),
      stops_(stop_tokens_of(folder)) {}

std::string Writer::write(const std::vector<int32_t>& prompt, GenerateOptions options) const {
  const int64_t room = sizes_of(model_).positions - static_cast<int64_t>(prompt.size());
  options.max_new_tokens = std::clamp<int64_t>(room, 0, options.max_new_tokens);
  options.stop_tokens = stops_;
  std::vector<int32_t> text = prompt;
  const auto added = generate(model_, {prompt}, options)[0];
  text.insert(text.end(), added.begin(), added.end());
  return terminal_lines(tokenizer_.decode(text));
}

}  // namespace language_model
