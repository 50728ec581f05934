// CIFAR-10, MNIST, tokens, and subsets of data sets.
#include "core/data/datasets/datasets.h"
#include "core/data/loader.h"
#include "tests/data/files.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <sys/stat.h>
#include <zlib.h>

using namespace booster;
using namespace booster::test;

namespace {

const Compose as_tensor{ToTensor()};

std::string cifar_records(int count, int first) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>((first + i) % 10));
    for (int k = 0; k < 3072; ++k) bytes.push_back(static_cast<char>((first + i) * 7 + k));
  }
  return bytes;
}

void write_cifar(const TemporaryFolder& folder, const std::string& at) {
  for (int i = 1; i <= 5; ++i)
    folder.write(fmt::format("{}data_batch_{}.bin", at, i), cifar_records(3, 3 * (i - 1)));
  folder.write(at + "test_batch.bin", cifar_records(2, 100));
}

std::string idx(const std::vector<uint32_t>& sizes, size_t elements) {
  std::string bytes = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(size >> shift));
  for (size_t i = 0; i < elements; ++i)
    bytes.push_back(static_cast<char>(sizes.size() == 1 ? i % 10 : i * 3));
  return bytes;
}

void write_gzip(const TemporaryFolder& folder, const std::string& name, const std::string& bytes) {
  folder.write(name, "");
  gzFile file = gzopen((folder / name).c_str(), "wb");
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) > 0);
  gzclose(file);
}

std::vector<float> values(const Dataset& dataset, int64_t index) {
  RandomStream random(1, 1, 1);
  const Sample sample = dataset.load(index, random);
  std::vector<float> out(static_cast<size_t>(sample.shape().numel()));
  sample.write(out.data());
  return out;
}

}  // namespace

TEST_CASE("CIFAR-10 is read in its files' order, planes of colour as they are") {
  for (const std::string at : {"", "cifar-10-batches-bin/"}) {
    TemporaryFolder folder;
    write_cifar(folder, at);
    const CIFAR10 train(folder.path(), {.transform = as_tensor});
    const CIFAR10 test(folder.path(), {.train = false, .transform = as_tensor});
    CHECK(train.size() == 15);
    CHECK(test.size() == 2);
    CHECK(train.classes()[9] == "truck");
    for (int i = 0; i < 15; ++i) {
      CHECK(train.label(i) == i % 10);
      const auto pixels = values(train, i);
      REQUIRE(pixels.size() == 3072);
      for (int k = 0; k < 3072; ++k)
        REQUIRE(pixels[k] == static_cast<float>((i * 7 + k) & 255) / 255.0f);
    }
    CHECK(train.identity() != test.identity());
    CHECK(train.identity().classes == 10);
  }
}

TEST_CASE("CIFAR-10 says what is missing or damaged") {
  TemporaryFolder folder;
  CHECK(contains(error_of([&] { CIFAR10(folder.path()); }), "cifar-10-binary.tar.gz"));
  folder.write("cifar-10-batches-py/data_batch_1", "x");
  CHECK(contains(error_of([&] { CIFAR10(folder.path()); }), "pickled"));
  write_cifar(folder, "");
  folder.write("data_batch_3.bin", cifar_records(2, 0).substr(1));
  CHECK(contains(error_of([&] { CIFAR10(folder.path()); }), "data_batch_3.bin' is cut off"));
  folder.write("data_batch_3.bin", "\x0a" + cifar_records(1, 0).substr(1));
  CHECK(contains(error_of([&] { CIFAR10(folder.path()); }), "label of image 6 is out of range"));
  std::filesystem::remove(folder / "data_batch_3.bin");
  CHECK(contains(error_of([&] { CIFAR10(folder.path()); }), "cannot read"));
}

