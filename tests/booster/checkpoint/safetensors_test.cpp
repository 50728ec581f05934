#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "platform/threads.h"
#include "tests/booster/temporary_folder.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <cstring>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace booster;
using doctest::Contains;

namespace {

const std::string golden_files = test::golden_folder() + "/booster/";

std::string file_of(std::string header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, '\1');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  uint64_t begin, uint64_t end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, dtype,
                     shape, begin, end);
}

// Opens a file of these bytes and returns the number of tensors.
size_t open_bytes(const std::string& bytes) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", bytes);
  return SafetensorsFile(folder / "x.safetensors").tensors().size();
}

void refuses(const std::string& bytes, const char* part) {
  CHECK_THROWS_WITH_AS(open_bytes(bytes), Contains(part), Error);
}

}  // namespace

TEST_CASE("a file of the reference library loads with its values") {
  const TensorMap tensors = load_safetensors(golden_files + "all_dtypes.safetensors");
  CHECK(tensors.size() == 10);
  CHECK(tensors.at("blocks.0.weight").shape() == Shape{2, 3});
  CHECK(tensors.at("blocks.0.weight").to_vector<float>() ==
        std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f});
  CHECK(tensors.at("blocks.0.bias").dtype() == DType::bf16);
  CHECK(tensors.at("blocks.0.bias").to_vector<float>() == std::vector<float>{1.5f, -2.25f});
  CHECK(tensors.at("half").to_vector<float>() == std::vector<float>{0.5f, 65504, 0x1p-24f});
  CHECK(tensors.at("double").to_vector<double>() == std::vector<double>{1.0 / 3});
  CHECK(tensors.at("steps").ndim() == 0);
  CHECK(tensors.at("steps").item() == 7);
  CHECK(tensors.at("ids").to_vector<int64_t>() == std::vector<int64_t>{-1, 2});
  CHECK(tensors.at("mask").to_vector<int64_t>() == std::vector<int64_t>{1, 0, 1});
  CHECK(tensors.at("none").shape() == Shape{0, 4});
  CHECK(SafetensorsFile(golden_files + "all_dtypes.safetensors").metadata().at("format") == "pt");
}

TEST_CASE("we write the bytes that the reference library writes") {
  const TemporaryFolder folder;
  for (const char* name : {"all_dtypes.safetensors", "no_metadata.safetensors"}) {
    const SafetensorsFile reference(golden_files + name);
    save_safetensors(folder / name, reference.load_all(), reference.metadata());
    CHECK(folder.read(name) == read_file(golden_files + name, 1 << 20));
  }
  CHECK(folder.entries() == 2);
}

TEST_CASE("the same tensors give the same bytes, views and order of insertion apart") {
  const TemporaryFolder folder;
  const Tensor matrix = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor turned = untracked::transpose(matrix, 0, 1);
  save_safetensors(folder / "a", {{"t", turned}, {"m", matrix}}, {{"z", "1"}, {"a", "\"\n"}});
  save_safetensors(folder / "b", {{"m", matrix.clone()}, {"t", untracked::contiguous(turned)}},
                   {{"a", "\"\n"}, {"z", "1"}});
  CHECK(folder.read("a") == folder.read("b"));
  CHECK(load_safetensors(folder / "a").at("t").to_vector<float>() ==
        std::vector<float>{1, 4, 2, 5, 3, 6});
  uint64_t length = 0;
  std::memcpy(&length, folder.read("a").data(), 8);
  CHECK(length % 8 == 0);
}

TEST_CASE("white space around the header, no tensors and empty shapes are legal") {
  CHECK(open_bytes(file_of("{}", 0)) == 0);
  CHECK(open_bytes(file_of(" \n\t{" + entry("a", "U8", "[]", 0, 1) + "}\r\n ", 1)) == 1);
  CHECK(open_bytes(file_of(
            "{" + entry("a", "F32", "[0]", 0, 0) + "," + entry("b", "U8", "[2]", 0, 2) + "}", 2)) ==
        2);
  CHECK(open_bytes(file_of("{" + entry("e", "F32", "[0,18446744073709551615]", 0, 0) + "}", 0)) ==
        1);
  CHECK(open_bytes(file_of(
            "{" + entry("a", "F4", "[2,3]", 0, 3) + "," + entry("b", "C64", "[1]", 3, 11) + "}",
            11)) == 2);
}

TEST_CASE("every rule of the header's length is checked") {
  refuses("", "too small for a safetensors file; got 0 bytes");
  refuses("1234567", "got 7 bytes, want at least 8");
  refuses(std::string("\x01\x00\x00\x00\x00\x00\x00\x80", 8) + "{}", "header too large");
  refuses(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8) + "{}",
          "header too large; got 100000001 bytes, want at most 100000000");
  refuses(std::string("\x09\0\0\0\0\0\0\0", 8) + "{}",
          "the header goes past the end of the file; got 9 bytes, want at most 2");
}

