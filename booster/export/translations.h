// The table of translations: one row for each op that the tape or an op reports by name.
#pragma once

#include "booster/export/translator.h"

#include <functional>
#include <string>
#include <vector>

namespace booster::onnx {

// Adds operators for the translator's current op and sets its results.
using Translation = std::function<void(Translator&)>;

struct TranslationRow {
  const char* op;
  Translation translation;
};

// Returns null if there is none.
const Translation* translation_of(const std::string& op);

// Returns the rows, by subject.
std::vector<TranslationRow> elementwise_translations();
std::vector<TranslationRow> shape_translations();
std::vector<TranslationRow> reduction_translations();
std::vector<TranslationRow> index_translations();
std::vector<TranslationRow> layer_translations();
std::vector<TranslationRow> image_translations();
std::vector<TranslationRow> attention_translations();

// gelu(x), which operator set 17 lacks.
Graph::Value gelu_of(Translator& t, const Graph::Value& x, bool tanh_form);

}  // namespace booster::onnx
