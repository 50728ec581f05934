#include "plugins/sequence/sequence_parallel.h"

#include "core/nn/joined_traits.h"
#include "core/tensor/random/random.h"
#include "core/tensor/token_layout.h"
#include "platform/error.h"
#include "platform/name_pattern.h"
#include "plugins/sequence/divisors.h"
#include "plugins/sequence/ring_attention.h"
#include "plugins/sequence/token_exchange.h"
#include "plugins/tensor/planned_layers.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

namespace booster {

namespace {

using Result = LayerSplit::Result;

constexpr std::array<const char*, 4> mode_names = {"none", "split_gather", "all_to_all",
                                                   "ring_attn"};

// A layer whose input is some tokens with all features on each rank. So is its output, unless it
// leaves the features as parts, which cover all tokens.
class TokenSplit : public RankSplit {
 public:
  using RankSplit::RankSplit;
  Tensor sum_of_rows(const Tensor&) const override {
    fail(
        "hybrid_parallel: split_gather: an embedding within sequence_blocks looks up this rank's "
        "tokens; got style vocabulary for it, want a tensor_plan without it");
  }

 private:
  Tensor for_parts(const Tensor& x) const override { return tokens_for_parts(x, group()); }
  Tensor sum_of_parts(const Tensor& y) const override { return own_tokens_of_sum(y, group()); }
  Tensor left_whole(const Tensor& y) const override { return own_tokens(y, group(), 1); }
};

// The layer before or after attention, which may also be cut.
class HeadExchange : public LayerSplit {
 public:
  HeadExchange(std::shared_ptr<const LayerSplit> cut, const Group& group, SplitStreams streams)
      : cut_(std::move(cut)), group_(group), streams_(streams) {}
  Result result() const override { return cut_ ? cut_->result() : Result::part; }
  ElementRange rows() const override { return {}; }
  int64_t all_rows() const override { return 0; }
  Tensor sum_of_rows(const Tensor& y) const override { return y; }

 protected:
  Tensor cut_input(const Tensor& x) const { return cut_ ? cut_->to_part(x) : x; }
  Tensor cut_result(const Tensor& y) const { return cut_ ? cut_->from_part(y) : y; }

  std::shared_ptr<const LayerSplit> cut_;
  Group group_;
  SplitStreams streams_;
};

class BeforeAttention : public HeadExchange {
 public:
  BeforeAttention(std::shared_ptr<const LayerSplit> cut, const Group& group, SplitStreams streams,
                  int64_t matrices)
      : HeadExchange(std::move(cut), group, streams), matrices_(matrices) {}
  Tensor to_part(const Tensor& x) const override { return cut_input(x); }
  Tensor from_part(const Tensor& y) const override {
    const Tensor part = cut_result(y);
    set_random_stream(streams_.part);
    return tokens_to_heads(part, matrices_, group_);
  }

