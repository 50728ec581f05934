#include "core/text/post_processor.h"

#include <map>
#include <string>

namespace booster::text {
namespace {

void add(Processed& result, const std::vector<int32_t>& tokens, int32_t segment) {
  result.tokens.insert(result.tokens.end(), tokens.begin(), tokens.end());
  result.segments.insert(result.segments.end(), tokens.size(), segment);
}

// A step of a template: a sequence, or tokens that stand for themselves.
struct Step {
  bool second = false;
  bool sequence = false;
  std::vector<int32_t> tokens;
  int32_t segment = 0;
};
using Template = std::vector<Step>;

Processed filled(const Template& steps, const Sequences& sequences, bool special_tokens) {
  Processed result;
  for (const Step& step : steps) {
    if (step.sequence)
      add(result, step.second ? sequences.second : sequences.first, step.segment);
    else if (special_tokens)
      add(result, step.tokens, step.segment);
  }
  return result;
}

PostProcessor by_templates(Template single, Template pair) {
  return [single = std::move(single), pair = std::move(pair)](const Sequences& sequences,
                                                              bool special_tokens) {
    return filled(sequences.pair ? pair : single, sequences, special_tokens);
  };
}

std::vector<int32_t> special_token(const Description& d, const std::string& name) {
  std::vector<int32_t> ids;
  for (const auto& id : d.member("special_tokens").member(name).items("ids"))
    ids.push_back(id.as_id());
  return ids;
}

Template template_from(const Description& d, std::string_view name) {
  Template steps;
  for (const Description& item : d.items(name)) {
    if (item.has("Sequence")) {
      const Description sequence = item.member("Sequence");
      const std::string id = sequence.text("id");
      if (id != "A" && id != "B") sequence.refuse("id; got '" + id + "', want A or B");
      steps.push_back({id == "B", true, {}, static_cast<int32_t>(sequence.integer("type_id", 0))});
    } else {
      const Description token = item.member("SpecialToken");
      steps.push_back({false, false, special_token(d, token.text("id")),
                       static_cast<int32_t>(token.integer("type_id", 0))});
    }
  }
  return steps;
}

// A member [token, number], as BERT's and RoBERTa's stages have it.
std::vector<int32_t> numbered_token(const Description& d, std::string_view name) {
  const auto pair = d.items(name);
  if (pair.size() != 2) d.member(name).refuse("want a token and its number");
  return {pair[1].as_id()};
}

PostProcessor bert(const Description& d) {
  const auto cls = numbered_token(d, "cls"), sep = numbered_token(d, "sep");
  const Template single = {{false, false, cls, 0}, {false, true, {}, 0}, {false, false, sep, 0}};
  Template pair = single;
  pair.push_back({true, true, {}, 1});
  pair.push_back({false, false, sep, 1});
  return by_templates(single, pair);
}

PostProcessor roberta(const Description& d) {
  const auto cls = numbered_token(d, "cls"), sep = numbered_token(d, "sep");
  const Template single = {{false, false, cls, 0}, {false, true, {}, 0}, {false, false, sep, 0}};
  Template pair = single;
  pair.push_back({false, false, sep, 0});
  pair.push_back({true, true, {}, 0});
  pair.push_back({false, false, sep, 0});
  return by_templates(single, pair);
}

// The last stage that adds tokens decides; in the files that people have there is one, after a
// stage of type ByteLevel, which adds none.
PostProcessor sequence(const Description& d) {
  PostProcessor result = joined;
  int adding = 0;
  for (const Description& stage : d.items("processors")) {
    if (stage.text("type") == "ByteLevel") continue;
    result = post_processor_from(stage);
    if (++adding > 1) d.refuse("more than one stage adds tokens; want at most one");
  }
  return result;
}

}  // namespace

Processed joined(const Sequences& sequences, bool) {
  Processed result;
  add(result, sequences.first, 0);
  add(result, sequences.second, sequences.pair ? 1 : 0);
  return result;
}

PostProcessor post_processor_from(const Description& d) {
  const std::string type = d.type(
      {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"});
  if (type == "BertProcessing") return bert(d);
  if (type == "ByteLevel") return joined;
  if (type == "RobertaProcessing") return roberta(d);
  if (type == "Sequence") return sequence(d);
  return by_templates(template_from(d, "single"), template_from(d, "pair"));
}

}  // namespace booster::text
