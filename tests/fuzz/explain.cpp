// Input lines of `booster explain`.
#include "tests/fuzz/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  booster::fuzz::answer_lines(booster::cli::explain_command, booster::fuzz::text_of(data, size));
  return 0;
}
