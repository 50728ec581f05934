#include "booster/config/hub_config.h"

#include "booster/config/encoder_models.h"
#include "booster/config/pretrained.h"
#include "booster/config/registry.h"
#include "core/nn/models/bert.h"
#include "core/nn/models/decoder.h"
#include "core/nn/models/gpt2.h"
#include "core/nn/rotary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

namespace booster {

namespace {

using Names = std::vector<std::string>;

const Names& known_types() {
  static const Names types = [] {
    Names names = models::decoder_names();
    names.emplace_back("gpt2");
    names.emplace_back("bert");
    return names;
  }();
  return types;
}

// Keys that say nothing about weights or results: where a file came from, how text is generated,
// and heads that the language model does not have.
const Names passing_keys = {"_attn_implementation_autoset",
                            "_name_or_path",
                            "add_cross_attention",
                            "architectures",
                            "attn_implementation",
                            "bos_token_id",
                            "chunk_size_feed_forward",
                            "directionality",
                            "do_sample",
                            "dtype",
                            "eos_token_id",
                            "finetuning_task",
                            "id2label",
                            "initializer_range",
                            "is_decoder",
                            "is_encoder_decoder",
                            "label2id",
                            "max_length",
                            "model_type",
                            "n_ctx",
                            "output_attentions",
                            "output_hidden_states",
                            "output_past",
                            "pad_token_id",
                            "pooler_fc_size",
                            "pooler_num_attention_heads",
                            "pooler_num_fc_layers",
                            "pooler_size_per_head",
                            "pooler_type",
                            "prefix",
                            "pretraining_tp",
                            "problem_type",
                            "return_dict",
                            "summary_activation",
                            "summary_first_dropout",
                            "summary_proj_to_labels",
                            "summary_type",
                            "summary_use_proj",
                            "task_specific_params",
                            "torch_dtype",
                            "transformers_version",
                            "unsloth_version",
                            "use_cache"};

// Values that our models have built in.
const std::map<std::string, Names> fixed_values = {
    {"activation_function", {"\"gelu_new\"", "\"gelu_pytorch_tanh\""}},
    {"hidden_act", {"\"silu\"", "\"swish\""}},
    {"layer_norm_epsilon", {"1e-05"}},
    {"scale_attn_weights", {"true"}},
};

bool is_nothing(const JsonValue& value) {
  return value.kind == JsonKind::null ||
         (value.kind == JsonKind::boolean && !value.scalar.get<bool>());
}

bool is_option(const std::string& type, const std::string& key) {
  return std::ranges::any_of(model_registry().find(type).options,
                             [&](const Option& option) { return option.name == key; });
}

class Sorter {
 public:
  Sorter(const JsonValue& config, const std::string& file, std::string type)
      : config_(config), file_(file), type_(std::move(type)) {
    options_.kind = JsonKind::object;
  }

  JsonValue sorted() {
    for (const JsonValue& value : config_.items) sort(value);
    return std::move(options_);
  }

 private:
  void sort(const JsonValue& value) {
    const std::string& key = value.key;
    if (type_ == "bert") return sort_bert(value);
    if (key == "sliding_window" || key == "use_sliding_window") return sort_window();
    if (key == "layer_types") return sort_layer_types(value);
    if (key == "rope_parameters" || key == "rope_scaling") return sort_rope(value);
    if (key == "tie_word_embeddings" && type_ == "gpt2") return require(value, {"true"});
    sort_plain(value);
  }

  void sort_bert(const JsonValue& value) {
    if (const auto option = bert_option_of(value, file_)) return add(*option, option->key);
    sort_plain(value);
  }

  void sort_plain(const JsonValue& value) {
    const std::string& key = value.key;
    if (is_option(type_, key)) return add(value, key);
    if (const auto fixed = fixed_values.find(key); fixed != fixed_values.end())
      return require(value, fixed->second);
    const bool passes = std::ranges::find(passing_keys, key) != passing_keys.end();
    if (!passes && !is_nothing(value)) refuse_key(value);
  }

