// The example's time account, with a clock that the tests control.
#include "examples/training/time_account.h"

#include <doctest/doctest.h>

using namespace example;

TEST_CASE("every moment belongs to one activity, inner spans to their own") {
  double now = 0;
  TimeAccount account([&] { return now; });
  now = 2;  // start
  {
    const auto rest = account.spend_on(Activity::rest);
    now = 3;  // rest
    for (int i = 0; i < 2; ++i) {
      const auto data = account.spend_on(Activity::data);
      now += 0.5;  // data
      const auto training = account.spend_on(Activity::training);
      now += 6;  // training
    }
    now += 3;  // rest
    CHECK(account.seconds() == nlohmann::json{{"wall", 19.0},
                                              {"start", 2.0},
                                              {"training", 12.0},
                                              {"validation", 0.0},
                                              {"data", 1.0},
                                              {"checkpoints", 0.0},
                                              {"rest", 4.0}});
  }
  now = 20;  // start
  CHECK(account.summary() ==
        "time: 20.0 s: training 60.0 %, rest 20.0 %, start 15.0 %, data 5.0 %");
}

TEST_CASE("the time of a process begins before the program's first line") {
  const double first = seconds_of_this_process();
  CHECK(first >= 0);
  CHECK(first < 3600);
  CHECK(seconds_of_this_process() >= first);
}
