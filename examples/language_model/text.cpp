#include "examples/language_model/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <vector>

namespace language_model {

using namespace booster;

namespace {

std::vector<uint8_t> read(const std::string& path) {
  constexpr size_t most = size_t{1} << 40;
  std::string text;
  try {
    text = read_file(path, most);
  } catch (const Error& error) {
    fail_data("data.file: {}", error.what());
  }
  if (text.empty()) fail_data("data.file: {}: got an empty file, want a text", path);
  return {text.begin(), text.end()};
}

std::vector<uint8_t> made_text() {
  const std::vector<const char*> kinds = {"old", "young", "quiet", "clever", "tired", "happy"},
                                 names = {"cat", "dog", "bird", "horse", "farmer", "child"},
                                 deeds = {"sees", "follows", "finds", "likes", "calls", "leaves"};
  std::mt19937 random(1);
  const auto any = [&](const auto& words) { return words[random() % words.size()]; };
  std::string text;
  while (text.size() < 64 << 10)
    text += fmt::format("the {} {} {} the {}.\n", any(kinds), any(names), any(deeds), any(names));
  return {text.begin(), text.end()};
}

Windows windows(const Tensor& text, int64_t begin, int64_t end, int64_t tokens) {
  const int64_t count = std::max<int64_t>(0, end - begin - 1) / tokens;
  const auto cut = [&](int64_t first) {
    return reshape(narrow(text, 0, first, count * tokens), {count, tokens});
  };
  return count > 0 ? Windows{cut(begin), cut(begin + 1)}
                   : Windows{empty({0, tokens}), empty({0, tokens})};
}

}  // namespace

Texts open_texts(const Config& config) {
  const auto path = config.options("data").given<std::string>("file");
  const auto tokens = config.get<int64_t>("data.tokens");
  const std::vector<uint8_t> bytes = path ? read(*path) : made_text();
  const auto size = static_cast<int64_t>(bytes.size());
  const double kept = 1 - config.get<double>("data.validation_fraction");
  const auto end = static_cast<int64_t>(static_cast<double>(size) * kept);
  const Tensor text = from_vector(bytes, {size});
  const std::string name = path.value_or("a made-up text");
  Texts texts = {windows(text, 0, end, tokens), windows(text, end, size, tokens), "", !path};
  if (texts.train.size() == 0 || texts.validation.size() == 0)
    fail_data(
        "data.file: shorter than a window; {} has {} bytes to train on and {} to validate on, want "
        "at least {} of each (data.tokens and one more)",
        name, end, size - end, tokens + 1);
  texts.said = fmt::format("data: {} bytes of {}; {} windows to train, {} to validate", size, name,
                           texts.train.size(), texts.validation.size());
  return texts;
}

}  // namespace language_model
