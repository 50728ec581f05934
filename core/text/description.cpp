#include "core/text/description.h"

#include "platform/error.h"

#include <limits>
#include <utility>

namespace booster::text {

Description::Description(const nlohmann::json& json, std::string where)
    : json_(&json), where_(std::move(where)) {}

void Description::refuse(const std::string& problem) const { fail_data("{}: {}", where_, problem); }

std::string Description::type(const std::vector<std::string>& legal) const {
  const std::string type = text("type");
  for (const auto& name : legal)
    if (name == type) return type;
  refuse(fmt::format("unknown type; got '{}'{}", type, legal_names(type, legal)));
}

bool Description::has(std::string_view name) const {
  if (!json_->is_object()) refuse("want an object");
  const auto found = json_->find(name);
  return found != json_->end() && !found->is_null();
}

Description Description::member(std::string_view name) const {
  if (!has(name)) refuse(fmt::format("want a member '{}'", name));
  return {*json_->find(name), fmt::format("{}.{}", where_, name)};
}

std::vector<Description> Description::items(std::string_view name) const {
  return member(name).items();
}

std::vector<Description> Description::items() const {
  if (!json_->is_array()) refuse("want an array");
  std::vector<Description> result;
  result.reserve(json_->size());
  for (size_t i = 0; i < json_->size(); ++i)
    result.emplace_back((*json_)[i], fmt::format("{}[{}]", where_, i));
  return result;
}

bool Description::flag(std::string_view name, bool fallback) const {
  if (!has(name)) return fallback;
  const Description value = member(name);
  if (!value.json_->is_boolean()) value.refuse("want true or false");
  return value.json_->get<bool>();
}

int64_t Description::integer(std::string_view name, int64_t fallback) const {
  if (!has(name)) return fallback;
  const Description value = member(name);
  if (!value.json_->is_number_integer()) value.refuse("want an integer");
  return value.json_->get<int64_t>();
}

std::string Description::text(std::string_view name) const { return member(name).as_text(); }

std::string Description::text(std::string_view name, std::string_view fallback) const {
  return has(name) ? text(name) : std::string(fallback);
}

Pattern Description::pattern() const {
  const Description pattern = member("pattern");
  if (pattern.has("String")) return Pattern::literal(pattern.text("String"));
  if (pattern.has("Regex")) return Pattern::regular_expression(pattern.text("Regex"));
  pattern.refuse("want a member 'String' or 'Regex'");
}

int32_t Description::as_id() const {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (!json_->is_number_integer()) refuse("want a token's number");
  const auto id = json_->get<int64_t>();
  if (id < 0 || id > most) refuse(fmt::format("a token's number; got {}, want 0 to {}", id, most));
  return static_cast<int32_t>(id);
}

std::string Description::as_text() const {
  if (!json_->is_string()) refuse("want a string");
  return json_->get<std::string>();
}

}  // namespace booster::text
