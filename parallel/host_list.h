// Lists of hosts as Slurm writes them: "rack[0-1]-gpu[03-05,9],login".
//
//   list   = entry {"," entry}
//   entry  = {text | "[" range {"," range} "]"}, at least one of them
//   range  = number ["-" number]
//
// An entry stands for one name per choice from its ranges; the last range varies fastest. (With
// three brackets or more, scontrol lists the same names in another order after the first.) Numbers
// are as wide as the first one of their range: [08-11] is 08, 09, 10, 11. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace booster {

// Returns the names in order, at least one. Throws an error that begins with `what` for a list
// outside this grammar, and for more than 65536 names.
std::vector<std::string> slurm_hosts(std::string_view list, const char* what);

}  // namespace booster
