// The `booster` program, run as a user runs it.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

using namespace booster;

TEST_CASE("list names every plugin and strategy, list NAME its options") {
  const CommandResult all = run_booster("list");
  CHECK(all.code == 0);
  for (const char* name : {"single", "torch_ddp", "fp32", "fp16", "fp16_apex", "fp16_naive", "bf16",
                           "fp8", "fp64", "auto"})
    CHECK(all.says(name));
  const CommandResult one = run_booster("list fp16");
  CHECK(one.code == 0);
  CHECK(one.says("init_scale       65536.0  a number in ["));
  CHECK(one.says("growth_interval  2000"));
  const CommandResult wrong = run_booster("list fp17");
  CHECK(wrong.code == 2);
  CHECK(wrong.says("did you mean fp16?"));
}

TEST_CASE("matrix answers for every pair, without spaces at the end of a line") {
  const CommandResult result = run_booster("matrix");
  CHECK(result.code == 0);
  CHECK(result.says("torch_ddp"));
  CHECK(result.says("fp16_apex O3      yes               yes"));
  CHECK_FALSE(result.says(" no"));  // every built-in strategy supports every layout
  CHECK_FALSE(result.says(" \n"));
}

TEST_CASE("usage mistakes end with code 2 and a hint") {
  CHECK(run_booster("").code == 2);
  CHECK(run_booster("inspect").code == 2);
  CHECK(run_booster("doctor --loud").code == 2);
  const CommandResult wrong = run_booster("inspct x");
  CHECK(wrong.code == 2);
  CHECK(wrong.says("did you mean inspect?"));
  CHECK(run_booster("--help").code == 0);
  CHECK(run_booster("--version").output.rfind("booster 0.", 0) == 0);
}

TEST_CASE("config check tells the place of a mistake with code 2") {
  const TemporaryFolder folder;
  folder.write("good.json", R"({"optimizer": {"lr": 1}})");
  folder.write("bad.json", "{\"optimizer\":\n  {\"lr\": 1,\n   \"momentun\": 0}}");
  const CommandResult good = run_booster("config check " + in_quotes(folder / "good.json"));
  CHECK(good.code == 0);
  CHECK_FALSE(good.says("not checked"));
  const CommandResult bad = run_booster("config check " + in_quotes(folder / "bad.json"));
  CHECK(bad.code == 2);
  CHECK(bad.says("bad.json:3:4: optimizer.momentun: unknown key of sgd; got \"momentun\"; want "));
  CHECK(bad.says("(did you mean momentum?)"));
  CHECK(folder.entries() == 2);
}

TEST_CASE("config check tells all mistakes, those of the objects among them") {
  const TemporaryFolder folder;
  folder.write("bad.json", R"({"$schema": "booster.schema.json",
  "optimizer": {"name": "sgd", "nesterov": true},
  "booster": {"mixed_precision": {"name": "fp8", "exclude": ["hed"]}, "plugin": "ddp"},
  "model": {"name": "vit_small_patch32_224", "img_size": 20},
  "device": "gpu",
  "lr_scheduler": {"name": "cosine_warmup", "warmup_steps": 8, "total_steps": 7}})");
  const CommandResult bad = run_booster("config check " + in_quotes(folder / "bad.json"));
  CHECK(bad.code == 2);
  size_t at = 0;
  for (const char* part : {"bad.json:2:16: optimizer: sgd: nesterov needs momentum",
                           "bad.json:3:81: booster.plugin.name: unknown name; got \"ddp\"",
                           "bad.json:4:12: model: vit: image is smaller than a patch",
                           "bad.json:5:13: device: unknown name; got \"gpu\"; want one of auto, "
                           "cpu, cuda, cuda:0, cuda:1,",
                           "bad.json:6:19: lr_scheduler: cosine_warmup: warmup_steps is more"}) {
    at = bad.output.find(part, at);
    CHECK_MESSAGE(at != std::string::npos, part, bad.output);
  }
  CHECK(std::count(bad.output.begin(), bad.output.end(), '\n') == 5);
  // Mistakes that only the made model knows are reported once the rest is right.
  folder.write("layer.json", R"({"model": {"num_classes": 5}, "booster": {"mixed_precision":
    {"name": "fp8", "exclude": ["hed"]}}})");
  const CommandResult layer = run_booster("config check " + in_quotes(folder / "layer.json"));
  CHECK(layer.code == 2);
  CHECK_MESSAGE(layer.says("fp8: exclude: no layer has this name; got hed"), layer.output);
}

