#include "tests/cuda_on_host/streams/streams.h"

#include "tests/cuda_on_host/device/arena.h"
#include "tests/cuda_on_host/device/chance.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/runtime.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;

struct cuda_on_host_stream;

namespace cuda_on_host {
namespace {

std::chrono::milliseconds pretended{};

// The number of recordings of an event, and the last one that the device has reached.
struct EventState {
  uint64_t recorded = 0, reached = 0;
  cuda_on_host_stream* stream = nullptr;  // of the last recording
  Clock::time_point time;
};

// One unit of work: exactly one of the first three members is set.
struct Work {
  std::function<void()> run = {};
  std::function<bool()> attempt = {};
  std::shared_ptr<EventState> waits_for = {};
  uint64_t recording = 0;  // of the event
  Clock::time_point given = {};
};

constexpr auto patience = std::chrono::milliseconds(3);  // before work runs without a waiting call
constexpr auto nap = std::chrono::microseconds(200);

}  // namespace
}  // namespace cuda_on_host

struct cuda_on_host_event {
  int device = 0;
  bool is_timed = false;
  std::shared_ptr<cuda_on_host::EventState> state = std::make_shared<cuda_on_host::EventState>();
  cuda_on_host::CapturePlace place = {};
};

struct cuda_on_host_stream {
  int device;
  std::deque<cuda_on_host::Work> queue;
  cuda_on_host::CapturePlace place = {};
  bool can_go_on() const {
    return !queue.empty() && (!queue.front().waits_for ||
                              queue.front().waits_for->reached >= queue.front().recording);
  }
};

namespace cuda_on_host {
namespace {

std::vector<cudaStream_t>& streams() {
  static auto* all = new std::vector<cudaStream_t>;
  return *all;
}

// Returns false if the work must be retried.
bool do_next(cudaStream_t stream) {
  if (stream->queue.front().attempt && !has_fault() && !stream->queue.front().attempt())
    return false;
  Work work = std::move(stream->queue.front());
  stream->queue.pop_front();
  if (work.run && !has_fault()) work.run();
  return true;
}

// Lets other threads use the runtime for a moment.
void step_back() {
  close_device();
  runtime_mutex().unlock();
  std::this_thread::sleep_for(nap);
  runtime_mutex().lock();
}

// Returns the stream whose next work this stream's wait needs: itself, or one that will record an
// event.
cudaStream_t holder_of(cudaStream_t stream) {
  for (size_t hops = 0; hops <= streams().size(); ++hops) {
    if (stream->queue.empty()) fault("a stream waits for an event that no stream is to record");
    if (stream->can_go_on()) return stream;
    stream = stream->queue.front().waits_for->stream;
  }
  fault("streams wait for each other's events");
}

// Occasionally chooses another stream.
cudaStream_t choose(cudaStream_t needed) {
  if (chance(4) != 0) return needed;
  cudaStream_t other = streams()[chance(streams().size())];
  return other->can_go_on() ? other : needed;
}

// Records after the work queued in the stream so far.
void record(const std::shared_ptr<EventState>& state, cudaStream_t stream) {
  state->stream = stream;
  const uint64_t recording = ++state->recorded;
  stream->queue.push_back({.run = [=] {
    state->reached = recording;
    state->time = Clock::now() + pretended;
  }});
}

std::shared_ptr<EventState> mark(cudaStream_t stream) {
  auto end = std::make_shared<EventState>();
  record(end, stream);
  return end;
}

// Other threads may record the event again meanwhile. After a fault nothing runs any more.
void finish(const EventState& state) {
  const uint64_t recording = state.recorded;
  cudaStream_t const stream = state.stream;
  while (state.reached < recording && !has_fault())
    if (!do_next(choose(holder_of(stream)))) step_back();
  close_device();
}

bool has_overdue_attempts(cudaStream_t stream) {
  const auto limit = Clock::now() - patience;
  return std::ranges::any_of(stream->queue,
                             [=](const Work& work) { return work.attempt && work.given < limit; });
}

void go_on_for_ever() {
  for (;;) {
    std::this_thread::sleep_for(nap);
    std::lock_guard lock(runtime_mutex());
    const std::vector<cudaStream_t> all = streams();
    for (cudaStream_t stream : all)
      while (has_overdue_attempts(stream) && do_next(holder_of(stream))) {
      }
    close_device();
  }
}

}  // namespace

cudaStream_t create_stream(int device) {
  streams().push_back(new cuda_on_host_stream{device, {}});
  return streams().back();
}

int device_of(cudaStream_t stream) { return stream->device; }

void destroy_stream(cudaStream_t stream) {
  if (stream->place.is_capturing()) fault("a stream is destroyed while it is captured");
  finish(stream);
  streams().erase(std::find(streams().begin(), streams().end(), stream));
  delete stream;
}

void give(cudaStream_t stream, std::function<void()> work) {
  if (stream->place.is_capturing()) return stream->place.add(std::move(work));
  stream->queue.push_back({.run = std::move(work)});
}

void give_attempts(cudaStream_t stream, std::function<bool()> attempt) {
  if (stream->place.is_capturing()) fault("an operation of NCCL is captured");
  static const bool started = (std::thread(go_on_for_ever).detach(), true);
  (void)started;
  stream->queue.push_back({.attempt = std::move(attempt), .given = Clock::now()});
}

void pretend_to_take(std::chrono::milliseconds time) { pretended += time; }

cudaEvent_t create_event(int device, bool is_timed) {
  return new cuda_on_host_event{device, is_timed};
}
int device_of(cudaEvent_t event) { return event->device; }
void destroy_event(cudaEvent_t event) { delete event; }

CapturePlace& place_of(cudaStream_t stream) { return stream->place; }
CapturePlace& place_of(cudaEvent_t event) { return event->place; }
bool is_recorded(cudaEvent_t event) { return event->state->recorded > 0; }
void leave_capture(const Capture& capture) {
  for (cudaStream_t stream : streams())
    if (stream->place.capture.get() == &capture) stream->place = {};
}

void record(cudaEvent_t event, cudaStream_t stream) {
  event->place = stream->place;
  if (!event->place.is_capturing()) record(event->state, stream);
}

void wait_for_event(cudaStream_t stream, cudaEvent_t event) {
  stream->queue.push_back({.waits_for = event->state, .recording = event->state->recorded});
}

void finish(cudaStream_t stream) {
  if (!stream->queue.empty()) finish(*mark(stream));
}

void finish(cudaEvent_t event) { finish(*event->state); }

// Another thread may destroy a finished stream meanwhile.
void finish_device(int device) {
  std::vector<std::shared_ptr<EventState>> ends;
  for (cudaStream_t stream : streams())
    if (stream->device == device && !stream->queue.empty()) ends.push_back(mark(stream));
  for (const auto& end : ends) finish(*end);
}

bool is_done(cudaStream_t stream) {
  if (!stream->queue.empty() && chance(2) == 0) {
    do_next(holder_of(stream));
    close_device();
  }
  return stream->queue.empty();
}

bool is_done(cudaEvent_t event) {
  const EventState& state = *event->state;
  if (state.reached < state.recorded && chance(2) == 0) {
    do_next(holder_of(state.stream));
    close_device();
  }
  return state.reached >= state.recorded;
}

bool can_be_timed(cudaEvent_t event) { return event->is_timed && event->state->recorded > 0; }

bool has_time(cudaEvent_t event) { return event->state->reached >= event->state->recorded; }

double seconds_between(cudaEvent_t from, cudaEvent_t to) {
  return std::chrono::duration<double>(to->state->time - from->state->time).count();
}

}  // namespace cuda_on_host
