// Tar and zip files as data sets: they equal their original folder.
#include "core/data/archives/archive.h"
#include "core/data/datasets/datasets.h"
#include "tests/data/files.h"
#include "tests/draws.h"

#include <algorithm>
#include <map>
#include <random>

#include <zlib.h>

using namespace booster;
using namespace booster::test;

namespace {

using Tree = std::map<std::string, std::string>;  // bytes by name

// Returns class folders with images, and files that a data set must ignore.
Tree drawn_tree(std::mt19937& random) {
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  Tree tree;
  for (int c = 0, classes = 2 + below(4); c < classes; ++c) {
    std::string folder = fmt::format("class {}{}", c, std::string(below(3) ? 0 : 120, 'n'));
    for (int i = 0, images = 1 + below(5); i < images; ++i) {
      const std::string deep = below(3) ? "" : "deep/er/";
      const std::string jpeg = encode_jpeg(gradient(3 + below(30), 4 + below(30), 3, below(200)));
      tree[fmt::format("{}/{}{}.{}", folder, deep, i, below(2) ? "jpg" : "JPEG")] = jpeg;
    }
    if (below(2)) tree[folder + "/notes.txt"] = "no image";
    if (below(2)) tree[folder + "/.hidden/1.jpg"] = "x";
  }
  if (below(2)) tree["__MACOSX/class 0/._1.jpg"] = "x";
  if (below(2)) tree["readme.jpg"] = "x";
  return tree;
}

void append(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
}

std::string tar_header(const std::string& name, size_t size, char type) {
  std::string header(512, '\0');
  header.replace(0, std::min<size_t>(name.size(), 100), name.substr(0, 100));
  header.replace(124, 11, fmt::format("{:011o}", size));
  header[156] = type;
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return header;
}

std::string padded(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return bytes;
}

// Writes long names in a GNU or a pax header.
std::string tar_of(const Tree& tree, bool pax) {
  std::string file;
  for (const auto& [name, bytes] : tree) {
    if (name.size() > 100) {
      std::string record = fmt::format(" path={}\n", name);
      size_t length = record.size() + 3;
      record = std::to_string(length) + record;
      const std::string long_name = pax ? record : name + '\0';
      file += tar_header("long", long_name.size(), pax ? 'x' : 'L') + padded(long_name);
    }
    file += tar_header(name, bytes.size(), '0') + padded(bytes);
  }
  return file + std::string(1024, '\0');
}

std::string deflated(const std::string& bytes) {
  std::string result(compressBound(bytes.size()) + 64, '\0');
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

struct ZipEntry {
  std::string name, bytes;
  bool deflate = false;
  uint16_t method = 0, flags = 0;
  int64_t claimed = -1;  // bytes; -1: the true size
  bool is_link = false;  // as Unix writes it; `bytes` is its target
};

std::string zip_of(const std::vector<ZipEntry>& entries, const std::string& comment = "") {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const std::string stored = entry.deflate ? deflated(entry.bytes) : entry.bytes;
    const uint64_t claimed =
        entry.claimed < 0 ? entry.bytes.size() : static_cast<uint64_t>(entry.claimed);
    std::string fields;
    append(fields, 20, 2);
    append(fields, entry.flags, 2);
    append(fields, entry.method ? entry.method : entry.deflate ? 8 : 0, 2);
    append(fields, 0, 4);
    append(fields,
           crc32(0, reinterpret_cast<const Bytef*>(entry.bytes.data()),
                 static_cast<uInt>(entry.bytes.size())),
           4);
    append(fields, stored.size(), 4);
    append(fields, claimed, 4);
    append(fields, entry.name.size(), 2);
    append(directory, 0x02014B50, 4);
    append(directory, entry.is_link ? 3 << 8 | 20 : 20, 2);
    directory += fields;
    append(directory, 0, 2 + 2 + 2 + 2);
    append(directory, entry.is_link ? uint64_t{0120777} << 16 : 0, 4);
    append(directory, file.size(), 4);
    directory += entry.name;
    append(file, 0x04034B50, 4);
    file += fields;
    append(file, 5, 2);  // an extra field that the directory's entry does not have
    file += entry.name + "extra" + stored;
  }
  const size_t begin = file.size();
  file += directory;
  append(file, 0x06054B50, 4);
  append(file, 0, 4);
  append(file, entries.size(), 2);
  append(file, entries.size(), 2);
  append(file, directory.size(), 4);
  append(file, begin, 4);
  append(file, comment.size(), 2);
  return file + comment;
}

std::string error_of_archive(const TemporaryFolder& folder, const std::string& bytes) {
  folder.write("x", bytes);
  return error_of([&] {
    const Archive archive(folder / "x");
    for (const ArchiveMember& member : archive.members()) archive.read(member);
  });
}

}  // namespace

