#include "tests/golden_folder.h"

#include <cstdlib>

std::string booster::test::golden_folder() {
  const char* other = std::getenv("BOOSTER_GOLDEN");
  return other ? other : GOLDEN_DIR;
}
