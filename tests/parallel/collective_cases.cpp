#include "tests/parallel/collective_cases.h"

using namespace booster;

namespace {

int next(const Group& group) { return (group.rank() + 1) % group.size(); }
int previous(const Group& group) { return (group.rank() + group.size() - 1) % group.size(); }

}  // namespace

std::vector<CollectiveCase> collective_cases(int size) {
  std::vector<CollectiveCase> cases = {
      {"all_reduce", [](const Group& group, const Buffer& out,
                        const Buffer&) { return group.all_reduce_async(out); }},
      {"all_gather",
       [](const Group& group, const Buffer& out, const Buffer& in) {
         return group.all_gather_async(out, in);
       },
       true, true, false},
      {"reduce_scatter",
       [](const Group& group, const Buffer& out, const Buffer& in) {
         return group.reduce_scatter_async(out, in);
       },
       true, false, true},
      {"all_to_all",
       [](const Group& group, const Buffer& out, const Buffer& in) {
         return group.all_to_all_async(out, in);
       },
       true, true, true},
      {"barrier",
       [](const Group& group, const Buffer&, const Buffer&) { return group.barrier_async(); },
       false},
  };
  if (size == 1) return cases;
  cases.push_back({"send_receive", [](const Group& group, const Buffer& out, const Buffer& in) {
                     return group.send_receive_async(in, next(group), out, previous(group));
                   }});
  cases.push_back({"send",
                   [](const Group& group, const Buffer&, const Buffer& in) {
                     return group.send_async(in, next(group));
                   },
                   false});
  cases.push_back({"receive", [](const Group& group, const Buffer& out, const Buffer&) {
                     return group.receive_async(out, previous(group));
                   }});
  return cases;
}
