// Reading and writing by index. ONNX counts negative indices from the end, as these ops do.
#include "booster/export/translations.h"

namespace booster::onnx {
namespace {

using Value = Graph::Value;

void index_select(Translator& t) {
  t.result(t.add("Gather", {t.input(0), t.input(1)}, {attribute("axis", t.integer("dim"))}));
}

void gather(Translator& t) {
  t.result(
      t.add("GatherElements", {t.input(0), t.input(1)}, {attribute("axis", t.integer("dim"))}));
}

void embedding(Translator& t) {
  t.result(t.add("Gather", {t.input(1), t.input(0)}, {attribute("axis", int64_t{0})}));
}

Translation scatter(const char* reduction) {
  return [=](Translator& t) {
    t.result(t.add(
        "ScatterElements", {t.input(0), t.input(1), t.input(2)},
        {attribute("axis", t.integer("dim")), attribute("reduction", std::string(reduction))}));
  };
}

void one_hot(Translator& t) {
  const Value index = t.add("Unsqueeze", {t.input(0), t.graph().integers({-1})});
  const Value numbers = t.graph().constant(arange(t.integer("classes")));
  t.result(t.converted(t.add("Equal", {index, numbers}), Kind::truth, Kind::integer));
}

}  // namespace

std::vector<TranslationRow> index_translations() {
  return {
      {"index_select", index_select},  {"gather", gather},
      {"embedding", embedding},        {"scatter", scatter("none")},
      {"scatter_add", scatter("add")}, {"one_hot", one_hot},
  };
}

}  // namespace booster::onnx
