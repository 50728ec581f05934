#include "booster/report/run_files.h"

#include "booster/export/protobuf.h"
#include "booster/report/event_record.h"
#include "platform/files/file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include <unistd.h>

namespace booster::report {

namespace {

using protobuf::Message;

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
enum EventField { wall_time = 1, step_of = 2, file_version = 3, summary = 5, session_log = 7 };
enum SummaryField { summary_value = 1, value_tag = 1, simple_value = 2 };
enum SessionField { status = 1 };
constexpr int64_t session_starts = 1;

constexpr std::string_view name_begins = "events.out.tfevents.";
constexpr size_t digits_of_second = 10;
constexpr int64_t nanoseconds = 1'000'000'000;

int64_t nanoseconds_now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}
double seconds_now() {
  return static_cast<double>(nanoseconds_now()) / static_cast<double>(nanoseconds);
}

// Returns the second in the name of any writer's event file, or 0 if there is none.
int64_t second_of(const std::string& name) {
  const size_t end = name_begins.size() + digits_of_second;
  if (!name.starts_with(name_begins) || name.size() <= end || name[end] != '.') return 0;
  int64_t second = 0;
  const auto [stop, error] =
      std::from_chars(name.data() + name_begins.size(), name.data() + end, second);
  return error == std::errc() && stop == name.data() + end ? second : 0;
}

std::string name_at(int64_t time) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}{:0{}}.{:09}.{}.{}", name_begins, time / nanoseconds, digits_of_second,
                     time % nanoseconds, host, ::getpid());
}

// Returns the name of a new file. TensorBoard reads the files of a folder in the order of their
// names, and a later file replaces steps of earlier ones. Names therefore begin with the time, in a
// fixed number of digits. If a file of the folder has a later name because the clock was set back,
// the new name follows it.
std::filesystem::path new_name(const std::filesystem::path& folder) {
  make_folders(folder);
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const std::string name = entry.path().filename().string(); second_of(name) > 0)
      last = std::max(last, name);
  const std::string now = name_at(nanoseconds_now());
  return folder / (now > last ? now : name_at((second_of(last) + 1) * nanoseconds));
}

// Masks a checksum as the format does. An unmasked checksum of data that holds checksums would
// detect little.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

Message event(int64_t step) {
  Message message;
  message.number(wall_time, seconds_now());
  if (step != 0) message.integer(step_of, step);
  return message;
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  static constexpr auto table = [] {
    std::array<uint32_t, 256> rows{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t rest = i;
      for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? rest >> 1 ^ 0x82F63B78U : rest >> 1;
      rows[i] = rest;
    }
    return rows;
  }();
  uint32_t rest = ~0U;
  for (const char c : data) rest = rest >> 8 ^ table[(rest ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~rest;
}

std::string framed_record(std::string_view data) {
  std::string record;
  protobuf::append_fixed(record, uint64_t{data.size()});
  protobuf::append_fixed(record, masked(crc32c(record)));
  record += data;
  protobuf::append_fixed(record, masked(crc32c(data)));
  return record;
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t first_step)
    : file_(std::make_unique<AppendedFile>(new_name(folder), AppendedFile::Start::new_file)) {
  append(event(0).text(file_version, "brain.Event:2").bytes());
  append(event(first_step).message(session_log, Message().integer(status, session_starts)).bytes());
}

EventFile::~EventFile() = default;

void EventFile::add(std::span<const EventScalar> scalars, int64_t step) {
  Message values;
  for (const EventScalar& scalar : scalars)
    values.message(summary_value, Message()
                                      .text(value_tag, scalar.tag)
                                      .number(simple_value, static_cast<float>(scalar.value)));
  append(event(step).message(summary, values).bytes());
}

void EventFile::append(std::string_view event) { file_->append(framed_record(event)); }

}  // namespace booster::report
