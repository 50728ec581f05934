#include "core/nn/models/gpt2.h"

#include "core/nn/documents.h"
#include "core/nn/functional.h"
#include "core/nn/key_value_cache.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace booster::models {
namespace {

constexpr double initial_deviation = 0.02;

void check_sizes(const Gpt2Options& options) {
  const bool positive = options.vocab_size > 0 && options.n_positions > 0 && *options.n_embd > 0 &&
                        *options.n_layer >= 0;
  check(positive,
        "gpt2: sizes must be positive; got vocab_size {}, n_positions {}, n_embd {}, n_layer {}",
        options.vocab_size, options.n_positions, *options.n_embd, *options.n_layer);
  if (options.document_end)
    check(*options.document_end >= 0 && *options.document_end < options.vocab_size,
          "gpt2: document_end is no token; got {}, want 0 to {}", *options.document_end,
          options.vocab_size - 1);
  check(*options.n_head > 0 && *options.n_embd % *options.n_head == 0,
        "gpt2: heads do not divide the features; got {} heads of {}", *options.n_head,
        *options.n_embd);
}

void initialize_gpt2(Module& module) {
  if (auto* table = dynamic_cast<Embedding*>(&module))
    init::normal(table->weight, 0, initial_deviation);
  if (auto* layer = dynamic_cast<Linear*>(&module)) {
    init::normal(layer->weight, 0, initial_deviation);
    init::zeros(layer->bias);
  }
}

}  // namespace

Gpt2Attention::Gpt2Attention(const Gpt2Options& options, int64_t layer)
    : Module("Gpt2Attention"),
      c_attn(add<Linear>("c_attn", *options.n_embd, 3 * *options.n_embd)),
      c_proj(add<Linear>("c_proj", *options.n_embd, *options.n_embd)),
      resid_dropout(add<Dropout>("resid_dropout", options.resid_pdrop)),
      layer_(layer),
      head_size_(*options.n_embd / *options.n_head),
      attn_pdrop_(options.attn_pdrop) {}

Tensor Gpt2Attention::forward(const Tensor& x) {
  // c_attn's output gives the numbers of heads and tokens: a rank may hold only some of them.
  const Tensor packed = c_attn(x);
  const Tensor heads = reshape(packed, {packed.size(0), packed.size(1), 3, -1, head_size_});
  if (KeyValueCache* cache = current_cache()) {
    const auto part = [&](int i) { return transpose(select(heads, 2, i), 1, 2); };
    const Tensor y = cache->attend(layer_, part(0), part(1), part(2), 0);
    return resid_dropout(c_proj(flatten(transpose(y, 1, 2), 2)));
  }
  const double drop = training() ? attn_pdrop_ : 0;
  return resid_dropout(c_proj(attention_packed(
      heads, {.dropout = drop, .causal = true, .documents = current_documents()})));
}

Gpt2Mlp::Gpt2Mlp(const Gpt2Options& options)
    : Module("Gpt2Mlp"),
      c_fc(add<Linear>("c_fc", *options.n_embd, 4 * *options.n_embd)),
      act(add<GELU>("act", GeluForm::tanh)),
      c_proj(add<Linear>("c_proj", 4 * *options.n_embd, *options.n_embd)),
      dropout(add<Dropout>("dropout", options.resid_pdrop)) {}

Tensor Gpt2Mlp::forward(const Tensor& x) {
  const bool watched = c_fc.must_be_called() || act.must_be_called();
  return dropout(c_proj(watched ? act(c_fc(x)) : linear_gelu(x, c_fc.weight, c_fc.bias, act.form)));
}

Gpt2Block::Gpt2Block(const Gpt2Options& options, int64_t layer)
    : Module("Gpt2Block"),
      ln_1(add<LayerNorm>("ln_1", *options.n_embd)),
      attn(add<Gpt2Attention>("attn", options, layer)),
      ln_2(add<LayerNorm>("ln_2", *options.n_embd)),
      mlp(add<Gpt2Mlp>("mlp", options)) {}

ResidualStream Gpt2Block::advance(const ResidualStream& stream) {
  const ResidualNorm first = normalized(ln_1, stream);
  const ResidualNorm second = normalized(ln_2, {first.sum, attn(first.normalized)});
  return {second.sum, mlp(second.normalized)};
}