 private:
  int64_t matrices_;
};

class BehindAttention : public HeadExchange {
 public:
  using HeadExchange::HeadExchange;
  Tensor to_part(const Tensor& x) const override {
    return cut_input(heads_to_tokens(x, 1, group_));
  }
  Tensor from_part(const Tensor& y) const override {
    const Tensor whole = cut_result(y);
    set_random_stream(streams_.whole);
    return whole;
  }
};

[[noreturn]] void refuse_both_sides(const std::string& name) {
  fail(
      "hybrid_parallel: split_gather: {} is used inside sequence_blocks, on this rank's tokens, "
      "and outside, on all tokens; want sequence_parallelism_mode none, all_to_all or ring_attn "
      "for this model",
      name);
}

// Lets modules query which tokens of a sequence this rank has. Where documents begin stays known:
// attention has all tokens of its heads, except in a ring.
void lay_out(int64_t all, const Group& ranks, SequenceMode mode) {
  const Tensor documents = token_layout().documents;
  check(mode != SequenceMode::ring_attn || !documents.defined(),
        "hybrid_parallel: ring_attn: no rank has all keys of a document (document_end); want "
        "sequence_parallelism_mode all_to_all or split_gather");
  const int64_t here = all / ranks.size();
  set_token_layout(
      {.all = all, .first = here * ranks.rank(), .here = here, .documents = documents});
}

// Blocks compute on the first of their tensors, (batch, tokens, features), of which each rank has
// some tokens. Their others, such as masks, stay whole.
Tensor first_of(const Tensors& x) {
  check(!x.empty(), "hybrid_parallel: a module within sequence_blocks got or gave no tensor");
  return x.begin()->tensor;
}

Tensors with_first(const Tensors& x, const Tensor& first) {
  size_t i = 0;
  return x.map([&](const Tensor& one) { return i++ == 0 ? first : one; });
}

// Ranks see different tokens, so each would have only a part of another tensor's gradient.
void check_others_whole(const Tensors& x, SequenceMode mode, const std::string& block,
                        const char* does) {
  for (const auto& [name, tensor] : x)
    check(!tensor.requires_grad() || tensor.same_body(first_of(x)),
          "hybrid_parallel: {}: {} {} {}, which needs a gradient, besides its tokens; want "
          "sequence_parallelism_mode none for this model",
          mode_names[static_cast<size_t>(mode)], block.empty() ? "the model" : block, does, name);
}

// What a block computes besides its tokens may be of this rank's tokens alone.
void check_others_handed_on(const Tensors& x, const Tensors& y, SequenceMode mode,
                            const std::string& block) {
  for (const auto& [name, tensor] : y) {
    const auto is_it = [&](const auto& given) { return given.tensor.same_body(tensor); };
    check(tensor.same_body(first_of(y)) || std::ranges::any_of(x, is_it),
          "hybrid_parallel: {}: {} computes {} besides its tokens, from some of them; want "
          "sequence_parallelism_mode none for this model",
          mode_names[static_cast<size_t>(mode)], block.empty() ? "the model" : block, name);
  }
}

// Returns true for batch statistics, which are not position tables.
bool has_role(const Module& module, const Tensor& buffer) {
  return std::ranges::any_of(module.own(Role::batch_norm),
                             [&](const NamedTensor& one) { return one.tensor.same_body(buffer); });
}

int64_t dots(const std::string& name) { return std::ranges::count(name, '.'); }

}  // namespace

SequenceMode sequence_mode_named(const std::string& name) {
  for (size_t i = 0; i < mode_names.size(); ++i)
    if (name == mode_names[i]) return static_cast<SequenceMode>(i);
  fail("hybrid_parallel: unknown sequence_parallelism_mode; got {}{}", name,
       legal_names(name, {mode_names.begin(), mode_names.end()}));
}

// Assigns random streams. Stream 0 is for work that all ranks of a model's copy repeat. Then come
// one per rank with a part of the features, and one per rank with some tokens.
SequenceParallel::SequenceParallel(SequenceMode mode, const Mesh& mesh)
    : mode_(mode),
      tensor_(mesh.group("tensor")),
      ranks_(mode == SequenceMode::split_gather ? tensor_ : mesh.group("sequence")) {
  const auto tensor = static_cast<uint64_t>(tensor_.rank());
  const auto tensors = static_cast<uint64_t>(tensor_.size());
  const auto sequence = static_cast<uint64_t>(mesh.place("sequence"));
  const auto sequences = static_cast<uint64_t>(mesh.size("sequence"));
  outside_ = {.whole = 0, .part = 1 + tensor};
  inside_ = {.whole = 1 + tensors * sequences + static_cast<uint64_t>(ranks_.rank()),
             .part = 1 + tensor + tensors * sequence};
}

void SequenceParallel::choose(const Model& model, const std::string& given) {
  if (mode_ == SequenceMode::none) return;
  const ModuleTraits traits = joined_traits(model.module());
  const std::string pattern = given.empty() ? traits.blocks : given;
  check(!pattern.empty(),
        "hybrid_parallel: a {} has no known blocks; want sequence_blocks, the names of modules "
        "that run in sequence on (batch, tokens, features), or blocks in the model's traits()",
        model->kind());
  std::vector<std::string> names;
  for (const auto& [name, module] : model->named_modules()) {
    if (!name.empty()) names.push_back(name);
    if (matches_name(pattern, name) && dots(name) == dots(pattern)) blocks_.push_back(name);
  }
  check(!blocks_.empty(), "sequence_blocks: matches no module; got {}{}", pattern,
        legal_names(pattern, names));
  check_tokens_divide(traits.tokens, ranks_.size());
  position_free_ = traits.position_free;
  find_links_inside(model.module());
}

// Finds links by their names, or by their parameters for links with names of their own. Leaves out
// the first link: the region may begin in its middle, and then sets the stream itself.
void SequenceParallel::find_links_inside(Module& model) {
  std::vector<Tensor> of_blocks;
  for (const auto& [name, parameter] : model.parameters())
    if (is_inside(name)) of_blocks.push_back(parameter);
  const auto is_of_block = [&](const Tensor& tensor) {
    return std::ranges::any_of(of_blocks, [&](const Tensor& x) { return x.same_body(tensor); });
  };
  bool has_begun = false;
  for (int i = 0; i < model.link_count(); ++i) {
    const Link link = model.link(i);
    const bool is_of_blocks =
        is_inside(link.name) || std::ranges::any_of(link.tensors, is_of_block);
    links_inside_.push_back(has_begun && is_of_blocks);
    has_begun |= is_of_blocks;
  }
}

uint64_t SequenceParallel::begin(Pass pass, int link) {
  set_token_layout({});
  take_token_uses();
  const auto i = static_cast<size_t>(link);
  const bool starts_inside = i < links_inside_.size() && links_inside_[i];
  const Phase phase = starts_inside ? Phase::inside : Phase::outside;
  *phase_ = pass == Pass::forward ? phase : Phase::unknown;
  return starts_inside ? inside_.whole : 0;
}

void SequenceParallel::end(Pass pass) {
  *phase_ = Phase::unknown;
  set_token_layout({});
  const TokenUses uses = take_token_uses();
  if (pass == Pass::backward || uses.asked || !uses.was_set) return;
  check(!uses.counted,
        "hybrid_parallel: {}: a module within sequence_blocks called arange with this rank's "
        "number of tokens, but not first_token(); want positions that start at first_token(tokens) "
        "(core/tensor/tensor.h)",
        mode_names[static_cast<size_t>(mode_)]);
  check(table_.empty() || mode_ != SequenceMode::ring_attn,
        "hybrid_parallel: ring_attn: {}, a buffer of a module within sequence_blocks, may be a "
        "table of positions, but no module called first_token(); want positions that start at "
        "first_token(tokens) (core/tensor/tensor.h), or a call of it if none are needed",
        table_);
}

// Watches the blocks by hooks. The first block gets all tokens, and the others get this rank's. A
// pipeline stage may begin with any block. Hooks turn fused functions off, so blocks that need no
// positions get no hooks.
void SequenceParallel::watch_positions(Module& model) {
  if (ranks_.size() == 1 || position_free_) return;
  for (const auto& [name, module] : model.named_modules()) {
    const bool is_block = std::ranges::find(blocks_, name) != blocks_.end();
    if (is_block && name != blocks_.front())
      module->register_forward_pre_hook([ranks = ranks_, mode = mode_](Module&, const Tensors& x) {
        lay_out(first_of(x).size(1) * ranks.size(), ranks, mode);
        return Tensors();
      });
    if (!is_inside(name)) continue;
    for (const auto& [own_name, buffer] : module->buffers())
      if (table_.empty() && own_name.find('.') == own_name.npos && !has_role(*module, buffer))
        table_ = name + "." + own_name;
  }
}

bool SequenceParallel::is_inside(const std::string& name) const {
  return std::ranges::any_of(blocks_, [&](const auto& block) { return lies_in(name, block); });
}

std::shared_ptr<const LayerSplit> SequenceParallel::split_of(const std::string& layer,
                                                             Result result, int64_t cut) const {
  if (!is_inside(layer)) return std::make_shared<RankSplit>(tensor_, result, cut, outside_);
  if (mode_ == SequenceMode::split_gather)
    return std::make_shared<TokenSplit>(tensor_, result, cut, inside_);
  return std::make_shared<RankSplit>(tensor_, result, cut, inside_);
}

void SequenceParallel::connect(const Model& model, const TensorPlan& plan,
                               const std::function<bool(const Tensor&)>& is_cut) {
  if (mode_ == SequenceMode::none) return;
  const bool is_like_data = mode_ != SequenceMode::split_gather;
  const double factor = is_like_data ? ranks_.size() : 1;
  for (const auto& [name, module] : model->named_modules()) {
    if (name == blocks_.front())
      module->register_forward_pre_hook(
          [factor, ranks = ranks_, stream = inside_.whole, at = phase_, mode = mode_, name](
              Module&, const Tensors& x) {
            if (*at == Phase::outside) *at = Phase::inside;
            set_random_stream(stream);
            if (ranks.size() > 1) check_others_whole(x, mode, name, "takes");
            const Tensors here = with_first(x, own_tokens(first_of(x), ranks, factor));
            if (ranks.size() > 1) lay_out(first_of(x).size(1), ranks, mode);
            return here;
          });
    if (name == blocks_.back())
      module->register_forward_hook(
          [factor, ranks = ranks_, at = phase_, mode = mode_, name](Module&, const Tensors& x,
                                                                    const Tensors& y) {
            if (*at == Phase::inside) *at = Phase::outside;
            set_random_stream(0);
            set_token_layout({.documents = token_layout().documents});
            if (ranks.size() > 1) {
              check_others_handed_on(x, y, mode, name);
              check_others_whole(y, mode, name, "gives");
            }
            return with_first(y, all_tokens(first_of(y), ranks, factor));
          });
  }
  watch_positions(model.module());
  if (mode_ == SequenceMode::all_to_all)
    exchange_heads(model.module(), plan);
  else if (mode_ == SequenceMode::ring_attn)
    pass_keys_round(model.module());
  else {
    refuse_uses_outside(model.module());
    sum_gradients(model.module(), is_cut);
  }
}

void SequenceParallel::exchange_heads(Module& model, const TensorPlan& plan) const {
  for (const PlannedLayer& layer : planned_layers(plan, model)) {
    const int64_t heads = layer.parent->attention_heads();
    if (heads == 0 || !is_inside(layer.name)) continue;
    check(heads % ranks_.size() == 0,
          "hybrid_parallel: sp_size {} does not divide the heads of {}; got {} heads{}, want "
          "sp_size {}, or "
          "sequence_parallelism_mode ring_attn",
          ranks_.size(), layer.name, heads, tensor_.size() > 1 ? " on each tensor rank" : "",
          divisors_of(heads));
    const Tensor weight = layer.weight();
    auto cut = shared_layer_split(weight);
    if (layer.plan.style == SplitStyle::column)
      set_layer_split(weight, std::make_shared<BeforeAttention>(std::move(cut), ranks_, inside_,
                                                                layer.plan.groups));
    else
      set_layer_split(weight, std::make_shared<BehindAttention>(std::move(cut), ranks_, inside_));
  }
}

void SequenceParallel::pass_keys_round(Module& model) const {
  if (ranks_.size() == 1) return;
  const auto ring = std::make_shared<RingAttention>(ranks_);
  for (const auto& [name, module] : model.named_modules()) {
    if (module->attention_heads() == 0 || !is_inside(name)) continue;
    module->register_forward_pre_hook([ring](Module&, const Tensors&) {
      set_attention_method(ring);
      return Tensors();
    });
    module->register_forward_hook([](Module&, const Tensors&, const Tensors&) {
      set_attention_method(nullptr);
      return Tensors();
    });
  }
}

void SequenceParallel::sum_gradients(Module& model,
                                     const std::function<bool(const Tensor&)>& is_cut) const {
  for (const auto& [name, parameter] : model.parameters()) {
    if (is_inside(name) && !is_cut(parameter)) sum_gradient_over(ranks_, parameter);
  }
}

// Adds hooks, which detect calls of modules but not direct uses of their parameters. Hooks turn
// fused functions off, so models whose traits exclude such uses get none.
void SequenceParallel::refuse_uses_outside(Module& model) const {
  std::unordered_map<const TensorBody*, std::string> inside;
  for (const auto& [name, tensor] : model.state_dict())
    if (is_inside(name)) inside.emplace(tensor.body(), name);
  for (const auto& [name, tensor] : model.state_dict())
    if (!is_inside(name) && inside.contains(tensor.body()))
      refuse_both_sides(inside.at(tensor.body()));
  if (position_free_) return;
  for (const auto& [name, module] : model.named_modules())
    if (is_inside(name) && !module->parameters().empty())
      module->register_forward_pre_hook([at = phase_, name](Module&, const Tensors&) {
        if (*at == Phase::outside) refuse_both_sides(name);
        return Tensors();
      });
}

}  // namespace booster
