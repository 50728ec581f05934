#include "platform/json/json_document.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace booster;

namespace {

// Returns the error's text; fails the test if there is none.
std::string problem(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "c.json", limits);
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  FAIL("accepted: " << text.substr(0, 80));
  return "";
}

}  // namespace

TEST_CASE("every value knows its line and column") {
  const JsonValue root =
      parse_json("{\n  \"a\": 1,\n  \"é\": [true, {\"x\" : -2.5e3}], \"s\":\"q\\\"\" }", "c");
  CHECK(root.position.line == 1);
  const JsonValue& list = *root.find("é");
  CHECK(list.key_position.line == 3);
  CHECK(list.key_position.column == 3);
  CHECK(list.position.column == 8);
  CHECK(list.items[0].position.column == 9);
  const JsonValue& x = *list.items[1].find("x");
  CHECK(x.key_position.column == 16);
  CHECK(x.position.column == 22);
  CHECK(x.scalar == -2500.0);
  CHECK(root.find("s")->position.column == 36);
  CHECK(root.find("s")->scalar == "q\"");
}

TEST_CASE("a tree becomes the same JSON that it came from") {
  const char* text = R"({"a":[1,2.5,"x",null,true,{}],"b":{"c":[]}})";
  CHECK(parse_json(text, "c").to_json() == nlohmann::json::parse(text));
}

TEST_CASE("errors carry line, column and the key's path") {
  CHECK(contains(problem("{\"a\": {\"b\": 1,\n \"b\": 2}}"), "c.json:2:2: a: duplicate key \"b\""));
  CHECK(contains(problem("{\"train\": {\"epochs\": 1e999}}"),
                 "c.json:1:22: train.epochs: number out of range; got 1e999"));
  CHECK(contains(problem("{\"a\": [1, {\"b\": tru}]}"), "c.json:1:"));
  CHECK(contains(problem("{\"train\": {\"lr\": NaN}}"), "c.json:1:18: train.lr: not JSON"));
  CHECK(contains(problem("{\"a.b\": {\"c\": 1 \"d\"}}"), "\"a.b\""));
}

TEST_CASE("an error shows no bytes of the text that could control a terminal") {
  for (const char* text :
       {"[-\x7f\xff]", "[1e\x9b]", "[\"; expected \x7f", "{\"\x1b[31m\" 1}", "[1e999\x1b]",
        "{\"\x1b[31m\":-\x7f}", "[tru\x7f; expected \x7f]", "\x7f"}) {
    const std::string shown = problem(text);
    CHECK(std::all_of(shown.begin(), shown.end(), [](char c) { return c >= ' ' && c <= '~'; }));
  }
  CHECK(contains(problem("[-x]"), "invalid number; want digit after '-'"));
}

TEST_CASE("what is not strict JSON is refused") {
  for (const char* text : {"",
                           "  \n",
                           "{",
                           "}",
                           "[1,]",
                           "{\"a\":1,}",
                           "{\"a\" 1}",
                           "{a:1}",
                           "{'a':1}",
                           "NaN",
                           "[Infinity]",
                           "[-Infinity]",
                           "[+1]",
                           "[01]",
                           "[.5]",
                           "[1.]",
                           "[0x1]",
                           "// c\n1",
                           "/* c */ 1",
                           "1 2",
                           "{} {}",
                           "{}x",
                           "\"\\ud800\"",
                           "\"\\udc00\\ud800\"",
                           "\"\\ud800x\"",
                           "\"\\x41\"",
                           "\"a\nb\"",
                           "\"\t\"",
                           "\"\xff\"",
                           "\"\xc0\xaf\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\xEF\xBB\xBF{}",
                           "\"\\u0000\"",
                           "{\"\\u0000\":1}",
                           "tru",
                           "nul",
                           "\"open",
                           "\"\\",
                           "-",
                           "1e",
                           "{\"a\":1}]"}) {
    CHECK(contains(problem(text), "c.json:"));
  }
  CHECK(contains(problem(std::string_view("{}\0{}", 5)), "c.json:1:3: a zero byte"));
  CHECK(contains(problem(std::string_view("\0", 1)), "c.json:1:1"));
}

