// Lets a host backend serve memory on devices, through copies in host memory. It allows any number
// of ranks on any GPUs, even several on one GPU, and gives the CPU's results.
//
// A copy is queued after the caller's work on the device, since all threads of a process share the
// device's stream (kernels/cuda/runtime/device.h). The host waits for the copy.
#include "kernels/device/memory.h"
#include "parallel/backends/host_backend.h"

namespace booster {

namespace {

bool is_on_host(const Buffer& buffer) { return buffer.device.type == DeviceType::cpu; }

// A buffer's host memory: the buffer itself, or as many bytes of `memory`, which grows.
class HostPlace {
 public:
  HostPlace(const Buffer& buffer, std::vector<std::byte>& memory) : buffer_(buffer), host_(buffer) {
    if (is_on_host(buffer)) return;
    const auto bytes = static_cast<size_t>(buffer.bytes());
    if (memory.size() < bytes) memory.resize(bytes);
    host_ = Buffer(memory.data(), buffer.count, buffer.dtype);
  }

  // Returns the host memory with the buffer's values.
  const Buffer& filled() const {
    if (!is_on_host(buffer_)) copy(host_, buffer_);
    return host_;
  }
  // Returns the host memory for writing.
  const Buffer& room() const { return host_; }
  // Copies the written values back to the buffer.
  void give_back() const {
    if (!is_on_host(buffer_)) copy(buffer_, host_);
  }

 private:
  static void copy(const Buffer& to, const Buffer& from) {
    kernels::device_copy(to.data, to.device, from.data, from.device,
                         static_cast<size_t>(to.bytes()));
  }

  const Buffer& buffer_;
  Buffer host_;
};

class ThroughHost final : public Backend {
 public:
  explicit ThroughHost(std::shared_ptr<HostBackend> host)
      : Backend(host->members()), host_(std::move(host)) {
    host_->serve(*this);
  }

  const char* name() const override { return host_->name(); }
  void stop() override { host_->stop(); }

  void all_reduce(const Buffer& data, CollectiveOp reduction) override {
    const HostPlace place(data, written_);
    host_->all_reduce(place.filled(), reduction);
    place.give_back();
  }
  void broadcast(const Buffer& data, int root) override {
    const HostPlace place(data, written_);
    if (members().rank == root) return host_->broadcast(place.filled(), root);
    host_->broadcast(place.room(), root);
    place.give_back();
  }
  void all_gather(const Buffer& out, const Buffer& in) override {
    move(out, in, [&](const Buffer& to, const Buffer& from) { host_->all_gather(to, from); });
  }
  void reduce_scatter(const Buffer& out, const Buffer& in, CollectiveOp reduction) override {
    move(out, in,
         [&](const Buffer& to, const Buffer& from) { host_->reduce_scatter(to, from, reduction); });
  }
  void all_to_all(const Buffer& out, const Buffer& in) override {
    move(out, in, [&](const Buffer& to, const Buffer& from) { host_->all_to_all(to, from); });
  }
  void send(const Buffer& data, int to) override {
    host_->send(HostPlace(data, read_).filled(), to);
  }
  void receive(const Buffer& data, int from) override {
    const HostPlace place(data, written_);
    host_->receive(place.room(), from);
    place.give_back();
  }
  void send_receive(const Buffer& out, int to, const Buffer& in, int from) override {
    move(in, out, [&](const Buffer& received, const Buffer& sent) {
      host_->send_receive(sent, to, received, from);
    });
  }
  void barrier() override { host_->barrier(); }

 private:
  template <class Collective>
  void move(const Buffer& out, const Buffer& in, const Collective& collective) {
    const HostPlace to(out, written_), from(in, read_);
    collective(to.room(), from.filled());
    to.give_back();
  }

  std::shared_ptr<HostBackend> host_;
  std::vector<std::byte> read_, written_;  // copies of what an operation reads and writes
};

}  // namespace

std::unique_ptr<Backend> through_host(std::shared_ptr<HostBackend> host) {
  return std::make_unique<ThroughHost>(std::move(host));
}

}  // namespace booster
