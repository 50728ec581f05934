#include "core/text/tokenizer.h"
#include "platform/files/atomic_file.h"

#include "platform/error.h"
#include "platform/files/file.h"
#include "platform/files/sha256.h"
#include "platform/json/json_text.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <thread>
#include <utility>

namespace booster {
namespace {

namespace fs = std::filesystem;
using NoteJson = nlohmann::ordered_json;

// Documents of about this many bytes are tokenised together, and then noted as done.
constexpr size_t bytes_at_a_time = size_t{8} << 20;
constexpr size_t longest_note = size_t{1} << 20;

// Where a run is: everything before this byte of this file has been written.
struct Place {
  size_t file = 0;
  uint64_t byte = 0;
  TokenizeResult written;
};

// Documents of one file, in order.
class DocumentReader {
 public:
  DocumentReader(const fs::path& path, uint64_t start, const TokenizeOptions& options,
                 std::string separator)
      : path_(path),
        stream_(path, std::ios::binary),
        options_(options),
        separator_(std::move(separator)),
        by_lines_(path.extension() == ".jsonl"),
        at_(start) {
    if (!stream_) fail_data("tokenize: cannot read '{}'", path.string());
    if (by_lines_) count_lines(start);
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(start));
  }

  // Returns the next documents, of about `bytes` together; none at the end.
  std::vector<std::string> next(size_t bytes) {
    std::vector<std::string> documents;
    for (size_t taken = 0; taken < bytes || documents.empty();) {
      const uint64_t before = at_;
      auto document = by_lines_ ? next_line() : next_part();
      if (!document) break;
      taken += at_ - before;
      if (!document->empty()) documents.push_back(std::move(*document));
    }
    return documents;
  }
  uint64_t at() const { return at_; }  // bytes read

 private:
  void count_lines(uint64_t bytes) {
    std::string line;
    for (uint64_t at = 0; at < bytes && std::getline(stream_, line); at += line.size() + 1) ++line_;
  }

  std::optional<std::string> next_line() {
    std::string line;
    if (!std::getline(stream_, line)) return std::nullopt;
    ++line_;
    at_ += line.size() + (stream_.eof() ? 0 : 1);
    if (line.find_first_not_of(" \t\r") == std::string::npos) return "";
    const auto json = json_if_whole(line);
    if (!json.is_object())
      fail_data("tokenize: {}:{}: want an object in JSON", path_.string(), line_);
    const auto text = json.find(options_.text_key);
    if (text == json.end() || !text->is_string())
      fail_data("tokenize: {}:{}: want a text under the key '{}'", path_.string(), line_,
                options_.text_key);
    return text->get<std::string>();
  }

  // Text up to the separator, which is read and left out; without one, all that is left.
  std::optional<std::string> next_part() {
    size_t end = separator_in_block();
    while (end == std::string::npos && read_block()) end = separator_in_block();
    if (head_ == block_.size()) return std::nullopt;
    const bool is_last = end == std::string::npos;
    std::string document = block_.substr(head_, is_last ? end : end - head_);
    const size_t next = is_last ? block_.size() : end + separator_.size();
    at_ += next - head_;
    head_ = next;
    return document;
  }

  size_t separator_in_block() const {
    return separator_.empty() ? std::string::npos : block_.find(separator_, head_);
  }

  // Adds to what has not been given yet; returns false at the file's end.
  bool read_block() {
    block_.erase(0, head_);
    head_ = 0;
    const size_t before = block_.size();
    block_.resize(before + bytes_at_a_time);
    stream_.read(&block_[before], static_cast<std::streamsize>(bytes_at_a_time));
    block_.resize(before + static_cast<size_t>(stream_.gcount()));
    return block_.size() > before;
  }

  fs::path path_;
  std::ifstream stream_;
  const TokenizeOptions& options_;
  std::string separator_;
  std::string block_;  // read and, from head_ on, not yet given
  size_t head_ = 0;
  bool by_lines_;
  uint64_t at_, line_ = 0;
};

std::vector<std::vector<int32_t>> encoded(const Tokenizer& tokenizer,
                                          const std::vector<std::string>& documents, int threads) {
  std::vector<std::vector<int32_t>> tokens(documents.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < documents.size() && !failed; i = next++)
        tokens[i] = tokenizer.encode(documents[i], {.special_tokens = false});
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
  return tokens;
}

template <class T>
void append_tokens(std::string& bytes, const std::vector<int32_t>& tokens) {
  for (const int32_t token : tokens) {
    const T value = static_cast<T>(token);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
}

// What must be the same for a run to go on: files with their sizes and times, tokeniser, options.
NoteJson task_of(const Tokenizer& tokenizer, const std::vector<fs::path>& texts,
                 const TokenizeOptions& options) {
  NoteJson files = NoteJson::array();
  for (const fs::path& path : texts)
    files.push_back({path.string(), fs::file_size(path),
                     fs::last_write_time(path).time_since_epoch().count()});
  return {{"texts", files},
          {"tokenizer", tokenizer.fingerprint()},
          {"text_key", options.text_key},
          {"end_token", options.end_token ? NoteJson(*options.end_token) : NoteJson(nullptr)}};
}

class Run {
 public:
  Run(const Tokenizer& tokenizer, const std::vector<fs::path>& texts, const fs::path& output,
      const TokenizeOptions& options)
      : tokenizer_(tokenizer),
        texts_(texts),
        output_(output),
        options_(options),
        threads_(options.threads > 0
                     ? options.threads
                     : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))) {
    for (const fs::path& path : texts) {
      if (!is_there(path)) fail_data("tokenize: no such file; got '{}'", path.string());
      all_bytes_ += fs::file_size(path);
    }
    task_ = task_of(tokenizer, texts, options);
    if (options.end_token) {
      const auto text = tokenizer.token_of(*options.end_token);
      check(text.has_value(), "tokenize: end_token; got {}, which is no token", *options.end_token);
      separator_ = *text;
    }
    find_place();
  }

