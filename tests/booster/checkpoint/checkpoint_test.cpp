#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/safetensors/check_tensors.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/files/sha256.h"
#include "platform/threads.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tests/file_faults.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <csignal>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

CheckpointContents contents(int64_t step) {
  CheckpointContents c;
  c.step = step;
  c.model = {{"blocks.0.weight", full({3, 2}, static_cast<double>(step))},
             {"head.bias", ones({5})}};
  c.optimizer = {{"blocks.0.weight/momentum", full({3, 2}, 0.5)}};
  c.state = {{"random", UINT64_MAX}, {"scale", 65536.0}, {"third", 1.0 / 3}, {"order", {3, 1, 2}}};
  return c;
}

std::optional<std::filesystem::path> latest(const std::filesystem::path& root,
                                            std::vector<std::string>* reports = nullptr) {
  return latest_checkpoint(root, [&](const std::string& text) {
    if (reports) reports->push_back(text);
  });
}

int64_t latest_step(const std::filesystem::path& root) {
  const auto folder = latest(root);
  return folder ? load_checkpoint(*folder).step : -1;
}

struct NoFailures {
  ~NoFailures() { fail_file_operation(0, 0); }
};

size_t temporaries(const std::filesystem::path& folder) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    n += is_temporary_name(entry.path().filename().string());
  return n;
}

void damage(const std::filesystem::path& file) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(-1, std::ios::end);
  stream.put('\x55');
}

}  // namespace

TEST_CASE("a checkpoint gives back what was saved, bit for bit") {
  const TemporaryFolder root;
  const auto folder = save_checkpoint(root.path(), contents(12));
  CHECK(folder == root / "step-000000012");
  const CheckpointContents loaded = load_checkpoint(folder);
  CHECK(loaded.step == 12);
  CHECK(loaded.state == contents(12).state);
  CHECK(loaded.state["random"].get<uint64_t>() == UINT64_MAX);
  CHECK(loaded.model.at("blocks.0.weight").to_vector<float>() == std::vector<float>(6, 12));
  CHECK(loaded.optimizer.size() == 1);
  CHECK(std::filesystem::read_symlink(root / "latest") == "step-000000012");
}

TEST_CASE("what is larger than a file may be lies in several, and each is checked") {
  const TemporaryFolder root;
  const double bytes_24 = 24.0 / (1 << 20);
  const auto folder = save_checkpoint(root.path(), contents(1), {.size_per_shard = bytes_24});
  std::vector<std::string> names;
  for (const ManifestFile& file : read_manifest(folder).files) names.push_back(file.name);
  CHECK(names == std::vector<std::string>{"state.json", "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors",
                                          "model.safetensors.index.json", "optimizer.safetensors"});
  const CheckpointContents loaded = load_checkpoint(folder);
  CHECK(loaded.model.at("blocks.0.weight").to_vector<float>() == std::vector<float>(6, 1));
  CHECK(loaded.model.at("head.bias").to_vector<float>() == std::vector<float>(5, 1));
  for (const std::string& name : names) {
    const std::string whole = root.read("step-000000001/" + name);
    damage(folder / name);
    CHECK_THROWS_WITH_AS(load_checkpoint(folder), Contains("wrong content"), Error);
    root.write("step-000000001/" + name, whole);
  }
  Manifest less = read_manifest(folder);
  less.files.erase(less.files.begin() + 2);
  root.write("step-000000001/manifest.json", less.to_text());
  CHECK_THROWS_WITH_AS(load_checkpoint(folder), Contains("not in the checkpoint's manifest"),
                       Error);
}

TEST_CASE("only the newest are kept") {
  const TemporaryFolder root;
  for (int step = 1; step <= 5; ++step) save_checkpoint(root.path(), contents(step), {.keep = 2});
  CHECK(latest_step(root.path()) == 5);
  CHECK(std::filesystem::exists(root / "step-000000004"));
  CHECK(root.entries() == 3);  // including the link
}

TEST_CASE("saving a step again replaces it") {
  const TemporaryFolder root;
  save_checkpoint(root.path(), contents(1));
  CheckpointContents other = contents(1);
  other.state["scale"] = 2.0;
  save_checkpoint(root.path(), other);
  CHECK(load_checkpoint(root / "step-000000001").state["scale"] == 2.0);
  CHECK(root.entries() == 2);
}

