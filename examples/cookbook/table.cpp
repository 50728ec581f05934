// A table: classifies the rows of a CSV file, "x0,x1,...,label", with a loss of its own. Training
// ends once the area under the validation's ROC curve has not risen for some epochs.
//   build/examples/table [PRECISION [LAYOUT [FILE.csv]]]
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <charconv>
#include <fstream>
#include <sstream>

using namespace booster;

struct Table {
  std::vector<std::vector<float>> rows;
  std::vector<float> labels;
};

Table read_csv(std::istream& file, const std::string& name) {
  Table table;
  std::string line;
  std::getline(file, line);  // names of columns
  const auto columns = static_cast<size_t>(std::ranges::count(line, ',')) + 1;
  for (int number = 2; std::getline(file, line); ++number) {
    std::vector<float> row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      float value = 0;
      const char* last = cell.data() + cell.size();
      const auto [end, error] = std::from_chars(cell.data(), last, value);
      check(error == std::errc() && end == last, "{}, line {}: want a number; got \"{}\"", name,
            number, cell);
      row.push_back(value);
    }
    check(row.size() == columns, "{}, line {}: got {} cells, want {}", name, number, row.size(),
          columns);
    table.labels.push_back(row.back());
    row.pop_back();
    table.rows.push_back(row);
  }
  check(!table.rows.empty(), "{}: no rows", name);
  return table;
}

// A label is 1 inside of a ring around the origin, for three rows of ten.
std::string made_csv() {
  std::string text = "x0,x1,x2,x3,label\n";
  RandomStream random(5, 0, 0);
  for (int i = 0; i < 1500; ++i) {
    double x[4], squares = 0;
    for (double& one : x) {
      one = random.normal();
      squares += one * one;
    }
    text += fmt::format("{:.4f},{:.4f},{:.4f},{:.4f},{}\n", x[0], x[1], x[2], x[3],
                        squares < 2.2 ? 1 : 0);
  }
  return text;
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  std::istringstream made(made_csv());
  std::ifstream given(argc > 3 ? argv[3] : "");
  check(argc <= 3 || given.good(), "table: cannot read the file; got {}", argv[3]);
  const Table table = argc > 3 ? read_csv(given, argv[3]) : read_csv(made, "made");

  const auto n = static_cast<int64_t>(table.rows.size());
  const auto width = static_cast<int64_t>(table.rows[0].size());
  std::vector<float> flat;
  for (const auto& row : table.rows) flat.insert(flat.end(), row.begin(), row.end());
  Tensor x = from_vector(flat, {n, width});
  x = (x - x.mean(0)) / x.stddev(0).clamp(1e-6);
  const auto parts = random_split(TensorDataset(x, from_vector(table.labels, {n})), {0.8, 0.2});
  const int64_t batch = 32 / booster.plugin().layout().data;
  DataLoader train = booster.prepare_dataloader(parts[0], {.batch_size = batch, .shuffle = true});
  DataLoader valid = booster.prepare_dataloader(parts[1], {.batch_size = batch});

  Model model = Sequential({Linear(width, 32), ReLU(), Dropout(0.1), Linear(32, 1), Flatten(0)});
  // Focal loss (Lin et al., 2017): rows that are right already count less.
  const Criterion focal = [](const Tensor& logits, const Tensor& label) {
    const Tensor loss =
        binary_cross_entropy_with_logits(logits, label, {.reduction = Reduction::none});
    return mean(square(1 - exp(-loss)) * loss);
  };
  AdamW optimizer(model.parameters(), {.lr = 1e-2});
  ReduceLROnPlateau schedule(optimizer, {.mode = "max", .factor = 0.3, .patience = 1});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, focal);

  double best = 0;
  int64_t epoch = 0;
  for (int worse = 0; worse < 4 && epoch < 40; ++epoch) {
    net.train();
    for (auto& [row, label] : train) {
      booster.backward(loss_fn(net(row), label), opt);
      opt.step();
      opt.zero_grad();
    }
    net.eval();
    const NoGradGuard no_grad;
    Predictions scores(valid), labels(valid);
    for (auto& [row, label] : valid) {
      scores.add(net(row));
      labels.add(label);
    }
    const Group& all = booster.plugin().group();
    const Tensor score = scores.all(all), label = labels.all(all);
    const double area = roc_auc(score, label);
    schedule.step(area);
    worse = area > best + 1e-3 ? 0 : worse + 1;
    best = std::max(best, area);
    if (world.rank > 0) continue;
    const Tensor counts = confusion_matrix((score > 0).to(DType::i64), label.to(DType::i64), 2);
    fmt::print("epoch {} auc {:.4f} f1 {:.4f} confusion {}\n", epoch, area,
               f1_scores(counts)[1].item(), counts.to_string());
  }
  if (world.rank == 0) fmt::print("rows {} best auc {:.4f}\n", parts[1].size(), best);
}
