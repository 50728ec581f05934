// Images per second of the loader: JPEG files, decoded and transformed as in the tutorial into
// batches of f32 (3, 224, 224). A step is one pass over the files.
#include "benchmarks/report.h"
#include "benchmarks/timing.h"
#include "core/data/loader.h"
#include "core/data/transforms/transforms.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

using namespace booster;
using namespace booster::benchmarks;
namespace fs = std::filesystem;

namespace {

struct Settings {
  std::string data;
  int64_t workers = 1, batch = 64;
};

// All JPEG files below a folder, in any layout.
class JpegFiles : public Dataset {
 public:
  explicit JpegFiles(const std::string& folder) {
    if (!fs::is_directory(folder)) fail_data("--data: no such folder; got '{}'", folder);
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".jpg" || entry.path().extension() == ".jpeg")
        paths_.push_back(entry.path().string());
    if (paths_.empty()) fail_data("--data: no *.jpg or *.jpeg files; got '{}'", folder);
    std::sort(paths_.begin(), paths_.end());
  }
  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  Sample load(int64_t index, RandomStream& random) const override {
    LazyImage image(std::make_shared<Image>(load_image(paths_[index])), paths_[index]);
    transform_.apply(image, random);
    return {std::move(image), index};
  }
  double mean_kilobytes() const {
    double bytes = 0;
    for (const auto& path : paths_) bytes += static_cast<double>(fs::file_size(path));
    return bytes / 1000 / static_cast<double>(paths_.size());
  }

 private:
  std::vector<std::string> paths_;
  Compose transform_{Resize(256),
                     RandomResizedCrop(224),
                     RandomHorizontalFlip(),
                     ToTensor(),
                     Gray2RGB(),
                     Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})};
};

// Returns a picture with structure at all scales, about 24 KB at quality 90.
Image picture(uint64_t seed) {
  RandomStream random(seed, 0, 0);
  Image image(300, 230, 3);
  double phase[8][3];
  for (auto& wave : phase)
    for (double& value : wave) value = random.uniform(0, 6.28);
  for (int y = 0; y < image.height(); ++y)
    for (int x = 0; x < image.width(); ++x) {
      double value = 128 + 13 * random.uniform(-1, 1);
      for (int k = 0; k < 8; ++k)
        value +=
            60.0 / (k + 1) *
            std::sin(0.02 * (1 << k % 5) * (x * std::cos(phase[k][0]) + y * std::sin(phase[k][0])) +
                     phase[k][1]);
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] = static_cast<uint8_t>(
            std::clamp(value + 25 * std::sin(0.03 * x + phase[c][2]), 0.0, 255.0));
    }
  return image;
}

// A folder of such pictures; the destructor removes it.
class MadeFiles {
 public:
  MadeFiles() : path_((fs::temp_directory_path() / "booster_loader_XXXXXX").string()) {
    if (!mkdtemp(path_.data())) fail_run("loader: cannot make a folder for images in '{}'", path_);
    for (int i = 0; i < 128; ++i)
      std::ofstream(fmt::format("{}/{:03}.jpg", path_, i), std::ios::binary)
          << encode_jpeg(picture(static_cast<uint64_t>(i)), 90);
  }
  ~MadeFiles() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MadeFiles(const MadeFiles&) = delete;
  MadeFiles& operator=(const MadeFiles&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void pass(DataLoader& loader) {
  for (auto& batch : loader) check(batch.image.defined(), "loader: a batch is missing");
}

Result measure_folder(const Benchmark& benchmark, const Settings& settings,
                      const std::string& folder) {
  const JpegFiles files(folder);
  const auto images = static_cast<double>(files.size());
  DataLoader loader(files, {.batch_size = settings.batch,
                            .shuffle = true,
                            .workers = static_cast<int>(settings.workers)});
  pass(loader);  // warms the page cache and the allocator
  const double cpu_before = cpu_seconds();
  const auto seconds = timed_runs(benchmark.steps(), [&] { pass(loader); });
  const double cpu = (cpu_seconds() - cpu_before) / benchmark.steps();
  Result result =
      benchmark.result(fmt::format("{} JPEG files of {:.1f} KB: Resize(256), "
                                   "RandomResizedCrop(224), flip, ToTensor, Normalize",
                                   files.size(), files.mean_kilobytes()),
                       seconds);
  result["workers"] = settings.workers;
  result["images_per_s"] = images / result["seconds"].get<double>();
  result["images_per_cpu_s"] = images / cpu;
  return result;
}

Result measure(const Benchmark& benchmark, const Settings& settings) {
  check(settings.workers >= 0 && settings.workers <= 1024,
        "--workers: out of range; got {}, want 0 to 1024", settings.workers);
  if (!settings.data.empty()) return measure_folder(benchmark, settings, settings.data);
  return measure_folder(benchmark, settings, MadeFiles().path());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("loader", "Images per second through the loader.", 5);
  benchmark.option("--data", settings.data,
                   "folder with JPEG files (default: generated ones of 300 x 230)");
  benchmark.option("--workers", settings.workers, "worker threads");
  benchmark.option("--batch", settings.batch, "batch size");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