Gpt2Transformer::Gpt2Transformer(const Gpt2Options& options)
    : Module("Gpt2Transformer"),
      wte(add<Embedding>("wte", options.vocab_size, *options.n_embd)),
      wpe(add<Embedding>("wpe", options.n_positions, *options.n_embd)),
      drop(add<Dropout>("drop", options.embd_pdrop)),
      h(add<Sequential>("h")),
      ln_f(add<LayerNorm>("ln_f", *options.n_embd)),
      document_end_(options.document_end) {
  for (int64_t i = 0; i < *options.n_layer; ++i) {
    auto block = std::make_shared<Gpt2Block>(options, i);
    each_block_.push_back(block.get());
    h.append(Model(std::move(block)));
  }
}

Link Gpt2Transformer::link(int i) const {
  const int count = link_count();
  check(i >= 0 && i < count, "gpt2: link out of range; got {} of {}", i, count);
  if (i == 0) return link_of("embedding", {&wte, &wpe});
  if (i == count - 1) return link_of("ln_f", {&ln_f});
  return link_of(fmt::format("h.{}", i - 1), {each_block_[static_cast<size_t>(i - 1)]});
}

Tensor Gpt2Transformer::embedded(const Tensor& ids) {
  check(ids.ndim() == 2 && !is_floating(ids.dtype()),
        "gpt2: wrong input; got {} of {}, want ids of tokens (n, tokens), whole numbers",
        ids.shape(), name_of(ids.dtype()));
  const KeyValueCache* cache = current_cache();
  const int64_t first = cache ? cache->length() : 0;
  const int64_t end = first + ids.size(1), positions = wpe.weight.size(0);
  const int64_t most = cache ? std::max(end, cache->expected()) : end;
  check(most <= positions,
        "gpt2: more tokens than positions; got {}, want at most {} (n_positions)", most, positions);
  if (cache) return wte(ids) + wpe(cache->positions(ids.size(1), ids.device()));
  const Tensor documents = current_documents();
  const Tensor places = documents.defined() ? wpe(document_positions(documents))
                                            : wpe(arange(end, {DType::i64, ids.device()}));
  return drop(wte(ids) + places);
}

// Keeps the residual stream's parts separate within these links and sums them at the end.
Tensor Gpt2Transformer::forward_links(const Tensor& x, int first, int last) {
  const DocumentScope documents(first == 0 ? x : Tensor(), document_end_);
  ResidualStream stream{first == 0 ? embedded(x) : x, {}};
  const int norm = link_count() - 1;
  for (int i = std::max(first, 1); i < std::min(last, norm); ++i) {
    Gpt2Block& block = *each_block_[static_cast<size_t>(i - 1)];
    stream =
        block.must_be_called() ? ResidualStream{block(stream.sum()), {}} : block.advance(stream);
  }
  return last > norm ? normalized(ln_f, stream).normalized : stream.sum();
}

Gpt2::Gpt2(const Gpt2Options& options)
    : Module("Gpt2"), transformer(add<Gpt2Transformer>("transformer", options)), config(options) {
  apply(initialize_gpt2);
  // Scales down each branch's contribution to the stream by the number of branches.
  const double deviation = initial_deviation / std::sqrt(2 * static_cast<double>(*options.n_layer));
  apply([&](Module& module) {
    if (auto* attention = dynamic_cast<Gpt2Attention*>(&module))
      init::normal(attention->c_proj.weight, 0, deviation);
    if (auto* mlp = dynamic_cast<Gpt2Mlp*>(&module)) init::normal(mlp->c_proj.weight, 0, deviation);
  });
}

Link Gpt2::link(int i) const {
  Link link = transformer.link(i);
  if (i < link_count() - 1) return link;
  link.name = "head";
  link.tensors.push_back(transformer.wte.weight);
  return link;
}

Tensor Gpt2::example_input(int64_t rows) const {
  return zeros({rows, transformer.wpe.weight.size(0)}, {.dtype = DType::i64});
}

