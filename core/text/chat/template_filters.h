// The filters, tests, methods and functions that chat templates may use. Thread-safe.
#pragma once

#include "core/text/chat/template_values.h"

#include <string>
#include <utility>
#include <vector>

namespace booster::text {

struct TemplateArguments {
  TemplateList values;  // of a filter, a test or a method: first the value itself
  TemplateMap named;

  // Returns argument `place`, counted with the value itself, or that name; else `otherwise`.
  TemplateValue get(size_t place, const std::string& name, TemplateValue otherwise = {}) const;
};

const std::vector<std::string>& template_filter_names();
const std::vector<std::string>& template_test_names();
const std::vector<std::string>& template_method_names();
const std::vector<std::string>& template_function_names();

// Throw an Error of kind data for values that the name does not take.
TemplateValue filtered_value(const std::string& name, const TemplateArguments& arguments);
bool passes_test(const std::string& name, const TemplateArguments& arguments);
TemplateValue method_result(const std::string& name, const TemplateArguments& arguments);
TemplateValue function_result(const std::string& name, const TemplateArguments& arguments);

}  // namespace booster::text
