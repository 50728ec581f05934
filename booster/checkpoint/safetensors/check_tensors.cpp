#include "booster/checkpoint/safetensors/check_tensors.h"

#include <vector>

namespace booster {

namespace {

// "a, b, c and 9 more"
std::string first_few(const std::vector<std::string>& names) {
  constexpr size_t most = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

std::string text_of(const Shape& shape, DType dtype) {
  return shape.to_string() + " " + name_of(dtype);
}

}  // namespace

TensorForms forms_of(const TensorMap& tensors) {
  TensorForms forms;
  for (const auto& [name, tensor] : tensors)
    forms.emplace(name, TensorForm{tensor.shape(), tensor.dtype()});
  return forms;
}

void check_tensors(const TensorForms& wanted, const TensorMap& got, const std::string& what) {
  std::vector<std::string> missing, unexpected, different;
  for (const auto& [name, form] : wanted) {
    const auto found = got.find(name);
    if (found == got.end()) {
      missing.push_back(name);
    } else if (found->second.shape() != form.shape || found->second.dtype() != form.dtype) {
      different.push_back(fmt::format("{} (got {}, want {})", name,
                                      text_of(found->second.shape(), found->second.dtype()),
                                      text_of(form.shape, form.dtype)));
    }
  }
  for (const auto& [name, tensor] : got)
    if (!wanted.count(name)) unexpected.push_back(name);
  std::string problem;
  const auto tell = [&](const char* which, const std::vector<std::string>& names) {
    if (!names.empty())
      problem += fmt::format("; {} {}: {}", names.size(), which, first_few(names));
  };
  tell("missing", missing);
  tell("unexpected", unexpected);
  tell("of another shape or dtype", different);
  if (!problem.empty()) fail_data("{}: made for another model{}", what, problem);
}

}  // namespace booster
