#include "booster/checkpoint/folder/checkpoint.h"

#include "platform/json/json_document.h"

#include <algorithm>
#include <cmath>

namespace booster {

namespace {

constexpr int64_t most = int64_t{1} << 53;  // a double holds it exactly, and sums do not overflow

}  // namespace

void StateReader::wrong(const std::string& want) const {
  const auto got = value_->is_structured() ? std::string(value_->type_name())
                   : value_->is_string()   ? show_text(value_->get_ref<const std::string&>())
                                           : value_->dump();
  fail_data("{}: {}: got {}, want {}", file_, path_.empty() ? "the whole" : path_, got, want);
}

StateReader StateReader::member(const std::string& name) const {
  const auto found = object().find(name);
  if (found == value_->end()) fail_data("{}: {} is missing", file_, join_key(path_, name));
  return {*found, file_, join_key(path_, name)};
}

std::optional<StateReader> StateReader::find(const std::string& name) const {
  const auto found = object().find(name);
  if (found == value_->end() || found->is_null()) return {};
  return member(name);
}

std::vector<StateReader> StateReader::members(std::initializer_list<const char*> names,
                                              std::initializer_list<const char*> newer) const {
  std::vector<StateReader> found;
  for (const char* name : names) found.push_back(member(name));
  const auto is_among = [](const auto& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const auto& [name, value] : value_->items())
    if (!is_among(names, name) && !is_among(newer, name))
      fail_data("{}: {} is not known to this version", file_, join_key(path_, name));
  return found;
}

std::vector<StateReader> StateReader::items(std::optional<size_t> size) const {
  if (!value_->is_array()) wrong("a list");
  if (size && value_->size() != *size) {
    fail_data("{}: {}: got {} values, want {}", file_, path_, value_->size(), *size);
  }
  std::vector<StateReader> found;
  for (size_t i = 0; i < value_->size(); ++i)
    found.push_back({(*value_)[i], file_, fmt::format("{}[{}]", path_, i)});
  return found;
}

std::vector<StateReader> StateReader::nonempty_items() const {
  auto found = items();
  if (found.empty()) wrong("a list of one or more");
  return found;
}

std::string StateReader::text() const {
  if (!value_->is_string()) wrong("a text");
  return value_->get<std::string>();
}

bool StateReader::flag() const {
  if (!value_->is_boolean()) wrong("true or false");
  return value_->get<bool>();
}

double StateReader::number() const {
  if (!value_->is_number() || !std::isfinite(value_->get<double>())) wrong("a finite number");
  return value_->get<double>();
}

int64_t StateReader::whole_from(int64_t least) const {
  const bool is_large = value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t{most};
  const bool fits = value_->is_number_integer() && !is_large && value_->get<int64_t>() >= least &&
                    value_->get<int64_t>() <= most;
  if (!fits) wrong(fmt::format("a whole number from {} to 2^53", least));
  return value_->get<int64_t>();
}

int64_t StateReader::count() const { return whole_from(0); }
int64_t StateReader::positive() const { return whole_from(1); }

uint64_t StateReader::bits() const {
  if (!value_->is_number_unsigned()) wrong("a whole number from 0 to 2^64 - 1");
  return value_->get<uint64_t>();
}

const nlohmann::json& StateReader::object() const {
  if (!value_->is_object()) wrong("an object");
  return *value_;
}

template <class T>
std::map<std::string, T> StateReader::map_of(T (StateReader::*read)() const) const {
  std::map<std::string, T> map;
  for (const auto& [name, value] : object().items()) map.emplace(name, (member(name).*read)());
  return map;
}

std::map<std::string, double> StateReader::numbers() const { return map_of(&StateReader::number); }
std::map<std::string, int64_t> StateReader::counts() const { return map_of(&StateReader::count); }
std::map<std::string, std::string> StateReader::texts() const { return map_of(&StateReader::text); }

}  // namespace booster
