// The commands of the `booster` program except `run`, which has its own folder (booster/run).
//
// Each prints to standard output and returns the exit code; mistakes are Errors.
#pragma once

#include <string>
#include <vector>

namespace booster::cli {

// All plugins and strategies, one line each, or the options of the one named. With `json`, here and
// below, one object. `libraries` are paths of the user's own libraries.
int list(const std::string& name, const std::vector<std::string>& libraries, bool json);
// Every op on a strategy's lists with its class and source: `booster list ops`.
struct ListOps {
  std::string strategy, level, device;
  std::vector<std::string> settings;  // key=value, as `booster explain` takes them
  bool json = false;  // an object per line
};
int list_ops(const ListOps& what);
// `booster explain` with the words after it; without an op, reads queries from standard input.
int explain_op(const std::vector<std::string>& words);
// Which strategy works with which plugin, according to the strategies.
int matrix(const std::vector<std::string>& libraries, bool json);
// Also makes the plugin and the strategy, with the errors that a program would meet. `program`, a
// path, is asked about its own sections too: "" is the shipped example, where it was built, "none"
// is no program, and then sections that the library does not know are named and left alone.
// With libraries, whose names the config may use, the library alone reads it.
int check_config(const std::string& path, const std::string& program,
                 const std::vector<std::string>& libraries);
int print_config_schema(const std::string& program, const std::vector<std::string>& libraries);
// A safetensors file, a checkpoint folder or a folder of checkpoints. Exit code 1 with the broken
// rule if it is not valid.
int inspect(const std::string& path, bool json);
// What a loss scaler would do; takes the words after `scaler` on the command line.
int scaler(const std::vector<std::string>& arguments);
// What this machine offers, or what each strategy would do on a GPU.
struct Doctor {
  std::string capability;   // of such a GPU, "7.5"; empty: this machine
  std::string device_name;  // of that GPU
  bool json = false;
};
int doctor(const Doctor& what);
// What a config's training costs on some ranks, and other ways to spread it.
struct PlanArguments {
  std::string config;
  std::vector<std::string> sets;  // key.path=value
  std::string gpu;                // a name of gpu_cluster(); empty: this machine
  int nodes = 1, per_node = 1;
  double network = 0;             // 10^9 bytes per second between nodes; 0: as usual
  int64_t batch_size = 0, tokens = 0;  // of a rank; 0: what the config's section data says
  double loader_ms = 0;           // that a processor spends to load a sample
  std::string write;              // a file for the config with the best layout
  bool json = false;
};
int plan(const PlanArguments& arguments);
// Writes `file`, an ONNX file, of a checkpoint, a training's newest one, or a model's own files;
// the model is the one of `config`, or if that is empty of the run.json above the checkpoint.
struct ExportArguments {
  std::string checkpoint, file, config;
  bool averages = false;  // of the weights, as train.ema_decay keeps them
};
int export_model(const ExportArguments& what);
// One HTML page about the runs in these folders, written to `output`, or if that is empty to
// report.html in the first of them.
int report(const std::vector<std::string>& folders, const std::string& output);
// `booster compare-numerics`: the tensor checker's dumps of two runs. Exit code 3 if they differ.
struct CompareNumerics {
  std::string a, b;        // files, or folders of files worker_*
  double loss_scale = 1;   // factor on b's gradients
  bool json = false, csv = false;
  bool all = false;        // text: also rows in which nothing is wrong
};
int compare_numerics(const CompareNumerics& arguments);

}  // namespace booster::cli
