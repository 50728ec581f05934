// JSON text as nlohmann_json reads it, whatever the process's locale: that library uses the C
// library's functions, which expect the locale's decimal point. For files that people write, see
// json_document.h.
#pragma once

#include "platform/decimal.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace booster {

// Parses JSON. Throws nlohmann_json's exception for other text.
template <class Json = nlohmann::json>
Json json_from(std::string_view text) {
  const DotDecimals numbers;
  return Json::parse(text);
}

// Parses JSON. Returns a discarded value for other text.
template <class Json = nlohmann::json>
Json json_if_whole(std::string_view text) {
  const DotDecimals numbers;
  return Json::parse(text, nullptr, false);
}

// Reports the text's content to `reader`.
template <class Reader>
bool read_events(std::string_view text, Reader& reader) {
  const DotDecimals numbers;
  return nlohmann::json::sax_parse(text, &reader);
}

}  // namespace booster
