// What code for a GPU may not do. The first fault is printed and stays: as on a real device, every
// later call fails too, with its text as the reason.
#pragma once

#include <fmt/core.h>

#include <string>

namespace cuda_on_host {

// Of code that runs as a kernel: ends the launch. Of anything else: ends the process, since there
// is nobody whom to return an error to.
[[noreturn]] void report_fault(const std::string& text);
// Only that; the caller sees to the rest.
void record_fault(const std::string& text);

template <class... T>
[[noreturn]] void fault(fmt::format_string<T...> format, T&&... args) {
  report_fault(fmt::vformat(format, fmt::make_format_args(args...)));
}

bool has_fault();
// Empty without one.
const std::string& fault_text();

}  // namespace cuda_on_host