Tensor Gpt2::forward_links(const Tensor& x, int first, int last) {
  Tensor y = transformer.run_links(x, first, last);
  if (last < link_count()) return y;
  if (KeyValueCache* cache = current_cache()) y = last_token(y, *cache);
  return training() ? linear_on_use(y, transformer.wte.weight) : linear(y, transformer.wte.weight);
}

namespace {

constexpr std::string_view prefix = "transformer.", blocks = "transformer.h.";

bool is_conv1d(std::string_view name) {
  for (const char* layer : {".c_attn.weight", ".c_fc.weight", ".c_proj.weight"})
    if (name.starts_with(blocks) && name.ends_with(layer)) return true;
  return false;
}

bool is_mask(std::string_view name) {
  return name.starts_with(blocks) &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

std::string own_name(const std::string& stored) {
  if (stored == "lm_head.weight") return "transformer.wte.weight";
  for (const char* part : {"wte.", "wpe.", "h.", "ln_f."})
    if (stored.starts_with(part)) return std::string(prefix) + stored;
  return stored;
}

// A c_proj may be square; the same block's c_attn, (in, 3 in) in files, decides.
bool in_own_form(const std::string& stored, const StoredShapes& all) {
  const size_t number = stored.find("h.") + 2;
  const auto beside = all.find(stored.substr(0, stored.find('.', number)) + ".attn.c_attn.weight");
  return beside != all.end() && beside->second.size() == 2 && beside->second[0] > beside->second[1];
}

NamedTensor to_file(const NamedTensor& own) {
  return is_conv1d(own.name) ? NamedTensor{own.name, untracked::transpose(own.tensor, 0, 1)} : own;
}

NamedTensor from_file(const NamedTensor& stored, const StoredShapes& all) {
  const std::string name = own_name(stored.name);
  if (is_mask(name)) return {name, {}};
  const bool turned =
      is_conv1d(name) && stored.tensor.ndim() == 2 && !in_own_form(stored.name, all);
  return {name, turned ? untracked::transpose(stored.tensor, 0, 1) : stored.tensor};
}

}  // namespace

// A plan of the vocabulary also cuts the logits: they share wte's weight.
ModuleTraits Gpt2::traits() const {
  return {
      .tensor_plan = {{"transformer.wte", {.style = SplitStyle::vocabulary}},
                      {"transformer.h.*.attn.c_attn", {.style = SplitStyle::column, .groups = 3}},
                      {"transformer.h.*.attn.c_proj", {.style = SplitStyle::row}},
                      {"transformer.h.*.mlp.c_fc", {.style = SplitStyle::column}},
                      {"transformer.h.*.mlp.c_proj", {.style = SplitStyle::row}}},
      .blocks = "transformer.h.*",
      .token_dimension = 1,
      .features = *config.n_embd,
      .position_free = true,
      .file_form = {.to_file = to_file, .from_file = from_file}};
}

namespace {

struct Gpt2Preset {
  const char* name;
  int64_t features, layers, heads;
};
constexpr Gpt2Preset gpt2_presets[] = {{"gpt2", 768, 12, 12},
                                       {"gpt2-medium", 1024, 24, 16},
                                       {"gpt2-large", 1280, 36, 20},
                                       {"gpt2-xl", 1600, 48, 25}};

const Gpt2Preset& gpt2_preset(const std::string& name) {
  for (const Gpt2Preset& preset : gpt2_presets)
    if (name == preset.name) return preset;
  fail("gpt2: unknown model; got {}{}", name, legal_names(name, gpt2_names()));
}

}  // namespace

std::vector<std::string> gpt2_names() {
  std::vector<std::string> names;
  for (const Gpt2Preset& preset : gpt2_presets) names.push_back(preset.name);
  return names;
}

Gpt2Options gpt2_options(const std::string& name, Gpt2Options options) {
  const Gpt2Preset& preset = gpt2_preset(name);
  options.n_embd = options.n_embd.value_or(preset.features);
  options.n_layer = options.n_layer.value_or(preset.layers);
  options.n_head = options.n_head.value_or(preset.heads);
  check_sizes(options);
  return options;
}

Model gpt2(const std::string& name, Gpt2Options options) {
  return std::make_shared<Gpt2>(gpt2_options(name, std::move(options)));
}

}  // namespace booster::models
