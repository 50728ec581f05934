// The file of chosen algorithms: writes by several processes, and what remains of it when it is
// damaged.
#include "kernels/cuda/products/choice_file.h"

#include "tests/draws.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

using booster::kernels::cuda::ChoiceFile;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "choices-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("of choices that several processes write, the first one of a product counts") {
  const Folder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 10; ++round) {
    const std::string path = folder.path / std::to_string(round) / "choices.txt";
    ChoiceFile files[] = {{path, "a GPU"}, {path, "a GPU"}, {path, "a GPU"}};
    std::string why;
    CHECK(!files[0].read(why));
    CHECK(why == ChoiceFile::absent);
    ChoiceFile::Choices want;
    for (int i = 0; i < 30; ++i) {
      const std::string product = "N 3 x " + std::to_string(random() % 12);
      const int choice = static_cast<int>(random() % 8);
      const int counts = want.emplace(product, choice).first->second;
      CHECK(files[random() % 3].add(product, choice) == counts);
      CHECK(files[random() % 3].read(why) == want);
    }
    CHECK(!ChoiceFile(path, "another GPU").read(why));
    CHECK(why == "it has another subject; got a GPU, want another GPU");
    size_t left = 0;
    for (const auto& entry : fs::directory_iterator(folder.path / std::to_string(round)))
      left += entry.path() != path && entry.path() != path + ".lock";
    CHECK(left == 0);
  }
}

TEST_CASE("choices that are written at the same time are all kept") {
  const Folder folder;
  const std::string path = folder.path / "choices.txt";
  constexpr int writers = 4, products = 40;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer)
    threads.emplace_back([&path, writer] {
      ChoiceFile file(path, "a GPU");
      for (int i = 0; i < products; ++i) file.add(std::to_string(writer * products + i), writer);
    });
  for (std::thread& thread : threads) thread.join();
  std::string why;
  const auto choices = ChoiceFile(path, "a GPU").read(why);
  REQUIRE(choices);
  CHECK(choices->size() == writers * products);
}

TEST_CASE("a damaged file of choices counts as none, and is written anew") {
  const Folder folder;
  const std::string path = folder.path / "choices.txt";
  ChoiceFile file(path, "a GPU");
  for (int i = 0; i < 5; ++i) file.add("product " + std::to_string(i), i);
  const std::string whole = content_of(path);
  for (const unsigned round : booster::testing::draws(300)) {
    std::mt19937 random(round);
    std::string text = whole;
    const size_t place = random() % text.size();
    switch (random() % 3) {
      case 0: text[place] = static_cast<char>(text[place] ^ (1 << random() % 8)); break;
      case 1: text.resize(place); break;
      default: text.insert(place, 1, static_cast<char>(random()));
    }
    std::ofstream(path, std::ios::binary) << text;
    std::string why;
    CHECK(!file.read(why));
    CHECK(why == "it is damaged");
  }
  CHECK(file.add("another product", 7) == 7);
  std::string why;
  CHECK(file.read(why) == ChoiceFile::Choices{{"another product", 7}});
}
