// Runs a parsed chat template. For one thread.
#pragma once

#include "core/text/chat/template_syntax.h"

#include <string>
#include <utility>
#include <vector>

namespace booster::text {

struct TemplateOutput {
  std::string text;
  std::vector<std::pair<size_t, size_t>> answers;  // bytes of {% generation %} blocks
};

// Throws an Error of kind data that begins with "line N: ".
TemplateOutput run_template(const std::vector<Statement>& statements, const TemplateMap& variables);
// Returns whether a block {% generation %} occurs.
bool marks_answers(const std::vector<Statement>& statements);

}  // namespace booster::text
