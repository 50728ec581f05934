// Replaces files and folders so that a reader finds the complete old or the complete new one.
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/files/file_operations.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <random>
#include <vector>

namespace booster {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view temporary_mark = ".tmp-", aside_suffix = ".aside";

// "NAME" -> "NAME.tmp-0123abcd"
fs::path temporary_for(const fs::path& target) {
  std::random_device random;
  return fmt::format("{}{}{:08x}", target.string(), temporary_mark, random() & 0xFFFFFFFFu);
}

// Calls a step of a removal, whose failures are ignored.
template <class Step>
void attempt(Step&& step) {
  try {
    step();
  } catch (const Error&) {
  }
}

// The mark goes last: what a kill or a power cut leaves of a folder has its mark, or is empty.
void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  const auto remove = [&](const fs::path& entry) {
    attempt([&] { before_operation("remove", entry); });
    fs::remove_all(entry, ignored);
  };
  if (fs::is_directory(fs::symlink_status(path, ignored))) {
    std::vector<fs::path> entries;
    for (const auto& entry : fs::directory_iterator(path, ignored))
      if (entry.path().filename() != folder_mark) entries.push_back(entry.path());
    for (const fs::path& entry : entries) remove(entry);
    attempt([&] { sync_folder(path); });
  }
  remove(path);
}

bool stands_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// Returns true if this library made it; recognises a file by its name and a folder by its mark. A
// folder whose writer was killed before it set the mark is empty.
bool is_ours(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.is_symlink(error)) return false;
  if (!entry.is_directory(error)) return entry.is_regular_file(error);
  return is_marked(entry.path()) || fs::is_empty(entry.path(), error);
}

void clear_up(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const bool aside = name.ends_with(aside_suffix) && is_marked(entry.path());
  if (!aside && (!is_temporary_name(name) || !is_ours(entry))) return;
  const Descriptor descriptor(
      ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.value < 0 || ::flock(descriptor.value, LOCK_EX | LOCK_NB) != 0) return;
  if (!aside) return remove_quietly(entry.path());
  std::string target = entry.path().string();
  target.resize(target.size() - aside_suffix.size());
  if (stands_there(target)) remove_quietly(entry.path());
  else ::rename(entry.path().c_str(), target.c_str());
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target)
    : target_((booster::clear_up(parent_of(target), target.filename().string()), target)),
      temporary_(temporary_for(target)),
      writer_(temporary_) {}
AtomicFile::~AtomicFile() {
  if (!committed_) remove_quietly(temporary_);
}
// The rename happens under the lock, so that clear_up leaves the temporary alone.
void AtomicFile::commit() {
  writer_.sync();
  rename_to(temporary_, target_);
  committed_ = true;
  sync_folder(parent_of(target_));
}

AtomicFolder::AtomicFolder(const fs::path& target)
    : target_(target), temporary_(temporary_for(target)) {
  booster::clear_up(parent_of(target), target.filename().string());
  before_operation("create the folder", temporary_);
  if (::mkdir(temporary_.c_str(), 0777) != 0) cannot("create the folder", temporary_, errno);
  lock_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
  try {
    FileWriter(temporary_ / folder_mark).close();
    sync_folder(temporary_);  // first, so that no power cut leaves files without it
  } catch (...) {
    remove_quietly(temporary_);
    if (lock_ >= 0) ::close(lock_);
    throw;
  }
}
AtomicFolder::~AtomicFolder() {
  if (!committed_) remove_quietly(temporary_);
  if (lock_ >= 0) ::close(lock_);
}

void AtomicFolder::commit() {
  sync_folder(temporary_);
  if (stands_there(target_)) {
    replace_target();
  } else {
    rename_to(temporary_, target_);
    committed_ = true;
  }
  sync_folder(parent_of(target_));
}

bool AtomicFolder::commit_new() {
  const fs::path mark = temporary_ / folder_mark;
  before_operation("remove", mark);
  if (::unlink(mark.c_str()) != 0) cannot("remove", mark, errno);
  sync_folder(temporary_);
  if (!rename_to_new(temporary_, target_)) return false;
  committed_ = true;
  sync_folder(parent_of(target_));
  return true;
}

// Afterwards the old folder has the temporary's name, so the destructor removes it.
void AtomicFolder::replace_target() {
  // Atomic: the target is a complete folder at every moment.
  if (exchange(temporary_, target_)) return;
  // Otherwise the target is briefly missing. If the process is killed then, the old folder stays
  // under its other name. Readers find it there, and clear_up renames it back.
  const fs::path aside = aside_of(target_);
  const Descriptor old(::open(target_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (old.value >= 0) ::flock(old.value, LOCK_EX | LOCK_NB);
  rename_to(target_, aside);
  try {
    rename_to(temporary_, target_);
  } catch (...) {
    ::rename(aside.c_str(), target_.c_str());
    throw;
  }
  committed_ = true;  // the old folder has the temporary's name now
  remove_quietly(aside);
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.writer().write(content);
  file.commit();
}

void remove_folder(const fs::path& folder) {
  attempt([&] {
    if (!is_marked(folder)) FileWriter(folder / folder_mark).close();
    const fs::path temporary = temporary_for(folder);
    rename_to(folder, temporary);
    sync_folder(parent_of(folder));
    remove_quietly(temporary);
  });
}

void make_folders(const fs::path& path) {
  before_operation("create the folder", path);
  std::vector<fs::path> created;
  for (fs::path at = path; !at.empty() && !stands_there(at); at = at.parent_path())
    created.push_back(at);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) cannot("create the folder", path, error.value());
  if (!fs::is_directory(path))
    fail_run("{}: cannot create the folder; a file has this name", path.string());
  for (const auto& folder : created) sync_folder(parent_of(folder));
}

bool is_temporary_name(std::string_view name) {
  const size_t mark = name.rfind(temporary_mark);
  if (mark == name.npos) return false;
  const std::string_view digits = name.substr(mark + temporary_mark.size());
  return digits.size() == 8 && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

bool is_marked(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(fs::symlink_status(folder / folder_mark, error));
}

fs::path aside_of(const fs::path& folder) { return folder.string() + std::string(aside_suffix); }

void clear_up(const fs::path& folder, std::string_view prefix) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry);
  for (const auto& entry : entries)
    if (entry.path().filename().string().starts_with(prefix)) clear_up(entry);
}

}  // namespace booster
