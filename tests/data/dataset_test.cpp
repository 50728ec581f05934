#include "core/data/datasets/datasets.h"
#include "tests/data/files.h"

#include <set>

#include <sys/stat.h>

using namespace booster;
using namespace booster::test;

namespace {

const Compose to_tensor{Resize(ImageSize(6, 6)), ToTensor(), Gray2RGB()};

// Writes `images` JPEG files for each class.
void write_classes(const TemporaryFolder& folder, const std::string& root,
                   const std::vector<std::string>& classes, int images) {
  for (size_t c = 0; c < classes.size(); ++c)
    for (int i = 1; i <= images; ++i)
      folder.write(fmt::format("{}/{}/image_{:04}.jpg", root, classes[c], i),
                   encode_jpeg(gradient(8 + i % 5, 7 + i % 3, 3, static_cast<int>(c) * 50 + i)));
}

}  // namespace

TEST_CASE("Caltech101 is found in both layouts, classes sorted, background left out") {
  for (const char* root : {"101_ObjectCategories", "caltech101/101_ObjectCategories"}) {
    TemporaryFolder folder;
    write_classes(folder, root, {"yin_yang", "BACKGROUND_Google", "accordion", "Faces"}, 2);
    const Caltech101 dataset(folder.path(), {.transform = to_tensor});
    CHECK(dataset.classes() == std::vector<std::string>{"Faces", "accordion", "yin_yang"});
    CHECK(dataset.size() == 6);
    CHECK(dataset.label(5) == 2);
    CHECK(contains(dataset.path(5), "yin_yang/image_0002.jpg"));
    const Caltech101 all(folder.path(), {.background = true});
    CHECK(all.size() == 8);
    CHECK(all.classes()[0] == "BACKGROUND_Google");
    RandomStream random(0, 0, 0);
    const Sample sample = dataset.load(5, random);
    CHECK(sample.shape() == Shape{3, 6, 6});
    CHECK(sample.label().item() == 2);
  }
}

TEST_CASE("files that are no images by name are skipped, in nested folders too") {
  TemporaryFolder folder;
  write_classes(folder, "set", {"a", "b"}, 1);
  for (const char* name : {".DS_Store", "Thumbs.db", "._image_0001.jpg", "notes.txt", "tmp"})
    folder.write(std::string("set/a/") + name, "x");
  folder.write("set/a/more/z.PNG", read_file(golden_path("rgb.png")));
  folder.write("set/.git/x.jpg", "x");
  folder.write("set/readme.jpg", "x");
  const ImageFolder dataset(folder / "set");
  CHECK(dataset.classes() == std::vector<std::string>{"a", "b"});
  CHECK(dataset.size() == 3);
}

TEST_CASE("linked folders are read, circles end, and what is not read is counted") {
  TemporaryFolder folder;
  write_classes(folder, "set", {"a", "A", "b"}, 1);
  write_classes(folder, "elsewhere", {"deep"}, 2);
  const std::filesystem::path set = folder / "set";
  namespace fs = std::filesystem;
  fs::create_directory_symlink("../../elsewhere", set / "a/more");
  fs::create_directory_symlink(".", set / "a/round");
  fs::create_directory_symlink("../..", folder / "elsewhere/deep/up");
  fs::create_directory_symlink("..", set / "b/up");
  fs::create_directory_symlink(".", set / "self");
  for (const char* name : {"set/a/notes.txt", "set/a/more.txt", "set/b/inner.ZIP", "set/.git/x.jpg",
                           "set/b/.DS_Store", "set/readme.jpg"})
    folder.write(name, "x");
  REQUIRE(::mkfifo((set / "b/pipe.jpg").c_str(), 0600) == 0);
  std::string line;
  const ImageFolder dataset(set, {.report = [&](const std::string& text) { line = text; }});
  CHECK(dataset.classes() == std::vector<std::string>{"A", "a", "b"});
  CHECK(contains(line, "ImageFolder: '" + set.string() + "': "));
  CHECK(contains(line, "without an image's extension (2: a/more.txt)"));
  CHECK(contains(line, "archives within (1: b/inner.ZIP)"));
  CHECK(contains(line, "devices, pipes or sockets (1: b/pipe.jpg)"));
  CHECK(contains(line, "hidden (2: .git)"));
  CHECK(contains(line, "outside of the folders of classes (1: readme.jpg)"));
  CHECK(contains(line, "links to a folder that they lie in (5: a/more/deep/up/elsewhere)"));
  CHECK(contains(line, "; classes A and a only differ in case"));
  int linked = 0;
  for (int64_t i = 0; i < dataset.size(); ++i)
    linked += contains(dataset.path(i), "/a/more/deep/image_");
  CHECK(linked == 2);
}

TEST_CASE("a folder of which all is read says nothing") {
  TemporaryFolder folder;
  write_classes(folder, "set", {"a", "b"}, 2);
  bool spoke = false;
  ImageFolder(folder / "set", {.report = [&](const std::string&) { spoke = true; }});
  CHECK_FALSE(spoke);
}

