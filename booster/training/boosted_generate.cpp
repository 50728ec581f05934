#include "booster/training/boosted.h"

#include "booster/training/session.h"
#include "core/nn/evaluation.h"
#include "core/nn/generate.h"
#include "core/tensor/tensor.h"

namespace booster {

namespace {

void refuse(const Mesh& mesh, const char* axis, const char* option) {
  check(mesh.size(axis) == 1,
        "generate: ranks along {} cannot generate together; got {} {}, want 1, or weights saved by "
        "save_model and generated from in one process",
        axis, option, mesh.size(axis));
}

}  // namespace

TokenTexts generate(const BoostedModel& model, const TokenTexts& prompts,
                    const GenerateOptions& options) {
  const Mesh mesh = model.session().plugin->mesh();
  refuse(mesh, "pipeline", "pp_size");
  refuse(mesh, "sequence", "sp_size");
  const WholeParameters whole(model);
  const Evaluation evaluation(model.unwrap().module());
  const auto device = model.unwrap().parameters().at(0).tensor.device();
  SharedTokenModel shared{.logits = [&](const Tensor& ids) { return model(ids.to(device)); },
                          .agree = {}};
  if (mesh.size("tensor") > 1) {
    shared.agree = [ranks = mesh.group("tensor")](std::span<int64_t> numbers) {
      ranks.broadcast(Buffer(numbers.data(), static_cast<int64_t>(numbers.size()), DType::i64));
    };
    shared.is_first = mesh.place("tensor") == 0;
  }
  return generate(shared, prompts, options);
}

}  // namespace booster
