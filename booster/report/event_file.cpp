#include "booster/report/event_file.h"

#include "booster/export/protobuf.h"
#include "platform/files/file.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>

#include <unistd.h>

namespace booster::report {

namespace {

using protobuf::Message;

// Of tensorflow/core/util/event.proto and framework/summary.proto.
enum EventField { wall_time = 1, step_of = 2, file_version = 3, summary = 5, session_log = 7 };
enum SummaryField { summary_value = 1, value_tag = 1, simple_value = 2 };
enum SessionField { status = 1 };
constexpr int64_t session_starts = 1;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Files of a folder are read in the order of their names: seconds first, then which of a second.
std::filesystem::path new_name(const std::filesystem::path& folder) {
  static std::atomic<int> files = 0;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  make_folders(folder);
  return folder / fmt::format("events.out.tfevents.{:010.0f}.{}.{}.{}", seconds_now(), host,
                              ::getpid(), files++);
}

void append_fixed(std::string& bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
}

// Checksums of data that hold checksums tell little; so the format rotates and shifts them.
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
  append_fixed(record, data.size(), 8);
  append_fixed(record, masked(crc32c(record)), 4);
  record += data;
  append_fixed(record, masked(crc32c(data)), 4);
  return record;
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t first_step)
    : file_(new_name(folder), AppendedFile::Start::new_file) {
  append(event(0).text(file_version, "brain.Event:2").bytes());
  append(event(first_step).message(session_log, Message().integer(status, session_starts)).bytes());
}

void EventFile::add(std::span<const EventScalar> scalars, int64_t step) {
  Message values;
  for (const EventScalar& scalar : scalars)
    values.message(summary_value, Message()
                                      .text(value_tag, scalar.tag)
                                      .number(simple_value, static_cast<float>(scalar.value)));
  append(event(step).message(summary, values).bytes());
}

void EventFile::append(std::string_view event) { file_.append(framed_record(event)); }

}  // namespace booster::report