TEST_CASE("links to files are images, those that lead nowhere bad ones, as in torchvision") {
  TemporaryFolder folder;
  write_classes(folder, "set", {"a", "b"}, 1);
  const std::filesystem::path set = folder / "set";
  std::filesystem::create_symlink("circle.jpg", set / "a/circle.jpg");
  std::filesystem::create_symlink("nothing.jpg", set / "a/dangling.jpg");
  std::filesystem::create_symlink("round", set / "round");
  std::filesystem::create_symlink("..", set / "b/up");
  std::filesystem::create_symlink("../b/image_0001.jpg", set / "a/other.jpg");
  const ImageFolder dataset(set);
  CHECK(dataset.classes() == std::vector<std::string>{"a", "b"});
  CHECK(dataset.size() == 5);
  int bad = 0;
  for (int64_t i = 0; i < dataset.size(); ++i)
    bad += !error_of([&] { load_image(dataset.path(i)); }).empty();
  CHECK(bad == 2);
}

TEST_CASE("classes that are given are the labels, and may lack a folder") {
  TemporaryFolder folder;
  write_classes(folder, "val", {"b", "d"}, 2);
  const ImageFolder dataset(folder / "val", {.classes = {"d", "a", "b"}});
  CHECK(dataset.classes() == std::vector<std::string>{"d", "a", "b"});
  CHECK(dataset.label(0) == 2);
  CHECK(dataset.label(3) == 0);
  CHECK(contains(error_of([&] {
                   ImageFolder(folder / "val", {.classes = {"xyz", "bb"}});
                 }),
                 "folder 'b' in"));
  CHECK(contains(error_of([&] {
                   ImageFolder(folder / "val", {.classes = {"xyz", "bb"}});
                 }),
                 "is none of the 2 classes; did you mean 'bb'?"));
}

TEST_CASE("missing, empty and one-class folders say what was looked for") {
  TemporaryFolder folder;
  const auto caltech = [&](const std::string& root) {
    return error_of([&] { Caltech101(folder / root); });
  };
  CHECK(contains(caltech("none"),
                 "want a folder 101_ObjectCategories or "
                 "caltech101/101_ObjectCategories"));
  CHECK(contains(error_of([&] { ImageFolder(folder / "none"); }), "no such folder"));
  std::filesystem::create_directories(folder / "empty");
  CHECK(contains(error_of([&] { ImageFolder(folder / "empty"); }), "got none"));
  write_classes(folder, "one", {"only"}, 2);
  CHECK(contains(error_of([&] { ImageFolder(folder / "one"); }), "got only 'only'"));
  write_classes(folder, "hollow", {"a"}, 1);
  folder.write("hollow/b/readme.txt", "x");
  CHECK(contains(error_of([&] { ImageFolder(folder / "hollow"); }), "class 'b'"));
  try {
    ImageFolder(folder / "none");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 1);
  }
}

TEST_CASE("a split takes its fraction of each class, the same for the same seed") {
  TemporaryFolder folder;
  write_classes(folder, "set", {"a", "b", "c"}, 10);
  folder.write("set/d/x.jpg", encode_jpeg(gradient(8, 8, 1)));
  const ImageFolder dataset(folder / "set");
  const auto [train, validation] = dataset.split(0.2, 7);
  CHECK(train.size() + validation.size() == dataset.size());
  CHECK(validation.size() == 6);  // a class with one image stays in training
  std::set<std::string> seen;
  int per_class[4] = {};
  for (int64_t i = 0; i < validation.size(); ++i) {
    seen.insert(validation.path(i));
    ++per_class[validation.label(i)];
  }
  for (int64_t i = 0; i < train.size(); ++i) CHECK(seen.count(train.path(i)) == 0);
  CHECK(per_class[0] == 2);
  CHECK(per_class[2] == 2);
  const auto again = dataset.split(0.2, 7), other = dataset.split(0.2, 8);
  bool same = true, different = false;
  for (int64_t i = 0; i < validation.size(); ++i) {
    same = same && again.validation.path(i) == validation.path(i);
    different = different || other.validation.path(i) != validation.path(i);
  }
  CHECK(same);
  CHECK(different);
  CHECK_THROWS_AS(dataset.split(0), Error);
  CHECK_THROWS_AS(dataset.split(1), Error);
}

TEST_CASE("cached images are the same pixels and are read from the disk once") {
  TemporaryFolder folder;
  write_classes(folder, "set", {"a", "b"}, 2);
  const ImageFolder dataset(folder / "set", {.transform = to_tensor, .cache_bytes = 1 << 20});
  std::vector<float> first(108), second(108);
  RandomStream random(0, 0, 0);
  dataset.load(1, random).write(first.data());
  std::filesystem::remove(dataset.path(1));
  dataset.with_transform(to_tensor).load(1, random).write(second.data());
  CHECK(first == second);
  const ImageFolder tiny(folder / "set", {.transform = to_tensor, .cache_bytes = 10});
  tiny.load(0, random);
  std::filesystem::remove(tiny.path(0));
  CHECK_THROWS_AS(tiny.load(0, random), Error);
}

TEST_CASE("TensorDataset gives rows and refuses unequal lengths") {
  const TensorDataset dataset(arange(6, {.dtype = DType::f32}), arange(6));
  RandomStream random(0, 0, 0);
  const Sample sample = dataset.load(4, random);
  float value = 0;
  sample.write(&value);
  CHECK(value == 4);
  CHECK(sample.label().item() == 4);
  CHECK_THROWS_AS(TensorDataset(arange(6), arange(5)), Error);
}