TEST_CASE("--help lists every key of a config with its legal names and its default") {
  const auto example = in_quotes(build_folder() / "examples/vit_caltech101");
  const std::string whole = run_command(example + " --help").output;
  const auto schema = nlohmann::json::parse(run_booster("config schema").output);
  const auto listed = [&](const auto& self, const nlohmann::json& object) -> void {
    const auto properties = object.value("properties", nlohmann::json::object());
    for (const auto& [key, option] : properties.items()) {
      CAPTURE_PART(key);
      CHECK(whole.find(key) != std::string::npos);
      const bool is_section = option.contains("properties") || option.contains("oneOf");
      const bool is_row = whole.find("\n  " + key + " ") != std::string::npos ||
                          whole.find("." + key + " ") != std::string::npos;  // of an object
      CHECK((is_section || is_row));
      if (option.contains("default"))
        CHECK(whole.find(option["default"].dump()) != std::string::npos);
      const auto names = option.value("enum", nlohmann::json::array());
      for (const auto& name : names)
        CHECK(whole.find(name.template get<std::string>()) != std::string::npos);
      self(self, option);
    }
    const auto forms = object.value("oneOf", nlohmann::json::array());
    for (const auto& form : forms) self(self, form);
  };
  listed(listed, schema);
  for (const char* row : {"one of sgd, adam, adamw, rmsprop, lamb", "one of single, torch_ddp",
                          "one of fp32, fp16, fp16_apex", "one of constant, linear_warmup, cosine"})
    CHECK_MESSAGE(whole.find(row) != std::string::npos, row);
  const std::string own = run_booster("config --help").output;
  CHECK(own.find("one of sgd, adam, adamw, rmsprop, lamb") != std::string::npos);
  CHECK(own.find("growth_interval") != std::string::npos);
}

TEST_CASE("config check says which sections it leaves to a program, and has one check them") {
  const TemporaryFolder folder;
  folder.write("good.json", R"({"data": {"batch_size": 2}, "train": {"epochs": 1}})");
  folder.write("bad.json", "{\"train\":\n  {\"epochs\": 1,\n   \"sed\": 2}}");
  const CommandResult good =
      run_booster("config check --program none " + in_quotes(folder / "good.json"));
  CHECK(good.code == 0);
  CHECK(good.says("not checked: data, train,"));
  CHECK(run_booster("config check --program none " + in_quotes(folder / "bad.json")).code == 0);
  CHECK(run_booster("config check " + in_quotes(folder / "bad.json")).code == 2);
  const std::string program =
      "--program " + in_quotes(build_folder() / "examples/vit_caltech101") + " ";
  const CommandResult whole =
      run_booster("config check " + program + in_quotes(folder / "good.json"));
  CHECK(whole.code == 0);
  CHECK_FALSE(whole.says("not checked"));
  const CommandResult bad = run_booster("config check " + program + in_quotes(folder / "bad.json"));
  CHECK(bad.code == 2);
  CHECK(bad.says("bad.json:3:4: train.sed: unknown key; got \"sed\"; want one of epochs"));
  CHECK(bad.says("(did you mean seed?)"));
  CHECK(run_booster("config check --program /no/such " + in_quotes(folder / "good.json")).code ==
        2);
  CHECK(folder.entries() == 2);
}

TEST_CASE("config schema is JSON on standard output, a program's sections with it if it is named") {
  const auto schema = nlohmann::json::parse(run_booster("config schema --program none").output);
  CHECK(schema["properties"]["optimizer"]["oneOf"].size() == 7);
  CHECK_FALSE(schema["properties"].contains("train"));
  CHECK(schema["additionalProperties"]["type"] == "object");
  const auto whole =
      nlohmann::json::parse(run_booster("config schema --program " +
                                        in_quotes(build_folder() / "examples/vit_caltech101"))
                                .output);
  CHECK(whole["properties"]["train"]["properties"].contains("epochs"));
  CHECK(whole["additionalProperties"] == false);
}

TEST_CASE("doctor tells variants, libraries and what is off") {
  const CommandResult result = run_booster("doctor");
  CHECK(result.code == 0);
  for (const char* part :
       {"portable", "in use:", "oneDNN", "libjpeg", "libpng", "Gloo", "MPI", "GPUs", "memory",
        "memory rate", "matmul rate", "mixed_precision \"auto\" is "})
    CHECK(result.says(part));
}