TEST_CASE("a damaged checkpoint is passed over for the one before, and told") {
  const TemporaryFolder root;
  for (int step = 1; step <= 3; ++step) save_checkpoint(root.path(), contents(step), {.keep = 3});
  damage(root / "step-000000003/model.safetensors");
  std::filesystem::resize_file(root / "step-000000002/state.json", 3);
  std::vector<std::string> reports;
  CHECK(latest(root.path(), &reports) == root / "step-000000001");
  REQUIRE(reports.size() == 2);
  CHECK(reports[0].find("step-000000003") != std::string::npos);
  CHECK(reports[0].find("wrong content; got SHA-256") != std::string::npos);
  CHECK(reports[1].find("wrong size; got 3 bytes") != std::string::npos);
  std::filesystem::remove(root / "step-000000001/manifest.json");
  CHECK_THROWS_WITH_AS(latest(root.path()), Contains("no whole checkpoint is left"), Error);
  CHECK_FALSE(latest(root / "nowhere").has_value());
}

TEST_CASE("every changed byte of a checkpoint is noticed") {
  const TemporaryFolder root;
  const auto folder = save_checkpoint(root.path(), contents(1));
  const std::string whole = root.read("step-000000001/model.safetensors");
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    root.write("step-000000001/model.safetensors", changed);
    CHECK_THROWS_WITH_AS(load_checkpoint(folder), Contains("wrong content"), Error);
  }
}

