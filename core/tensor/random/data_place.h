// The random numbers of ranks that work on different data: each draws from streams of its own
// (set_random_stream) within a boosted model's passes, although generators are equal. Ranks at one
// place along the axis data draw alike. For the calling thread.
#pragma once

#include <cstdint>

namespace booster {

// Sets the place of all later draws of this thread. Returns the previous one; 0 outside of passes.
// Places 256 apart draw alike.
uint64_t set_data_place(uint64_t place);
uint64_t random_data_place();

class DataPlace {
 public:
  explicit DataPlace(uint64_t place) : before_(set_data_place(place)) {}
  ~DataPlace() { set_data_place(before_); }
  DataPlace(const DataPlace&) = delete;
  DataPlace& operator=(const DataPlace&) = delete;

 private:
  uint64_t before_;
};

}  // namespace booster
