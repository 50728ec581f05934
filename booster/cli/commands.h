// The commands of the `booster` program except `run`, which has its own folder (booster/run).
//
// Each prints to standard output and returns the exit code; mistakes are Errors.
#pragma once

#include "core/nn/generate.h"

#include <string>
#include <vector>

namespace booster::cli {

// Prints all plugins and strategies, one line each, or the options of the named one. With `json`,
// here and below, prints one object. `libraries` are paths of the user's own libraries.
int list(const std::string& name, const std::vector<std::string>& libraries, bool json);
// `booster list ops`: every op on a strategy's lists with its class and source.
struct ListOps {
  std::string strategy, level, device;
  std::vector<std::string> settings;  // key=value, as for `booster explain`
  bool json = false;                  // an object per line
};
int list_ops(const ListOps& what);
// `booster explain` with its arguments; without an op, reads queries from standard input.
int explain_op(const std::vector<std::string>& words);
// Prints which strategy works with which plugin, as the strategies report it.
int matrix(const std::vector<std::string>& libraries, bool json);
// Checks a config. Also makes the plugin and the strategy, with the errors that a program would
// meet. `program` is the path of a program that is asked about its own sections. "" is the shipped
// example, if it was built. "none" is no program: sections unknown to the library are then listed
// but not checked. With libraries, whose names the config may use, only the library reads the
// config.
int check_config(const std::string& path, const std::string& program,
                 const std::vector<std::string>& libraries);
int print_config_schema(const std::string& program, const std::vector<std::string>& libraries);
// Prints a safetensors file, a checkpoint folder or a folder of checkpoints. If it is invalid,
// names the broken rule and returns exit code 1.
int inspect(const std::string& path, bool json);
// Prints what a loss scaler would do. `arguments` are the words after `scaler` on the command line.
int scaler(const std::vector<std::string>& arguments);
// `booster doctor`: what this machine offers, or what each strategy would do on a GPU.
struct Doctor {
  std::string capability;   // compute capability of a GPU, "7.5"; empty: this machine
  std::string device_name;  // of that GPU
  bool json = false;
};
int doctor(const Doctor& what);
// `booster plan`: what a config's training costs on some ranks, and other ways to distribute it.
struct PlanArguments {
  std::string config;
  std::vector<std::string> sets;  // key.path=value
  std::string gpu;                // a name of gpu_cluster(); empty: this machine
  int nodes = 1, per_node = 1;
  double network = 0;                  // 10^9 bytes per second between nodes; 0: as usual
  int64_t batch_size = 0, tokens = 0;  // per rank; 0: from the config's section data
  double loader_ms = 0;                // processor time to load one sample
  std::string write;                   // output file for the config with the best layout
  bool json = false;
};
int plan(const PlanArguments& arguments);
// Exports a checkpoint, a training's newest checkpoint or a model's own files to the ONNX file
// `file`. `config` describes the model; if empty, the run.json above the checkpoint does.
struct ExportArguments {
  std::string checkpoint, file, config;
  bool averages = false;  // export the averaged weights (train.ema_decay)
};
int export_model(const ExportArguments& what);
// Writes one HTML page about the runs in these folders to `output`, or if that is empty to
// report.html in the first folder.
int report(const std::vector<std::string>& folders, const std::string& output);
// `booster compare-numerics`: compares the tensor checker's dumps of two runs. Exit code 3 if they
// differ.
struct CompareNumerics {
  std::string a, b;       // files, or folders of files worker_*
  double loss_scale = 1;  // factor on b's gradients
  bool json = false, csv = false;
  bool all = false;  // text output: also rows without a finding
};
int compare_numerics(const CompareNumerics& arguments);
// `booster tokenize`: texts to a file of tokens (core/text/tokenize_files.h).
struct TokenizeArguments {
  std::string tokenizer, output;
  std::vector<std::string> texts;
  std::string text_key = "text";
  std::string end_token;  // its text; empty: none
  int threads = 0;
};
int tokenize(const TokenizeArguments& what);
// `booster generate`: prints what a model writes after a prompt, while it writes.
struct GenerateArguments {
  std::string folder;     // of Hugging Face's transformers
  std::string tokenizer;  // file or folder; empty: the model's folder
  std::string prompt, dtype = "fp32";
  std::vector<std::string> stops;  // texts that end it
  bool echo = false;               // print the prompt first
  GenerateOptions options;         // temperature 0: the most likely tokens
};
int generate_text(const GenerateArguments& what);

}  // namespace booster::cli
