#include "booster/config/registry.h"

#include "booster/config/abi_tags.h"
#include "core/nn/module.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <fstream>
#include <set>

namespace booster {

namespace {

static_assert(std::string_view(BOOSTER_VERSION) == version, "meson.build and version.h differ");

constexpr const char* entry_name = "booster_library";

struct Close {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using LibraryHandle = std::unique_ptr<void, Close>;

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

// Returns dlerror's text without the path that it may begin with.
std::string last_problem(const std::filesystem::path& path) {
  const char* text = ::dlerror();
  const std::string problem = text ? text : "unknown reason", begin = path.string() + ": ";
  return problem.starts_with(begin) ? problem.substr(begin.size()) : problem;
}

bool is_shared_library(const std::filesystem::path& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "\177ELF";
}

// Throws for another ABI. Runs before dlopen, which would run the library's constructors.
void check_abi(const std::filesystem::path& path) {
  if (!is_shared_library(path)) return;  // dlopen reports the problem
  const std::string_view full = abi_tag, want = full.substr(full.find(' ') + 1);
  const std::set<std::string> tags = abi_tags(path);
  check(!tags.empty(),
        "library: {} adds nothing to booster; want BOOSTER_LIBRARY in one of its files",
        quoted(path));
  check(tags == std::set<std::string>{std::string(want)},
        "library: {} was built against another version of booster; got {}, want {}", quoted(path),
        fmt::join(tags, " and "), want);
}

// `path` is absolute, so the loader does not search.
LibraryHandle open_library(const std::filesystem::path& path) {
  LibraryHandle handle(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  check(handle != nullptr,
        "library: {} cannot be loaded: {}; want a shared library built against the headers of "
        "booster {}, and a program linked with libbooster.so",
        quoted(path), last_problem(path), version);
  return handle;
}

const LibraryEntry& entry_of(void* handle, const std::filesystem::path& path) {
  const auto* entry = static_cast<const LibraryEntry*>(::dlsym(handle, entry_name));
  check(entry, "library: {} adds nothing to booster; want BOOSTER_LIBRARY in one of its files",
        quoted(path));
  check(entry->registry == precision_registry,
        "library: {} uses another copy of booster than the program; link the program with "
        "libbooster.so",
        quoted(path));
  return *entry;
}

// Adds all entries or none.
void add_all(const LibraryEntry& entry, const std::filesystem::path& path) {
  const Registry<Plugin> plugins = plugin_registry();
  const Registry<Precision> strategies = precision_registry();
  const Registry<Model> models = model_registry();
  std::string problem = "an unknown exception";
  try {
    return entry.add();
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
  }
  plugin_registry() = plugins;
  precision_registry() = strategies;
  model_registry() = models;
  fail("library: {}: {}", quoted(path), problem);
}

}  // namespace

void load_library(const std::filesystem::path& path) {
  static std::set<std::filesystem::path> loaded;
  std::error_code problem;
  const auto file = std::filesystem::canonical(path, problem);
  check(!problem, "library: no such file; got {}", quoted(path));
  check(std::filesystem::is_regular_file(file), "library: not a regular file; got {}",
        quoted(path));
  if (loaded.contains(file)) return;
  check_abi(file);
  LibraryHandle handle = open_library(file);
  add_all(entry_of(handle.get(), file), file);
  loaded.insert(file);
  handle.release();  // never closed: its objects may live until the program ends
}

}  // namespace booster
