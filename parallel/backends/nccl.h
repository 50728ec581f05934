// Moves GPU memory by NCCL if each rank has its own GPU. Its host backend does everything else,
// including the checks that ranks agree. NCCL gets an operation only once all ranks have arrived at
// it, unless BOOSTER_CHECK_COLLECTIVES=0. The host backend thus names a rank that died or calls
// something else, and no GPU waits for it.
//
// For a message, "all ranks" are its two ranks. One of them may still wait, in the same call, for a
// third rank that never arrives; the other's GPU then waits up to BOOSTER_TIMEOUT. A rank must
// therefore issue the operations that another rank needs before it waits for a stream that they
// share. Ranks that are threads with one GPU share a stream.
//
// NCCL runs on its own stream. An operation runs after the device's earlier work at the time of the
// call, and before the work that follows Work::wait().
#pragma once

#include "kernels/device/communicator.h"
#include "parallel/backends/gpu_link.h"
#include "parallel/backends/gpu_work.h"
#include "parallel/backends/host_backend.h"
#include "parallel/operations/completion.h"
#include "parallel/operations/operation_tag.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::unique_ptr<HostBackend> host, bool is_wanted);
  ~NcclBackend() override;

  const char* name() const override { return is_used_ ? "nccl" : host_->name(); }
  void stop() override {
    is_stopped_ = true;
    host_->stop();
  }
  std::shared_ptr<kernels::Event> mark(Device device) override;
  void begin(const char* operation, OperationTag tag,
             std::shared_ptr<kernels::Event> behind) override;
  std::shared_ptr<Completion> take_running() override { return std::exchange(running_, nullptr); }
  void watch() override;

  void all_reduce(const Buffer& data, CollectiveOp reduction) override;
  void broadcast(const Buffer& data, int root) override;
  void all_gather(const Buffer& out, const Buffer& in) override;
  void reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) override;
  void all_to_all(const Buffer& out, const Buffer& in) override;
  void send(const Buffer& data, int to) override { move({.out = data, .to = to}); }
  void receive(const Buffer& data, int from) override { move({.in = data, .from = from}); }
  void send_receive(const Buffer& out, int to, const Buffer& in, int from) override {
    move({out, to, in, from});
  }
  void barrier() override { host_->barrier(); }

 private:
  using Clock = std::chrono::steady_clock;
  using Communicator = kernels::Communicator;
  struct InFlight {
    std::shared_ptr<GpuWork> work;
    std::vector<int> participants;
  };

  int rank() const { return members().rank; }
  int size() const { return members().size(); }

  // nccl.cpp
  Communicator* connect(GpuLink& link, Device device);
  Communicator* between_all(const Signature& own, Device device);
  void exchange_parts(Communicator& all, std::byte* out, const Buffer& in);
  void compare(Communicator& all, const Buffer& out, std::byte* sources, CollectiveOp reduction);

  // nccl_messages.cpp
  GpuLink& link_to(int peer);
  void connect_pairs(const Messages& what, Directly& directly);
  void move_through_host(const Messages& what, Directly directly);
  void move_directly(const Messages& what, Directly directly);
  void move(const Messages& what);

  // nccl_watch.cpp
  void await(Communicator& communicator);
  void wait_for(Communicator& communicator);
  void copy(Device device, const std::function<void()>& body);
  void finish(const std::vector<Communicator*>& used, std::vector<Buffer> memory);
  void look();
  void give_up(const std::string& reason);
  std::vector<Communicator*> communicators() const;

  const std::shared_ptr<HostBackend> host_;
  const std::shared_ptr<Backend> copies_;
  const bool is_wanted_;
  const std::chrono::milliseconds timeout_ = group_timeout();
  GpuLink whole_;
  std::map<int, GpuLink> pairs_;  // key: the other rank; for messages before `whole_` connects
  std::shared_ptr<kernels::Event> behind_;
  std::shared_ptr<GpuWork> running_;
  std::deque<InFlight> in_flight_;
  Clock::time_point last_progress_, last_look_;
  std::atomic<bool> is_stopped_ = false, is_used_ = false;
};

}  // namespace booster