  void add(const JsonValue& value, const std::string& name) {
    if (value.kind == JsonKind::null) return;  // the model's default
    set(value, name);
  }
  void set(JsonValue value, const std::string& name) {
    std::erase_if(options_.items, [&](const JsonValue& one) { return one.key == name; });
    value.key = name;
    options_.items.push_back(std::move(value));
  }
  void set_integer(const JsonValue& at, const std::string& name, int64_t number) {
    JsonValue value = at;
    value.kind = JsonKind::integer;
    value.scalar = number;
    value.items.clear();
    set(std::move(value), name);
  }

  // Models of qwen have a window only if use_sliding_window says so; mistral always, unless null.
  void sort_window() {
    const JsonValue *window = config_.find("sliding_window"),
                    *use = config_.find("use_sliding_window");
    const bool is_qwen = type_.starts_with("qwen");
    const bool off = (is_qwen && (!use || is_nothing(*use))) || !window || is_nothing(*window);
    const JsonValue& at = window ? *window : *use;
    if (off) return set_integer(at, "sliding_window", 0);
    add(*window, "sliding_window");
  }

  // A list that says for each layer what max_window_layers says for all.
  void sort_layer_types(const JsonValue& list) {
    int64_t full = 0;
    bool windows = false;
    for (const JsonValue& item : list.items) {
      const std::string name = item.kind == JsonKind::string ? item.scalar.get<std::string>() : "";
      if (name == "sliding_attention")
        windows = true;
      else if (name != "full_attention" || windows)
        fail_data(
            "{}: layer_types; got {}, want full_attention for the first layers and "
            "sliding_attention for the others",
            place_of(file_, item), show_value(item));
      full += name == "full_attention";
    }
    if (windows) set_integer(list, "max_window_layers", full);
  }

  void sort_rope(const JsonValue& rope) {
    if (is_nothing(rope)) return;
    if (rope.kind != JsonKind::object)
      fail_data("{}: {}; got {}, want an object", place_of(file_, rope), rope.key,
                show_value(rope));
    for (const JsonValue& value : rope.items) {
      const std::string& key = value.key;
      const std::string name = key == "type" || key == "rope_type" ? "rope_type"
                               : key == "rope_theta"               ? key
                                                                   : "rope_" + key;
      if (key == "partial_rotary_factor")
        require(value, {"1.0", "1"});
      else if (is_option(type_, name))
        add(value, name);
      else if (!is_nothing(value))
        refuse_key(value);
    }
  }

  void require(const JsonValue& value, const Names& legal) const {
    const std::string got = value.to_json().dump();
    if (std::ranges::find(legal, got) == legal.end())
      fail_data("{}: {}; got {}, want {}", place_of(file_, value), value.key, show_value(value),
                legal.front());
  }

  [[noreturn]] void refuse_key(const JsonValue& value) const {
    Names names;
    for (const Option& option : model_registry().find(type_).options) names.push_back(option.name);
    const std::string near = nearest_name(value.key, names);
    fail_data("{}: {} is no option of a {} here{}; got {}, want null or another model_type",
              place_of_key(file_, value), show_text(value.key), type_,
              near.empty() ? "" : " (did you mean " + near + "?)", show_value(value));
  }

