// A shared library that has nothing to do with booster.
extern "C" int nothing_to_add() { return 0; }