TEST_CASE("a header that is not the format's JSON is refused") {
  refuses(file_of("", 0), "not JSON");
  refuses(file_of("[]", 0), "got a list");
  refuses(file_of("{", 0), "not JSON");
  refuses(file_of("{\"\xff\":1}", 0), "UTF-8");
  refuses(file_of("\xEF\xBB\xBF{}", 0), "byte order mark");
  refuses(file_of(std::string("{}\0garbage", 10), 0), "a zero byte");
  refuses(file_of("{} {}", 0), "not JSON");
  refuses(file_of("{\"a\":1}", 0), "entry \"a\"; got a number, want an object");
  refuses(file_of("{\"a\":{}}", 0), "tensor \"a\" lacks the field dtype");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", 1), "lacks the field data_offsets");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
          "unknown field \"x\" of tensor \"a\"");
  refuses(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
          "duplicate field dtype");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", 1),
          "field shape of tensor \"a\"; got a number, want a list");
  refuses(file_of(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", 1), "want a string");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1), "got a list");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1),
          "want whole numbers");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1),
          "got a negative number");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}})", 1),
          "64 bits");
  refuses(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1),
          "got 3 numbers, want 2");
  refuses(file_of("{" + entry("a", "F23", "[1]", 0, 1) + "}", 1),
          "unknown dtype of tensor \"a\"; got \"F23\"");
  refuses(file_of(R"({"__metadata__":{"a":1}})", 0),
          "metadata key \"a\"; got a number, want a string");
  refuses(file_of(R"({"__metadata__":null})", 0), "got null");
  refuses(file_of(std::string(1'000'000, '['), 0), "got a list");
  refuses(file_of("{\"a\":{\"shape\":" + std::string(1'000'000, '['), 0), "got a list");
}

TEST_CASE("names that come twice are refused") {
  refuses(
      file_of("{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("a", "U8", "[1]", 1, 2) + "}", 2),
      "duplicate tensor name \"a\"");
  refuses(
      file_of("{" + entry("a", "U8", "[1]", 0, 1) + "," + entry("a", "U8", "[1]", 0, 1) + "}", 1),
      "duplicate tensor name \"a\"");
  refuses(file_of(R"({"__metadata__":{},"__metadata__":{}})", 0), "duplicate __metadata__");
  refuses(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "duplicate metadata key \"k\"");
}

TEST_CASE("the tensors must tile the data") {
  const auto two = [](uint64_t b1, uint64_t e1, uint64_t b2, uint64_t e2, size_t bytes) {
    const auto shape = [](uint64_t b, uint64_t e) { return fmt::format("[{}]", e - b); };
    return file_of("{" + entry("a", "U8", shape(b1, e1), b1, e1) + "," +
                       entry("b", "U8", shape(b2, e2), b2, e2) + "}",
                   bytes);
  };
  CHECK(open_bytes(two(0, 4, 4, 8, 8)) == 2);
  CHECK(open_bytes(two(4, 8, 0, 4, 8)) == 2);
  refuses(two(0, 4, 5, 8, 8),
          "hole in the data; got tensor \"b\" at [5, 8), want it to begin at 4, the end of tensor "
          "\"a\"");
  refuses(
      two(1, 4, 4, 8, 8),
      "hole in the data; got tensor \"a\" at [1, 4), want it to begin at 0, the start of the data");
  refuses(two(0, 4, 3, 8, 8), "overlap; got tensor \"b\" at [3, 8), want it to begin at 4");
  refuses(two(0, 4, 0, 4, 4), "overlap");
  refuses(two(0, 4, 4, 8, 9),
          "trailing bytes; got 9 bytes of data, want 8, the end of tensor \"b\"");
  refuses(two(0, 4, 4, 8, 7), "tensor \"b\" at [4, 8) lies outside the file");
  refuses(file_of("{" + entry("a", "U8", "[1]", 2, 1) + "}", 2),
          "run backwards; got tensor \"a\" at [2, 1)");
  refuses(file_of("{}", 5), "trailing bytes; got 5 bytes of data, want 0, the start of the data");
}

TEST_CASE("sizes must agree and must not overflow") {
  refuses(file_of("{" + entry("a", "F32", "[2]", 0, 4) + "}", 4),
          "size of tensor \"a\" at [0, 4); got 4 bytes, want 8 for shape (2,) of F32");
  refuses(file_of("{" + entry("a", "F32", "[2,18446744073709551615]", 0, 4) + "}", 4),
          "size overflow");
  refuses(file_of("{" + entry("a", "F32", "[4611686018427387905]", 0, 4) + "}", 4),
          "size overflow");
  refuses(file_of("{" + entry("a", "F4", "[3]", 0, 2) + "}", 2), "not whole bytes");
  refuses(
      file_of("{" + entry("a", "U8", "[18446744073709551615]", 0, 18446744073709551615u) + "}", 2),
      "size overflow");
}

