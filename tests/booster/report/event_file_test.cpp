// Event files for TensorBoard: frames, messages, and the events that a training writes.
#include "booster/report/event_record.h"
#include "booster/report/run_files.h"
#include "tests/examples/example.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>

using namespace booster;
using namespace booster::report;

namespace {

namespace fs = std::filesystem;

template <class T>
T number_at(std::string_view bytes, size_t at) {
  T value;
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t turned = masked - 0xA282EAD8U;
  return turned >> 17 | turned << 15;
}

// Returns the data of each record; checks its checksums.
std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = number_at<uint64_t>(file, at);
    REQUIRE(unmasked(number_at<uint32_t>(file, at + 8)) == crc32c(file.substr(at, 8)));
    REQUIRE(at + 16 + length <= file.size());
    const std::string_view data = file.substr(at + 12, length);
    REQUIRE(unmasked(number_at<uint32_t>(file, at + 12 + length)) == crc32c(data));
    records.emplace_back(data);
    at += 16 + length;
  }
  return records;
}

// A field of a message: an integer or bytes.
struct Field {
  int number;
  uint64_t value = 0;
  std::string bytes = {};
};

uint64_t varint(std::string_view message, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(at < message.size());
    const auto byte = static_cast<uint8_t>(message[at++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields_of(const std::string& message) {
  std::vector<Field> fields;
  for (size_t at = 0; at < message.size();) {
    const uint64_t key = varint(message, at);
    Field field{.number = static_cast<int>(key >> 3)};
    if ((key & 7) == 0) field.value = varint(message, at);
    if ((key & 7) == 1) field.value = number_at<uint64_t>(message, at), at += 8;
    if ((key & 7) == 5) field.value = number_at<uint32_t>(message, at), at += 4;
    if ((key & 7) == 2) {
      const uint64_t length = varint(message, at);
      REQUIRE(at + length <= message.size());
      field.bytes = message.substr(at, length);
      at += length;
    }
    fields.push_back(field);
  }
  return fields;
}

struct Scalar {
  int64_t step = 0;
  std::string tag = {};
  float value = 0;
};

// Returns the scalars of all summaries. Field numbers are from event.proto and summary.proto.
std::vector<Scalar> scalars_of(const std::string& file) {
  std::vector<Scalar> scalars;
  for (const std::string& record : records_of(file)) {
    int64_t step = 0;
    for (const Field& field : fields_of(record)) {
      if (field.number == 2) step = static_cast<int64_t>(field.value);
      if (field.number != 5) continue;
      for (const Field& value : fields_of(field.bytes)) {
        Scalar scalar{.step = step};
        for (const Field& part : fields_of(value.bytes)) {
          if (part.number == 1) scalar.tag = part.bytes;
          if (part.number == 2)
            scalar.value = std::bit_cast<float>(static_cast<uint32_t>(part.value));
        }
        scalars.push_back(scalar);
      }
    }
  }
  return scalars;
}

// Returns the files in the order in which TensorBoard reads them.
std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names, files;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().string());
  std::ranges::sort(names);
  for (const std::string& name : names) {
    CHECK(fs::path(name).filename().string().starts_with("events.out.tfevents."));
    std::ifstream file(name, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

}  // namespace

TEST_CASE("CRC-32C gives the values of RFC 3720") {
  // Values from appendix B.4.
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43U);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  CHECK(crc32c(rising) == 0x46DD794EU);
  CHECK(crc32c("123456789") == 0xE3069283U);
}

TEST_CASE("a later event file has a later name, whatever the process ids and the clock say") {
  const TemporaryFolder temporary;
  const fs::path& folder = temporary.path();
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  // Files of another writer; the last has a clock that is five seconds ahead.
  for (const int64_t second : {now - 1, now, now + 5})
    std::ofstream(folder / fmt::format("events.out.tfevents.{:010}.zzz.9999.0", second)) << "";
  std::string last;
  for (int i = 0; i < 12; ++i) {
    const EventFile file(folder, i);
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
    CHECK(names.size() == static_cast<size_t>(i) + 4);
    const std::string greatest = *std::ranges::max_element(names);
    CHECK(greatest > last);
    CHECK(fs::file_size(folder / greatest) > 0);
    last = greatest;
  }
}

TEST_CASE("records are framed as TensorFlow frames them") {
  // The golden file holds these texts as framed by tensorboard's own writer (make_events.py).
  std::ifstream file(test::golden_folder() + "/booster/records.json");
  const auto golden = nlohmann::json::parse(file);
  REQUIRE(golden.size() > 3);
  for (const auto& row : golden) {
    std::string hex;
    for (const char c : framed_record(row["data"].get<std::string>()))
      hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
    CHECK(hex == row["record"].get<std::string>());
  }
}

TEST_CASE("event files keep scalars of any size, and steps from which a file begins again") {
  TemporaryFolder folder;
  {
    EventFile events(folder / "tb/deep", 5);
    const std::vector<EventScalar> two = {{"train/loss", 0.1}, {"é", -INFINITY}};
    events.add(two, 5);
    events.add(std::vector<EventScalar>{{std::string(300, 'n'), NAN}}, int64_t{1} << 40);
    EventFile other(folder / "tb/deep");
  }
  const auto files = files_in(folder / "tb/deep");
  REQUIRE(files.size() == 2);
  const auto records = records_of(files[0]);
  REQUIRE(records.size() == 4);
  CHECK(fields_of(records[0]).at(1).bytes == "brain.Event:2");
  const auto session = fields_of(records[1]);
  REQUIRE(session.size() == 3);
  CHECK(session[1].number == 2);
  CHECK(session[1].value == 5);
  CHECK(session[2].number == 7);
  CHECK(session[2].bytes == "\x08\x01");
  const auto scalars = scalars_of(files[0]);
  REQUIRE(scalars.size() == 3);
  CHECK(scalars[0].tag == "train/loss");
  CHECK(scalars[0].value == 0.1f);
  CHECK(scalars[0].step == 5);
  CHECK(scalars[1].tag == "é");
  CHECK(scalars[1].value == -INFINITY);
  CHECK(std::isnan(scalars[2].value));
  CHECK(scalars[2].step == int64_t{1} << 40);
}

TEST_CASE("a training writes its metrics for TensorBoard, and a resumed one a file of its own") {
  const Example example;
  const auto first = example.run("train.tensorboard=true train.max_steps=3");
  REQUIRE_MESSAGE(first.code == 0, first.output);
  REQUIRE(example.run("train.tensorboard=true train.max_steps=5").code == 0);
  const auto files = files_in(example.output() / "tensorboard");
  REQUIRE(files.size() == 2);
  std::vector<std::pair<int64_t, float>> told, wanted;
  for (const std::string& file : files)
    for (const Scalar& scalar : scalars_of(file))
      if (scalar.tag == "train/loss") told.emplace_back(scalar.step, scalar.value);
  for (const auto& line : example.metric_lines())
    if (line.contains("loss")) wanted.emplace_back(line["step"], line["loss"].get<float>());
  CHECK(told == wanted);
  std::set<std::string> tags;
  for (const Scalar& scalar : scalars_of(files[0])) tags.insert(scalar.tag);
  for (const char* tag : {"train/lr", "train/loss_scale", "train/images_per_s", "validation/top1"})
    CHECK_MESSAGE(tags.contains(tag), tag);
  const auto second = fields_of(records_of(files[1]).at(1));
  CHECK(second.at(1).value == 4);  // the first step that is written again
}

TEST_CASE("train.tensorboard is a folder, true or false") {
  const Example example;
  const std::string folder = (example.root() / "events").string();
  REQUIRE(example.run("train.max_steps=1 train.tensorboard=" + folder).code == 0);
  CHECK(files_in(folder).size() == 1);
  const auto wrong = example.run("train.tensorboard=3");
  CHECK(wrong.code == 2);
  CHECK_MESSAGE(wrong.says("train.tensorboard"), wrong.output);
}

TEST_CASE("a training records its command, its revisions and the images that it got most wrong") {
  const Example example;
  const auto result = example.run("train.max_steps=2");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  const auto record = nlohmann::json::parse(example.record());
  CHECK(record["command"][0].get<std::string>().ends_with("vit_caltech101"));
  CHECK(record["command"].dump().find("train.max_steps=2") != std::string::npos);
  CHECK(record["git"].contains("folder"));
  CHECK(record["git"].contains("library"));
  const auto worst = nlohmann::json::parse(example.read("worst_images.json"));
  CHECK(worst["step"] == 2);
  REQUIRE(worst["images"].size() == 4);  // all images for validation
  double before = INFINITY;
  for (const auto& image : worst["images"]) {
    CHECK(image["loss"].get<double>() <= before);
    before = image["loss"].get<double>();
    const auto file = image["file"].get<std::string>();
    CHECK(file.find("/" + image["true"].get<std::string>() + "/") != std::string::npos);
    CHECK(image["jpeg"].get<std::string>().starts_with("/9j/"));  // FF D8 FF
    const double share = image["probability"].get<double>();
    const bool right = image["true"] == image["predicted"];
    if (right) CHECK(image["loss"].get<double>() == doctest::Approx(-std::log(share)));
  }
}
