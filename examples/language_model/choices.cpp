#include "examples/language_model/evaluation.h"

#include "examples/training/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace language_model {

using namespace booster;

namespace {

struct Question {
  std::vector<std::string> choices;
  size_t answer = 0;
};

// A context with one of its choices.
struct Row {
  std::vector<int32_t> tokens;
  size_t first = 0;  // token of the choice
};

struct Questions {
  std::vector<Question> all;
  std::vector<Row> rows;  // each question's choices, one question after the other
};

class Reader {
 public:
  Reader(const Tokenizer& tokenizer, const std::string& file, int64_t positions)
      : tokenizer_(tokenizer), file_(file), positions_(positions) {}

  Questions read() {
    std::ifstream lines(file_);
    if (!lines) fail_data("inference.choices: cannot read '{}': {}", file_, std::strerror(errno));
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      if (line.find_first_not_of(" \t\r") != std::string::npos) add(line);
    }
    if (questions_.all.empty()) fail_data("inference.choices: {} has no question", file_);
    return std::move(questions_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail_data("{}:{}: {}", file_, line_, problem);
  }

  void add(const std::string& line) {
    const auto json = report::json_of(line);
    const bool fits =
        json.is_object() && json.contains("context") && json["context"].is_string() &&
        json.contains("choices") && json["choices"].is_array() &&
        std::ranges::all_of(json["choices"], [](const auto& one) { return one.is_string(); }) &&
        json.contains("answer") && json["answer"].is_number_unsigned();
    if (!fits) refuse(R"(want {"context": text, "choices": [text, ...], "answer": number})");
    Question question{json["choices"], json["answer"]};
    if (question.answer >= question.choices.size())
      refuse(fmt::format("answer; got {}, want below {}, the number of choices", question.answer,
                         question.choices.size()));
    for (const std::string& choice : question.choices) add_row(json["context"], choice);
    questions_.all.push_back(std::move(question));
  }

  // Where context and choice join, tokens may join too: the choice begins at the first token that
  // the context alone does not have.
  void add_row(const std::string& context, const std::string& choice) {
    const auto alone = tokenizer_.encode(context);
    Row row{tokenizer_.encode(context + choice)};
    const auto [a, b] = std::ranges::mismatch(row.tokens, alone);
    row.first = std::max<size_t>(1, static_cast<size_t>(a - row.tokens.begin()));
    if (row.tokens.size() <= row.first) refuse("a choice without tokens; want some text");
    if (static_cast<int64_t>(row.tokens.size()) > positions_)
      refuse(fmt::format("longer than the model's texts; got {} tokens, want at most {}",
                         row.tokens.size(), positions_));
    questions_.rows.push_back(std::move(row));
  }

  const Tokenizer& tokenizer_;
  const std::string& file_;
  int64_t positions_, line_ = 0;
  Questions questions_;
};

// Returns rows begin ... end - 1 as a batch, padded on the right. Only tokens of choices count.
Batch batch_of_rows(const std::vector<Row>& rows, size_t begin, size_t end) {
  size_t longest = 0;
  for (size_t i = begin; i < end; ++i) longest = std::max(longest, rows[i].tokens.size() - 1);
  std::vector<int64_t> inputs, targets;
  for (size_t i = begin; i < end; ++i) {
    const Row& row = rows[i];
    for (size_t place = 0; place < longest; ++place) {
      const bool inside = place + 1 < row.tokens.size();
      inputs.push_back(inside ? row.tokens[place] : 0);
      targets.push_back(inside && place + 1 >= row.first ? row.tokens[place + 1]
                                                         : CrossEntropyOptions{}.ignore_index);
    }
  }
  const Shape shape = {static_cast<int64_t>(end - begin), static_cast<int64_t>(longest)};
  return {from_vector(inputs, shape), from_vector(targets, shape)};
}

// Returns the negative logarithm of each choice's probability.
std::vector<double> losses_of(const Evaluator& evaluator, const std::vector<Row>& rows) {
  const NoGradGuard no_grad;
  const Mesh mesh = evaluator.booster.plugin().mesh();
  const auto most = static_cast<size_t>(evaluator.batch_size);
  const size_t step = most * static_cast<size_t>(mesh.size("data"));
  std::vector<double> losses(rows.size());
  evaluator.model.eval();
  for (size_t begin = 0; begin < rows.size(); begin += step) {
    size_t mine = begin + most * static_cast<size_t>(mesh.place("data"));
    const bool idle = mine >= rows.size();  // runs a forward pass with the others nevertheless
    if (idle) mine = 0;
    const size_t end = idle ? 1 : std::min(rows.size(), mine + most);
    const Batch batch = batch_of_rows(rows, mine, end);
    const auto each = row_losses(evaluator.model(batch.image.to(evaluator.device)),
                                 batch.label.to(evaluator.device))
                          .to(Device{})
                          .to_vector<double>();
    for (size_t i = mine; i < end && !idle; ++i) losses[i] = each[i - mine];
  }
  if (evaluator.world.size > 1) evaluator.world.group().all_reduce(losses);
  return losses;
}

}  // namespace

ChoicesResult answer_choices(const Evaluator& evaluator, const Tokenizer& tokenizer,
                             const std::string& file, int64_t positions) {
  const Questions questions = Reader(tokenizer, file, positions).read();
  const std::vector<double> losses = losses_of(evaluator, questions.rows);
  double right = 0, right_per_byte = 0;
  size_t row = 0;
  for (const Question& question : questions.all) {
    std::vector<double> own, per_byte;
    for (const std::string& choice : question.choices) {
      own.push_back(losses[row++]);
      per_byte.push_back(own.back() / static_cast<double>(std::max<size_t>(1, choice.size())));
    }
    const auto chosen = [](const std::vector<double>& all) {
      return static_cast<size_t>(std::ranges::min_element(all) - all.begin());
    };
    right += chosen(own) == question.answer ? 1 : 0;
    right_per_byte += chosen(per_byte) == question.answer ? 1 : 0;
  }
  const auto count = static_cast<double>(questions.all.size());
  return {static_cast<int64_t>(questions.all.size()), right / count, right_per_byte / count};
}

}  // namespace language_model
