// The `booster` program: one subcommand per task.
#include "booster/cli/commands.h"
#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "booster/run/run.h"
#include "platform/error.h"
#include "platform/json/json_document.h"
#include "platform/version.h"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>

namespace {

using namespace booster;

struct CommandLine {
  CLI::App app{"Trains a model in the numbers you choose and on the machines you have."};
  std::string name, path, program, output;
  std::vector<std::string> libraries, runs;
  bool json = false;
  cli::ListOps ops;
  cli::Doctor doctor;
  cli::CompareNumerics compared;
  cli::PlanArguments planned;
  cli::ExportArguments exported;
  cli::TokenizeArguments tokenized;
  cli::GenerateArguments generated;
  std::function<int()> action;

  CommandLine() {
    app.name("booster");
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string("booster ") + version);
    // Only listed here: the words after these commands go unchanged to their own parsers.
    app.add_subcommand("run", "start the ranks of a program (booster run --help)");
    app.add_subcommand("scaler", "what a loss scaler would do (booster scaler --help)");
    app.add_subcommand("explain", "in which dtype an op would run (booster explain --help)");
    add_list();
    auto* matrix = add("matrix", "which strategy works with which plugin",
                       [this] { return cli::matrix(libraries, json); });
    add_libraries(matrix);
    add_json(matrix);
    add_config();
    auto* inspect = add("inspect", "check and show tensors, a checkpoint or flight records",
                        [this] { return cli::inspect(path, json); });
    inspect->add_option("PATH", path, "file or folder")->required();
    add_json(inspect);
    add_doctor();
    add_plan();
    add_compare();
    add_report();
    add_export();
    add_tokenize();
    add_generate();
  }

  CLI::App* add(const char* command, const char* summary, std::function<int()> run,
                CLI::App* parent = nullptr) {
    CLI::App* subcommand = (parent ? parent : &app)->add_subcommand(command, summary);
    subcommand->callback([this, run] { action = run; });
    return subcommand;
  }

  void add_list() {
    auto* list = add("list", "plugins and precision strategies, the options of one, or op lists",
                     [this] { return name == "ops" ? cli::list_ops(ops) : list_entries(); });
    list->add_option("NAME", name, "a plugin or a strategy; or ops: what --strategy does to ops");
    list->add_option("--strategy", ops.strategy, "with ops: whose lists");
    list->add_option("--level", ops.level, "with ops: of fp16_apex or fp16_paddle");
    list->add_option("--device", ops.device, "with ops: cuda (the default) or cpu");
    list->add_option("--set", ops.settings,
                     "with ops: key=value, as in explain: dtype, custom_white_list, static_graph")
        ->allow_extra_args(false);
    list->add_flag("--json", ops.json, "one JSON object; with ops one per line");
    add_libraries(list);
  }

  int list_entries() const {
    for (const auto& [option, value] :
         {std::pair{"--strategy", ops.strategy},
          {"--level", ops.level},
          {"--device", ops.device},
          {"--set", ops.settings.empty() ? "" : ops.settings.front()}})
      check(value.empty(), "list: {} belongs to `booster list ops`; got {} {}", option,
            name.empty() ? "no name" : name, option);
    return cli::list(name, libraries, ops.json);
  }

  void add_json(CLI::App* command) { command->add_flag("--json", json, "one JSON object"); }

  void add_doctor() {
    auto* command = add("doctor", "what this machine offers, what is off and why",
                        [this] { return cli::doctor(doctor); });
    command->add_option("--capability", doctor.capability,
                        "MAJOR.MINOR: what each strategy would do on a GPU of this capability");
    command->add_option("--device-name", doctor.device_name, "of that GPU");
    command->add_flag("--json", doctor.json, "one JSON object");
  }

  void add_plan() {
    auto* command = add("plan", "memory, traffic and time of a config's training, and of others",
                        [this] { return cli::plan(planned); });
    command->add_option("--config", planned.config, "JSON config")->required();
    command->add_option("--set", planned.sets, "key.path=value: overrides one value")
        ->allow_extra_args(false);
    command->add_option("--nodes", planned.nodes, "machines (1)");
    command->add_option("--gpus-per-node,--ranks-per-node", planned.per_node, "ranks on each (1)");
    command->add_option("--gpu", planned.gpu, "h200, a100, ...; without it, this machine");
    command->add_option("--network", planned.network, "GB/s between machines, for each rank");
    command->add_option("--batch_size", planned.batch_size,
                        "samples in the batch of a rank, instead of the config's data.batch_size");
    command->add_option("--tokens", planned.tokens, "of each text, instead of data.tokens");
    command->add_option("--loader-ms", planned.loader_ms,
                        "that a processor spends to load a sample, where processors train too");
    command->add_option("--write", planned.write, "file for the config with the best layout");
    command->add_flag("--json", planned.json, "one JSON object");
  }

  CLI::Option* add_libraries(CLI::App* command) {
    return command->add_option("--library", libraries, "a shared library with some of your own")
        ->allow_extra_args(false);
  }

  void add_compare() {
    auto* compare = add("compare-numerics", "the tensor checker's dumps of two runs",
                        [this] { return cli::compare_numerics(compared); });
    compare->add_option("A", compared.a, "file or folder: usually of the run in f32")->required();
    compare->add_option("B", compared.b, "file or folder: of the run in 16 bits")->required();
    compare->add_option("--loss-scale", compared.loss_scale, "of B's gradients");
    CLI::Option* as_json = compare->add_flag("--json", compared.json, "one JSON object");
    compare->add_flag("--csv", compared.csv, "a table for spreadsheets")->excludes(as_json);
    compare->add_flag("--all", compared.all, "as text: also rows in which nothing is wrong");
  }

