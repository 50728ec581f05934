#include "tools/doctor/dump_compare.h"

#include "core/tensor/checks/statistics.h"
#include "platform/decimal.h"
#include "platform/error.h"
#include "platform/files/read_line.h"
#include "platform/warn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <regex>
#include <tuple>

namespace booster::numerics {

namespace fs = std::filesystem;

namespace {

constexpr double tolerance = 1e-2;  // of a gradient's extremes, relative and absolute
constexpr double low_ratio = 0.95, high_ratio = 1.05;
constexpr size_t longest_line = 4096;

bool is_gradient(const DumpLine& line) { return line.tensor.find("GRAD") != std::string::npos; }

const std::regex& line_form() {
  static const std::regex form(
      R"(\[PRECISION\] (?:\[ERROR\] )?in \[device=[^,]*, op=([^,]*), tensor=([^,]*), )"
      R"(dtype=(\w+)\], )"
      R"(numel=(\d{1,18})(?:, num_nan=(\d{1,18}), num_inf=(\d{1,18}))?, num_zero=(\d{1,18}), )"
      R"(max=([-+.\w]+), min=([-+.\w]+), mean=([-+.\w]+)\s*)");
  return form;
}

// Reads "1.000000e+00", "-inf" or "nan"; returns false if it is not a number.
bool read_number(const std::string& text, double& value) {
  const std::optional<double> number = decimal_number(text);
  value = number.value_or(0);
  return number.has_value();
}

int64_t whole(const std::string& text) { return text.empty() ? 0 : std::stoll(text); }

DumpLine parsed(const std::string& text, const std::string& where) {
  std::smatch part;
  DumpLine line;
  const bool fits = std::regex_match(text, part, line_form()) && read_number(part[8], line.max) &&
                    read_number(part[9], line.min) && read_number(part[10], line.mean);
  if (!fits)
    fail_data(
        "numerics dump: {}: not a line of the tensor checker; want [PRECISION] in "
        "[device=..., op=..., tensor=..., dtype=...], numel=...",
        where);
  line.op = part[1];
  line.tensor = part[2];
  line.dtype = part[3];
  line.numel = whole(part[4]);
  line.nans = whole(part[5]);
  line.infs = whole(part[6]);
  line.zeros = whole(part[7]);
  return line;
}

void read_file(const fs::path& path, std::vector<DumpLine>& lines) {
  const std::string name = terminal_text(path.string());
  std::ifstream file = open_regular(path);
  if (!file.is_open())
    fail_data("numerics dump: cannot read {}; want a file of the tensor checker, or a folder",
              name);
  int64_t step = 0, number = 0;
  bool is_dump = false;
  for (std::string text; read_line(file, text, longest_line);) {
    ++number;
    if (text.starts_with("[STEP] ")) step = std::strtoll(text.c_str() + 7, nullptr, 10);
    is_dump = is_dump || text.starts_with("[STEP] ") || text.starts_with("[PRECISION] ");
    const bool too_long = text.size() > longest_line;
    if (!text.starts_with("[PRECISION] ")) {
      if (too_long) skip_line(file);
      continue;
    }
    const std::string where = fmt::format("{}:{}", name, number);
    if (too_long)
      fail_data("numerics dump: {}: line too long; want at most {} letters", where, longest_line);
    lines.push_back(parsed(text, where));
    lines.back().step = step;
  }
  if (number > 0 && !is_dump)
    fail_data("numerics dump: {}: no line of the tensor checker; want [STEP] N and [PRECISION] ...",
              name);
}

double ratio(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)) ? 1 : b / a; }

bool is_close(double got, double wanted) {
  return std::fabs(got - wanted) <= tolerance + tolerance * std::fabs(wanted);
}

std::string abnormal(const DumpLine& a, const DumpLine& b, double scale) {
  if (a.numel > std::numeric_limits<int32_t>::max()) return "more than 2^31 - 1 numbers";
  for (const double extreme : {a.max, a.min})
    if (!(std::fabs(extreme * scale) < f16_overflows_from)) return "a is beyond f16";
  if (b.nans + b.infs > 0) return "b has inf or nan";
  if (is_gradient(a) && !(is_close(b.max, a.max * scale) && is_close(b.min, a.min * scale)))
    return "gradients differ by more than 1 %";
  return "";
}

ComparedRow compared(const DumpLine& a, const DumpLine& b, double loss_scale) {
  const double scale = is_gradient(a) ? loss_scale : 1;
  ComparedRow row{.a = a, .b = b};
  row.ratio = {ratio(a.max, b.max), ratio(a.min, b.min), ratio(a.mean, b.mean)};
  const std::array<std::pair<double, double>, 3> pairs = {
      {{a.max, b.max}, {a.min, b.min}, {a.mean, b.mean}}};
  for (size_t i = 0; i < 3; ++i) {
    const auto [x, y] = pairs[i];
    const double of_wanted = ratio(x * scale, y);
    row.off[i] = !(of_wanted >= low_ratio && of_wanted <= high_ratio);
  }
  row.abnormal = abnormal(a, b, scale);
  return row;
}

std::string cells(const DumpLine& line) {
  return fmt::format("{},{:.6e},{:.6e},{:.6e},{}", line.dtype, line.max, line.min, line.mean,
                     line.zeros);
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value)
                              : nlohmann::ordered_json(fmt::format("{}", value));
}

nlohmann::ordered_json json_of(const DumpLine& line) {
  return {{"dtype", line.dtype},       {"max", number(line.max)}, {"min", number(line.min)},
          {"mean", number(line.mean)}, {"num_zero", line.zeros},  {"num_inf", line.infs},
          {"num_nan", line.nans}};
}

}  // namespace

