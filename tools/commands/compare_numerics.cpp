#include "tools/commands/commands.h"
#include "tools/doctor/dump_compare.h"

#include <fmt/format.h>

namespace booster::cli {

namespace {

constexpr int differs_exit_code = 3;

}  // namespace

int compare_numerics(const CompareNumerics& arguments) {
  using namespace numerics;
  const auto a = read_dump(arguments.a), b = read_dump(arguments.b);
  const Comparison result = compare_dumps(a, b, arguments.loss_scale);
  if (arguments.json)
    fmt::print("{}\n",
               result.to_json().dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  else if (arguments.csv)
    fmt::print("{}", result.csv());
  else
    fmt::print("{}", result.text(arguments.all));
  return result.abnormal > 0 ? differs_exit_code : 0;
}

}  // namespace booster::cli
