#include "core/data/datasets/texts.h"
#include "core/data/loader.h"
#include "tests/data/files.h"
#include "tests/draws.h"

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

using namespace booster;
using namespace booster::test;

namespace {

namespace fs = std::filesystem;

// A sample that holds a line as bytes, in one row of 64.
Sample line_sample(const std::string& line, RandomStream&) {
  Tensor bytes = full({64}, 0, {.dtype = DType::i64});
  for (size_t i = 0; i < line.size(); ++i)
    bytes.data<int64_t>()[i] = static_cast<unsigned char>(line[i]);
  return {bytes, static_cast<int64_t>(line.size())};
}

std::string line_of(const Batch& batch, int64_t row) {
  std::string line;
  const auto bytes = batch.image.to_vector<int64_t>();
  for (int64_t i = 0; i < batch.label.to_vector<int64_t>()[static_cast<size_t>(row)]; ++i)
    line += static_cast<char>(bytes[static_cast<size_t>(row * 64 + i)]);
  return line;
}

// Reads the rest of the epoch, or some batches of it.
std::vector<std::string> lines_of(DataLoader& loader, int64_t batches = -1) {
  std::vector<std::string> lines;
  int64_t seen = 0;
  for (const Batch& batch : loader) {
    for (int64_t row = 0; row < batch.label.size(0); ++row) lines.push_back(line_of(batch, row));
    if (++seen == batches) break;
  }
  return lines;
}

struct DrawnFiles {
  std::vector<fs::path> files;
  std::vector<std::string> lines;

  DrawnFiles(std::mt19937& random, const TemporaryFolder& folder) {
    const int count = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < count; ++i) {
      const std::string name = "lines" + std::to_string(i);
      files.push_back(folder / name);
      std::string text;
      const int in_file = static_cast<int>(random() % 30);
      for (int k = 0; k < in_file; ++k) {
        lines.push_back(random() % 5 ? std::to_string(i) + std::string(random() % 40, 'x') +
                                           std::to_string(k)
                                     : "");
        const bool has_end = k + 1 < in_file || lines.back().empty() || random() % 2;
        text += lines.back() + (!has_end ? "" : random() % 4 ? "\n" : "\r\n");
      }
      folder.write(name, text);
    }
  }
};

}  // namespace

TEST_CASE("drawn files: a stream gives each line once, in order, and resumes anywhere") {
  const TemporaryFolder folder;
  for (const unsigned seed : testing::draws(200)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const DrawnFiles drawn(random, folder);
    const auto stream =
        text_lines(drawn.files, line_sample, {.shards = static_cast<int64_t>(random() % 12)});
    DataLoaderOptions options = {.batch_size = 1 + static_cast<int64_t>(random() % 5),
                                 .workers = static_cast<int>(random() % 3)};
    DataLoader loader(stream, options);
    CHECK(lines_of(loader) == drawn.lines);
    DataLoader stopped(stream, options);
    auto seen = lines_of(stopped, 1 + static_cast<int64_t>(random() % 5));
    DataLoader resumed(stream, options);
    resumed.load_state(stopped.state());
    for (const std::string& line : lines_of(resumed)) seen.push_back(line);
    if (stopped.state().epoch == 0) CHECK(seen == drawn.lines);
    options.shuffle = true;
    options.even_shares = false;
    options.world_size = 1 + static_cast<int>(random() % 3);
    std::vector<std::string> of_ranks;
    for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
      DataLoader share(stream, options);
      for (const std::string& line : lines_of(share)) of_ranks.push_back(line);
    }
    auto want = drawn.lines;
    std::ranges::sort(want);
    std::ranges::sort(of_ranks);
    CHECK(of_ranks == want);
  }
}

TEST_CASE("JSON lines give values; blank lines are none, and a bad line is named by its place") {
  const TemporaryFolder folder;
  const auto path = folder / "values.jsonl";
  folder.write("values.jsonl", "{\"x\": 1}\n\n{\"x\": 2}\n  \n{\"x\": 3");
  const auto stream = json_lines({path}, [](const nlohmann::json& value, RandomStream&) {
    return Sample(full({1}, 0.5), value.at("x").get<int64_t>());
  });
  DataLoader loader(stream, {.on_bad_image = BadImagePolicy::skip});
  std::vector<int64_t> values;
  for (auto& [input, label] : loader) values.push_back(label.to_vector<int64_t>()[0]);
  CHECK(values == std::vector<int64_t>{1, 2});
  REQUIRE(loader.bad_images().size() == 1);
  CHECK(contains(loader.bad_images()[0].reason, "values.jsonl, byte 22: the line is not JSON"));
  folder.write("values.jsonl", "{\"y\": 1}\n");
  DataLoader strict(stream, {});
  CHECK(contains(error_of([&] { strict.begin(); }), "values.jsonl, byte 0: "));
}

TEST_CASE("lines of a pipe come once; a second epoch is refused") {
  const TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const auto stream = text_lines({pipe}, line_sample);
  DataLoader loader(stream, {.batch_size = 2});
  std::thread writer([&] { folder.write("pipe", "a\nb\nc\n"); });
  CHECK(lines_of(loader) == std::vector<std::string>{"a", "b", "c"});
  writer.join();
  CHECK(contains(error_of([&] { loader.begin(); }), "a pipe can be read once"));
  CHECK(contains(error_of([&] { text_lines({pipe}, line_sample, {.shards = 2}); }),
                 "a pipe has one shard"));
}

TEST_CASE("a pipe that gives the same lines again resumes after those that were delivered") {
  const TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string text = "a\nb\nc\nd\ne\nf\ng\n";
  LoaderState at;
  {
    std::thread writer([&] { folder.write("pipe", text); });
    DataLoader loader(text_lines({pipe}, line_sample), {.batch_size = 2});
    CHECK(lines_of(loader, 2) == std::vector<std::string>{"a", "b", "c", "d"});
    at = loader.state();
    writer.join();
  }
  std::thread writer([&] { folder.write("pipe", text); });
  DataLoader loader(text_lines({pipe}, line_sample), {.batch_size = 2});
  loader.load_state(at);
  CHECK(lines_of(loader) == std::vector<std::string>{"e", "f", "g"});
  writer.join();
}

TEST_CASE("streams of lines refuse missing files, folders and sizes that are none") {
  const TemporaryFolder folder;
  const auto refusal = [&](const fs::path& path, int64_t shards = 0) {
    return error_of([&] { text_lines({path}, line_sample, {.shards = shards}); });
  };
  CHECK(contains(refusal(folder / "none"), "no such file"));
  CHECK(contains(refusal(folder.path()), "no such file"));
  folder.write("one", "a\n");
  CHECK(contains(refusal(folder / "one", -1), "shards out of range"));
  CHECK(contains(error_of([] { text_lines({}, line_sample); }), "no files"));
  const auto other = text_lines({folder / "one"}, line_sample)->identity();
  folder.write("one", "ab\n");
  CHECK(text_lines({folder / "one"}, line_sample)->identity() != other);
}