  void add_report() {
    auto* command = add("report", "one HTML page about one or more runs",
                        [this] { return cli::report(runs, output); });
    command->add_option("DIR", runs, "train.output_dir of a training")->required();
    command->add_option("--output", output, "the page (report.html in the first DIR)");
  }

  void add_export() {
    auto* command = add("export", "a trained model as an ONNX file",
                        [this] { return cli::export_model(exported); });
    command
        ->add_option("CHECKPOINT", exported.checkpoint,
                     "a training's output_dir, a checkpoint, or a safetensors file")
        ->required();
    command->add_option("FILE", exported.file, "the ONNX file")->required();
    command->add_option("--config", exported.config,
                        "of the training (the config in the run.json above CHECKPOINT)");
    command->add_flag("--averages", exported.averages,
                      "the averages of the weights, which train.ema_decay keeps");
  }

  void add_tokenize() {
    auto* command =
        add("tokenize", "texts as a file of tokens", [this] { return cli::tokenize(tokenized); });
    command
        ->add_option("TOKENIZER", tokenized.tokenizer, "tokenizer.json, or a folder that holds one")
        ->required();
    command->add_option("OUT", tokenized.output, "the file of tokens")->required();
    command->add_option("TEXT", tokenized.texts, "texts; of .jsonl each line is a document")
        ->required();
    command->add_option("--text-key", tokenized.text_key, "of a line of .jsonl (text)");
    command->add_option(
        "--end-token", tokenized.end_token,
        "added after each document: <|endoftext|>; it also parts documents in texts");
    command->add_option("--threads", tokenized.threads, "(one per processor)");
  }

  void add_generate() {
    generated.options.temperature = 0;
    auto* command = add("generate", "what a language model writes after a prompt",
                        [this] { return cli::generate_text(generated); });
    command
        ->add_option("FOLDER", generated.folder,
                     "config.json, safetensors and tokenizer.json, as transformers writes them")
        ->required();
    command->add_option("--prompt", generated.prompt, "how the text begins")->required();
    command->add_option("--tokenizer", generated.tokenizer, "file or folder (FOLDER)");
    command->add_option("--max-new-tokens", generated.options.max_new_tokens, "(128)");
    command->add_option("--temperature", generated.options.temperature,
                        "of draws; 0, as by default: always the most likely token");
    command->add_option("--top-k", generated.options.top_k, "draw only from the k likeliest");
    command->add_option("--top-p", generated.options.top_p,
                        "draw only from the likeliest that have this probability together");
    command->add_option("--repetition-penalty", generated.options.repetition_penalty,
                        "above 1: tokens of the text become less likely");
    command->add_option("--seed", generated.options.seed, "of draws (0)");
    command->add_option("--stop", generated.stops, "a text that ends it")->allow_extra_args(false);
    command->add_option("--dtype", generated.dtype, "fp32, bf16 or fp16");
    command->add_flag("--echo", generated.echo, "print the prompt first");
  }

  void add_config() {
    CLI::App* config =
        app.add_subcommand("config", "check a config, or print the JSON schema of configs");
    config->footer([] {
      return "What a config may hold beside the sections of a program, which the program's own "
             "--help shows:\n" +
             describe(config_layout());
    });
    config->require_subcommand(1);
    const char* asked =
        "whose own sections are known too: it is started with --check or --schema; by default the "
        "shipped example, where it was built; none: no program";
    auto* check = add(
        "check", "check a config file",
        [this] { return cli::check_config(path, program, libraries); }, config);
    check->add_option("FILE", path, "JSON config")->required();
    auto* by_program = check->add_option("--program", program, asked);
    add_libraries(check)->excludes(by_program);
    auto* schema = add(
        "schema", "print the JSON schema",
        [this] { return cli::print_config_schema(program, libraries); }, config);
    auto* own = schema->add_option("--program", program, asked);
    add_libraries(schema)->excludes(own);
  }
};

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands({}))
    names.push_back(subcommand->get_name());
  return names;
}

// Returns the full name of the command. Throws for an unknown word where a command is expected:
// "booster config chek".
std::string check_commands(const CLI::App& app, const std::vector<std::string>& words) {
  std::string called = "booster";
  const CLI::App* at = &app;
  for (auto names = command_names(*at); !names.empty(); names = command_names(*at)) {
    const size_t used = static_cast<size_t>(std::count(called.begin(), called.end(), ' '));
    check(used < words.size(), "{}: no command{}", called, legal_names("", names));
    const std::string& word = words[used];
    if (word == "--help" || word == "-h" || (word == "--version" && at == &app)) break;
    const bool known = std::find(names.begin(), names.end(), word) != names.end();
    check(known, "{}: unknown command; got {}{}", called, show_text(word),
          legal_names(word, names));
    at = at->get_subcommand(word);
    called += " " + word;
  }
  return called;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const std::string first = words.empty() ? "" : words[0];
  if (first == "run") return run_tool({argv + 2, argv + argc});
  if (first == "scaler") return cli::scaler({argv + 2, argv + argc});
  if (first == "explain") return cli::explain_op({argv + 2, argv + argc});
  CommandLine line;
  const std::string called = check_commands(line.app, words);
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return line.app.exit(asked);
  } catch (const CLI::ParseError& error) {
    fail("{}: {}; `{} --help` shows the usage", called, error.what(), called);
  }
  return line.action();
}

}  // namespace

int main(int argc, char** argv) {
  booster::report_uncaught_errors();
  const int code = run(argc, argv);
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    booster::fail_run("standard output: cannot be written: {}", std::strerror(errno));
  return code;
}
