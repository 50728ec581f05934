// The backend over MPI, on a site's own fabric and process manager. BOOSTER_BACKEND=mpi selects it,
// in processes that mpirun or srun started.
//
// Ranks still meet at a rendezvous, which detects dead ranks. One lock guards all calls into MPI,
// so that it need not serve several threads at once.
#include "parallel/backends/host_backend.h"
#include "parallel/backends/mpi_here.h"
#include "parallel/backends/mpi_module.h"
#include "platform/environment.h"
#include "platform/error.h"
#include "platform/module_file.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <thread>

namespace booster {

namespace {

constexpr size_t longest_message = 1 << 30;  // MPI counts in int
constexpr auto mpi_look_every = std::chrono::milliseconds(20);
constexpr auto mpi_farewell = std::chrono::seconds(1);

// One per process. MPI's end is collective over all processes, so it comes last: a rank that ends
// early has already left the rendezvous, so the others do not wait for it.
struct Mpi {
  const MpiModule* module = nullptr;
  int rank = 0, size = 0, largest_tag = 0;
  std::atomic<bool> has_lost_one = false;  // a message failed, or timed out
  std::mutex mutex;
  ~Mpi() {
    if (module) module->finish(has_lost_one);
  }
} the_mpi;  // constructed before everything that its first use makes, so destroyed after it

const MpiModule& load_module() {
  // MPI's own plugins look for its symbols in the program.
  const kernels::ModuleFile file = kernels::open_module("mpi", "parallel", RTLD_NOW | RTLD_GLOBAL);
  if (!file.handle) fail_run("BOOSTER_BACKEND=mpi: cannot load {}: {}", file.path, file.missing);
  const void* table = dlsym(file.handle, mpi_module_symbol);
  if (!table) fail_run("BOOSTER_BACKEND=mpi: {} has no {}", file.path, mpi_module_symbol);
  return *static_cast<const MpiModule*>(table);
}

}  // namespace

MpiHere mpi_here() {
  try {
    const std::string version = load_module().version();
    return {.version = version.substr(0, version.find_first_of(",\n")), .missing = ""};
  } catch (const Error& error) {
    return {.version = "", .missing = error.what()};
  }
}

namespace {

Mpi& mpi() {
  static std::once_flag once;
  std::call_once(once, [] {
    const MpiModule& module = load_module();
    if (const char* wrong = module.start(&the_mpi.rank, &the_mpi.size, &the_mpi.largest_tag))
      fail_run("BOOSTER_BACKEND=mpi: {}", wrong);
    the_mpi.module = &module;
  });
  return the_mpi;
}

int number_in(const std::string& text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

class MpiBackend final : public HostBackend {
 public:
  explicit MpiBackend(Membership members);
  const char* name() const override { return "mpi"; }
  void stop() override { stopped_ = true; }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) override;

 protected:
  int64_t block_bytes() const override { return 1 << 20; }

 private:
  struct Pending {
    void* message;
    int peer;
  };
  void find_peers();
  void start(int peer, bool sends, std::byte* data, size_t bytes);
  bool advance();
  void wait();
  void abandon();

  Mpi& mpi_ = mpi();
  const std::chrono::milliseconds timeout_ = group_timeout();
  std::vector<int> mpi_ranks_;  // the members'
  int tag_ = 0;                 // of the group's messages
  std::vector<Pending> pending_;
  std::atomic<bool> stopped_ = false;
};

MpiBackend::MpiBackend(Membership joined) : HostBackend(std::move(joined)) {
  check(mpi_.size >= members().size(),
        "BOOSTER_BACKEND=mpi: MPI knows {} processes, the group has {}; want them started by "
        "mpirun or srun",
        mpi_.size, members().size());
  find_peers();
}

// Groups that share two ranks need different tags. A tag combines the group's first rank and a
// number that this rank counts up.
void MpiBackend::find_peers() {
  static std::atomic<int> groups = 0;
  Rendezvous& rendezvous = *members().rendezvous;
  const auto key = [&](int rank) { return fmt::format("{}.mpi-{}", members().name, rank); };
  const int number = groups++;
  rendezvous.put(key(members().rank), fmt::format("{} {}", mpi_.rank, number));
  for (int rank = 0; rank < members().size(); ++rank) {
    const std::string said = rendezvous.get(key(rank), members().ranks);
    mpi_ranks_.push_back(number_in(said));
    if (rank > 0) continue;
    const int counted = number_in(said.substr(said.find(' ') + 1));
    check(counted < mpi_.largest_tag / mpi_.size, "BOOSTER_BACKEND=mpi: too many groups; got {}",
          counted);
    tag_ = counted * mpi_.size + mpi_ranks_[0];
  }
}

void MpiBackend::start(int peer, bool sends, std::byte* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += longest_message) {
    const size_t part = std::min(bytes - at, longest_message);
    std::lock_guard lock(mpi_.mutex);
    void* message = sends ? mpi_.module->send(data + at, part, mpi_ranks_[peer], tag_)
                          : mpi_.module->receive(data + at, part, mpi_ranks_[peer], tag_);
    if (!message)
      fail_run("mpi: cannot send messages between this rank and {}", members().describe(peer));
    pending_.push_back({message, peer});
  }
}

// Returns whether a message has arrived or been sent.
bool MpiBackend::advance() {
  std::lock_guard lock(mpi_.mutex);
  bool moved = false;
  int failed = -1;
  for (Pending& each : pending_) {
    const int state = mpi_.module->test(each.message);
    if (state == 0) continue;
    moved = true;
    each.message = nullptr;
    if (state < 0) failed = each.peer;
  }
  std::erase_if(pending_, [](const Pending& each) { return !each.message; });
  if (failed >= 0)
    fail_run("mpi: a message between this rank and {} failed", members().describe(failed));
  return moved;
}

void MpiBackend::wait() {
  SlowWait told(members().ranks[members().rank]);
  auto last_move = Clock::now(), last_look = last_move;
  for (int idle = 0; !pending_.empty(); ++idle) {
    const auto now = Clock::now();
    if (advance()) {
      idle = 0;
      last_move = now;
      continue;
    }
    if (idle > 100) std::this_thread::sleep_for(std::chrono::microseconds(idle > 1000 ? 200 : 20));
    if (now - last_look < mpi_look_every) continue;
    last_look = now;
    const int peer = pending_.front().peer;
    if (stopped_)
      fail_run("the group was closed while an operation waited for {}", members().name_of(peer));
    std::vector<int> awaited;
    for (const Pending& message : pending_) awaited.push_back(message.peer);
    if (const std::string problem = trouble_in_wait(awaited, last_move); !problem.empty())
      fail_run("{}", problem);
    if (now - last_move > timeout_) fail_timeout(awaited);
    still_waits(told, peer);
  }
}

// Receives may be dropped immediately; sends get a moment to complete.
void MpiBackend::abandon() {
  if (!stopped_) mpi_.has_lost_one = true;  // an operation may be unfinished
  const auto end = Clock::now() + mpi_farewell;
  try {
    while (!pending_.empty() && Clock::now() < end) advance();
  } catch (const Error&) {
  }
  std::lock_guard lock(mpi_.mutex);
  for (const Pending& each : pending_) mpi_.module->abandon(each.message);
  pending_.clear();
}

void MpiBackend::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
  try {
    for (const Incoming& message : incoming)
      start(message.from, false, message.data.data(), message.data.size());
    for (const Outgoing& message : outgoing)
      start(message.to, true, const_cast<std::byte*>(message.data.data()), message.data.size());
    wait();
  } catch (...) {
    abandon();
    throw;
  }
}

}  // namespace

std::unique_ptr<HostBackend> make_mpi(Membership members) {
  if (environment::text("BOOSTER_BACKEND") != "mpi") return nullptr;  // only on request
  return std::make_unique<MpiBackend>(std::move(members));
}

}  // namespace booster
