// BatchRun: runs one batch through this stage's pieces of a model. For one thread.
#pragma once

#include "core/autograd/deferred_gradients.h"
#include "plugins/pipeline/pipeline_stages.h"

#include <map>
#include <utility>
#include <vector>

namespace booster {

class BatchRun {
 public:
  // `begins` is the result of cut_batch().
  BatchRun(PipelineStages& pipeline, const MicroStep& step, const Tensors& input,
           const Tensors& target, std::vector<int64_t> begins);
  // Runs this stage's part of the schedule.
  void run(const PipelineSchedule& schedule);

  // Returns, on the last stage, the mean over the rows.
  const Tensor& loss() const { return loss_; }
  // Returns each microbatch's outputs on the last stage of a pass without gradients.
  const std::vector<Tensors>& outputs() const { return outputs_; }

 private:
  // A microbatch in a piece.
  struct Passage {
    Tensors input, output;  // in the last piece, output is its share of the loss
    DeferredGradients later;
  };
  using Key = std::pair<int, int>;  // microbatch, chunk

  int piece(int chunk) const { return chunk * pipeline_.stages() + pipeline_.stage(); }
  bool is_last(int chunk) const { return piece(chunk) == pipeline_.pieces() - 1; }
  StageMessage message(int microbatch, int from_piece) const;
  Tensors rows(const Tensors& batch, int microbatch) const;
  void forward(const PipelineAction& action);
  Tensor loss_of(const Tensors& output, int microbatch);
  void backward(const PipelineAction& action);
  void send_gradients(const Tensors& input);
  // Request the next tensors, if their form is known.
  void expect_activation();
  void expect_gradients();

  PipelineStages& pipeline_;
  const MicroStep& step_;
  Tensors input_, target_;
  std::vector<int64_t> begins_;
  bool on_tape_;
  std::map<Key, Passage> passages_;
  std::vector<Key> incoming_, returning_;  // in the order of arrival
  size_t next_incoming_ = 0, next_returning_ = 0;
  Tensor loss_;
  std::vector<Tensors> outputs_;
};

}  // namespace booster
