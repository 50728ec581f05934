// Models in the formats of other libraries.
//
// Folders of Hugging Face's transformers are a config.json beside safetensors:
//
//   Model model = from_pretrained("Llama-3.2-1B");
//   ...
//   save_pretrained(net, "tuned");        // transformers:
//   AutoModelForCausalLM.from_pretrained("tuned")
#pragma once

#include "booster/training/boosted.h"
#include "core/nn/module.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <filesystem>
#include <string>
#include <vector>

namespace booster {

struct PretrainedOptions {
  DType dtype = DType::f32;
  // Replacements for options of config.json, under the names that a config gives them:
  //   {{"architecture", "BertForSequenceClassification"}, {"num_labels", 3}}
  // A head that the folder lacks, or has for other labels, gets new weights if these name an
  // architecture, num_labels or id2label.
  nlohmann::json options = nlohmann::json::object();
};

// Makes the model that the folder's config.json describes (model_type bert, gpt2, llama, mistral,
// qwen2 or qwen3) and loads the folder's weights into it: one safetensors file, or several with an
// index. Parameters get `dtype`; files of any floating dtype are converted once. Throws an error of
// kind data that names the file and the key for a model_type or an option that is not supported,
// and for weights that are missing or have other shapes.
Model from_pretrained(const std::filesystem::path& folder, DType dtype = DType::f32);
Model from_pretrained(const std::filesystem::path& folder, const PretrainedOptions& options);

// Copies weights of timm, Hugging Face or a checkpoint (a safetensors file, an index, or a folder
// with either) into a model before boost; dtypes and devices stay. A head for other classes stays
// new, and position embeddings of another image size are resampled as in timm; the returned text
// says so, "" if all fitted. Throws an error of kind data, and changes nothing, for a file that
// cannot be read, lacks another tensor or has one of another shape.
std::string load_weights(const Model& model, const std::filesystem::path& path);

// Returns the model that a config.json describes, with new weights.
Model model_of_config(const std::filesystem::path& config_json);

// Writes config.json and model.safetensors into `folder`, which is created if needed; other files
// there, such as a tokeniser's, stay. The model is a bert, a gpt2 or one of models::decoder. All
// ranks call it for a boosted model, and rank 0 writes.
void save_pretrained(const BoostedModel& model, const std::filesystem::path& folder);
void save_pretrained(const Model& model, const std::filesystem::path& folder);

// Returns the tokens that end texts: eos_token_id of the folder's generation_config.json or
// config.json. Empty if neither has one.
std::vector<int32_t> stop_tokens_of(const std::filesystem::path& folder);

// Returns the text of the model's config.json. Throws for another model.
std::string config_json_of(const Model& model);

// --- ONNX files, for runtimes without booster

struct OnnxOptions {
  std::vector<std::string> classes = {};  // names by output index; JSON metadata
  // The input holds whole numbers from 0 to `indices` - 1, such as tokens (i64). 0: it holds
  // numbers (f32), or values like the model's example_input().
  int64_t indices = 0;
};

// Writes the model's evaluation forward pass in f32, with operator set 17, of a model with one
// input and one output. It runs the model on inputs of several shapes and writes the recorded ops.
// Every op must have an operator in ONNX. `sample` is the shape of one input without the batch:
// (channels, height, width), (features) or (tokens). The graph has the input "input" and the output
// "logits". It accepts any batch size, and any size of the other dimensions that the model leaves
// open and the graph can follow. Weights keep their names. The model may be on any device and in
// any dtype, and does not change. Throws an Error of kind usage for a shape that the model refuses,
// and for an op without a translation; that error names the op and its module. Throws one of kind
// failed if the file cannot be written.
void export_onnx(const Model& model, const Shape& sample, const std::filesystem::path& file,
                 const OnnxOptions& options = {});

}  // namespace booster
