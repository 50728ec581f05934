// A custom plugin in a shared library. To use it in a config:
//   "booster": {"libraries": ["build/examples/libown_plugin.so"],
//               "plugin": {"name": "local_sgd", "every": 4}}
#include "examples/own_plugin/local_sgd.h"

BOOSTER_LIBRARY {
  using namespace booster;
  plugin_registry().add(
      {"local_sgd",
       "ranks train apart and take the mean of their models every few steps",
       {integer_option("every", 8, at_least(1), "steps from one mean to the next")},
       [](const OptionValues& values) {
         return std::make_unique<local_sgd::LocalSGD>(values.get<int64_t>("every"));
       }});
}
