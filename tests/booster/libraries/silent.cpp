// A shared library unrelated to booster.
extern "C" int nothing_to_add() { return 0; }
