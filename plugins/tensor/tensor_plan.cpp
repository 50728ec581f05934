#include "plugins/tensor/tensor_plan.h"

#include "platform/error.h"

#include <array>

namespace booster {

namespace {
constexpr std::array<const char*, 4> style_names = {"column", "row", "vocabulary", "shared"};
}  // namespace

SplitStyle split_style_named(const std::string& name) {
  for (size_t i = 0; i < style_names.size(); ++i)
    if (name == style_names[i]) return static_cast<SplitStyle>(i);
  fail("tensor_plan: unknown style; got {}{}", name,
       legal_names(name, {style_names.begin(), style_names.end()}));
}

const char* name_of(SplitStyle style) { return style_names[static_cast<size_t>(style)]; }

}  // namespace booster
