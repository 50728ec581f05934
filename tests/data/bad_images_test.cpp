// Images that are unreadable, or do not fit the rest of their batch.
#include "tests/data/pictures.h"

using namespace booster;
using namespace booster::test;

TEST_CASE("a bad image fails the epoch by name, the first in order whatever the workers") {
  const Pictures pictures(8);
  const ImageFolder dataset = pictures.dataset();
  for (int64_t i : {5, 6, 11}) std::ofstream(dataset.path(i)) << "<html>not found</html>";
  for (int workers : {0, 1, 4}) {
    DataLoader loader(dataset, {.batch_size = 4, .workers = workers});
    int batches = 0;
    const std::string text = error_of([&] {
      for (auto& batch : loader) batches += batch.image.defined();
    });
    CHECK(batches == 1);
    CHECK(contains(text, dataset.path(5)));
    CHECK(contains(text, "an HTML file"));
  }
}

TEST_CASE("a link that leads nowhere is a bad image if it has an image's name") {
  const Pictures pictures(8);
  const std::filesystem::path whole = pictures.dataset().path(5);
  const int64_t before = pictures.dataset().size();
  std::filesystem::create_symlink("nowhere", whole.parent_path() / "notes.txt");
  std::filesystem::remove(whole);
  std::filesystem::create_symlink("nowhere", whole);
  const ImageFolder dataset = pictures.dataset();
  CHECK(dataset.size() == before);
  DataLoader loader(dataset, {.batch_size = 4, .on_bad_image = BadImagePolicy::skip});
  CHECK(epoch(loader).size() > 0);
  REQUIRE(loader.bad_images().size() == 1);
  CHECK(contains(loader.bad_images()[0].reason, whole.string()));
}

TEST_CASE("skip leaves bad images out, counts each once and says why") {
  const Pictures pictures(8);
  const ImageFolder dataset = pictures.dataset();
  std::ofstream(dataset.path(3)) << "";
  std::ofstream(dataset.path(9)) << "<html>";
  for (int i = 12; i < 16; ++i) std::filesystem::remove(dataset.path(i));  // a whole batch
  DataLoader loader(dataset, {.batch_size = 4, .on_bad_image = BadImagePolicy::skip});
  for (int round = 0; round < 2; ++round) {
    std::vector<int64_t> sizes;
    for (auto& [image, label] : loader) {
      CHECK(image.size(0) == label.size(0));
      sizes.push_back(image.size(0));
    }
    CHECK(sizes == std::vector<int64_t>{3, 4, 3});
    CHECK(loader.bad_images().size() == 6);
  }
  CHECK(loader.bad_images()[0].index == 3);
  CHECK(contains(loader.bad_images()[0].reason, "an empty file"));
  CHECK(contains(loader.bad_images()[0].reason, dataset.path(3)));

  // Good images keep their order.
  const auto plain = Compose(Resize(ImageSize(8, 8)), ToTensor(), Gray2RGB());
  DataLoader a(dataset.subset({0, 1, 2, 4}).with_transform(plain), {.batch_size = 4});
  DataLoader b(dataset.subset({0, 1, 2, 3, 4}).with_transform(plain),
               {.batch_size = 5, .on_bad_image = BadImagePolicy::skip});
  CHECK(epoch(a) == epoch(b));
}

TEST_CASE("with several ranks a batch of only bad images is an error, not a missing step") {
  const Pictures pictures(4);
  const ImageFolder dataset = pictures.dataset();
  for (int i : {0, 2}) std::filesystem::remove(dataset.path(i));
  DataLoader loader(
      dataset, {.batch_size = 2, .on_bad_image = BadImagePolicy::skip, .rank = 0, .world_size = 2});
  CHECK(contains(error_of([&] { epoch(loader); }), "all 2 images of a batch of rank 0"));
}

TEST_CASE("a rank whose whole batch is bad is no error where shares need not be even") {
  const Pictures pictures(4);
  const ImageFolder dataset = pictures.dataset();
  for (int i : {0, 2}) std::filesystem::remove(dataset.path(i));
  DataLoader loader(dataset, {.batch_size = 2,
                              .on_bad_image = BadImagePolicy::skip,
                              .rank = 0,
                              .world_size = 2,
                              .even_shares = false});
  CHECK(epoch(loader).size() == 1);
  CHECK(loader.bad_images().size() == 2);
}

TEST_CASE("samples of different shapes are refused with the file and the remedy") {
  const Pictures pictures(4);
  for (int workers : {0, 2}) {
    DataLoader loader(pictures.dataset().with_transform(Compose(ToTensor())),
                      {.batch_size = 8, .workers = workers, .on_bad_image = BadImagePolicy::skip});
    const std::string text = error_of([&] { epoch(loader); });
    CHECK(contains(text, "differ in shape"));
    CHECK(contains(text, "Gray2RGB"));
  }
}
