#include "tests/golden_folder.h"

std::string booster::test::golden_folder() { return GOLDEN_DIR; }