TEST_CASE("scaler prints a line per step, as text or JSON, and a mistake ends with code 2") {
  const CommandResult table = run_booster("scaler torch --set init_scale=8 --pattern FI");
  CHECK(table.code == 0);
  CHECK(table.says("       2  skipped                         4  0x1p+2                       0"));
  const CommandResult json =
      run_booster("scaler megatron --set initial_scale=1024 --pattern I2 --json");
  CHECK(json.output ==
        "{\"step\":1,\"skipped\":true,\"scale\":1024,\"scale_hex\":\"0x1p+10\",\"good\":0,\"bad\":"
        "1}\n"
        "{\"step\":2,\"skipped\":true,\"scale\":512,\"scale_hex\":\"0x1p+9\",\"good\":0,\"bad\":0}"
        "\n");
  const CommandResult refused =
      run_booster("scaler torch --set init_scale=2^-127 --pattern I --json");
  CHECK(
      nlohmann::json::parse(refused.output).at("diagnosis").get<std::string>().find("collapsed") !=
      std::string::npos);
  for (const char* wrong :
       {"trch --pattern F", "torch --pattern F0", "torch --pattern ''", "torch",
        "torch --set init_scal=2 --pattern F", "torch --set init_scale --pattern F",
        "torch --set growth_factor=1 --pattern F", "--pattern F", "torch --jsn",
        "torch --set init_scale=2^-147 --pattern F"})
    CHECK(run_booster("scaler " + std::string(wrong)).code == 2);
  CHECK(run_booster("scaler --help").code == 0);
  CHECK(run_booster("scaler --list").says("decr_every_n_nan_or_inf"));
}

TEST_CASE("scaler reads questions from standard input and goes on after a wrong one") {
  const TemporaryFolder folder;
  folder.write("questions",
               "torch --pattern F\n\n# a comment\nfleet --pattern X\n"
               "deepspeed --set initial_scale_power=0 --set \"hysteresis=1\" --pattern 'IF'\n");
  const CommandResult result = run_booster("scaler --json - < " + in_quotes(folder / "questions"));
  CHECK(result.code == 2);
  std::istringstream lines(result.output);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  REQUIRE(objects.size() == 3);
  CHECK(objects[0]["line"] == 1);
  CHECK(objects[0]["scale"] == 65536);
  CHECK(objects[1]["line"] == 4);
  CHECK(objects[1]["error"].get<std::string>().find("unknown letter") != std::string::npos);
  CHECK(objects[2]["line"] == 5);
  CHECK(objects[2]["error"].get<std::string>().find("smallest allowed scale") != std::string::npos);
  CHECK(run_booster("scaler deepspeed --set initial_scale_power=0 --set hysteresis=1 --pattern I")
            .code == 1);
}

