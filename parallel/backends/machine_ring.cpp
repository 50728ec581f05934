#include "parallel/backends/machine_ring.h"

#include "parallel/operations/parts.h"

#include <algorithm>

namespace booster {

namespace {

int64_t block_length(int64_t lane_length, DType dtype) {
  return piece_of(lane_length * size_of(dtype)) / size_of(dtype);
}

int64_t rounded_up(int64_t count, int64_t length) { return (count + length - 1) / length; }

std::span<std::byte> start_of(std::vector<std::byte>& memory, int64_t bytes) {
  return std::span(memory).first(static_cast<size_t>(bytes));
}

}  // namespace

// With to_all, `written` is `read`, and a lane is a contiguous range of it. Otherwise lane i has
// the parts of the i-th ranks of all machines, in sequence.
struct MachineRing::Task {
  Buffer read, written;
  CollectiveOp reduction;
  bool to_all;
  int64_t length;      // of a block
  int64_t blocks = 0;  // of a lane
  int64_t part_blocks = 0;  // of one rank's part of a lane

  DType dtype() const { return read.dtype; }
  std::span<std::byte> raw(const Block& block) const {
    return read.part(block.first, block.length);
  }
  int64_t partial_bytes(const Block& block) const {
    return block.length * size_of(partial_dtype(dtype()));
  }
  // Returns where the block's result belongs, on its owner.
  std::span<std::byte> place(const Block& block) const {
    return written.part(block.first - (to_all ? 0 : block.owner * written.count), block.length);
  }
};

MachineRing::MachineRing(const Machines& machines, int rank, Exchange exchange)
    : machines_(machines),
      rank_(rank),
      here_(machines.of(rank)),
      last_(machines.count() - 1),
      exchange_(std::move(exchange)),
      lanes_(static_cast<size_t>(machines.most_members())) {}

// Counts the first machine, which sends partial sums and, unless the last one is its neighbour,
// results.
double MachineRing::sent_to_all(DType dtype) const {
  return static_cast<double>(size_of(partial_dtype(dtype))) / static_cast<double>(size_of(dtype)) +
         (last_ > 1 ? 1 : 0);
}
double MachineRing::sent_to_owners(DType dtype) const {
  return static_cast<double>(size_of(partial_dtype(dtype))) / static_cast<double>(size_of(dtype));
}

void MachineRing::reduce_to_all(const Buffer& data, CollectiveOp reduction) {
  const int64_t longest = part_of(data.count, 0, lanes()).length;
  const int64_t length = block_length(longest, data.dtype);
  run({.read = data,
       .written = data,
       .reduction = reduction,
       .to_all = true,
       .length = length,
       .blocks = rounded_up(longest, length)});
}

void MachineRing::reduce_to_owners(const Buffer& out, const Buffer& in, CollectiveOp reduction) {
  const int64_t length = block_length(out.count * machines_.count(), in.dtype);
  const int64_t part_blocks = rounded_up(out.count, length);
  run({.read = in,
       .written = out,
       .reduction = reduction,
       .to_all = false,
       .length = length,
       .blocks = part_blocks * machines_.count(),
       .part_blocks = part_blocks});
}

MachineRing::Block MachineRing::block_of(const Task& task, int lane, int64_t index) const {
  if (index < 0 || index >= task.blocks) return {};
  const auto cut = [&](Part part, int64_t at, int owner) -> Block {
    if (at >= part.length) return {};
    return {part.begin + at, std::min(task.length, part.length - at), owner};
  };
  if (task.to_all)
    return cut(part_of(task.read.count, lane, lanes()), index * task.length, rank_);
  const auto& ranks = machines_.on(static_cast<int>(index / task.part_blocks));
  if (lane >= static_cast<int>(ranks.size())) return {};
  const int owner = ranks[static_cast<size_t>(lane)];
  return cut({owner * task.written.count, task.written.count},
             index % task.part_blocks * task.length, owner);
}

// After step s, machine m adds its values to block s-m+1, which the previous machine has sent. It
// forwards the block in the next step. After step s the last machine has finished block s-last+1,
// and the result reaches machine m in step s+1+m.
void MachineRing::run(const Task& task) {
  if (task.blocks == 0) return;
  for (int lane = 0; lane < lanes(); ++lane) {
    if (!handles(lane)) continue;
    const auto bytes = static_cast<size_t>(task.length * size_of(task.dtype()));
    const auto partial = static_cast<size_t>(task.length * size_of(partial_dtype(task.dtype())));
    lanes_[lane].raw.resize(bytes * machines_.on(here_).size());
    lanes_[lane].incoming.resize(partial);
    lanes_[lane].outgoing.resize(partial);
    lanes_[lane].result.resize(task.to_all ? 0 : bytes);
  }
  const int64_t result_after = task.to_all && here_ < last_ ? last_ + 1 + here_ : last_;
  for (int64_t at = here_ - 1; at < task.blocks + result_after; ++at) step(task, at);
}

void MachineRing::step(const Task& task, int64_t step) {
  Messages messages;
  const int64_t reduced = step - here_ + 1;
  for (int lane = 0; lane < lanes(); ++lane) {
    collect(task, lane, block_of(task, lane, reduced), messages);
    if (handles(lane)) hand_on(task, lane, step, messages);
    if (task.to_all) pass_around(task, lane, step, messages);
    else deliver(task, lane, block_of(task, lane, step - last_), messages);
  }
  exchange_(messages.outgoing, messages.incoming);
  for (int lane = 0; lane < lanes(); ++lane)
    if (handles(lane)) reduce(task, lane, block_of(task, lane, reduced));
}

// Sends this machine's data of the block to the block's handler.
void MachineRing::collect(const Task& task, int lane, const Block& block, Messages& messages) {
  if (block.length == 0) return;
  if (!handles(lane))
    return messages.outgoing.push_back({machines_.owner(here_, lane), task.raw(block)});
  const auto bytes = task.raw(block).size();
  for (const int rank : machines_.on(here_))
    if (rank != rank_)
      messages.incoming.push_back(
          {rank, std::span(lanes_[lane].raw).subspan(machines_.place_of(rank) * bytes, bytes)});
}

void MachineRing::hand_on(const Task& task, int lane, int64_t step, Messages& messages) {
  const Block sent = block_of(task, lane, step - here_);
  const Block expected = block_of(task, lane, step - here_ + 1);
  if (here_ < last_ && sent.length > 0)
    messages.outgoing.push_back({machines_.owner(here_ + 1, lane),
                                 start_of(lanes_[lane].outgoing, task.partial_bytes(sent))});
  if (here_ > 0 && expected.length > 0)
    messages.incoming.push_back({machines_.owner(here_ - 1, lane),
                                 start_of(lanes_[lane].incoming, task.partial_bytes(expected))});
}

// Passes results from the last machine to the first and onwards, up to the one before the last. In
// each step a machine forwards the block that arrived in the previous step, and sends it to all its
// ranks.
void MachineRing::pass_around(const Task& task, int lane, int64_t step, Messages& messages) {
  const int64_t told_after = here_ == last_ ? last_ : last_ + 1 + here_;
  const Block known = block_of(task, lane, step - told_after);
  if (!handles(lane)) {
    if (known.length > 0)
      messages.incoming.push_back({machines_.owner(here_, lane), task.place(known)});
    return;
  }
  const Block expected = here_ == last_ ? Block{} : block_of(task, lane, step - last_ - here_);
  if (expected.length > 0)
    messages.incoming.push_back(
        {machines_.owner(here_ == 0 ? last_ : here_ - 1, lane), task.place(expected)});
  if (known.length == 0) return;
  const int next = here_ == last_ ? 0 : here_ + 1;
  if (next != last_) messages.outgoing.push_back({machines_.owner(next, lane), task.place(known)});
  for (const int rank : machines_.on(here_))
    if (rank != rank_) messages.outgoing.push_back({rank, task.place(known)});
}

// Sends the result from the last machine directly to its owner.
void MachineRing::deliver(const Task& task, int lane, const Block& block, Messages& messages) {
  const int sender = machines_.owner(last_, lane);
  if (block.length == 0 || sender == block.owner) return;
  if (rank_ == sender)
    messages.outgoing.push_back(
        {block.owner, start_of(lanes_[lane].result, block.length * size_of(task.dtype()))});
  if (rank_ == block.owner) messages.incoming.push_back({sender, task.place(block)});
}

void MachineRing::reduce(const Task& task, int lane, const Block& block) {
  if (block.length == 0) return;
  Lane& memory = lanes_[lane];
  const auto own = task.raw(block);
  std::vector<const void*> sources;
  for (const int rank : machines_.on(here_))
    sources.push_back(rank == rank_ ? own.data()
                                    : memory.raw.data() + machines_.place_of(rank) * own.size());
  if (here_ > 0) std::swap(memory.incoming, memory.outgoing);
  reduce_further(memory.outgoing.data(), here_ == 0, sources, block.length, task.dtype(),
                 task.reduction, scratch_);
  if (here_ < last_) return;
  const bool is_mine = task.to_all || block.owner == rank_;
  finish_reduction(is_mine ? task.place(block).data() : memory.result.data(),
                   memory.outgoing.data(), machines_.members(), block.length, task.dtype(),
                   task.reduction);
}

}  // namespace booster
