// Work that NCCL runs: the waits for it, and how they end.
#include "parallel/backends/nccl.h"

#include "kernels/device/cuda_module.h"

#include <thread>
#include <utility>

namespace booster {

namespace {

constexpr auto nccl_look_every = std::chrono::milliseconds(20);  // how often to check members
constexpr auto quick = std::chrono::microseconds(50);
constexpr auto nccl_nap = std::chrono::microseconds(100);
constexpr auto nccl_farewell = std::chrono::seconds(1);

double seconds_of(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

// Running work was issued to the GPUs of all ranks, so it will complete.
NcclBackend::~NcclBackend() {
  try {
    for (; !in_flight_.empty(); std::this_thread::sleep_for(nccl_nap)) watch();
    for (Communicator* each : communicators()) each->leave();
    const auto end = Clock::now() + nccl_farewell;
    for (Communicator* each : communicators())
      while (!each->is_ready() && Clock::now() < end) std::this_thread::sleep_for(nccl_nap);
  } catch (const Error&) {
  }
}

// Waits until NCCL has connected the ranks, or has accepted a call. A half-accepted call may hang.
void NcclBackend::await(Communicator& communicator) {
  try {
    wait_for(communicator);
  } catch (const Error& error) {
    give_up(error.what());
    throw;
  }
}

void NcclBackend::wait_for(Communicator& communicator) {
  const auto since = Clock::now();
  // NCCL accepts most calls within some microseconds.
  while (Clock::now() - since < quick)
    if (communicator.is_ready()) return;
  for (; !communicator.is_ready(); std::this_thread::sleep_for(nccl_nap)) {
    if (is_stopped_) fail_run("the group was closed while NCCL connected ranks");
    if (Clock::now() - last_look_ > nccl_look_every) {
      last_look_ = Clock::now();
      check_members();
    }
    if (Clock::now() - since > timeout_)
      fail_run("NCCL did not connect all ranks within {} s (BOOSTER_TIMEOUT)",
               seconds_of(timeout_));
  }
}

void NcclBackend::finish(const std::vector<Communicator*>& used, std::vector<Buffer> memory) {
  std::vector<std::shared_ptr<kernels::Event>> ends;
  for (Communicator* each : used) await(*each);
  for (Communicator* each : used) ends.push_back(each->mark());
  running_ = std::make_shared<GpuWork>(behind_, std::move(ends), std::move(memory));
  if (in_flight_.empty()) last_progress_ = Clock::now();
  in_flight_.push_back({running_, participants()});
}

// Copies through the host run on their own stream, which waits for nothing that may hang. So this
// thread waits for the device's earlier work, and watches NCCL meanwhile.
void NcclBackend::copy(Device device, const std::function<void()>& body) {
  if (!behind_) return body();
  for (; !behind_->is_past(); std::this_thread::sleep_for(nccl_nap)) watch();
  kernels::cuda_module_for(device).run_beside(device.index, body);
}

std::vector<kernels::Communicator*> NcclBackend::communicators() const {
  std::vector<Communicator*> all;
  if (whole_.communicator()) all.push_back(whole_.communicator());
  for (const auto& [peer, link] : pairs_)
    if (link.communicator()) all.push_back(link.communicator());
  return all;
}

// Counts time from when the GPU reaches the operation. A rank that has ended may have done its
// part, so work in progress gets a moment to complete.
void NcclBackend::look() {
  for (Communicator* each : communicators())
    if (const std::string trouble = each->trouble(); !trouble.empty())
      fail_run("NCCL: {}", trouble);
  const auto now = Clock::now();
  if (!in_flight_.front().work->has_begun()) last_progress_ = now;
  if (now - last_progress_ > nccl_farewell && now - last_look_ > nccl_look_every) {
    last_look_ = now;
    const std::string trouble = trouble_among(in_flight_.front().participants);
    if (!trouble.empty()) fail_run("{}", trouble);
  }
  if (now - last_progress_ > timeout_)
    fail_run(
        "the GPUs did not complete it within {} s (BOOSTER_TIMEOUT), although all ranks arrived",
        seconds_of(timeout_));
}

void NcclBackend::watch() {
  while (!in_flight_.empty() && in_flight_.front().work->is_done()) {
    in_flight_.pop_front();
    last_progress_ = Clock::now();
  }
  if (in_flight_.empty()) return;
  try {
    look();
  } catch (const Error& error) {
    give_up(error.what());
    throw;
  }
}

// Sets the reason first, because waits for the GPU end when NCCL ends. The memory that NCCL uses
// stays alive until NCCL has ended.
void NcclBackend::give_up(const std::string& reason) {
  for (const InFlight& each : in_flight_) each.work->fail(reason);
  for (Communicator* each : communicators()) each->abort(reason);
  in_flight_.clear();
}

}  // namespace booster
