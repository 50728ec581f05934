// Any text as JSON. The oracle is nlohmann_json: it accepts whatever parse_json accepts, with the
// same values.
#include "platform/json/json_document.h"
#include "tests/fuzz/target.h"

using namespace booster;

namespace {

bool has_place(const JsonValue& value) {
  for (const JsonValue& item : value.items)
    if (!has_place(item)) return false;
  return value.position.line >= 1 && value.position.column >= 1;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  try {
    const JsonValue root = parse_json(text, "text", {.unsigned_integers = true});
    const bool same = root.to_json() == nlohmann::json::parse(text);
    fuzz::promise(same, "the values are those of the text");
    fuzz::promise(has_place(root), "every value has a place in the text");
    fuzz::promise(fuzz::is_plain(show_value(root)), "a value is shown as plain text");
  } catch (const Error& error) {
    fuzz::promise(fuzz::is_plain(error.what()), "an error is plain text");
  }
  fuzz::promise(fuzz::is_plain(show_text(text)), "text is shown as plain text");
  return 0;
}
