#include "booster/export/translations.h"

#include <map>

namespace booster::onnx {
namespace {

std::map<std::string, Translation> all_translations() {
  std::map<std::string, Translation> all;
  for (const auto& rows :
       {elementwise_translations(), shape_translations(), reduction_translations(),
        index_translations(), layer_translations(), image_translations(), attention_translations()})
    for (const TranslationRow& row : rows) all.emplace(row.op, row.translation);
  return all;
}

}  // namespace

const Translation* translation_of(const std::string& op) {
  static const std::map<std::string, Translation> all = all_translations();
  const auto found = all.find(op);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace booster::onnx
