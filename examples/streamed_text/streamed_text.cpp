// Learns which byte follows another in text that it reads as a stream, line by line.
//   streamed_text run notes.txt book.txt        the same call goes on after a kill
//   zcat corpus.gz | streamed_text run /dev/stdin
#include <booster/booster.h>

#include <fmt/core.h>

#include <algorithm>

using namespace booster;

constexpr int64_t bytes = 256, longest = 128, ignored = -100;

// The bytes of a line, each with the next one as its label.
Sample line_sample(const std::string& line, RandomStream&) {
  const int64_t length = std::clamp<int64_t>(static_cast<int64_t>(line.size()), 1, longest);
  std::vector<int64_t> input(static_cast<size_t>(length)), label(input.size(), ignored);
  for (size_t i = 0; i < line.size() && i < input.size(); ++i) {
    input[i] = static_cast<unsigned char>(line[i]);
    if (i > 0) label[i - 1] = input[i];
  }
  return {from_vector(input, {length}), from_vector(label, {length})};
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  check(argc > 2, "streamed_text: want a folder for checkpoints, and files of text or /dev/stdin");
  const World world = launch_from_env();
  Booster booster({.plugin = world.size > 1 ? "torch_ddp" : "single"});
  const auto lines = text_lines({argv + 2, argv + argc}, line_sample);
  const DataLoader loader = booster.prepare_dataloader(
      lines, {.batch_size = 16,
              .shuffle = true,
              .shuffle_buffer = 1000,
              .collate = pad_to_longest({{"image", 0}, {"label", ignored}})});
  Model model = Sequential{Embedding(bytes, 64), Linear(64, bytes)};
  const Optimizer adam = AdamW(model.parameters(), {.lr = 1e-2});
  auto boosted = booster.boost(model, adam, CrossEntropyLoss(), loader, ConstantLR(adam));
  auto& [net, opt, loss_fn, data, lr] = boosted;

  int64_t step = 0;
  double sum = 0, counted = 0;
  const auto tell = [&](const std::string& text) { fmt::print("{}\n", text); };
  if (const auto resumed = resume_training(argv[1], boosted, tell)) step = resumed->step;
  for (auto& [line, next] : data) {  // one epoch
    const Tensor loss = loss_fn(net(line).reshape({-1, bytes}), next.reshape({-1}));
    booster.backward(loss, opt);
    lr.step(opt.step());
    opt.zero_grad();
    sum += loss.item();
    ++counted;
    if (++step % 100 == 0) save_training(argv[1], boosted, {.step = step});
    if (step % 100 == 0 && world.rank == 0)
      fmt::print("step {} loss {:.3f}\n", step, std::exchange(sum, 0) / std::exchange(counted, 0));
  }
  if (world.rank == 0) fmt::print("{} steps\n", step);
}
