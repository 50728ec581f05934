// Token files of other programs, and samples from several of them.
#include "core/data/datasets/datasets.h"
#include "core/data/loader.h"
#include "tests/data/files.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <random>

using namespace booster;
using namespace booster::test;

namespace {

template <class T>
std::string raw(const std::vector<int64_t>& tokens) {
  std::string bytes;
  for (const int64_t token : tokens) {
    const T value = static_cast<T>(token);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return bytes;
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string llm_c_header(int32_t magic, size_t tokens) {
  std::vector<int64_t> header(256);
  header[0] = magic;
  header[1] = 1;
  header[2] = static_cast<int64_t>(tokens);
  return raw<int32_t>(header);
}

std::vector<int64_t> all_of(const TokenFile& file) {
  std::vector<int64_t> tokens(static_cast<size_t>(file.size()));
  file.read(0, tokens);
  return tokens;
}

std::shared_ptr<const TokenFile> file_of(const std::filesystem::path& path, int64_t first,
                                         int64_t count) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(first + i);
  write(path, raw<uint16_t>(tokens));
  return std::make_shared<TokenFile>(path);
}

}  // namespace

TEST_CASE("token files of nanoGPT, llm.c and Megatron are read") {
  const TemporaryFolder folder;
  const std::vector<int64_t> small = {5, 0, 65535, 7}, large = {5, 128'000, 7};
  write(folder / "nano.bin", raw<uint16_t>(small));
  CHECK(all_of(TokenFile(folder / "nano.bin")) == small);
  write(folder / "wide.bin", raw<uint32_t>(large));
  CHECK(all_of(TokenFile(folder / "wide.bin", {.bytes = 4})) == large);
  write(folder / "wide.bin.json", R"({"bytes_per_token": 4})");
  CHECK(all_of(TokenFile(folder / "wide.bin")) == large);
  write(folder / "llmc.bin", llm_c_header(20240520, small.size()) + raw<uint16_t>(small));
  CHECK(all_of(TokenFile(folder / "llmc.bin")) == small);
  write(folder / "llama3.bin", llm_c_header(20240801, large.size()) + raw<uint32_t>(large));
  CHECK(all_of(TokenFile(folder / "llama3.bin")) == large);
  write(folder / "megatron.bin", raw<int32_t>(large));
  write(folder / "megatron.idx",
        std::string("MMIDIDX\0\0", 9) + std::string("\1\0\0\0\0\0\0\0", 8) + "\4");
  CHECK(all_of(TokenFile(folder / "megatron.bin")) == large);
}

TEST_CASE("token files that contradict themselves are refused") {
  const TemporaryFolder folder;
  const auto error = [&](const char* name) { return error_of([&] { TokenFile(folder / name); }); };
  CHECK(contains(error("none.bin"), "cannot read"));
  write(folder / "empty.bin", "");
  CHECK(contains(error("empty.bin"), "is empty"));
  write(folder / "odd.bin", "abc");
  CHECK(contains(error("odd.bin"), "ends within a token"));
  write(folder / "short.bin", llm_c_header(20240520, 9) + raw<uint16_t>({1, 2}));
  CHECK(contains(error("short.bin"), "has 9 tokens by its header"));
  write(folder / "m.bin", raw<int32_t>({1}));
  write(folder / "m.idx",
        std::string("MMIDIDX\0\0", 9) + std::string("\1\0\0\0\0\0\0\0", 8) + "\1");
  CHECK(contains(error("m.bin"), "want 4 (int32) or 8 (uint16)"));
  CHECK(contains(error_of([&] { TokenFile(folder.path()); }), "not a regular file"));
  const auto tiny = file_of(folder / "tiny.bin", 0, 4);
  CHECK(contains(error_of([&] { TokenFilesDataset({{tiny}}, {.length = 4}); }),
                 "shorter than a window; got 4 tokens, want 5 or more"));
  CHECK(contains(error_of([&] { TokenFilesDataset({{tiny, 0}}, {.length = 2}); }), "weight"));
  CHECK(contains(error_of([] { TokenFilesDataset({}); }), "no files"));
}

TEST_CASE("files take turns by their weights, and each gives its windows in order") {
  const TemporaryFolder folder;
  const auto a = file_of(folder / "a.bin", 0, 101), b = file_of(folder / "b.bin", 1000, 31);
  RandomStream random(1, 0, 0);
  const TokenFilesDataset both({{a, 3}, {b, 1}}, {.length = 10});
  CHECK(both.size() == 12);  // b has 3 windows, a quarter of 12
  std::vector<int64_t> next = {0, 1000};
  int from_b = 0;
  for (int64_t i = 0; i < both.size(); ++i) {
    const Sample sample = both.load(i, random);
    std::vector<int64_t> tokens(10);
    sample.write(tokens.data());
    const size_t file = tokens[0] >= 1000;
    from_b += static_cast<int>(file);
    CHECK(tokens[0] == next[file]);
    next[file] += 10;
    CHECK(sample.label().to_vector<int64_t>()[9] == tokens[9] + 1);
    CHECK(std::abs(from_b - static_cast<double>(i + 1) / 4) <= 1);
  }
  const TokenFilesDataset alone({{a}}, {.length = 10, .stride = 5});
  CHECK(alone.size() == 19);
  const TokenFilesDataset long_epoch({{a}}, {.length = 10, .samples = 25});
  CHECK(long_epoch.size() == 25);
  CHECK(long_epoch.load(12, random).label().to_vector<int64_t>()[0] == 21);  // again from window 2
  CHECK(both.identity() == TokenFilesDataset({{a, 3}, {b, 1}}, {.length = 10}).identity());
  CHECK_FALSE(both.identity() == TokenFilesDataset({{a, 2}, {b, 1}}, {.length = 10}).identity());
}

TEST_CASE("a loader over token files resumes at the exact token on another number of ranks") {
  const TemporaryFolder folder;
  const auto data = std::make_shared<TokenFilesDataset>(
      std::vector<WeightedTokens>{{file_of(folder / "a.bin", 0, 200), 2},
                                  {file_of(folder / "b.bin", 1000, 200), 1}},
      TokenFilesOptions{.length = 4});
  for (const unsigned seed : testing::draws(20)) {
    std::mt19937 random(seed);
    const int before = 1 << random() % 3, after = 1 << random() % 3;
    const int64_t steps = 1 + static_cast<int64_t>(random() % 5);
    const auto firsts = [&](int ranks, int64_t batches_from, int64_t batches) {
      std::vector<int64_t> seen;
      for (int rank = 0; rank < ranks; ++rank) {
        DataLoader loader(data, {.batch_size = 4 / ranks,
                                 .shuffle = true,
                                 .workers = 0,
                                 .seed = seed,
                                 .rank = rank,
                                 .world_size = ranks});
        loader.load_state({.epoch = 0, .batch = batches_from});
        int64_t count = 0;
        for (auto& [tokens, next] : loader) {
          for (const int64_t token : untracked::select(tokens, 1, 0).to_vector<int64_t>())
            seen.push_back(token);
          if (++count == batches) break;
        }
      }
      std::sort(seen.begin(), seen.end());
      return seen;
    };
    std::vector<int64_t> split = firsts(before, 0, steps);
    const auto rest = firsts(after, steps, 6);
    split.insert(split.end(), rest.begin(), rest.end());
    std::sort(split.begin(), split.end());
    CHECK(split == firsts(1, 0, steps + 6));
  }
}
