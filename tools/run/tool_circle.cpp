#include "tools/run/tool_circle.h"

#include "parallel/rendezvous/job.h"
#include "platform/error.h"

#include <charconv>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace booster {

namespace {

constexpr auto circle_interval = std::chrono::milliseconds(50);
constexpr int most_looks_after_loss = 40;  // 2 s, for answers that are under way

// Returns the outcome of a machine's ranks as text for the other tools: "1 stopped".
std::string text_of(const Outcome& outcome) {
  return fmt::format("{}{}", outcome.exit_code, outcome.interrupted ? " stopped" : "");
}
Outcome outcome_from(const std::string& text) {
  Outcome outcome;
  std::from_chars(text.data(), text.data() + text.size(), outcome.exit_code);
  outcome.interrupted = text.ends_with(" stopped");
  return outcome;
}

std::string key_of(int attempt, int node) { return fmt::format("ended-{}-{}", attempt, node); }

}  // namespace

ToolCircle::ToolCircle(const RunOptions& options)
    : node_(options.node_rank), nodes_(options.nnodes) {
  check(options.master_port < 65535,
        "--max_restarts: the run tools use the port after --master_port; got {}, want less than "
        "65535",
        options.master_port);
  meeting_ =
      std::make_unique<StoreRendezvous>(Endpoint{options.master_addr, options.master_port + 1},
                                        node_, nodes_, "run tools: " + job_of(nodes_));
  std::vector<int> all(static_cast<size_t>(nodes_));
  std::iota(all.begin(), all.end(), 0);
  for (const int node : all) meeting_->set_place(node, fmt::format("the tool of node {}", node));
  meeting_->wait_for(all);
}

// Checks all nodes including this one. Any tool, even the one that keeps the store, would wait in
// vain without its connection to the store.
std::string ToolCircle::lost_tool() {
  for (int node = 0; node < nodes_; ++node)
    if (const std::string text = meeting_->trouble({node}); !text.empty()) return text;
  return "";
}

std::string ToolCircle::trouble(int attempt) {
  for (int node = 0; node < nodes_; ++node) {
    const auto ended = meeting_->look(key_of(attempt, node));
    if (node != node_ && ended && outcome_from(*ended).exit_code != 0)
      return fmt::format("the ranks on node {} have failed", node);
  }
  return lost_tool();
}

std::optional<Outcome> ToolCircle::outcome_of_all(int attempt, const Outcome& own) {
  Outcome all = own;
  bool is_complete = true;
  for (int node = 0; node < nodes_; ++node) {
    if (node == node_) continue;
    const auto ended = meeting_->look(key_of(attempt, node));
    is_complete = is_complete && ended;
    if (!ended) continue;
    const Outcome theirs = outcome_from(*ended);
    if (all.exit_code == 0) all.exit_code = theirs.exit_code;
    all.interrupted = all.interrupted || theirs.interrupted;
  }
  return is_complete ? std::optional(all) : std::nullopt;
}

// A tool that has seen all outcomes may leave, and the store then has them all. So a tool that is
// gone is a failure only if outcomes are missing a moment later.
Outcome ToolCircle::agree(int attempt, const Outcome& own) {
  meeting_->put(key_of(attempt, node_), text_of(own));
  for (int looks_after_loss = 0;;) {
    if (const auto all = outcome_of_all(attempt, own)) return *all;
    if (meeting_->has_lost_one() && ++looks_after_loss > most_looks_after_loss)
      fail_run("run: {}", lost_tool());
    std::this_thread::sleep_for(circle_interval);
  }
}

}  // namespace booster