  const JsonValue& config_;
  const std::string& file_;
  std::string type_;
  JsonValue options_;
};

std::string type_of(const JsonValue& config, const std::string& file) {
  const JsonValue* type = config.find("model_type");
  if (!type || type->kind != JsonKind::string)
    fail_data("{}: want a model_type; one of {}", file, fmt::join(known_types(), ", "));
  const auto name = type->scalar.get<std::string>();
  if (std::ranges::find(known_types(), name) == known_types().end())
    fail_data("{}: unknown model_type; got {}{}", place_of(file, *type), name,
              legal_names(name, known_types()));
  return name;
}

}  // namespace

HubConfig hub_config(const JsonValue& config, const std::string& file) {
  if (config.kind != JsonKind::object)
    fail_data("{}: got {}, want an object", file, show_value(config));
  const std::string type = type_of(config, file);
  return {type, Sorter(config, file, type).sorted()};
}

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson rope_scaling_of(const RotaryOptions& rotary) {
  if (rotary.scaling == "default") return nullptr;
  OrderedJson scaling = {{"rope_type", rotary.scaling}, {"factor", rotary.factor}};
  const auto add = [&](const char* key, const auto& value) {
    if (value) scaling[key] = *value;
  };
  add("original_max_position_embeddings", rotary.original_positions);
  if (rotary.scaling == "llama3") {
    scaling["low_freq_factor"] = rotary.low_freq_factor;
    scaling["high_freq_factor"] = rotary.high_freq_factor;
  }
  if (rotary.scaling == "yarn") {
    add("attention_factor", rotary.attention_factor);
    add("mscale", rotary.mscale);
    add("mscale_all_dim", rotary.mscale_all_dim);
    scaling["beta_fast"] = rotary.beta_fast;
    scaling["beta_slow"] = rotary.beta_slow;
    scaling["truncate"] = rotary.truncate;
  }
  return scaling;
}

const char* class_of(const std::string& name) {
  if (name == "llama") return "LlamaForCausalLM";
  if (name == "mistral") return "MistralForCausalLM";
  return name == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM";
}

OrderedJson config_of(const models::Decoder& decoder) {
  const models::DecoderOptions& o = decoder.config;
  OrderedJson config = {{"architectures", {class_of(decoder.name)}},
                        {"model_type", decoder.name},
                        {"vocab_size", *o.vocab_size},
                        {"hidden_size", *o.hidden_size},
                        {"intermediate_size", *o.intermediate_size},
                        {"num_hidden_layers", *o.num_hidden_layers},
                        {"num_attention_heads", *o.num_attention_heads},
                        {"num_key_value_heads", *o.num_key_value_heads},
                        {"head_dim", *o.head_dim},
                        {"hidden_act", "silu"},
                        {"max_position_embeddings", *o.max_position_embeddings},
                        {"initializer_range", o.initializer_range},
                        {"rms_norm_eps", o.rms_norm_eps},
                        {"tie_word_embeddings", o.tie_word_embeddings},
                        {"attention_dropout", o.attention_dropout},
                        {"rope_theta", o.rotary.theta},
                        {"rope_scaling", rope_scaling_of(o.rotary)}};
  const bool has_window = *o.sliding_window > 0;
  if (decoder.name != "llama")
    config["sliding_window"] = has_window ? OrderedJson(*o.sliding_window) : OrderedJson(nullptr);
  if (decoder.name.starts_with("qwen")) {
    config["use_sliding_window"] = has_window;
    config["max_window_layers"] = *o.max_window_layers;
  }
  if (decoder.name == "llama") config["mlp_bias"] = o.mlp_bias;
  if (decoder.name == "llama" || decoder.name == "qwen3")
    config["attention_bias"] = *o.attention_bias;
  return config;
}

OrderedJson config_of(const models::Gpt2& gpt2) {
  const models::Gpt2Options& o = gpt2.config;
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"vocab_size", o.vocab_size},
          {"n_positions", o.n_positions},
          {"n_embd", *o.n_embd},
          {"n_layer", *o.n_layer},
          {"n_head", *o.n_head},
          {"embd_pdrop", o.embd_pdrop},
          {"attn_pdrop", o.attn_pdrop},
          {"resid_pdrop", o.resid_pdrop},
          {"layer_norm_epsilon", 1e-5},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", true}};
}

const char* torch_name_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f64: return "float64";
    default: return "float32";
  }
}

}  // namespace

std::string config_json_of(const Model& model) {
  const Module& module = model.module();
  const auto* decoder = dynamic_cast<const models::Decoder*>(&module);
  const auto* gpt2 = dynamic_cast<const models::Gpt2*>(&module);
  const auto* bert = dynamic_cast<const models::Bert*>(&module);
  check(decoder || gpt2 || bert,
        "save_pretrained: no config.json is known for a {}; want one of {}", module.kind(),
        fmt::join(known_types(), ", "));
  OrderedJson config = decoder ? config_of(*decoder) : gpt2 ? config_of(*gpt2) : config_of(*bert);
  config["torch_dtype"] = torch_name_of(model.parameters()[0].tensor.dtype());
  // Labels that a program gave may not be UTF-8; a training must not end unsaved for that.
  return config.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace booster
