// The modules of models::bert (core/nn/models.h), with the names of Hugging Face's.
//
// A layer normalises after its residual connections: LayerNorm(x + attention(x)), then the same
// with the MLP.
#pragma once

#include "core/nn/models.h"
#include "core/nn/module_traits.h"

#include <optional>
#include <string>

namespace booster::models {

// Planes or ids, as bert() takes them, to features (n, tokens, hidden_size).
class BertEmbeddings : public Module {
 public:
  explicit BertEmbeddings(const BertOptions& options);
  Embedding &word_embeddings, &position_embeddings, &token_type_embeddings;
  LayerNorm& norm;  // "LayerNorm"
  Dropout& dropout;

 private:
  Tensor forward(const Tensor& x) override;
};

class BertSelfAttention : public Module {
 public:
  explicit BertSelfAttention(const BertOptions& options);
  int64_t attention_heads() const override { return query.weight.size(0) / head_size_; }
  Linear &query, &key, &value;

 private:
  Tensor forward(const Tensor& x) override;
  int64_t head_size_;
  double dropout_;
};

// The end of a residual branch: a projection with dropout, and the norm that follows the sum.
class BertBranchEnd : public Module {
 public:
  // `head_size`: of attention, whose heads are the projection's input; 0: of the MLP.
  BertBranchEnd(const BertOptions& options, int64_t in, int64_t head_size);
  int64_t attention_heads() const override {
    return head_size_ > 0 ? dense.weight.size(1) / head_size_ : 0;
  }
  // Returns LayerNorm(residual + dropout(dense(branch))).
  Tensor joined(const Tensor& residual, const Tensor& branch);
  Linear& dense;
  LayerNorm& norm;  // "LayerNorm"
  Dropout& dropout;

 private:
  Tensor forward(const Tensor& x) override { return dropout(dense(x)); }
  int64_t head_size_;
};

class BertAttention : public Module {
 public:
  explicit BertAttention(const BertOptions& options);
  BertSelfAttention& self;
  BertBranchEnd& output;

 private:
  Tensor forward(const Tensor& x) override { return output.joined(x, self(x)); }
};

// hidden_act(dense(x)), the MLP's first layer.
class BertIntermediate : public Module {
 public:
  explicit BertIntermediate(const BertOptions& options);
  Linear& dense;

 private:
  Tensor forward(const Tensor& x) override;
  std::string hidden_act_;
};

class BertLayer : public Module {
 public:
  explicit BertLayer(const BertOptions& options);
  BertAttention& attention;
  BertIntermediate& intermediate;
  BertBranchEnd& output;

 private:
  Tensor forward(const Tensor& x) override;
};

class BertEncoder : public Module {
 public:
  explicit BertEncoder(const BertOptions& options);
  Sequential& layer;

 private:
  Tensor forward(const Tensor& x) override { return layer(x); }
};

// tanh(dense(first token))
class BertPooler : public Module {
 public:
  explicit BertPooler(const BertOptions& options);
  Linear& dense;

 private:
  Tensor forward(const Tensor& features) override { return tanh(dense(select(features, 1, 0))); }
};

// Planes or ids to features (n, tokens, hidden_size), Hugging Face's last_hidden_state. The pooler
// is a part of it in files, and run by the model's head.
class BertModel : public Module {
 public:
  explicit BertModel(const BertOptions& options);
  BertEmbeddings& embeddings;
  BertEncoder& encoder;
  BertPooler* pooler = nullptr;  // BertModel with a pooling layer, BertForSequenceClassification
  // "embeddings" and each layer ("encoder.layer.0", ...).
  int link_count() const override { return static_cast<int>(encoder.layer.size()) + 1; }
  Link link(int i) const override;

 private:
  Tensor forward(const Tensor& x) override { return forward_links(x, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  // Returns which tokens attention sees (n, tokens); undefined: all.
  Tensor seen(const Tensor& x) const;
  std::optional<int64_t> hidden_token_;
};

// LayerNorm(hidden_act(dense(x)))
class BertTransform : public Module {
 public:
  explicit BertTransform(const BertOptions& options);
  Linear& dense;
  LayerNorm& norm;  // "LayerNorm"

 private:
  Tensor forward(const Tensor& x) override;
  std::string hidden_act_;
};

// Features to the logits of words. The last layer has the weight of their embedding.
class BertPredictions : public Module {
 public:
  BertPredictions(const BertOptions& options, const Embedding& words);
  BertTransform& transform;
  const Tensor bias;

 private:
  Tensor forward(const Tensor& features) override;
  Tensor words_;
};

// The masked language model's head.
class BertWordHead : public Module {
 public:
  BertWordHead(const BertOptions& options, const Embedding& words)
      : Module("BertWordHead"), predictions(add<BertPredictions>("predictions", options, words)) {}
  BertPredictions& predictions;

 private:
  Tensor forward(const Tensor& features) override { return predictions(features); }
};

class Bert : public Module {
 public:
  explicit Bert(const BertOptions& options);
  BertModel& bert;
  const BertOptions config;
  // The encoder's links and "head", unless the model returns features.
  int link_count() const override { return bert.link_count() + (has_head() ? 1 : 0); }
  Link link(int i) const override;
  // As many tokens as there are positions.
  Tensor example_input(int64_t rows) const override;
  // BertModel's files have no "bert." before names. Older files call a norm's parameters gamma and
  // beta. Files for another head hold tensors for which this model has no use.
  ModuleTraits traits() const override;

 private:
  Tensor forward(const Tensor& x) override { return forward_links(x, 0, link_count()); }
  Tensor forward_links(const Tensor& x, int first, int last) override;
  bool has_head() const { return cls_ || classifier_ || bert.pooler; }
  Tensor head(const Tensor& features);

  BertWordHead* cls_ = nullptr;
  Dropout* dropout_ = nullptr;
  Linear* classifier_ = nullptr;
};

}  // namespace booster::models