TEST_CASE("a hostile manifest is refused") {
  const TemporaryFolder root;
  const auto refuses = [&](const std::string& text, const char* part) {
    root.write("manifest.json", text);
    CHECK_THROWS_WITH_AS(read_manifest(root.path()), Contains(part), Error);
  };
  refuses("", "empty");
  refuses("{}", "no format");
  refuses(R"({"format": 2, "step": 1, "files": []})", "format of a later version; got 2, want 1");
  refuses(R"({"format": 1, "files": []})", "no step");
  refuses(R"({"format": 1, "step": 1, "files": [{"name": "../x", "bytes": 1, "sha256": ""}]})",
          "bad file name \"../x\"");
  refuses(R"({"format": 1, "step": 1, "files": [{"name": "x", "bytes": -1, "sha256": ""}]})",
          "without name, bytes");
  refuses(R"({"format": 1, "step": 1, "files": [5]})", "without name");
  refuses(R"({"format": 1, "step": 1,
              "files": [{"name": "x", "bytes": 1, "sha256": "\u001b[2J"}]})",
          "bad sha256 \"\\u001b[2J\"");
  refuses(R"({"format": 1, "step": 1, "files": []})", "it names no file");
  refuses(R"({"format": 1, "step": -1, "files": []})", "step below 0");
  refuses(R"({"format": 1, "step": 1, "files": [{"name": "x", "bytes": 1, "sha256": ""},
                                                {"name": "x", "bytes": 1, "sha256": ""}]})",
          "two files \"x\"");
  refuses(std::string(100'000, '['), "nested too deep");
}

TEST_CASE("a manifest that names too little, or another step, is no checkpoint's") {
  const TemporaryFolder root;
  const auto folder = save_checkpoint(root.path(), contents(1));
  const Manifest whole = read_manifest(folder);
  const auto refuses = [&](const Manifest& manifest, const char* part) {
    root.write("step-000000001/manifest.json", manifest.to_text());
    CHECK_THROWS_WITH_AS(load_checkpoint(folder), Contains(part), Error);
    CHECK_THROWS_WITH_AS(verify_checkpoint(folder), Contains(part), Error);
  };
  for (size_t i = 0; i < whole.files.size(); ++i) {
    Manifest less = whole;
    less.files.erase(less.files.begin() + static_cast<ptrdiff_t>(i));
    refuses(less, ("its manifest does not name " + whole.files[i].name).c_str());
  }
  Manifest other = whole;
  other.step = 2;
  refuses(other, "the manifest is of another step; got 2, want 1");
}

TEST_CASE("a failure at any operation leaves the old checkpoint and no temporary") {
  const NoFailures afterwards;
  const TemporaryFolder root;
  save_checkpoint(root.path(), contents(1));
  int failures = 0;
  for (int64_t n = 1;; ++n) {
    const int error = std::array{ENOSPC, EIO, EDQUOT}[n % 3];
    fail_file_operation(n, error);
    try {
      save_checkpoint(root.path(), contents(2));
      break;
    } catch (const Error& caught) {
      ++failures;
      CHECK(caught.kind() == ErrorKind::failed);
      CHECK(std::string(caught.what()).find(strerrorname_np(error)) != std::string::npos);
      CHECK(std::string(caught.what()).find(root.path().string()) != std::string::npos);
    }
    fail_file_operation(0, 0);
    CHECK(load_checkpoint(root / "step-000000001").step == 1);
    CHECK(temporaries(root.path()) == 0);
    std::filesystem::remove_all(root / "step-000000002");
  }
  CHECK(failures > 15);
  CHECK(latest_step(root.path()) == 2);
}

TEST_CASE("a kill at any operation leaves a whole checkpoint, and its remains are swept up") {
  const TemporaryFolder root;
  save_checkpoint(root.path(), contents(1));
  bool finished = false;
  for (int64_t n = 1; !finished; ++n) {
    const pid_t child = ::fork();
    if (child == 0) {
      kernels::set_thread_count(1);  // a fork has no other threads
      fail_file_operation(n, 0);
      save_checkpoint(root.path(), contents(2));
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    finished = WIFEXITED(status);
    CHECK((finished || WTERMSIG(status) == SIGKILL));
    CHECK(latest_step(root.path()) >= 1);
    std::filesystem::remove_all(root / "step-000000002");
    std::filesystem::remove(root / "latest");
  }
  save_checkpoint(root.path(), contents(3));
  CHECK(temporaries(root.path()) == 0);
  CHECK(latest_step(root.path()) == 3);
}

TEST_CASE("a real limit on file size ends the save cleanly") {
  const TemporaryFolder root;
  save_checkpoint(root.path(), contents(1));
  const pid_t child = ::fork();
  if (child == 0) {
    kernels::set_thread_count(1);  // a fork has no other threads
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    CheckpointContents large = contents(2);
    large.model["large"] = zeros({100'000});
    try {
      save_checkpoint(root.path(), large);
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find("EFBIG") != std::string::npos ? 7 : 8);
    }
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(latest_step(root.path()) == 1);
  CHECK(temporaries(root.path()) == 0);
}

TEST_CASE("the temporary of a living writer is left alone") {
  const TemporaryFolder root;
  AtomicFolder writing(root / "step-000000009");
  save_checkpoint(root.path(), contents(1));
  CHECK(std::filesystem::exists(writing.path()));
  writing.commit();
  CHECK(std::filesystem::exists(root / "step-000000009"));
}

TEST_CASE("an unusable folder is named with the reason") {
  const TemporaryFolder root;
  root.write("file", "");
  CHECK_THROWS_WITH_AS(save_checkpoint(root / "file", contents(1)),
                       Contains("/file: cannot create the folder"), Error);
  CHECK_THROWS_WITH_AS(save_checkpoint(root / "file/x", contents(1)),
                       Contains("cannot create the folder: Not a directory (ENOTDIR)"), Error);
}

TEST_CASE("a state that JSON cannot hold is refused before anything is written") {
  const TemporaryFolder root;
  CheckpointContents c = contents(1);
  c.state["deep"] = {{"loss", {1.0, NAN}}};
  CHECK_THROWS_WITH_AS(save_checkpoint(root.path(), c),
                       Contains("state \"deep\" holds NaN or infinity"), Error);
  c.state["deep"] = "\xff";
  CHECK_THROWS_WITH_AS(save_checkpoint(root.path(), c), Contains("not UTF-8"), Error);
  CHECK(root.entries() == 0);
}

TEST_CASE("a checkpoint of another model is refused and the differences are named") {
  const TensorMap want = {{"a", zeros({2})}, {"b", zeros({3})}, {"c", zeros({1})}};
  const TensorMap got = {{"a", ones({2})}, {"b", ones({4})}, {"d", ones({1})}};
  CHECK_THROWS_WITH_AS(check_tensors(forms_of(want), got, "x"),
                       "x: made for another model; 1 missing: c; 1 unexpected: d; 1 of another "
                       "shape or dtype: b (got (4,) f32, want (3,) f32)",
                       Error);
  check_tensors(forms_of(want), {{"a", ones({2})}, {"b", ones({3})}, {"c", ones({1})}}, "x");
}

TEST_CASE("SHA-256 agrees with the standard's example") {
  CHECK(sha256(std::as_bytes(std::span("abc", 3))) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("a file is replaced whole, and a stale temporary of it goes") {
  const NoFailures afterwards;
  const TemporaryFolder folder;
  folder.write("a.txt", "old");
  folder.write("a.txt.tmp-0123abcd", "left by a killed process");
  folder.write("a.txt.tmp-notes", "a user's own");
  fail_file_operation(2, ENOSPC);
  CHECK_THROWS_WITH_AS(write_file(folder / "a.txt", "new"),
                       Contains("No space left on device (ENOSPC)"), Error);
  fail_file_operation(0, 0);
  CHECK(folder.read("a.txt") == "old");
  write_file(folder / "a.txt", "new");
  CHECK(folder.read("a.txt") == "new");
  CHECK(folder.entries() == 2);
}