TEST_CASE("a tar or a zip of a folder is the same data set as the folder") {
  for (const unsigned round : testing::draws(25)) {
    std::mt19937 random(round);
    CAPTURE(round);
    const TemporaryFolder folder;
    const Tree tree = drawn_tree(random);
    Tree below_top;
    std::vector<ZipEntry> entries;
    for (const auto& [name, bytes] : tree) {
      folder.write("set/" + name, bytes);
      below_top["top/" + name] = bytes;
      entries.push_back({.name = "./" + name, .bytes = bytes, .deflate = random() % 2 == 0});
    }
    std::ranges::shuffle(entries, random);
    folder.write("plain.tar", tar_of(tree, round % 2));
    folder.write("below.tar", tar_of(below_top, round % 2));
    folder.write("plain.zip", zip_of(entries, std::string(random() % 50, 'P')));
    const std::string roots[] = {folder / "plain.tar", folder / "below.tar/top",
                                 folder / "plain.zip"};
    const std::string set = folder / "set";
    const ImageFolder wanted(set);
    for (const std::string& root : roots) {
      CAPTURE(root);
      CHECK(image_folders(root) == image_folders(folder / "set"));
      const ImageFolder got(root);
      CHECK(got.classes() == wanted.classes());
      CHECK(got.identity() == wanted.identity());
      REQUIRE(got.size() == wanted.size());
      for (int64_t i = 0; i < got.size(); ++i) {
        CHECK(got.label(i) == wanted.label(i));
        CHECK(got.file_bytes(i) == wanted.file_bytes(i));
        CHECK(got.path(i).substr(root.size()) == wanted.path(i).substr(set.size()));
      }
    }
  }
}

namespace {

// Returns a hard or symbolic link. The header holds its target, or an entry before it does if the
// target is long.
std::string tar_link(const std::string& name, const std::string& target, char type) {
  std::string header = tar_header(name, 0, type), before;
  if (target.size() > 100)
    before = tar_header("long", target.size() + 1, 'K') + padded(target + '\0');
  header.replace(157, std::min<size_t>(target.size(), 100), target.substr(0, 100));
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return before + header;
}

// Returns the data set at `root` and the line that its listing reports.
std::pair<ImageFolder, std::string> reported(const std::string& root) {
  std::string line;
  ImageFolder dataset(root, {.report = [&](const std::string& text) { line = text; }});
  return {dataset, line};
}

std::vector<std::string> paths_in(const ImageFolder& dataset, const std::string& root) {
  std::vector<std::string> paths;
  for (int64_t i = 0; i < dataset.size(); ++i)
    paths.push_back(dataset.path(i).substr(root.size() + 1));
  return paths;
}

}  // namespace

TEST_CASE("links of a tar to files are those files, other members are counted") {
  const TemporaryFolder folder;
  const std::string jpeg = encode_jpeg(gradient(8, 9, 3, 1)), long_name(120, 'n');
  const std::string files = tar_of({{"a/1.jpg", jpeg}, {"a/" + long_name + "/2.jpg", jpeg}}, false);
  folder.write("set.tar",
               files.substr(0, files.size() - 1024) + tar_link("b/hard.jpg", "a/1.jpg", '1') +
                   tar_link("b/soft.jpg", "../a/1.jpg", '2') +
                   tar_link("b/far.jpg", "../a/" + long_name + "/2.jpg", '2') +
                   tar_link("b/chain.jpg", "soft.jpg", '2') + tar_link("b/folder", "../a", '2') +
                   tar_link("b/none.jpg", "none", '2') +
                   tar_link("b/out.jpg", "../../a/1.jpg", '2') + tar_link("b/self", "self", '2') +
                   tar_header("b/pipe.jpg", 0, '6') + tar_header("b/inner.zip", 0, '0') +
                   std::string(1024, '\0'));
  const std::string root = folder / "set.tar";
  const auto [dataset, line] = reported(root);
  CHECK(paths_in(dataset, root) == std::vector<std::string>{"a/1.jpg", "a/" + long_name + "/2.jpg",
                                                            "b/chain.jpg", "b/far.jpg",
                                                            "b/hard.jpg", "b/soft.jpg"});
  for (int64_t i = 0; i < dataset.size(); ++i)
    CHECK(dataset.file_bytes(i) == dataset.file_bytes(0));
  CHECK(line == "ImageFolder: '" + root +
                    "': 6 entries are not read: archives within (1: b/inner.zip), devices or pipes "
                    "(1: b/pipe.jpg), links to folders of an archive (1: b/folder), links that "
                    "lead to no file (3: b/none.jpg)");
}

TEST_CASE("links of a zip to files are those files") {
  const TemporaryFolder folder;
  const std::string jpeg = encode_jpeg(gradient(8, 9, 3, 1));
  folder.write("set.zip", zip_of({{.name = "a/1.jpg", .bytes = jpeg},
                                  {.name = "b/2.jpg", .bytes = "../a/1.jpg", .is_link = true},
                                  {.name = "b/3.jpg", .bytes = "/etc/passwd", .is_link = true}}));
  const std::string root = folder / "set.zip";
  const auto [dataset, line] = reported(root);
  CHECK(paths_in(dataset, root) == std::vector<std::string>{"a/1.jpg", "b/2.jpg"});
  CHECK(dataset.file_bytes(1) == dataset.file_bytes(0));
  CHECK(contains(line, "1 entry is not read: links that lead to no file (1: b/3.jpg)"));
}

