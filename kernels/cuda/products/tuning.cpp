#include "kernels/cuda/products/tuning.h"

#include "kernels/cuda/products/blas_lt.h"
#include "kernels/cuda/products/choice_file.h"
#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "platform/environment.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace booster::kernels::cuda {
namespace {

constexpr int proposed = 8;
constexpr int timings = 5;

// Returns true if there are several ranks. Every launcher known to the library sets its number of
// processes (parallel/launch.cpp).
bool has_other_ranks() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"})
    if (environment::number(name, 1) > 1) return true;
  return false;
}

enum class Way { off, timed, given };
Way find_way() {
  if (!environment::text("BOOSTER_TUNED_PRODUCTS").empty()) return Way::given;
  if (!environment::flag("BOOSTER_TUNE_PRODUCTS")) return Way::off;
  if (!has_other_ranks()) return Way::timed;
  warn(
      "booster: BOOSTER_TUNE_PRODUCTS=1 supports only one process; got several ranks, which do not "
      "time products; want BOOSTER_TUNED_PRODUCTS=FILE with the choices of one process");
  return Way::off;
}
Way way() {
  static const Way found = find_way();
  return found;
}

// Follows the XDG base directory specification; returns "" if the user has no folder.
std::string cache_folder() {
  const std::string chosen = environment::text("XDG_CACHE_HOME"), home = environment::text("HOME");
  if (!chosen.empty() && chosen[0] == '/') return chosen + "/booster";
  return home.empty() ? "" : home + "/.cache/booster";
}

// Returns everything that the meaning of algorithm numbers depends on.
std::string subject_of_device() {
  cudaDeviceProp device = {};
  CUDA_CALL(cudaGetDeviceProperties(&device, current_device()));
  int driver = 0;
  CUDA_CALL(cudaDriverGetVersion(&driver));
  return fmt::format("{}, capability {}.{}, {} multiprocessors, driver {}, cuBLASLt {}",
                     device.name, device.major, device.minor, device.multiProcessorCount, driver,
                     blas_lt()->version());
}

std::string file_for(const std::string& subject) {
  if (way() == Way::given) return environment::text("BOOSTER_TUNED_PRODUCTS");
  const std::string folder = cache_folder();
  if (folder.empty()) return "";
  std::string name = "products-" + subject + ".txt";
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c) && c != '.'; }, '-');
  return folder + "/" + name;
}

// The choices for one device; without a file they hold in this process only.
struct Table {
  explicit Table(const std::string& subject) : file(file_for(subject), subject) {
    if (file.path().empty()) return;
    std::string why;
    auto read = file.read(why);
    if (read)
      choices = std::move(*read);
    else if (way() == Way::given)
      fail("BOOSTER_TUNED_PRODUCTS: {} cannot be used: {}", file.path(), why);
    else if (why != ChoiceFile::absent)
      warn(fmt::format("booster: rewriting {}: {}", file.path(), why));
  }
  ChoiceFile file;
  ChoiceFile::Choices choices;
};

std::mutex mutex;  // for the tables, and for one timing at a time
Table& table() {
  static std::map<int, Table> tables;
  const auto known = tables.find(current_device());
  if (known != tables.end()) return known->second;
  return tables.try_emplace(current_device(), subject_of_device()).first->second;
}

class TimedEvent {
 public:
  TimedEvent() { CUDA_CALL(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  void record() { CUDA_CALL(cudaEventRecord(event_, current_stream())); }
  float milliseconds_to(const TimedEvent& later) const {
    CUDA_CALL(cudaEventSynchronize(later.event_));
    float time = 0;
    CUDA_CALL(cudaEventElapsedTime(&time, event_, later.event_));
    return time;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Returns the shortest time of several runs; the first run loads kernels.
float shortest_time(const std::function<bool()>& run) {
  float shortest = std::numeric_limits<float>::infinity();
  if (!run()) return shortest;
  for (int i = 0; i < timings; ++i) {
    TimedEvent begin, end;
    begin.record();
    if (!run()) return std::numeric_limits<float>::infinity();
    end.record();
    shortest = std::min(shortest, begin.milliseconds_to(end));
  }
  return shortest;
}

}  // namespace

int algorithms_to_propose() { return way() == Way::off ? 1 : proposed; }
bool times_products() { return way() == Way::timed; }

std::optional<int> chosen_algorithm(const std::string& product) {
  const std::lock_guard lock(mutex);
  const ChoiceFile::Choices& choices = table().choices;
  const auto known = choices.find(product);
  return known == choices.end() ? std::nullopt : std::optional(known->second);
}

int choose_algorithm(const std::string& product, int count, const std::function<bool(int)>& run) {
  const std::lock_guard lock(mutex);
  Table& here = table();
  const auto known = here.choices.find(product);
  if (known != here.choices.end()) return known->second;  // another thread was faster
  int fastest = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int i = 0; i < count; ++i) {
    const float time = shortest_time([&] { return run(i); });
    if (time < least) least = time, fastest = i;
  }
  if (!here.file.path().empty()) fastest = here.file.add(product, fastest);
  return here.choices[product] = fastest;
}

}  // namespace booster::kernels::cuda