TEST_CASE("what is written in another syntax or encoding is recognised") {
  using namespace std::string_view_literals;
  const std::pair<std::string_view, const char*> cases[] = {
      {"train:\n  epochs: 2\n"sv, "c.json:1:1: not JSON but YAML"},
      {"# settings\nname: x\n"sv, "c.json:2:1: not JSON but YAML"},
      {"---\ntrain:\n"sv, "c.json:1:1: not JSON but YAML"},
      {"- a\n- b\n"sv, "not JSON but YAML"},
      {"[train]\nepochs = 2\n"sv, "c.json:1:1: not JSON but TOML"},
      {"lr = 2\n"sv, "not JSON but TOML"},
      {"{'a': 1}"sv, "c.json:1:2: a single quote; want double quotes"},
      {"{\"a\": 'x'}"sv, "c.json:1:7: a: a single quote; want double quotes"},
      {"{\"a\": 1,\n}"sv, "c.json:1:8: a comma before }; want none after the last item"},
      {"{\"a\": [1, 2, ]}"sv, "a comma before ]"},
      {"{\"a\": 1 // one\n}"sv, "c.json:1:9: a comment; want none: JSON has no comments"},
      {"// first\n{}"sv, "c.json:1:1: a comment"},
      {"# first\n{}"sv, "c.json:1:1: a comment"},
      {"{\"a\": /* one */ 1}"sv, "c.json:1:7: a: a comment"},
      {"{a: 1}"sv, "c.json:1:2: a key without quotes; want \"a\""},
      {"{\"a\": {lr_x : 1}}"sv, "a key without quotes; want \"lr_x\""},
      {"{\"a\": True}"sv, "c.json:1:7: a: not JSON; got True, want true"},
      {"{\"a\": False}"sv, "got False, want false"},
      {"{\"a\": None}"sv, "c.json:1:7: a: not JSON; got None, want null"},
      {"\xEF\xBB\xBF{}"sv, "c.json:1:1: begins with a byte order mark; want plain UTF-8"},
      {"\xFF\xFE{\0}\0"sv, "c.json:1:1: the text is UTF-16; want UTF-8"},
      {"\xFE\xFF\0{\0}"sv, "the text is UTF-16"},
      {"{\0}\0"sv, "the text is UTF-16"},
      {"\0{\0}"sv, "the text is UTF-16"},
      {"\xFF\xFE\0\0{\0\0\0"sv, "the text is UTF-32"}};
  for (const auto& [text, part] : cases) {
    const std::string told = problem(text);
    CHECK_MESSAGE(contains(told, part), told);
  }
  for (const char* text : {"[nonsense]", "{\"a\": tru}", "{\"a\" 1}", "[1 2]", "{\"x\":: 1}"})
    for (const char* part : {"YAML", "TOML", "quote", "comment", "UTF-16"})
      CHECK_MESSAGE(!contains(problem(text), part), problem(text));
}

TEST_CASE("numbers keep to 64 bits") {
  CHECK(parse_json("9223372036854775807", "c").scalar == INT64_MAX);
  CHECK(parse_json("-9223372036854775808", "c").scalar == INT64_MIN);
  for (const char* text : {"9223372036854775808", "18446744073709551615", "-9223372036854775809",
                           "123456789012345678901234567890", "1e400", "-1e309"}) {
    CHECK(contains(problem(text), "number out of range"));
  }
  const JsonLimits wide = {.unsigned_integers = true};
  CHECK(parse_json("18446744073709551615", "c", wide).scalar == UINT64_MAX);
  CHECK(contains(problem("18446744073709551616", wide), "number out of range"));
}

TEST_CASE("size, depth and number of values are limited") {
  CHECK_NOTHROW(parse_json(std::string(64, '[') + std::string(64, ']'), "c"));
  CHECK(contains(problem(std::string(65, '[') + std::string(65, ']')), "nested too deep"));
  CHECK(contains(problem(std::string(1'000'000, '[')), "c.json:1:65: [0]"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  CHECK(contains(problem(objects), "nested too deep"));
  CHECK(contains(problem(std::string(100'000'000, '[')), "too large"));
  std::string numbers = "[0";
  for (int i = 0; i < 100'000; ++i) numbers += ",0";
  CHECK(contains(problem(numbers + "]"), "too many values"));
}

TEST_CASE("hostile text is shown escaped and shortened") {
  CHECK(show_text("a\x1b[2J\"\xff") == "\"a\\u001b[2J\\\"\\ufffd\"");
  CHECK(show_text(std::string(1000, 'x')).size() < 80);
  CHECK(join_key("a", "b.c") == "a.\"b.c\"");
  const std::string long_error = problem("{\"" + std::string(100'000, 'k') + "\": x}");
  CHECK(long_error.size() < 500);
}

TEST_CASE("no truncation or changed byte of a config crashes the reader") {
  const std::string text = R"({"a": {"b": [1, -2.5e-3, "q\u00e9\\"], "é": null}, "c": true})";
  for (size_t n = 0; n < text.size(); ++n)
    CHECK_THROWS_AS(parse_json(text.substr(0, n), "c"), Error);
  for (size_t i = 0; i < text.size(); ++i)
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[i] = static_cast<char>(byte);
      try {
        parse_json(changed, "c");
      } catch (const Error&) {
      }
    }
}

TEST_CASE("only regular files are read, and the error names them") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_json("/dev/null"),
                       doctest::Contains("/dev/null: cannot read; got a device"), Error);
  CHECK_THROWS_WITH_AS(read_json(folder.path()), doctest::Contains("got a folder"), Error);
  CHECK_THROWS_WITH_AS(read_json(folder / "none.json"), doctest::Contains("No such file"), Error);
  folder.write("empty.json", "");
  CHECK_THROWS_WITH_AS(read_json(folder / "empty.json"), doctest::Contains("empty.json:1:1: empty"),
                       Error);
  folder.write("big.json", std::string((1 << 20) + 1, ' '));
  CHECK_THROWS_WITH_AS(read_json(folder / "big.json"), doctest::Contains("too large"), Error);
}