TEST_CASE("a class without images is an error in an archive as in a folder") {
  const TemporaryFolder folder;
  const std::string jpeg = encode_jpeg(gradient(8, 9, 3, 1));
  const std::string files = tar_of({{"a/1.jpg", jpeg}, {"b/1.jpg", jpeg}}, false);
  folder.write("set.tar", tar_header("empty/", 0, '5') + files);
  CHECK(contains(error_of([&] { ImageFolder(folder / "set.tar"); }), "class 'empty'"));
}

TEST_CASE("Caltech101 lies in an archive as in a folder") {
  const TemporaryFolder folder;
  Tree tree;
  const std::string jpeg = encode_jpeg(gradient(8, 9, 3, 1));
  for (const char* name : {"BACKGROUND_Google", "b", "a"})
    tree[fmt::format("caltech101/101_ObjectCategories/{}/image_0001.jpg", name)] = jpeg;
  folder.write("set.tar", tar_of(tree, false));
  const Compose transform{Resize(ImageSize(6, 6)), ToTensor(), Gray2RGB()};
  const Caltech101 dataset(folder / "set.tar", {.transform = transform});
  CHECK(dataset.classes() == std::vector<std::string>{"a", "b"});
  RandomStream unused(0, 0, 0);
  CHECK(dataset.load(1, unused).shape() == Shape{3, 6, 6});
}

TEST_CASE("archives that are hostile, damaged or of another kind give clear errors") {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& bytes) { return error_of_archive(folder, bytes); };
  const auto zip = [](ZipEntry entry) { return zip_of({std::move(entry)}); };
  const std::string outside = "leads outside of the archive";
  for (const char* name : {"../x.jpg", "a/../../x.jpg", "/etc/x.jpg"}) {
    CHECK(contains(error(tar_of({{name, "1"}}, false)), outside));
    CHECK(contains(error(zip({.name = name, .bytes = "1"})), outside));
  }
  CHECK(contains(error(std::string("\x1f\x8b\x08", 3)), "compressed by gzip; want it unpacked"));
  CHECK(contains(error("PK"), "neither a zip nor a tar"));
  CHECK(contains(error(std::string(2000, 'x')), "neither a zip nor a tar"));
  CHECK(contains(error(""), "neither a zip nor a tar"));
  const std::string tar = tar_of({{"a/1.jpg", std::string(2000, 'y')}}, false);
  CHECK(contains(error(tar.substr(0, 1000)), "truncated"));
  CHECK(contains(error(tar.substr(0, 512 + 2000)), "truncated"));  // within the block's padding
  CHECK(contains(error(tar.substr(0, 512 + 2047)), "truncated"));
  CHECK(error(tar.substr(0, 512 + 2048)) == "");  // a warning: the end is missing
  std::string wrong = tar;
  wrong.replace(512 + 2048, 20, 20, 'z');
  CHECK(contains(error(wrong), "wrong checksum"));
  const std::string whole = zip({.name = "a/1.jpg", .bytes = std::string(2000, 'y')});
  CHECK(contains(error(whole.substr(0, whole.size() - 5)), "directory"));
  const std::string zeros(5'000'000, '\0');
  CHECK(contains(error(zip({.name = "a.jpg", .bytes = zeros, .deflate = true, .claimed = 1000})),
                 "more bytes than the archive states"));
  CHECK(contains(error(zip({.name = "a.jpg", .bytes = "12", .deflate = true, .claimed = 0})),
                 "more bytes than the archive states"));
  CHECK(contains(error(zip({.name = "a.jpg", .bytes = "12", .claimed = 4'000'000'000})),
                 "file too large"));
  CHECK(contains(error(zip({.name = "a.jpg", .bytes = "12", .claimed = 3})), "size differs"));
  CHECK(contains(error(zip({.name = "a.jpg", .bytes = "12", .flags = 1})), "encrypted"));
  CHECK(contains(error(zip({.name = "a.jpg", .bytes = "12", .method = 12})), "method 12"));
  std::string changed = whole;
  changed[100] ^= 1;
  CHECK(contains(error(changed), "checksum is wrong"));
  CHECK(contains(error_of([&] { ImageFolder(folder / "none.zip"); }), "no such folder"));
}

TEST_CASE("of several members with one name the last counts, and a changed archive is read anew") {
  const TemporaryFolder folder;
  folder.write("x", zip_of({{.name = "a/1.jpg", .bytes = "old"},
                            {.name = "a/1.jpg", .bytes = "new"},
                            {.name = "b/", .bytes = ""}}));
  const auto archive = open_archive(folder / "x");
  REQUIRE(archive->members().size() == 1);
  const auto bytes = archive->read(archive->members()[0]);
  CHECK(std::string(bytes.begin(), bytes.end()) == "new");
  CHECK(open_archive(folder / "x") == archive);
  folder.write("x", zip_of({{.name = "c/1.jpg", .bytes = "1"}}));
  std::filesystem::last_write_time(
      folder / "x", std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  CHECK(open_archive(folder / "x")->members()[0].name == "c/1.jpg");
}
