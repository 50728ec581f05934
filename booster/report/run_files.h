// Files of a run that people look at: TensorBoard's events, curves, the worst images, and safe text
// for HTML and SVG files of a program's own.
//
//   report::EventFile events("out/run/tensorboard");
//   events.add({{"train/loss", 4.6}, {"train/lr", 5e-4}}, step);
//
// An EventFile is for one thread; functions are thread-safe.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

class AppendedFile;
class ImageDataset;

}  // namespace booster

namespace booster::report {

// --- scalars in the event files that TensorBoard reads
struct EventScalar {
  std::string tag;   // TensorBoard groups tags by the part before "/"
  double value = 0;  // may be non-finite
};

class EventFile {
 public:
  // Makes the folder and a new file in it, which TensorBoard reads after the files of earlier runs.
  // A resumed run repeats their steps from `first_step` on, so TensorBoard shows only their earlier
  // steps. All errors of this class are of kind failed.
  explicit EventFile(const std::filesystem::path& folder, int64_t first_step = 0);
  ~EventFile();

  // Adds one record, completely or not at all.
  void add(std::span<const EventScalar> scalars, int64_t step);

 private:
  void append(std::string_view event);
  std::unique_ptr<AppendedFile> file_;
};

// --- metrics.jsonl, the curves of a training: one JSON object for each logged step and each
// validation, with its "step". Treated as untrusted: the file may be damaged, or still grow.
struct MetricsFile {
  // A line that is not a JSON object, and the reason. A last line without its end is none: the run
  // may still be writing it.
  struct LeftOut {
    int64_t line;
    std::string reason;
  };

  std::vector<nlohmann::json> lines;  // each an object
  std::vector<LeftOut> left_out;
  bool readable = false;

  // Returns the values of `key` with their steps; skips lines that lack either.
  std::vector<std::pair<double, double>> series(const std::string& key) const;
  // Returns "lines 3, 7 to 9 (line 3: not JSON)"; "" if no line was left out.
  std::string describe_left_out() const;
};

MetricsFile read_metrics(const std::filesystem::path& file);

// Returns curves.svg: training loss, learning rate and validation accuracy over the steps.
std::string curves_file(const MetricsFile& metrics);

// --- the images that a validation got most wrong, with small pictures
struct WorstImage {
  int64_t index = 0;  // in the data set
  double loss = 0;
  int64_t predicted = 0;   // class
  double probability = 0;  // the model's probability of that class
};

// Writes {"step", "images": [{"file", "true", "predicted", "probability", "loss", "jpeg"}]}. "jpeg"
// is in base64: the bytes of a small JPEG file as they are, else a picture of at most 160 pixels a
// side; null for an unreadable image. Names are terminal_text, since file names need not be UTF-8.
// Throws an Error of kind failed if the file cannot be written.
void write_worst_images(const std::filesystem::path& file, int64_t step,
                        const std::vector<WorstImage>& worst, const ImageDataset& images);

// --- names of files and classes are untrusted
// Returns the text escaped for an element or a quoted attribute, without markup. Terminal control
// characters and invalid UTF-8 are written out (platform/warn.h).
std::string markup_text(std::string_view text);

// Returns a table; cells are markup. Rows with fewer cells than `head` end early.
std::string markup_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

// Returns an SVG file with a white page under `body`; `style` is CSS.
std::string svg_file(double width, double height, double font_size, std::string_view style,
                     std::string_view body);
// `anchor` (start, middle, end) is the point of the text at x; `content` is markup.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view content);

}  // namespace booster::report
