#include "examples/training/agreement.h"

#include "examples/training/stop_signal.h"

namespace example {

using namespace booster;

void on_first_rank(const World& world, const char* what, const std::function<void()>& action) {
  std::optional<Error> failure;
  if (world.rank == 0) try {
      action();
    } catch (const Error& error) {
      failure = error;
    }
  constexpr int64_t none = -1;
  const int64_t mine = failure ? static_cast<int64_t>(failure->kind()) : none;
  const int64_t kind = largest(world, {mine})[0];
  if (kind == none) return;
  // Repeats the message on every rank: the run tool stops the other ranks when one ends, possibly
  // before rank 0 has printed anything.
  const std::string cause = gather_text(failure ? failure->what() : "", world.group())[0];
  if (failure) throw *failure;
  raise(static_cast<ErrorKind>(kind), fmt::format("{}: on rank 0: {}", what, cause));
}

std::string told_by_first_rank(const World& world, const char* what,
                               const std::function<std::string()>& answer) {
  std::string text;
  on_first_rank(world, what, [&] { text = answer(); });
  return gather_text(text, world.group())[0];
}

int64_t agreed_stop_signal(const World& world, const std::optional<OutputFolder>& folder,
                           const std::filesystem::path& output) {
  const bool lost = folder && folder->lost();
  const auto any = largest(world, {lost, stop_signal()});
  if (any[0] != 0)
    fail_run(
        "train.output_dir: {} or its run.lock was removed or replaced during the training; "
        "nothing more was written",
        output.string());
  return any[1];
}

std::vector<int64_t> largest(const World& world, std::vector<int64_t> values) {
  if (world.size > 1) world.group().all_reduce(values, CollectiveOp::max);
  return values;
}

double mean(const World& world, double value) {
  std::vector<double> values = {value};
  if (world.size > 1) world.group().all_reduce(values, CollectiveOp::mean);
  return values[0];
}

}  // namespace example
