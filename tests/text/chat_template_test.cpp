// Chat templates against transformers, and the answers within a conversation.
#include "core/text/tokenizer.h"
#include "platform/error.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>

using namespace booster;

namespace {

nlohmann::json golden() {
  return nlohmann::json::parse(std::ifstream(test::golden_folder() + "/text/chat_templates.json"));
}

std::vector<ChatMessage> messages_of(const nlohmann::json& list) {
  std::vector<ChatMessage> messages;
  for (const auto& message : list) messages.push_back({message[0], message[1]});
  return messages;
}

std::string without_answers(const RenderedChat& chat) {
  std::string text = chat.text;
  for (auto answer = chat.answers.rbegin(); answer != chat.answers.rend(); ++answer)
    text.replace(answer->first, answer->second - answer->first, "?");
  return text;
}

std::string problem_of(const std::string& source) {
  return error_of([&] { ChatTemplate::from_text(source); });
}
std::string refusal_of(const std::string& source) {
  return error_of([&] { ChatTemplate::from_text(source).render({{"user", "hi"}}); });
}

}  // namespace

TEST_CASE("chat templates write what transformers writes") {
  const auto data = golden();
  std::map<std::string, ChatTemplate> templates;
  for (const auto& [name, source] : data["templates"].items())
    templates.emplace(name, ChatTemplate::from_text(source.get<std::string>(), data["tokens"]));
  REQUIRE(data["cases"].size() >= 240);
  int refused = 0;
  for (const auto& one : data["cases"]) {
    const auto messages = messages_of(one[1]);
    CAPTURE(one.dump());
    const auto render = [&] {
      return templates.at(one[0]).render(messages, {.add_generation_prompt = one[2]});
    };
    if (one[3].is_null()) {
      CHECK_THROWS_AS(render(), Error);
      ++refused;
    } else {
      CHECK(render() == one[3].get<std::string>());
    }
  }
  CHECK(refused > 10);
}

TEST_CASE("answers are what a template adds for the assistant, with the token that ends them") {
  const auto data = golden();
  const auto named = [&](const char* name) {
    return ChatTemplate::from_text(data["templates"][name].get<std::string>(), data["tokens"]);
  };
  const std::vector<ChatMessage> talk = {
      {"user", "a"}, {"assistant", "b "}, {"user", "c"}, {"assistant", "d"}};
  CHECK(without_answers(named("chatml").render_answers(talk)) ==
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n?\n"
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n?\n");
  CHECK(without_answers(named("llama2").render_answers(talk, 2)) ==
        "<s>[INST] a [/INST] b </s><s>[INST] c [/INST]?");
  CHECK(without_answers(named("gemma").render_answers(talk, 3)) ==
        "<s><start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb<end_of_turn>\n"
        "<start_of_turn>user\nc<end_of_turn>\n<start_of_turn>model\n?\n");
  const auto llama3 = named("llama3").render_answers(talk);
  REQUIRE(llama3.answers.size() == 2);
  CHECK(llama3.text.substr(llama3.answers[0].first,
                           llama3.answers[0].second - llama3.answers[0].first) == "b<|eot_id|>");
  // This template writes the last answer otherwise than earlier ones.
  CHECK(contains(error_of([&] { named("qwen").render_answers(talk); }),
                 "message 2 is written differently when others follow it"));
  CHECK(without_answers(named("qwen").render_answers(talk, 3)).ends_with("assistant\n?\n"));
}

TEST_CASE("blocks of the template say what an answer is") {
  const auto chat = ChatTemplate::from_text(
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}!"
      "{% endgeneration %}{% else %}Q:{{ m.content }}{% endif %};{% endfor %}");
  const std::vector<ChatMessage> talk = {
      {"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}};
  CHECK(without_answers(chat.render_answers(talk)) == "Q:a;A:?;Q:c;A:?;");
  CHECK(without_answers(chat.render_answers(talk, 2)) == "Q:a;A:b!;Q:c;A:?;");
}

TEST_CASE("what a chat template has beyond the subset is an error that names it") {
  CHECK(contains(problem_of("a\n{% include 'b' %}"),
                 "chat_template: line 2: the block 'include' is not supported"));
  CHECK(contains(problem_of("{{ x | trimm }}"), "the filter 'trimm' is not supported"));
  CHECK(contains(problem_of("{{ x | trimm }}"), "did you mean trim?"));
  CHECK(contains(problem_of("{{ x is definde }}"), "the test 'definde' is not supported"));
  CHECK(contains(problem_of("{{ now() }}"), "the function 'now' is not supported"));
  CHECK(contains(problem_of("{{ x.encode() }}"), "the method 'encode' is not supported"));
  CHECK(contains(problem_of("{{ 1 < 2 < 3 }}"), "comparisons in a chain"));
  CHECK(contains(problem_of("{{ x $ }}"), "the character '$' is not understood"));
  CHECK(contains(problem_of("{% if a %}"), "want endif"));
  CHECK(contains(problem_of("{% endif %}"), "endif without its beginning"));
  CHECK(contains(problem_of("{{ 'a"), "a text without its end"));
  CHECK(contains(problem_of("{{ (1 }}"), "line 1"));
  CHECK(contains(problem_of("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}"),
                 "nested too deeply"));
}

TEST_CASE("what a chat template cannot do with a conversation is an error with its line") {
  CHECK(contains(refusal_of("\n{{ nothing.at_all }}"), "line 2: 'nothing' is undefined"));
  CHECK(contains(refusal_of("{{ 'a' + 1 }}"), "line 1: got a whole number, want a text"));
  CHECK(contains(refusal_of("{{ messages }}"), "got a list, want something to print"));
  CHECK(contains(refusal_of("{{ raise_exception('No ' + messages[0].role) }}"),
                 "the template refuses the conversation: No user"));
  CHECK(contains(refusal_of("{{ strftime_now('%d') }}"), "'strftime_now' is undefined"));
  CHECK(contains(refusal_of("{{ 'a' * 100000000 }}"), "64 MiB"));
  CHECK(contains(refusal_of("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}"
                            "{% endfor %}"),
                 "does not come to an end"));
  CHECK(contains(refusal_of("{{ 1 // 0 }}"), "division by zero"));
  CHECK(contains(refusal_of("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
                 "macros call each other too deeply"));
  CHECK(contains(refusal_of("{% macro f(x) %}{% endmacro %}{{ f(1, 2) }}"), "want at most 1"));
}

TEST_CASE("a folder's chat template comes from its config, or from a file of its own") {
  const TemporaryFolder folder;
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": [
                   {"name": "tools", "template": "no"},
                   {"name": "default",
                    "template": "{{ bos_token + messages[0].content + eos_token }}"}]})");
  const std::string path = folder.path().string();
  CHECK(ChatTemplate::is_in(path));
  CHECK(ChatTemplate::from_file(path).render({{"user", "hi"}}) == "<s>hi</s>");
  folder.write("chat_template.jinja", "{{ messages[0].role }}{% if %}");
  CHECK(contains(error_of([&] { ChatTemplate::from_file(path); }), "chat_template.jinja: line 1"));
  folder.write("chat_template.jinja", "{{ messages[0].role }}\n");
  CHECK(ChatTemplate::from_file(path).render({{"user", "hi"}}) == "user");
  const TemporaryFolder none;
  CHECK_FALSE(ChatTemplate::is_in(none.path().string()));
  CHECK(contains(error_of([&] { ChatTemplate::from_file(none.path().string()); }),
                 "has no chat template; want chat_template in tokenizer_config.json"));
}
