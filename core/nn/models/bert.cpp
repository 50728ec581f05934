#include "core/nn/models/bert.h"

#include "core/autograd/layer_split.h"
#include "core/nn/functional.h"
#include "core/nn/key_value_cache.h"
#include "core/tensor/seen_tokens.h"

#include <algorithm>
#include <utility>

namespace booster::models {
namespace {

constexpr const char* architectures[] = {
    "BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification"};

struct NamedActivation {
  const char* name;
  std::optional<GeluForm> form;  // of a gelu, which joins the product before it
  Tensor (*function)(const Tensor& x);
};

Tensor gelu_erf(const Tensor& x) { return gelu(x, GeluForm::erf); }
Tensor gelu_tanh(const Tensor& x) { return gelu(x, GeluForm::tanh); }

// Hugging Face's ACT2FN (transformers/activations.py).
const NamedActivation activations[] = {
    {"gelu", GeluForm::erf, gelu_erf},
    {"gelu_python", GeluForm::erf, gelu_erf},
    {"gelu_new", GeluForm::tanh, gelu_tanh},
    {"gelu_fast", GeluForm::tanh, gelu_tanh},
    {"gelu_pytorch_tanh", GeluForm::tanh, gelu_tanh},
    {"quick_gelu", {}, [](const Tensor& x) { return x * sigmoid(x * 1.702); }},
    {"relu", {}, [](const Tensor& x) { return relu(x); }},
    {"relu2", {}, [](const Tensor& x) { return square(relu(x)); }},
    {"leaky_relu", {}, [](const Tensor& x) { return leaky_relu(x); }},
    {"silu", {}, [](const Tensor& x) { return silu(x); }},
    {"swish", {}, [](const Tensor& x) { return silu(x); }},
    {"mish", {}, [](const Tensor& x) { return x * tanh(softplus(x)); }},
    {"tanh", {}, [](const Tensor& x) { return tanh(x); }},
    {"sigmoid", {}, [](const Tensor& x) { return sigmoid(x); }},
    {"linear", {}, [](const Tensor& x) { return x; }},
};

const NamedActivation& activation_named(const std::string& name) {
  for (const NamedActivation& one : activations)
    if (name == one.name) return one;
  fail("bert: unknown hidden_act; got {}{}", name, legal_names(name, bert_activations()));
}

// hidden_act(dense(x))
Tensor activated(Linear& dense, const Tensor& x, const std::string& hidden_act) {
  const NamedActivation& activation = activation_named(hidden_act);
  if (!activation.form || dense.must_be_called()) return activation.function(dense(x));
  return linear_gelu(x, dense.weight, dense.bias, *activation.form);
}

void check_sizes(const BertOptions& o) {
  for (const auto& [option, value] : {std::pair{"vocab_size", o.vocab_size},
                                      {"hidden_size", o.hidden_size},
                                      {"num_attention_heads", o.num_attention_heads},
                                      {"intermediate_size", o.intermediate_size},
                                      {"max_position_embeddings", o.max_position_embeddings},
                                      {"type_vocab_size", o.type_vocab_size},
                                      {"num_labels", *o.num_labels}})
    check(value > 0, "bert: {}; got {}, want 1 or more", option, value);
  check(o.num_hidden_layers >= 0, "bert: num_hidden_layers; got {}, want 0 or more",
        o.num_hidden_layers);
  check(o.hidden_size % o.num_attention_heads == 0,
        "bert: heads do not divide the features; got {} heads of {}", o.num_attention_heads,
        o.hidden_size);
  check(o.pad_token_id >= -1 && o.pad_token_id < o.vocab_size,
        "bert: pad_token_id; got {}, want a token below {} (vocab_size), or -1 for none",
        o.pad_token_id, o.vocab_size);
  check(!o.mask_padding || o.pad_token_id >= 0,
        "bert: mask_padding wants a pad_token_id; got none");
  check(o.id2label.empty() || static_cast<int64_t>(o.id2label.size()) == *o.num_labels,
        "bert: id2label names {} labels; want {} (num_labels)", o.id2label.size(), *o.num_labels);
}

std::optional<int64_t> padding_of(const BertOptions& options) {
  return options.pad_token_id < 0 ? std::nullopt : std::optional(options.pad_token_id);
}

LayerNormOptions norm_options(const BertOptions& options) {
  return {.eps = options.layer_norm_eps};
}

// Returns one of the planes (n, tokens) of a bert's input.
Tensor plane(const Tensor& x, int64_t i) { return x.ndim() == 2 ? x : select(x, 1, i); }
int64_t planes_of(const Tensor& x) { return x.ndim() == 2 ? 1 : x.size(1); }

void initialize_bert(Module& module, const BertOptions& options) {
  if (auto* table = dynamic_cast<Embedding*>(&module))
    init::normal(table->weight, 0, options.initializer_range);
  if (auto* layer = dynamic_cast<Linear*>(&module)) {
    init::normal(layer->weight, 0, options.initializer_range);
    init::zeros(layer->bias);
  }
}

}  // namespace

BertEmbeddings::BertEmbeddings(const BertOptions& options)
    : Module("BertEmbeddings"),
      word_embeddings(add<Embedding>("word_embeddings", options.vocab_size, options.hidden_size,
                                     padding_of(options))),
      position_embeddings(add<Embedding>("position_embeddings", options.max_position_embeddings,
                                         options.hidden_size)),
      token_type_embeddings(
          add<Embedding>("token_type_embeddings", options.type_vocab_size, options.hidden_size)),
      norm(add<LayerNorm>("LayerNorm", options.hidden_size, norm_options(options))),
      dropout(add<Dropout>("dropout", options.hidden_dropout_prob)) {}

Tensor BertEmbeddings::forward(const Tensor& x) {
  const bool has_planes = x.ndim() == 3 && x.size(1) >= 2 && x.size(1) <= 3;
  check((x.ndim() == 2 || has_planes) && !is_floating(x.dtype()),
        "bert: wrong input; got {} of {}, want whole numbers, token ids (n, tokens) or planes "
        "(n, 2 or 3, tokens): ids, token types, 1 where attention sees a token",
        x.shape(), name_of(x.dtype()));
  const int64_t tokens = x.shape().back(), positions = position_embeddings.weight.size(0);
  check(tokens <= positions,
        "bert: more tokens than positions; got {}, want at most {} (max_position_embeddings)",
        tokens, positions);
  const TensorOptions whole{DType::i64, x.device()};
  const Tensor types = planes_of(x) > 1 ? plane(x, 1) : zeros({1, tokens}, whole);
  const Tensor words = word_embeddings(plane(x, 0)) + token_type_embeddings(types);
  return dropout(norm(words + position_embeddings(arange(tokens, whole))));
}

BertSelfAttention::BertSelfAttention(const BertOptions& options)
    : Module("BertSelfAttention"),
      query(add<Linear>("query", options.hidden_size, options.hidden_size)),
      key(add<Linear>("key", options.hidden_size, options.hidden_size)),
      value(add<Linear>("value", options.hidden_size, options.hidden_size)),
      head_size_(options.hidden_size / options.num_attention_heads),
      dropout_(options.attention_probs_dropout_prob) {}

// The features of q, k and v give the number of heads: a rank may hold only some.
Tensor BertSelfAttention::forward(const Tensor& x) {
  const auto heads_of = [&](const Tensor& projected) {
    return transpose(reshape(projected, {projected.size(0), projected.size(1), -1, head_size_}), 1,
                     2);
  };
  const Tensor q = heads_of(query(x)), k = heads_of(key(x)), v = heads_of(value(x));
  AttentionOptions options = {.dropout = training() ? dropout_ : 0};
  if (const Tensor& seen = seen_tokens(); seen.defined()) {
    check(
        seen.size(1) == k.size(2),
        "bert: padding in ring_attn: attention gets the keys of one rank at a time; want texts of "
        "one length without mask_padding, or sequence_parallelism_mode all_to_all");
    options.mask = reshape(seen, {seen.size(0), 1, 1, seen.size(1)});
  }
  return flatten(transpose(attention(q, k, v, std::move(options)), 1, 2), 2);
}

BertBranchEnd::BertBranchEnd(const BertOptions& options, int64_t in, int64_t head_size)
    : Module("BertBranchEnd"),
      dense(add<Linear>("dense", in, options.hidden_size)),
      norm(add<LayerNorm>("LayerNorm", options.hidden_size, norm_options(options))),
      dropout(add<Dropout>("dropout", options.hidden_dropout_prob)),
      head_size_(head_size) {}

Tensor BertBranchEnd::joined(const Tensor& residual, const Tensor& branch) {
  const Tensor y = (*this)(branch);
  if (norm.must_be_called()) return norm(residual + y);
  return residual_layer_norm(residual, y, norm.normalized_shape, norm.weight, norm.bias, norm.eps)
      .normalized;
}

BertAttention::BertAttention(const BertOptions& options)
    : Module("BertAttention"),
      self(add<BertSelfAttention>("self", options)),
      output(add<BertBranchEnd>("output", options, options.hidden_size,
                                options.hidden_size / options.num_attention_heads)) {}

BertIntermediate::BertIntermediate(const BertOptions& options)
    : Module("BertIntermediate"),
      dense(add<Linear>("dense", options.hidden_size, options.intermediate_size)),
      hidden_act_(options.hidden_act) {}

Tensor BertIntermediate::forward(const Tensor& x) { return activated(dense, x, hidden_act_); }

BertLayer::BertLayer(const BertOptions& options)
    : Module("BertLayer"),
      attention(add<BertAttention>("attention", options)),
      intermediate(add<BertIntermediate>("intermediate", options)),
      output(add<BertBranchEnd>("output", options, options.intermediate_size, 0)) {}

Tensor BertLayer::forward(const Tensor& x) {
  const Tensor y = attention(x);
  return output.joined(y, intermediate(y));
}

BertEncoder::BertEncoder(const BertOptions& options)
    : Module("BertEncoder"), layer(add<Sequential>("layer")) {
  for (int64_t i = 0; i < options.num_hidden_layers; ++i)
    layer.append(Model(std::make_shared<BertLayer>(options)));
}

BertPooler::BertPooler(const BertOptions& options)
    : Module("BertPooler"), dense(add<Linear>("dense", options.hidden_size, options.hidden_size)) {}

BertModel::BertModel(const BertOptions& options)
    : Module("BertModel"),
      embeddings(add<BertEmbeddings>("embeddings", options)),
      encoder(add<BertEncoder>("encoder", options)) {
  if (options.mask_padding) hidden_token_ = options.pad_token_id;
  const bool pools = options.architecture == "BertModel"
                         ? options.add_pooling_layer
                         : options.architecture == "BertForSequenceClassification";
  if (pools) pooler = &add<BertPooler>("pooler", options);
}

Link BertModel::link(int i) const {
  check(i >= 0 && i < link_count(), "bert: link out of range; got {} of {}", i, link_count());
  if (i == 0) return link_of("embeddings", {&embeddings});
  return link_of(fmt::format("encoder.layer.{}", i - 1), {&encoder.layer[i - 1]});
}

Tensor BertModel::seen(const Tensor& x) const {
  if (planes_of(x) == 3) return not_equal(plane(x, 2), 0.0);
  if (!hidden_token_) return {};
  return not_equal(plane(x, 0), static_cast<double>(*hidden_token_));
}

Tensor BertModel::forward_links(const Tensor& x, int first, int last) {
  check(!current_cache(), "bert: an encoder sees whole texts and writes none; want a decoder");
  Tensor y = x, seen_here;
  if (first == 0) {
    y = embeddings(x);
    seen_here = seen(x);
    check(!seen_here.defined() || last == link_count(),
          "bert: padding under a pipeline: later stages get features alone; want texts of one "
          "length without mask_padding, or pp_size 1");
  }
  const SeenTokens scope(seen_here);
  for (int i = std::max(first, 1); i < last; ++i) y = encoder.layer[i - 1](y);
  return y;
}

BertTransform::BertTransform(const BertOptions& options)
    : Module("BertTransform"),
      dense(add<Linear>("dense", options.hidden_size, options.hidden_size)),
      norm(add<LayerNorm>("LayerNorm", options.hidden_size, norm_options(options))),
      hidden_act_(options.hidden_act) {}

Tensor BertTransform::forward(const Tensor& x) { return norm(activated(dense, x, hidden_act_)); }

BertPredictions::BertPredictions(const BertOptions& options, const Embedding& words)
    : Module("BertPredictions"),
      transform(add<BertTransform>("transform", options)),
      bias(add_parameter("bias", zeros({options.vocab_size}))),
      words_(words.weight) {}

// Ranks that share the words compute logits of theirs; the bias is whole on each.
Tensor BertPredictions::forward(const Tensor& features) {
  const LayerSplit* split = layer_split(words_);
  const ElementRange here = split ? split->rows() : ElementRange{0, bias.size(0)};
  return linear(transform(features), words_,
                split ? narrow(bias, 0, here.begin, here.size()) : bias);
}

Bert::Bert(const BertOptions& options)
    : Module("Bert"), bert(add<BertModel>("bert", options)), config(options) {
  if (options.architecture == "BertForMaskedLM")
    cls_ = &add<BertWordHead>("cls", options, bert.embeddings.word_embeddings);
  else if (options.architecture != "BertModel") {
    dropout_ =
        &add<Dropout>("dropout", options.classifier_dropout.value_or(options.hidden_dropout_prob));
    classifier_ = &add<Linear>("classifier", options.hidden_size, *options.num_labels);
  }
  apply([&](Module& module) { initialize_bert(module, options); });
  if (options.pad_token_id >= 0)
    init::zeros(untracked::select(bert.embeddings.word_embeddings.weight, 0, options.pad_token_id));
}

Link Bert::link(int i) const {
  if (!has_head() || i < bert.link_count()) return bert.link(i);
  check(i < link_count(), "bert: link out of range; got {} of {}", i, link_count());
  if (cls_) return link_of("head", {cls_, &bert.embeddings.word_embeddings});
  if (!classifier_) return link_of("head", {bert.pooler});
  return bert.pooler ? link_of("head", {bert.pooler, classifier_}) : link_of("head", {classifier_});
}

Tensor Bert::example_input(int64_t rows) const {
  return zeros({rows, config.max_position_embeddings}, {.dtype = DType::i64});
}

Tensor Bert::forward_links(const Tensor& x, int first, int last) {
  const int inner = bert.link_count();
  const Tensor features = first < inner ? bert.run_links(x, first, std::min(last, inner)) : x;
  return last > inner ? head(features) : features;
}

Tensor Bert::head(const Tensor& features) {
  if (cls_) return (*cls_)(features);
  const Tensor y = bert.pooler ? (*bert.pooler)(features) : features;
  return classifier_ ? (*classifier_)((*dropout_)(y)) : y;
}

std::vector<std::string> bert_architectures() {
  return {std::begin(architectures), std::end(architectures)};
}

std::vector<std::string> bert_activations() {
  std::vector<std::string> names;
  for (const NamedActivation& one : activations) names.emplace_back(one.name);
  return names;
}

BertOptions bert_options(BertOptions options) {
  const auto known = bert_architectures();
  check(std::ranges::find(known, options.architecture) != known.end(),
        "bert: unknown architecture; got {}{}", options.architecture,
        legal_names(options.architecture, known));
  activation_named(options.hidden_act);
  if (!options.num_labels)
    options.num_labels =
        options.id2label.empty() ? 2 : static_cast<int64_t>(options.id2label.size());
  check_sizes(options);
  return options;
}

Model bert(BertOptions options) { return std::make_shared<Bert>(bert_options(std::move(options))); }

}  // namespace booster::models
