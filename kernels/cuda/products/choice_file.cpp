#include "kernels/cuda/products/choice_file.h"

#include "platform/warn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

namespace booster::kernels::cuda {
namespace {

constexpr const char* title = "booster: algorithms of matrix products, 1";

std::string sum_of(const std::string& text) {
  uint64_t sum = 0xCBF29CE484222325;
  for (const char byte : text) sum = (sum ^ static_cast<uint8_t>(byte)) * 0x100000001B3;
  return fmt::format("{:016x}", sum);
}

// Prevents other processes from adding at the same time; does not wait long for a stopped process.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    for (int i = 0; descriptor_ >= 0 && i < 200; ++i) {
      if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~Lock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Lock(const Lock&) = delete;

 private:
  int descriptor_;
};

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return ::fsync(descriptor) == 0;
}

// Parses the lines between the subject and the end; returns false if one is not a choice.
bool parse(std::istringstream& lines, ChoiceFile::Choices& choices) {
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    int choice = -1;
    std::string product;
    if (!(words >> choice) || choice < 0 || words.get() != ' ' || !std::getline(words, product))
      return false;
    choices[product] = choice;
  }
  return true;
}

}  // namespace

ChoiceFile::ChoiceFile(std::string path, std::string subject)
    : path_(std::move(path)), subject_(std::move(subject)) {}

std::optional<ChoiceFile::Choices> ChoiceFile::read(std::string& why) const {
  std::ifstream file(path_, std::ios::binary);
  if (!file) {
    why = absent;
    return {};
  }
  std::stringstream read;
  read << file.rdbuf();  // an empty file is damaged too
  const std::string text = std::move(read).str();
  const size_t end = text.rfind("end ");
  std::istringstream lines(end == std::string::npos ? "" : text.substr(0, end));
  std::string first, subject;
  Choices choices;
  if (end == std::string::npos || text.substr(end) != "end " + sum_of(text.substr(0, end)) + "\n" ||
      !std::getline(lines, first) || first != title || !std::getline(lines, subject) ||
      !parse(lines, choices)) {
    why = "it is damaged";
    return {};
  }
  if (subject == subject_) return choices;
  why = fmt::format("it has another subject; got {}, want {}", subject, subject_);
  return {};
}

bool ChoiceFile::write(const Choices& choices) const {
  std::string text = fmt::format("{}\n{}\n", title, subject_);
  for (const auto& [product, choice] : choices) text += fmt::format("{} {}\n", choice, product);
  text += "end " + sum_of(text) + "\n";
  std::string temporary = path_ + ".XXXXXX";
  const int descriptor = ::mkstemp(temporary.data());
  if (descriptor < 0) return false;
  const bool is_written = write_all(descriptor, text);
  if (::close(descriptor) == 0 && is_written && ::rename(temporary.c_str(), path_.c_str()) == 0)
    return true;
  const int reason = errno;
  ::unlink(temporary.c_str());
  errno = reason;
  return false;
}

int ChoiceFile::add(const std::string& product, int choice) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  const Lock lock(path_ + ".lock");
  std::string why;
  Choices choices = read(why).value_or(Choices());
  const auto [place, is_new] = choices.emplace(product, choice);
  if (is_new && !write(choices) && !std::exchange(is_told_, true))
    warn(fmt::format("booster: cannot keep the algorithms of matrix products in {}: {}", path_,
                     std::strerror(errno)));
  return place->second;
}

}  // namespace booster::kernels::cuda