  TokenizeResult run() {
    if (auto finished = finished_before()) return *finished;
    const auto start = place_.written.tokens > 0 || is_there(part())
                           ? AppendedFile::Start::at_end
                           : AppendedFile::Start::new_file;
    AppendedFile file(part(), start);
    file.keep(static_cast<int64_t>(place_.written.tokens) * place_.written.bytes_per_token);
    for (; place_.file < texts_.size(); ++place_.file, place_.byte = 0) write_one(file);
    finish();
    return place_.written;
  }

 private:
  fs::path part() const { return output_.string() + ".part"; }
  fs::path note() const { return output_.string() + ".part.json"; }

  void find_place() {
    place_.written.bytes_per_token = tokenizer_.vocabulary_size() <= 65536 ? 2 : 4;
    if (!is_there(note()) || !is_there(part())) return;
    const auto known = json_if_whole<NoteJson>(read_file(note(), longest_note));
    if (!known.is_object() || known.value("task", NoteJson()) != task_) return;
    const auto tokens = known.at("tokens").get<uint64_t>();
    const auto width = static_cast<uint64_t>(place_.written.bytes_per_token);
    if (fs::file_size(part()) < tokens * width) return;  // not what this note is about
    place_.file = known.at("file").get<size_t>();
    place_.byte = known.at("byte").get<uint64_t>();
    place_.written.documents = known.at("documents").get<uint64_t>();
    place_.written.tokens = tokens;
    place_.written.bytes = known.at("bytes").get<uint64_t>();
    place_.written.resumed = true;
  }

  // What an earlier run with the same files, tokeniser and options has written.
  std::optional<TokenizeResult> finished_before() const {
    const fs::path about = output_.string() + ".json";
    if (!is_there(about) || !is_there(output_)) return std::nullopt;
    const auto known = json_if_whole<NoteJson>(read_file(about, longest_note));
    if (!known.is_object() || known.value("task", NoteJson()) != task_) return std::nullopt;
    TokenizeResult result{.documents = known.at("documents").get<uint64_t>(),
                          .tokens = known.at("tokens").get<uint64_t>(),
                          .bytes = all_bytes_,
                          .bytes_per_token = known.at("bytes_per_token").get<int>(),
                          .finished = true};
    const uint64_t bytes = result.tokens * static_cast<uint64_t>(result.bytes_per_token);
    return fs::file_size(output_) == bytes ? std::optional(result) : std::nullopt;
  }

  void write_one(AppendedFile& file) {
    DocumentReader reader(texts_[place_.file], place_.byte, options_, separator_);
    while (true) {
      const auto documents = reader.next(bytes_at_a_time);
      if (documents.empty()) break;
      add(file, documents);
      place_.written.bytes += reader.at() - place_.byte;
      place_.byte = reader.at();
      write_file(note(), note_text());
      if (options_.progress) options_.progress(place_.written.bytes, all_bytes_);
    }
  }

  void add(AppendedFile& file, const std::vector<std::string>& documents) {
    std::string bytes;
    for (auto& tokens : encoded(tokenizer_, documents, threads_)) {
      if (options_.end_token) tokens.push_back(*options_.end_token);
      place_.written.bytes_per_token == 2 ? append_tokens<uint16_t>(bytes, tokens)
                                          : append_tokens<uint32_t>(bytes, tokens);
      place_.written.tokens += tokens.size();
      ++place_.written.documents;
    }
    file.append(bytes);
    file.sync();  // before the note says so
  }

  std::string note_text() const {
    const TokenizeResult& written = place_.written;
    return NoteJson{{"task", task_},
                    {"file", place_.file},
                    {"byte", place_.byte},
                    {"documents", written.documents},
                    {"tokens", written.tokens},
                    {"bytes", written.bytes}}
        .dump();
  }

  // The tokens' own note is written first: a reader of `output` finds it.
  void finish() const {
    const TokenizeResult& written = place_.written;
    write_file(output_.string() + ".json",
               NoteJson{{"bytes_per_token", written.bytes_per_token},
                        {"tokens", written.tokens},
                        {"documents", written.documents},
                        {"vocabulary_size", tokenizer_.vocabulary_size()},
                        {"task", task_}}
                       .dump(2) +
                   "\n");
    fs::rename(part(), output_);
    fs::remove(note());
  }

  const Tokenizer& tokenizer_;
  const std::vector<fs::path>& texts_;
  fs::path output_;
  const TokenizeOptions& options_;
  int threads_;
  uint64_t all_bytes_ = 0;
  NoteJson task_;
  std::string separator_;
  Place place_;
};

}  // namespace

TokenizeResult tokenize_files(const Tokenizer& tokenizer, const std::vector<fs::path>& texts,
                              const fs::path& output, const TokenizeOptions& options) {
  check(!texts.empty(), "tokenize: no texts");
  return Run(tokenizer, texts, output, options).run();
}

}  // namespace booster