TEST_CASE("MNIST is read plain or compressed, from any of its folders") {
  for (const bool compressed : {false, true})
    for (const std::string at : {"", "raw/", "MNIST/raw/"}) {
      TemporaryFolder folder;
      for (const std::string part : {"train", "t10k"}) {
        const uint32_t count = part == "train" ? 12 : 5;
        const std::string images = idx({count, 3, 4}, count * 12), labels = idx({count}, count);
        const std::string names[] = {at + part + "-images-idx3-ubyte",
                                     at + part + "-labels-idx1-ubyte"};
        for (const auto& [name, bytes] : {std::pair(names[0], images), std::pair(names[1], labels)})
          compressed ? write_gzip(folder, name + ".gz", bytes) : folder.write(name, bytes);
      }
      const MNIST train(folder.path(), {.transform = as_tensor});
      CHECK(train.size() == 12);
      CHECK(MNIST(folder.path(), {.train = false}).size() == 5);
      CHECK(train.label(11) == 1);
      const auto pixels = values(train, 11);
      REQUIRE(pixels.size() == 12);
      for (int k = 0; k < 12; ++k)
        CHECK(pixels[k] == static_cast<float>(((11 * 12 + k) * 3) & 255) / 255.0f);
    }
}

TEST_CASE("a damaged MNIST is an error that names the file") {
  TemporaryFolder folder;
  const auto error = [&] { return error_of([&] { MNIST(folder.path()); }); };
  CHECK(contains(error(), "no file train-images-idx3-ubyte"));
  folder.write("train-images-idx3-ubyte", idx({2, 3, 4}, 24));
  CHECK(contains(error(), "no file train-labels-idx1-ubyte"));
  folder.write("train-labels-idx1-ubyte", idx({3}, 3));
  CHECK(contains(error(), "got 2 and 3"));
  folder.write("train-labels-idx1-ubyte", idx({2}, 1));
  CHECK(contains(error(), "got 1 bytes behind it, want 2"));
  folder.write("train-labels-idx1-ubyte", idx({2, 1}, 2));
  CHECK(contains(error(), "no idx file"));
  folder.write("train-images-idx3-ubyte", idx({UINT32_MAX, UINT32_MAX, UINT32_MAX}, 24));
  CHECK(contains(error(), "another size than its header says"));
  std::filesystem::remove(folder / "train-images-idx3-ubyte");
  write_gzip(folder, "train-images-idx3-ubyte.gz", idx({200, 3, 4}, 2400));
  const std::string whole = folder.read("train-images-idx3-ubyte.gz");
  for (const size_t kept : {whole.size() / 2, whole.size() - 9}) {
    folder.write("train-images-idx3-ubyte.gz", whole.substr(0, kept));
    CHECK(contains(error(), "train-images-idx3-ubyte.gz"));
  }
  std::string changed = whole;
  changed[changed.size() - 6] = static_cast<char>(changed[changed.size() - 6] ^ 1);  // the checksum
  folder.write("train-images-idx3-ubyte.gz", changed);
  CHECK(contains(error(), "cannot read"));
}

TEST_CASE("a packed set that is no regular file is refused instead of waited for") {
  const TemporaryFolder folder;
  for (const bool pipe : {true, false}) {
    for (const char* name : {"train-images-idx3-ubyte", "data_batch_1.bin", "tokens"}) {
      std::filesystem::remove(folder / name);
      if (pipe)
        REQUIRE(::mkfifo((folder / name).c_str(), 0600) == 0);
      else
        std::filesystem::create_symlink("/dev/zero", folder / name);
    }
    CHECK(contains(error_of([&] { MNIST(folder.path()); }), "want a regular file"));
    CHECK(contains(error_of([&] { CIFAR10(folder.path()); }), "want a regular file"));
    CHECK(contains(error_of([&] { read_tokens(folder / "tokens"); }), "cannot read"));
  }
}

