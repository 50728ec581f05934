#include "booster/config/options/options.h"
#include "platform/json/json_document.h"

#include <algorithm>
#include <tuple>

namespace booster {

namespace {

constexpr size_t most_told = 50;  // a hostile config may have any number of mistakes

bool is_at_or_below(std::string_view path, std::string_view section) {
  return path.starts_with(section) &&
         (path.size() == section.size() || path[section.size()] == '.');
}

// Returns the value at a path, or the deepest existing one above it.
const JsonValue& deepest(const JsonValue& root, std::string_view path) {
  const JsonValue* place = &root;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const JsonValue* inner = place->find(path.substr(begin, end - begin));
    if (!inner) break;
    place = inner;
    begin = end + 1;
  }
  return *place;
}

}  // namespace

struct Mistakes::Mistake {
  bool is_override;
  JsonPosition position;
  std::string path;
  std::string text;
};

Mistakes::Mistakes(std::string file, const JsonValue* root) : file_(std::move(file)), root_(root) {}
Mistakes::~Mistakes() = default;

void Mistakes::add(const JsonValue& value, const std::string& path, const std::string& problem) {
  all_.push_back({!value.origin.empty(), value.position, path,
                  fmt::format("{}: {}: {}", place_of(file_, value),
                              path.empty() ? "the config" : path, problem)});
}

void Mistakes::add_key(const JsonValue& value, const std::string& path,
                       const std::string& problem) {
  all_.push_back({!value.origin.empty(), value.key_position, path,
                  fmt::format("{}: {}: {}", place_of_key(file_, value), path, problem)});
}

void Mistakes::add(const std::string& path, const std::string& problem) {
  add(root_ ? deepest(*root_, path) : JsonValue{}, path, problem);
}

void Mistakes::add_override(const std::string& text) { all_.push_back({true, {}, "", text}); }

bool Mistakes::any_in(std::string_view path) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Mistake& mistake) { return is_at_or_below(mistake.path, path); });
}

void Mistakes::raise() const {
  if (all_.empty()) return;
  std::vector<Mistake> sorted = all_;
  const auto key = [](const Mistake& mistake) {
    const auto [line, column] = mistake.is_override ? JsonPosition{} : mistake.position;
    return std::make_tuple(mistake.is_override, line, column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Mistake& a, const Mistake& b) { return key(a) < key(b); });
  std::string text;
  for (size_t i = 0; i < sorted.size() && i < most_told; ++i)
    text += (i ? "\n" : "") + sorted[i].text;
  if (sorted.size() > most_told)
    text += fmt::format("\nand {} more mistakes", sorted.size() - most_told);
  booster::raise(ErrorKind::usage, text);
}

}  // namespace booster
