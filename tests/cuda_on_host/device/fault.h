// Violations of the rules for GPU code. The first fault is printed and persists: as on a real
// device, all later calls fail with its text as the reason.
#pragma once

#include <fmt/core.h>

#include <string>

namespace cuda_on_host {

// Reports a fault. In kernel code it ends the launch. Elsewhere it ends the process, since no call
// can return an error.
[[noreturn]] void report_fault(const std::string& text);
// Only records the fault; the caller handles the rest.
void record_fault(const std::string& text);

template <class... T>
[[noreturn]] void fault(fmt::format_string<T...> format, T&&... args) {
  report_fault(fmt::vformat(format, fmt::make_format_args(args...)));
}

bool has_fault();
// Returns "" if there is no fault.
const std::string& fault_text();

}  // namespace cuda_on_host
