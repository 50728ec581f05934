#include "examples/language_model/data.h"

#include "examples/language_model/byte_tokenizer.h"
#include "examples/language_model/stories.h"
#include "examples/training/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace language_model {

using namespace booster;
namespace fs = std::filesystem;

namespace {

using Path = std::optional<std::string>;
using DatasetPointer = std::shared_ptr<const Dataset>;

constexpr size_t longest_text = size_t{1} << 40;

struct Sources {
  Path file, conversations, validation;
  std::vector<std::string> token_files;
};

Sources sources_of(const Config& config) {
  const OptionValues data = config.options("data");
  return {data.given<std::string>("file"), data.given<std::string>("conversations"),
          data.given<std::string>("validation_file"),
          data.get<std::vector<std::string>>("token_files")};
}

// Opens files and makes samples of them.
class Opener {
 public:
  Opener(const Config& config, const World& world, const Vocabulary& vocabulary, fs::path folder)
      : config_(config),
        world_(world),
        vocabulary_(vocabulary),
        folder_(std::move(folder)),
        length_(config.get<int64_t>("data.tokens")),
        pack_(config.get<bool>("data.pack")) {
    check(!pack_ || vocabulary.document_end,
          "data.pack: needs the token that ends documents (data.document_end)");
  }

  // Rank 0 tokenises the text into a file.
  DatasetPointer of_text(const std::string& text, const std::string& name) {
    const fs::path tokens = folder_ / (name + ".bin");
    example::on_first_rank(world_, "data.file", [&] {
      tokenize_files(*vocabulary_.tokenizer, {text}, tokens,
                     {.end_token = vocabulary_.document_end});
    });
    return of_tokens({tokens.string()});
  }

  DatasetPointer of_stories() {
    const fs::path stories = folder_ / "stories.txt";
    const std::string end = vocabulary_.document_end
                                ? *vocabulary_.tokenizer->token_of(*vocabulary_.document_end)
                                : "\n";
    example::on_first_rank(world_, "stories.txt", [&] {
      const std::string text = made_stories(config_.get<int64_t>("data.stories"), end);
      if (!fs::exists(stories) || read_file(stories, longest_text) != text)
        write_file(stories, text);
    });
    return of_text(stories.string(), "tokens");
  }

  DatasetPointer of_tokens(const std::vector<std::string>& paths) {
    std::vector<std::shared_ptr<const TokenFile>> files;
    for (const std::string& path : paths) files.push_back(std::make_shared<TokenFile>(path));
    if (pack_)
      return packed(std::make_shared<TokenDocuments>(files, *vocabulary_.document_end), true);
    // Files weigh by their size, so that an epoch reads each of them once.
    std::vector<WeightedTokens> weighted;
    for (const auto& file : files) weighted.push_back({file, static_cast<double>(file->size())});
    return std::make_shared<TokenFilesDataset>(
        std::move(weighted),
        TokenFilesOptions{.length = length_, .document_end = vocabulary_.document_end});
  }

  DatasetPointer of_conversations(const std::string& path) {
    check(vocabulary_.tokenizer.has_value(), "data.conversations: need a tokeniser");
    const std::optional<ChatTemplate> format = chat_template_of(vocabulary_);
    auto talks = std::make_shared<Conversations>(
        path, *vocabulary_.tokenizer, format,
        ConversationOptions{.answers = config_.get<std::string>("data.answers"),
                            .end_token = vocabulary_.document_end});
    if (pack_) return packed(std::move(talks), false);
    return std::make_shared<PaddedSequences>(
        std::move(talks),
        // Ranks that share the tokens of a row divide its length.
        PaddedOptions{.length = length_,
                      .to_length = world_.size > 1,
                      .pad_token = vocabulary_.document_end.value_or(0)});
  }

 private:
  DatasetPointer packed(std::shared_ptr<const TokenSequences> sequences, bool split) const {
    return std::make_shared<PackedSequences>(
        std::move(sequences), PackedOptions{.length = length_,
                                            .document_end = *vocabulary_.document_end,
                                            .seed = config_.get<uint64_t>("train.seed"),
                                            .split = split});
  }

  const Config& config_;
  const World& world_;
  const Vocabulary& vocabulary_;
  fs::path folder_;
  int64_t length_;
  bool pack_;
};

DatasetPointer part(const DatasetPointer& all, int64_t begin, int64_t end) {
  std::vector<int64_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return std::make_shared<Subset>(all, std::move(rows));
}

}  // namespace

Data open_data(const Config& config, const World& world, const Vocabulary& vocabulary,
               const fs::path& folder) {
  const Sources sources = sources_of(config);
  Opener opener(config, world, vocabulary, folder);
  // The first of the three that is given; `name` is for the tokens of a text.
  const auto open = [&](const Path& conversations, const std::vector<std::string>& tokens,
                        const Path& text, const std::string& name) {
    if (conversations) return opener.of_conversations(*conversations);
    if (!tokens.empty()) return opener.of_tokens(tokens);
    return text ? opener.of_text(*text, name) : opener.of_stories();
  };
  Data data;
  data.made = !sources.file && !sources.conversations && sources.token_files.empty();
  const DatasetPointer all =
      open(sources.conversations, sources.token_files, sources.file, "tokens");
  if (sources.validation) {
    data.train = all;
    const Path& own = sources.validation;
    data.validation = open(
        sources.conversations ? own : Path(),
        sources.token_files.empty() ? std::vector<std::string>{} : std::vector<std::string>{*own},
        own, "validation");
  } else {
    const double kept = 1 - config.get<double>("data.validation_fraction");
    const auto end = static_cast<int64_t>(static_cast<double>(all->size()) * kept);
    data.train = part(all, 0, end);
    data.validation = part(all, end, all->size());
  }
  if (data.train->size() == 0 || data.validation->size() == 0)
    fail_data("data: {} rows to train on and {} to validate on; want at least one of each",
              data.train->size(), data.validation->size());
  data.said = fmt::format("data: {} rows to train, {} to validate", data.train->size(),
                          data.validation->size());
  return data;
}

void check_files(const Config& config) {
  const Sources sources = sources_of(config);
  const auto check_file = [](const std::string& key, const Path& path) {
    if (!path) return;
    uint64_t bytes = 0;
    try {
      bytes = FileReader(*path).size();
    } catch (const Error& error) {
      fail_data("{}: {}", key, error.what());
    }
    if (bytes == 0) fail_data("{}: {}: got an empty file, want a text", key, *path);
  };
  check_file("data.file", sources.file);
  check_file("data.conversations", sources.conversations);
  check_file("data.validation_file", sources.validation);
}

Batch batch_of(const Dataset& data, int64_t first, int64_t count) {
  std::vector<Tensor> inputs, targets;
  RandomStream unused(0, 0, 0);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  for (const int64_t i : indices) {
    const Sample sample = data.load_in_batch(i, indices, unused);
    inputs.push_back(empty(sample.shape(), {.dtype = sample.dtype()}));
    sample.write(inputs.back().data());
    targets.push_back(sample.label());
  }
  return {stack(inputs, 0), stack(targets, 0)};
}

}  // namespace language_model
