#include "core/data/datasets/datasets.h"
#include "examples/vit_caltech101/data/make_small_set.h"
#include "tests/data/files.h"

using namespace booster;
using namespace booster::test;

TEST_CASE("the small set is Caltech101's layout: real files, many sizes, the same each time") {
  TemporaryFolder first, second;
  make_small_set(first.path(), {.images_per_class = 12});
  make_small_set(second.path(), {.images_per_class = 12});
  const Caltech101 dataset(first.path());
  CHECK(dataset.classes().size() == 8);
  CHECK(dataset.size() == 96);
  int upright = 0, grey = 0;
  size_t bytes = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::string file = read_file(dataset.path(i));
    const std::string name = dataset.path(i).substr(first.path().string().size());
    CHECK(file == read_file(second.path().string() + name));
    const Image image = load_image(dataset.path(i));
    upright += image.height() > image.width();
    grey += image.channels() == 1;
    bytes += file.size();
  }
  CHECK(upright > 10);
  CHECK(upright < 40);
  CHECK(grey > 0);
  CHECK(grey < 15);
  CHECK(bytes / 96 > 6'000);
  CHECK(bytes / 96 < 30'000);
}

TEST_CASE("a small set that is there already is left alone") {
  TemporaryFolder folder;
  folder.write("101_ObjectCategories/mine/x.jpg", "x");
  make_small_set(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder / "101_ObjectCategories/dots"));
  CHECK_THROWS_AS(make_small_set(folder.path(), {.images_per_class = 1}), Error);
}

TEST_CASE("what a process that was killed had made of a small set is removed") {
  TemporaryFolder folder;
  folder.write("unfinished_999999999/dots/x.jpg", "x");  // no process has this ID
  folder.write("unfinished_1/dots/x.jpg", "x");          // this process is alive
  folder.write("101_ObjectCategories/mine/x.jpg", "x");
  make_small_set(folder.path());
  CHECK_FALSE(std::filesystem::exists(folder / "unfinished_999999999"));
  CHECK(std::filesystem::exists(folder / "unfinished_1"));
}

TEST_CASE("a small set that cannot be written names the path") {
  TemporaryFolder folder;
  folder.write("file", "x");
  CHECK(contains(error_of([&] { make_small_set(folder / "file"); }), folder / "file"));
}
