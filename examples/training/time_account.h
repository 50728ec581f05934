// Where the wall time of a run goes. Every moment belongs to exactly one activity, so the parts add
// up to the total. For one thread at a time.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <functional>
#include <string>

namespace example {

enum class Activity {
  start,        // from the creation of the process to the first step
  training,     // forward, backward and optimizer steps
  validation,   // forward passes of the validation
  data,         // waiting for batches
  checkpoints,  // saving and resuming
  rest,         // metrics, curves, output to the user
};

// Returns the seconds since the system created this process, before it loaded the program and its
// libraries.
double seconds_of_this_process();

class TimeAccount {
 public:
  // Begins with `start`, which includes all time before this call. `clock` returns seconds.
  explicit TimeAccount(std::function<double()> clock = seconds_of_this_process);

  // Time counts for an activity while its span exists, then for the previous activity again.
  class [[nodiscard]] Span {
   public:
    Span(TimeAccount& account, Activity activity)
        : account_(account), before_(account.turn_to(activity)) {}
    ~Span() { account_.turn_to(before_); }
    Span(const Span&) = delete;

   private:
    TimeAccount& account_;
    Activity before_;
  };
  Span spend_on(Activity activity) { return {*this, activity}; }

  // Returns the seconds so far by activity, and "wall", their sum.
  nlohmann::json seconds();
  // Returns "time: 13.9 s: training 90.2 %, validation 6.1 %, ...", largest first, without
  // activities that took no time.
  std::string summary();

 private:
  Activity turn_to(Activity activity);

  std::function<double()> clock_;
  std::array<double, 6> spent_{};
  Activity now_ = Activity::start;
  double since_ = 0;
};

}  // namespace example