TEST_CASE("a line of endless length or endless levels is one mistake, and the next is answered") {
  const TemporaryFolder folder;
  std::string levels = "a";
  for (int i = 1; i < 400'000; ++i) levels += ".a";
  folder.write("questions", std::string(5'000'000, 'x') + "\ntorch --pattern F --set " + levels +
                                "=1\ntorch --pattern F2\n");
  const CommandResult result = run_booster("scaler --json < " + in_quotes(folder / "questions"));
  CHECK(result.code == 2);
  CHECK(result.says("{\"line\":1,\"error\":\"line too long; want at most 4194304 bytes\"}"));
  CHECK(result.says("nested too deep; got 400000 levels"));
  CHECK(result.says("{\"line\":3,\"step\":2"));
}

TEST_CASE("explain answers in words or JSON, and names that do not exist end with code 2") {
  const CommandResult json = run_booster("explain addcmul f32 bf16 half --strategy fp16 --json");
  CHECK(json.code == 0);
  const auto object = nlohmann::ordered_json::parse(json.output);
  CHECK(object["op"] == "addcmul");
  CHECK(object["device"] == "cuda");
  CHECK(object["arguments"].dump() == R"(["f32","bf16","f16"])");
  CHECK(object["runs_in"] == "f32");
  CHECK(object["returns"] == "f32");
  CHECK(object["list"] == "promote");
  CHECK_FALSE(object.contains("error"));
  const CommandResult refused =
      run_booster("explain binary_cross_entropy f16 f16 --strategy fp16 --json");
  CHECK(refused.code == 0);
  CHECK(nlohmann::json::parse(refused.output).contains("error"));
  CHECK(run_booster("explain softmax f16 --strategy bf16 --device cpu").says("runs in f16"));
  CHECK(run_booster("explain elementwise_add f32 f32 --strategy fp16_paddle --level o1 "
                    "--set custom_white_list=elementwise_add")
            .says("returns f16"));
  CHECK(run_booster("list ops --strategy fp16_paddle --set dtype=bfloat16 --set static_graph=true")
            .says("fused_attention"));
  CHECK(run_booster("list ops --strategy fp16_paddle --set custom_white_list=exp")
            .says("custom white"));
  CHECK(run_booster("list ops --strategy fp16_paddle --set custom_whitelist=exp").code == 2);
  CHECK(run_booster("list fp16 --set dtype=bfloat16").says("belongs to `booster list ops`"));
  CHECK(run_booster("scaler torch --set growth_interval=3 --good 2 --pattern F").says("131072"));
  CHECK(run_booster("explain softmax f16 --strategy fp16")
            .output.starts_with("softmax(f16) runs in f32 and returns f32 on cuda (the default; "
                                "--device cpu for the CPU)\n"));
  CHECK(
      run_booster("explain softmax f16 --strategy fp16 --device cpu").says("returns f16 on cpu\n"));
  CHECK(run_booster("explain binary_cross_entropy f16 f16 --strategy fp16")
            .says("is an error on cuda"));
  CHECK(run_booster("explain sofmax f16 --strategy fp16").says("did you mean softmax?"));
  for (const char* wrong :
       {"sofmax f16 --strategy fp16", "softmax f15 --strategy fp16", "softmax f16",
        "softmax f16 --strategy fp61", "softmax f16 --strategy fp16_apex --level O9",
        "softmax f16 --strategy fp16 --set x", "softmax --strategy fp16",
        "softmax f16 --strategy fp16 --device gpu"})
    CHECK(run_booster("explain " + std::string(wrong)).code == 2);
}

TEST_CASE("explain reads questions from standard input, after the options of its own line") {
  const TemporaryFolder folder;
  folder.write("questions", "softmax f16\nfoo f32\nmm f32 f32 --strategy bf16\n");
  const CommandResult result =
      run_booster("explain --strategy fp16 --json < " + in_quotes(folder / "questions"));
  CHECK(result.code == 2);
  std::istringstream lines(result.output);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  REQUIRE(objects.size() == 3);
  CHECK(objects[0]["returns"] == "f32");
  CHECK(objects[1]["error"].get<std::string>().find("foo") != std::string::npos);
  CHECK(objects[2]["returns"] == "bf16");
}

TEST_CASE("list ops prints op, class, list and source") {
  const CommandResult text = run_booster("list ops --strategy fp16_apex");
  CHECK(text.code == 0);
  CHECK(text.says("torch.nn.functional FP32_FUNCS"));
  CHECK(text.output.starts_with("fp16_apex on cuda (the default; --device cpu for the CPU)\n"));
  CHECK(run_booster("list ops --strategy bf16 --device cpu").output.starts_with("bf16 on cpu\n"));
  const CommandResult json = run_booster("list ops --strategy bf16 --device cpu --json");
  const std::string first = json.output.substr(0, json.output.find('\n'));
  CHECK(nlohmann::json::parse(first)["class"] == "lower_precision");
  CHECK(run_booster("list ops --strategy fp16_naive").says("has no op lists"));
  CHECK(run_booster("list ops").code == 2);
  CHECK(run_booster("list ops --strategy fp16_paddle --level O4").code == 2);
}

TEST_CASE("doctor says what each strategy gains at a compute capability") {
  const CommandResult t4 = run_booster("doctor --capability 7.5 --device-name 'Tesla T4'");
  CHECK(t4.code == 0);
  CHECK(t4.says(
      "Tesla T4, compute capability 7.5; matrix units for fp16; none for bf16 (needs 8.0)"));
  CHECK(t4.says("fp16_apex        fp16 on matrix units"));
  CHECK(t4.says("the current GPU is Tesla T4, with compute capability 7.5; use fp16"));
  const auto h200 = nlohmann::json::parse(run_booster("doctor --capability 9.0 --json").output);
  CHECK(h200.at("GPU").at("matrix_units").at("fp8") == true);
  CHECK(h200.at("GPU").at("matrix_units").at("mxfp8") == false);
  CHECK(h200.at("fp8").at("matrix_units") == true);
  CHECK(run_booster("doctor --capability seven").says("want MAJOR.MINOR"));
  CHECK(run_booster("doctor --device-name T4").code == 2);
  const CommandResult odd = run_booster("doctor --capability 7.5 --device-name '\xff' --json");
  CHECK(odd.code == 0);
  CHECK(nlohmann::json::accept(odd.output));
}

TEST_CASE("--json gives JSON") {
  const TemporaryFolder folder;
  CHECK(nlohmann::json::parse(run_booster("list --json").output).at("strategies").size() > 6);
  const auto fp16 = nlohmann::json::parse(run_booster("list fp16 --json").output);
  CHECK(fp16.at("options").at("init_scale").at("default") == 65536);
  const auto matrix = nlohmann::json::parse(run_booster("matrix --json").output);
  CHECK(matrix.at("rows").at(0).at("answers").at(0).at("supported") == true);
  save_safetensors(folder / "x.safetensors", {{"a\nb", ones({2, 3})}}, {{"key", "value"}});
  const auto file = nlohmann::json::parse(
      run_booster("inspect --json " + (folder / "x.safetensors").string()).output);
  CHECK(file.at("tensors").at(0).at("name") == "a\nb");
  CHECK(file.at("tensors").at(0).at("shape") == std::vector<int>{2, 3});
  CHECK(file.at("metadata").at("key") == "value");
}

TEST_CASE("the help shows the whole tree of commands, and each command has its own") {
  const CommandResult tree = run_booster("--help");
  CHECK(tree.code == 0);
  CHECK(tree.says("\n    check  "));
#define COMMAND(name, help)                                                         \
  {                                                                                 \
    std::string word = #name;                                                       \
    std::replace(word.begin(), word.end(), '_', '-');                               \
    CHECK_MESSAGE(tree.says("\n  " + word + " "), word);                            \
    CHECK_MESSAGE(run_booster(word + " --help").says("Usage: booster " + word), word); \
  }
#include "tools/commands/commands.def"
}

TEST_CASE("what cannot be understood is named, with the nearest word") {
  CHECK(run_booster("config chek x").says("did you mean check?"));
  CHECK(run_booster("config").says("booster config: no command; want one of check, schema"));
  CHECK(run_booster("--bogus").says("\"--bogus\""));
  CHECK(run_booster("''").code == 2);
  CHECK(run_booster("inspect a b").says(
      "error: booster inspect: unexpected argument; got \"b\", want an option"));
  CHECK(run_booster("list --jsn").says("booster list: unknown option; got \"--jsn\""));
  CHECK(run_booster("config check f --librar x").says("did you mean --library?"));
  CHECK(run_booster("plan --config").says("booster plan: --config needs a value"));
  CHECK(run_booster("plan --config= x").says("--config needs a value; got an empty one"));
  CHECK(run_booster("plan --config a --config b").says("--config is given more than once"));
  CHECK(run_booster("plan --config a --nodes x")
            .says("booster plan: --nodes: wrong value; got \"x\", want a whole number"));
  CHECK(run_booster("list fp16 --level O1").says("--level belongs to `booster list ops`"));
  CHECK(run_booster("compare-numerics a b --json --csv").code == 2);
  CHECK(run_booster("config --help").code == 0);
  CHECK(run_booster("--version > /dev/full").code == 1);
}

TEST_CASE("files that are no dumps are errors, and devices are not read") {
  const TemporaryFolder folder;
  folder.write("junk", std::string("\x01\xff junk\nmore"));
  const std::string junk = (folder / "junk").string();
  const CommandResult result = run_booster("compare-numerics " + junk + " " + junk);
  CHECK(result.code == 1);
  CHECK(result.says("no line of the tensor checker; want"));
  CHECK(run_booster("compare-numerics /dev/zero /dev/zero").code == 1);
  const std::string pipe = in_quotes(folder / "pipe");
  REQUIRE(run_command("mkfifo " + pipe).code == 0);
  const CommandResult waited =
      run_command("timeout 60 " + in_quotes(build_folder() / "tools/booster") +
                  " compare-numerics " + pipe + " " + pipe);
  CHECK(waited.code == 1);
  CHECK(waited.says("pipe; want a file of the tensor checker, or a folder"));
  CHECK(run_booster("scaler torch --pattern F3 > /dev/full").code == 1);
}

TEST_CASE("a stderr that takes nothing changes no exit code") {
  const std::string program = in_quotes(build_folder() / "tools/booster");
  const auto silent = [&](const std::string& arguments) {
    return run_command("{ " + program + " " + arguments + " 2>/dev/full; }").code;
  };
  CHECK(silent("run --max_restarts 1 sh -c 'test $BOOSTER_RESTART_COUNT = 1'") == 0);
  CHECK(silent("run --nproc_per_node x true") == 2);
  CHECK(silent("inspect no_such_file") == 1);
  CHECK(silent("list no_such_strategy") == 2);
  CHECK(run_command("{ echo 'no question' | " + program + " explain - 2>/dev/full; }").code == 2);
}