bool ComparedRow::flagged() const { return off[0] || off[1] || off[2]; }

std::vector<DumpLine> read_dump(const fs::path& path) {
  std::vector<DumpLine> lines;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    read_file(path, lines);
    return lines;
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.path().filename().string().starts_with("worker_")) files.push_back(entry.path());
  if (files.empty())
    fail_data("numerics dump: {}: no files worker_*", terminal_text(path.string()));
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) read_file(file, lines);
  return lines;
}

Comparison compare_dumps(const std::vector<DumpLine>& a, const std::vector<DumpLine>& b,
                         double loss_scale) {
  check(std::isfinite(loss_scale) && loss_scale > 0,
        "compare: loss scale out of range; got {}, want a finite number above 0", loss_scale);
  // Identifies a row: step, op, tensor and the index among their calls.
  using Key = std::tuple<int64_t, std::string, std::string, int64_t>;
  const auto keyed = [](const std::vector<DumpLine>& lines) {
    std::map<Key, int64_t> calls;
    std::vector<Key> keys;
    for (const DumpLine& line : lines)
      keys.emplace_back(line.step, line.op, line.tensor,
                        calls[{line.step, line.op, line.tensor, 0}]++);
    return keys;
  };
  const std::vector<Key> keys_a = keyed(a), keys_b = keyed(b);
  std::map<Key, size_t> in_b;
  for (size_t i = 0; i < b.size(); ++i) in_b[keys_b[i]] = i;
  Comparison result;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto found = in_b.find(keys_a[i]);
    if (found == in_b.end()) {
      result.rows.push_back({.a = a[i], .b = {}, .in_b = false});
      continue;
    }
    result.rows.push_back(compared(a[i], b[found->second], loss_scale));
    in_b.erase(found);
  }
  for (size_t i = 0; i < b.size(); ++i)
    if (in_b.contains(keys_b[i])) result.rows.push_back({.a = {}, .b = b[i], .in_a = false});
  for (const ComparedRow& row : result.rows) {
    const bool matched = row.in_a && row.in_b;
    result.unmatched += !matched;
    result.abnormal += !row.abnormal.empty();
    result.flagged += matched && row.flagged();
  }
  return result;
}

std::string Comparison::text(bool all) const {
  std::string text = fmt::format("{:>5} {:<22} {:<34} {:<10} {:>9} {:>9} {:>9}  {}\n", "step", "op",
                                 "tensor", "dtypes", "max b/a", "min b/a", "mean b/a", "");
  for (const ComparedRow& row : rows) {
    const DumpLine& line = row.in_a ? row.a : row.b;
    const bool matched = row.in_a && row.in_b;
    if (!all && matched && row.abnormal.empty() && !row.flagged()) continue;
    std::string cells;
    for (size_t i = 0; i < 3; ++i)
      cells += matched ? fmt::format(" {:>8.4g}{}", row.ratio[i], row.off[i] ? '*' : ' ')
                       : std::string(10, ' ');
    const std::string dtypes = matched ? row.a.dtype + "/" + row.b.dtype : line.dtype;
    const char* lone = !row.in_a ? "only in b" : "only in a";
    text += fmt::format("{:>5} {:<22} {:<34} {:<10}{}  {}\n", line.step, terminal_text(line.op),
                        terminal_text(line.tensor), dtypes, cells, matched ? row.abnormal : lone);
  }
  return text + fmt::format(
                    "{} rows: {} abnormal, {} with a ratio outside 0.95 to 1.05 (*), {} in "
                    "one dump only\n",
                    rows.size(), abnormal, flagged, unmatched);
}

std::string Comparison::csv() const {
  std::string text =
      "step,op_type,tensor_name,numel,infinite,a_dtype,a_max,a_min,a_mean,a_num_zero,b_dtype,"
      "b_max,b_min,b_mean,b_num_zero,b_num_inf,b_num_nan,max_ratio,min_ratio,mean_ratio,flagged,"
      "abnormal\n";
  for (const ComparedRow& row : rows) {
    const DumpLine& line = row.in_a ? row.a : row.b;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{},{}\n", line.step,
                        terminal_text(line.op), terminal_text(line.tensor), line.numel,
                        row.b.infs + row.b.nans, row.in_a ? cells(row.a) : ",,,,",
                        row.in_b ? cells(row.b) : ",,,,", row.b.infs, row.b.nans, row.ratio[0],
                        row.ratio[1], row.ratio[2], row.flagged() ? 1 : 0, row.abnormal);
  }
  return text;
}

nlohmann::ordered_json Comparison::to_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ComparedRow& row : rows) {
    const DumpLine& line = row.in_a ? row.a : row.b;
    nlohmann::ordered_json object = {
        {"step", line.step}, {"op", line.op}, {"tensor", line.tensor}, {"numel", line.numel}};
    object["a"] = row.in_a ? json_of(row.a) : nlohmann::ordered_json();
    object["b"] = row.in_b ? json_of(row.b) : nlohmann::ordered_json();
    if (row.in_a && row.in_b)
      object["ratio"] = {{"max", number(row.ratio[0])},
                         {"min", number(row.ratio[1])},
                         {"mean", number(row.ratio[2])}};
    object["flagged"] = row.flagged();
    object["abnormal"] = row.abnormal;
    list.push_back(std::move(object));
  }
  return {{"rows", list}, {"abnormal", abnormal}, {"flagged", flagged}, {"unmatched", unmatched}};
}

}  // namespace booster::numerics