TEST_CASE("random_split puts every sample into one part, by torch's rule for fractions") {
  const auto set = [](int64_t n) { return TensorDataset(arange(n), arange(n)); };
  const auto sizes = [](const std::vector<Subset>& parts) {
    std::vector<int64_t> sizes;
    for (const Subset& part : parts) sizes.push_back(part.size());
    return sizes;
  };
  // The sizes of torch.utils.data.random_split.
  CHECK(sizes(random_split(set(10), {0.3, 0.3, 0.4})) == std::vector<int64_t>{3, 3, 4});
  CHECK(sizes(random_split(set(11), {0.3, 0.3, 0.4})) == std::vector<int64_t>{4, 3, 4});
  CHECK(sizes(random_split(set(17), {0.25, 0.25, 0.25, 0.25})) == std::vector<int64_t>{5, 4, 4, 4});
  CHECK(sizes(random_split(set(7), {4, 0, 3})) == std::vector<int64_t>{4, 0, 3});
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int64_t> all;
    for (const Subset& part : random_split(set(50), {0.7, 0.2, 0.1}, seed))
      all.insert(all.end(), part.indices().begin(), part.indices().end());
    const auto again = random_split(set(50), {0.7, 0.2, 0.1}, seed);
    CHECK(std::equal(again[0].indices().begin(), again[0].indices().end(), all.begin()));
    CHECK(!std::ranges::is_sorted(all));
    std::ranges::sort(all);
    std::vector<int64_t> wanted(50);
    std::iota(wanted.begin(), wanted.end(), 0);
    CHECK(all == wanted);
  }
  CHECK_THROWS_WITH_AS(random_split(set(7), {4, 4}), doctest::Contains("add up to 7"), Error);
  CHECK_THROWS_AS(random_split(set(7), {0.5, 0.4}), Error);
  CHECK_THROWS_AS(random_split(set(7), {8, -1}), Error);
  CHECK_THROWS_AS(random_split(set(7), {6.5, 0.5}), Error);
}

TEST_CASE("a part gives its samples to a loader, and differs in identity from another") {
  const auto parts = random_split(TensorDataset(arange(6), arange(6)), {4, 2}, 3);
  DataLoader loader(parts[0], {.batch_size = 4});
  const Batch batch = *loader.begin();
  CHECK(batch.label.to_vector<int64_t>() == parts[0].indices());
  CHECK(parts[0].identity() != parts[1].identity());
  CHECK(parts[0].identity() ==
        random_split(TensorDataset(arange(6), arange(6)), {4, 2}, 3)[0].identity());
  CHECK_THROWS_AS(Subset(std::make_shared<TensorDataset>(arange(2), arange(2)), {2}), Error);
}

TEST_CASE("windows of tokens and what comes next, for drawn lengths and strides") {
  for (int64_t n = 2; n < 30; ++n)
    for (int64_t length = 1; length < n; length += 2)
      for (int64_t stride : {int64_t{0}, int64_t{1}, int64_t{3}}) {
        std::vector<int32_t> tokens(n);
        std::iota(tokens.begin(), tokens.end(), 100);
        const TokenDataset set(from_vector(tokens, {n}), {.length = length, .stride = stride});
        const int64_t step = stride ? stride : length;
        int64_t windows = 0;
        for (int64_t start = 0; start + length < n; start += step, ++windows) {
          RandomStream random(1, 1, 1);
          const Sample sample = set.load(windows, random);
          REQUIRE(sample.dtype() == DType::i64);
          std::vector<int64_t> seen(length), wanted(length);
          sample.write(seen.data());
          std::iota(wanted.begin(), wanted.end(), 100 + start);
          CHECK(seen == wanted);
          for (int64_t& token : wanted) ++token;
          CHECK(sample.label().to_vector<int64_t>() == wanted);
        }
        CHECK(set.size() == windows);
      }
  CHECK_THROWS_AS(TokenDataset(arange(4), {.length = 4}), Error);
  CHECK_THROWS_AS(TokenDataset(zeros({9}), {.length = 4}), Error);
  CHECK_THROWS_AS(TokenDataset(arange(9), {.length = 0}), Error);
}

TEST_CASE("token files of one, two and four bytes are read, lowest byte first") {
  TemporaryFolder folder;
  folder.write("t", std::string("\x01\x02\xff\xfe", 4));
  const std::string path = folder / "t";
  CHECK(read_tokens(path, {.bytes = 1}).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 2, 255, 254});
  CHECK(read_tokens(path).to_vector<int64_t>() == std::vector<int64_t>{0x201, 0xfeff});
  CHECK(read_tokens(path, {.bytes = 4}).to_vector<int64_t>() == std::vector<int64_t>{0xfeff0201});
  folder.write("t", "abc");
  CHECK(contains(error_of([&] { read_tokens(path); }), "ends within a token"));
  CHECK(contains(error_of([&] { read_tokens(folder / "none"); }), "cannot read"));
  CHECK_THROWS_AS(read_tokens(path, {.bytes = 3}), Error);
}