TEST_CASE("ten tensors on the same bytes are refused") {
  std::string header = "{" + entry("a0", "F32", "[2,2]", 0, 16);
  for (int i = 1; i < 10; ++i) header += "," + entry(fmt::format("a{}", i), "F32", "[2,2]", 0, 16);
  refuses(file_of(header + "}", 16), "overlap");
}

TEST_CASE("what we cannot hold is named when it is loaded, not before") {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& bytes) {
    folder.write("x", bytes);
    return load_safetensors(folder / "x").size();
  };
  CHECK_THROWS_WITH_AS(load(file_of("{" + entry("a", "I16", "[1]", 0, 2) + "}", 2)),
                       Contains("got I16, want F32"), Error);
  CHECK_THROWS_WITH_AS(load(file_of("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) + "}", 1)),
                       Contains("at most 8 dimensions"), Error);
  CHECK_THROWS_WITH_AS(
      load(file_of("{" + entry("a", "U8", "[0,9223372036854775807,9]", 0, 0) + "}", 0)),
      Contains("cannot be loaded"), Error);
  std::string odd = file_of("{" + entry("a", "BOOL", "[1]", 0, 1) + "}", 1);
  CHECK(load(odd) == 1);
  odd.back() = 2;
  CHECK_THROWS_WITH_AS(load(odd), Contains("neither 0 nor 1"), Error);
}

TEST_CASE("no truncation opens and no flipped bit crashes") {
  const std::string whole = read_file(golden_files + "all_dtypes.safetensors", 1 << 20);
  const TemporaryFolder folder;
  const auto attempt = [&](const std::string& bytes) {
    folder.write("x", bytes);
    try {
      load_safetensors(folder / "x");
      return true;
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::data);
      return false;
    }
  };
  for (size_t n = 0; n < whole.size(); ++n) CHECK_FALSE(attempt(whole.substr(0, n)));
  CHECK_FALSE(attempt(whole + "x"));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    attempt(changed);
  }
}

TEST_CASE("a writer refuses what would not be a legal file") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(save_safetensors(folder / "a", {{"__metadata__", ones({1})}}),
                       Contains("cannot be named"), Error);
  CHECK_THROWS_WITH_AS(save_safetensors(folder / "a", {{"\xff", ones({1})}}), Contains("not UTF-8"),
                       Error);
  CHECK(folder.entries() == 0);
  folder.write("a", "old");
  CHECK_THROWS_AS(save_safetensors(folder / "a", {{"\xff", ones({1})}}), Error);
  CHECK(folder.read("a") == "old");
}

TEST_CASE("a file may be replaced by the tensors that were read from it") {
  const TemporaryFolder folder;
  save_safetensors(folder / "a", {{"x", full({4}, 3)}});
  const SafetensorsFile mapped(folder / "a");
  save_safetensors(folder / "a", mapped.load_all());
  CHECK(mapped.load_all().at("x").to_vector<float>() == std::vector<float>{3, 3, 3, 3});
}

TEST_CASE("a header of many small things is refused in little memory") {
  std::string keys = "{\"__metadata__\":{";
  for (int i = 0; keys.size() < 99'000'000; ++i) keys += fmt::format("\"{:x}\":\"\",", i);
  keys.back() = '}';
  const TemporaryFolder folder;
  folder.write("x.safetensors", file_of(keys + "}", 0));
  keys.clear();
  keys.shrink_to_fit();
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::set_thread_count(1);  // a fork has no other threads
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (200u << 20);
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      SafetensorsFile(folder / "x.safetensors");
    } catch (const Error& error) {
      const std::string text = error.what();
      ::_exit(text.find("too many metadata keys") != text.npos ? 7 : 8);
    } catch (...) {
      ::_exit(9);
    }
    ::_exit(10);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("only regular files are opened") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(SafetensorsFile("/dev/zero"), Contains("got a device, want a regular file"),
                       Error);
  CHECK_THROWS_WITH_AS(SafetensorsFile(folder.path()), Contains("got a folder"), Error);
  CHECK_THROWS_WITH_AS(SafetensorsFile(folder / "none"),
                       Contains("No such file or directory (ENOENT)"), Error);
}

TEST_CASE("a text of metadata has a length that a reader bears") {
  const auto with = [](size_t length, const char* letter) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += letter;
    return file_of("{\"__metadata__\":{\"a\":\"" + text + "\"}}", 0);
  };
  CHECK(open_bytes(with(max_safetensors_text - 2, "x")) == 0);
  refuses(with(max_safetensors_text + 1, "x"), "a name or text of metadata is too long at byte 29");
  refuses(with(max_safetensors_text / 2 + 1, "\\\""), "too long");
}
