#include "parallel/host_list.h"

#include "platform/error.h"
#include "platform/warn.h"

#include <charconv>

namespace booster {

namespace {

constexpr size_t most_names = 65536;

class Parser {
 public:
  Parser(std::string_view list, const char* what) : list_(list), what_(what) {}

  std::vector<std::string> all() {
    std::vector<std::string> names;
    do {
      for (std::string& name : entry()) names.push_back(std::move(name));
      if (names.size() > most_names) refuse("more than 65536 hosts");
    } while (took(','));
    if (at_ < list_.size()) refuse("a closing bracket without an opening one");
    return names;
  }

 private:
  [[noreturn]] void refuse(const char* why) const {
    fail("{}: {}, at character {}; got '{}', want a list such as rack[0-1]-gpu[03-05,9],login",
         what_, why, at_ + 1, terminal_text(list_.substr(0, 200)));
  }

  bool took(char wanted) {
    const bool is_there = at_ < list_.size() && list_[at_] == wanted;
    at_ += is_there;
    return is_there;
  }

  std::vector<std::string> entry() {
    const size_t begin = at_;
    std::vector<std::string> names = {""};
    while (at_ < list_.size() && list_[at_] != ',' && list_[at_] != ']')
      names = joined(names, took('[') ? ranges() : std::vector<std::string>{text()});
    if (at_ == begin) refuse("a name is empty");
    return names;
  }

  std::vector<std::string> joined(const std::vector<std::string>& begins,
                                  const std::vector<std::string>& ends) const {
    if (begins.size() * ends.size() > most_names) refuse("more than 65536 hosts");
    std::vector<std::string> names;
    for (const std::string& begin : begins)
      for (const std::string& end : ends) names.push_back(begin + end);
    return names;
  }

  std::string text() {
    const size_t end = std::min(list_.find_first_of("[],", at_), list_.size());
    const std::string_view text = list_.substr(at_, end - at_);
    if (text.find_first_of(" \t\r\n") != text.npos) refuse("a name has a blank");
    at_ = end;
    return std::string(text);
  }

  // Reads from after "[" to after "]".
  std::vector<std::string> ranges() {
    std::vector<std::string> numbers;
    do {
      add_range(numbers);
    } while (took(','));
    if (!took(']')) refuse("a bracket is not closed, or holds something other than numbers");
    return numbers;
  }

  void add_range(std::vector<std::string>& numbers) {
    const size_t begin = at_;
    const uint64_t first = number();
    const size_t width = at_ - begin;
    const uint64_t last = took('-') ? number() : first;
    if (last < first) refuse("a range ends before it begins");
    if (last - first >= most_names) refuse("more than 65536 hosts");
    for (uint64_t i = first; i <= last; ++i) numbers.push_back(fmt::format("{:0{}}", i, width));
  }

  uint64_t number() {
    constexpr size_t most_digits = 18;  // a uint64_t holds them
    const size_t end = std::min(list_.find_first_not_of("0123456789", at_), list_.size());
    if (end == at_) refuse("a number is missing");
    if (end - at_ > most_digits) refuse("a number has more than 18 digits");
    uint64_t value = 0;
    std::from_chars(list_.data() + at_, list_.data() + end, value);
    at_ = end;
    return value;
  }

  std::string_view list_;
  const char* what_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> slurm_hosts(std::string_view list, const char* what) {
  return Parser(list, what).all();
}

}  // namespace booster
