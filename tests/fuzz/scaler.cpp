// Input lines of `booster scaler`.
#include "tests/fuzz/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  booster::fuzz::answer_lines(booster::cli::scaler_command, booster::fuzz::text_of(data, size));
  return 0;
}
