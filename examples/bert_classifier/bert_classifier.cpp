// Fine-tunes a folder of Hugging Face's BERT as a classifier of texts.
//   bert_classifier bert-base-uncased reviews.tsv tuned      lines of reviews.tsv: label, tab, text
#include <booster/booster.h>

#include <fmt/core.h>

#include <fstream>
#include <map>

using namespace booster;

int main(int argc, char** argv) {
  report_uncaught_errors();
  check(argc == 4, "bert_classifier: want a folder, a file of labels and texts, and a new folder");
  const World world = launch_from_env();
  const Tokenizer tokenizer = Tokenizer::from_file(argv[1]);

  std::map<std::string, int64_t> known;
  std::vector<std::string> names;
  std::vector<std::vector<int32_t>> texts;
  std::vector<int64_t> labels;
  std::ifstream file(argv[2]);
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    check(tab != line.npos, "{}: want a label, a tab and a text; got {}", argv[2], line);
    const std::string name = line.substr(0, tab);
    if (known.try_emplace(name, known.size()).second) names.push_back(name);
    labels.push_back(known.at(name));
    texts.push_back(tokenizer.encode(line.substr(tab + 1)));
  }

  Model model = from_pretrained(
      argv[1],
      {.options = {{"architecture", "BertForSequenceClassification"}, {"id2label", names}}});
  const TensorDataset data(models::bert_input(texts),
                           from_vector(labels, {static_cast<int64_t>(labels.size())}));
  Booster booster({.plugin = TorchDDPPlugin(), .mixed_precision = "bf16"});
  auto loader = booster.prepare_dataloader(data, {.batch_size = 16, .shuffle = true});
  auto [net, opt, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 5e-5}), CrossEntropyLoss());
  for (int epoch = 0; epoch < 3; ++epoch) {
    double sum = 0;
    for (auto& [input, label] : loader) {
      opt.zero_grad();
      const Tensor loss = loss_fn(net(input), label);
      booster.backward(loss, opt);
      opt.step();
      sum += loss.item();
    }
    if (world.rank == 0)
      fmt::print("epoch {} loss {:.4f}\n", epoch, sum / static_cast<double>(loader.size()));
  }
  save_pretrained(net, argv[3]);
}
