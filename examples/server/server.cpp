// Classifies images over HTTP with a Vision Transformer. Requests that wait share a pass.
//   build/examples/server --weights out/vit_caltech101 --classes 101 --size 96
//   curl --data-binary @cat.jpg localhost:8080/predict     {"class": 7, "probability": 0.93}
//   curl localhost:8080/metrics                            rate and latencies so far
//   build/examples/server --load 400 --clients 8           measures itself and ends
#include "examples/server/batcher.h"
#include "examples/server/http.h"
#include "examples/server/load.h"

#include <booster/booster.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace booster;

namespace {

struct Settings {
  std::string model = "vit_tiny_patch16_224", weights, precision = "fp32", device = "cpu";
  int64_t classes = 1000, size = 224, most_wait_us = 2000;
  int port = 8080, threads = 1, batch = 8, load = 0, clients = 8;
};

Predictor make_predictor(const Settings& settings) {
  const Model model = models::vit(
      settings.model, {.num_classes = settings.classes, .img_size = Size2d(settings.size)});
  // Each thread of the batcher is busy with a pass of its own: more threads in it would wait for
  // each other.
  const PredictorOptions options = {.mixed_precision = settings.precision,
                                    .device = settings.device == "cuda" ? Device::cuda() : Device(),
                                    .threads = 1};
  return settings.weights.empty() ? Predictor(model, options)
                                  : Predictor(model, settings.weights, options);
}

class Service {
 public:
  explicit Service(const Settings& settings)
      : size_(static_cast<int>(settings.size)),
        transform_(Resize(static_cast<int>(std::lround(size_ * 256.0 / 224.0))), CenterCrop(size_),
                   ToTensor(), Gray2RGB(), Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})),
        batcher_(make_predictor(settings),
                 {.largest = static_cast<size_t>(settings.batch),
                  .most_wait = std::chrono::microseconds(settings.most_wait_us),
                  .threads = settings.threads}) {}

  server::Response answer(const server::Request& request) try {
    const auto begin = std::chrono::steady_clock::now();
    if (request.path == "/metrics") return {200, fmt::format("{{\"text\": \"{}\"}}\n", metrics())};
    if (request.path != "/predict" || request.method != "POST")
      return {404, "{\"error\": \"want POST /predict or GET /metrics\"}\n"};
    const auto logits = batcher_.submit(pixels(request.body)).get().to_vector<double>();
    const auto best = std::ranges::max_element(logits);
    double sum = 0;  // of the softmax, relative to the best
    for (const double logit : logits) sum += std::exp(logit - *best);
    latencies_.add(std::chrono::steady_clock::now() - begin);
    return {200, fmt::format("{{\"class\": {}, \"probability\": {:.4f}}}\n", best - logits.begin(),
                             1 / sum)};
  } catch (const Error& error) {
    const bool is_clients = error.kind() == ErrorKind::data;
    return {is_clients ? 400 : 500, nlohmann::json({{"error", error.what()}}).dump() + "\n"};
  }

  std::string metrics() const {
    return fmt::format("{}; {:.1f} samples per pass", latencies_.summary(), batcher_.mean_batch());
  }

 private:
  // Returns a file's pixels as the model wants them: (3, size, size).
  Tensor pixels(const std::string& file) const {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(file.data());
    const std::string name = "request";
    LazyImage image(std::make_shared<Image>(decode_image({bytes, file.size()}, name)), name);
    RandomStream unused(0, 0, 0);
    transform_.apply(image, unused);
    const Tensor sample = zeros({3, size_, size_});
    image.write(sample.data<float>());
    return sample;
  }

  int size_;
  Compose transform_;
  server::Batcher batcher_;
  server::Latencies latencies_;
};

// Returns a JPEG file of noise.
std::string made_up_image() {
  Image image(256, 256, 3);
  RandomStream random(1, 0, 0);
  for (size_t i = 0; i < image.bytes(); ++i) image.data()[i] = static_cast<uint8_t>(random.bits());
  return encode_jpeg(image);
}

bool parse(Settings& settings, int argc, char** argv) {
  CLI::App app{"Classifies images over HTTP.", "server"};
  app.add_option("--model", settings.model, "a Vision Transformer (vit_tiny_patch16_224)");
  app.add_option("--weights", settings.weights, "a training, a checkpoint or a file (new ones)");
  app.add_option("--classes", settings.classes, "(1000)");
  app.add_option("--size", settings.size, "side of the model's images (224)");
  app.add_option("--precision", settings.precision, "a strategy (fp32)");
  app.add_option("--device", settings.device, "cpu, or cuda: the first GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--port", settings.port, "0: a free one (8080)");
  app.add_option("--threads", settings.threads, "that run passes (1)")->check(CLI::Range(1, 1024));
  app.add_option("--batch", settings.batch, "largest (8)")->check(CLI::Range(1, 4096));
  app.add_option("--most-wait", settings.most_wait_us, "us that a request waits for others (2000)");
  app.add_option("--load", settings.load, "make so many requests, print the figures and end");
  app.add_option("--clients", settings.clients, "that make them (8)")->check(CLI::Range(1, 1024));
  return parse_command_line(app, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  report_uncaught_errors();
  Settings settings;
  if (!parse(settings, argc, argv)) return 0;
  sigset_t ends;  // blocked before any thread starts, so that main alone gets them
  sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM}) sigaddset(&ends, signal);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  Service service(settings);
  server::HttpServer http(settings.load > 0 ? 0 : settings.port,
                          [&](const server::Request& request) { return service.answer(request); });
  if (settings.load > 0) {
    server::Latencies latencies;
    server::make_requests(http.port(), made_up_image(),
                          {.clients = settings.clients, .requests = settings.load}, latencies);
    fmt::print("clients: {}\nserver: {}\n", latencies.summary(), service.metrics());
    return 0;
  }
  fmt::print("listening on http://127.0.0.1:{}/predict\n", http.port());
  std::fflush(stdout);
  int got = 0;
  sigwait(&ends, &got);
  fmt::print("{}\n", service.metrics());
}
