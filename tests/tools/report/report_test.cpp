// `booster report`, run as by a user, and the parts of its page.
#include "booster/report/base64.h"
#include "booster/report/chart.h"
#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/draws.h"
#include "tests/occurrences.h"
#include "tools/report/page/page.h"
#include "tools/report/precision_events.h"
#include "tools/report/trace_summary.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>
#include <regex>

using namespace booster;
using booster::testing::occurrences;
using namespace booster::report;

namespace {

const std::string hostile =
    "</title></script><script>alert(1)</script><img src=x onerror='a()'>\"&";

CommandResult run_report(const std::string& folders) { return run_booster("report " + folders); }

// Writes a run of three logged steps and one validation, with a strategy and a learning rate.
void write_run(const TemporaryFolder& folder, const std::string& name, const std::string& precision,
               double lr) {
  nlohmann::json record = {
      {"config",
       {{"model", {{"name", "mlp"}}},
        {"booster", {{"mixed_precision", {{"name", precision}}}, {"plugin", {{"name", "single"}}}}},
        {"optimizer", {{"lr", lr}}}}},
      {"ranks", 1},
      {"seconds", {{"training", 9.0}, {"data", 3.0}, {"wall", 12.0}}}};
  folder.write(name + "/run.json", record.dump());
  std::string lines;
  for (int step = 1; step <= 3; ++step)
    lines +=
        nlohmann::json{
            {"step", step},        {"loss", 3.0 / step}, {"lr", lr}, {"loss_scale", 1024 >> step},
            {"skipped", step - 1}, {"images_per_s", 10}}
            .dump() +
        "\n";
  lines += R"({"step": 3, "val_top1": 0.75, "val_loss": 1.5})"
           "\n";
  folder.write(name + "/metrics.jsonl", lines);
}

}  // namespace

TEST_CASE("report compares runs on one page that loads nothing") {
  const TemporaryFolder folder;
  write_run(folder, "first", "fp16", 0.5);
  write_run(folder, "second", "bf16", 0.25);
  const auto result = run_report(in_quotes(folder / "first") + " " + in_quotes(folder / "second") +
                                 " --output " + in_quotes(folder / "page.html"));
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("2 runs"));
  const std::string page = folder.read("page.html");
  CHECK(page.starts_with("<!DOCTYPE html>"));
  for (const char* part : {"first", "second", "75.00 %", "Training loss", "Learning rate",
                           "Loss scale", "optimizer.lr", "booster.mixed_precision.name", "0.25",
                           "training 75.0 %", "1 step skipped; loss scale 512 to 256"})
    CHECK_MESSAGE(page.find(part) != std::string::npos, part);
  // Equal settings are not listed among the differences, which come before the runs' own settings.
  const std::string differences =
      page.substr(page.find("What differs"),
                  page.find("<details>", page.find("What differs")) - page.find("What differs"));
  CHECK(differences.find("optimizer.lr") != std::string::npos);
  CHECK(differences.find("model.name") == std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK_FALSE(std::regex_search(page, std::regex("(src|href)=\"(?!data:image/jpeg)")));
  CHECK(page.find("@import") == std::string::npos);
}

TEST_CASE("report writes beside a single run and shows all of its settings") {
  const TemporaryFolder folder;
  write_run(folder, "run", "fp16", 0.5);
  REQUIRE(run_report(in_quotes(folder / "run")).code == 0);
  const std::string page = folder.read("run/report.html");
  CHECK(page.find("Settings") != std::string::npos);
  CHECK(page.find("What differs") == std::string::npos);
}

TEST_CASE("report leaves nothing of a run's text to be markup") {
  const TemporaryFolder folder;
  const std::string name = "run <b>&\"'";
  write_run(folder, name, hostile, 1);
  folder.write(name + "/metrics.jsonl",
               nlohmann::json{{"step", 1}, {"loss", 1}, {hostile, 2}, {"refusal", hostile}}.dump());
  nlohmann::json image = {{"file", hostile}, {"true", hostile},  {"predicted", hostile},
                          {"loss", 1},       {"probability", 1}, {"jpeg", hostile}};
  folder.write(name + "/worst_images.json", nlohmann::json{{"images", {image}}}.dump());
  folder.write(name + "/trace.json",
               "{\"pid\":0,\"ph\":\"X\",\"tid\":0,\"cat\":\"kernel\",\"dur\":5,\"name\":" +
                   nlohmann::json(hostile).dump() + "},\n");
  const std::string page = report_page({read_run(folder / name)});
  CHECK(occurrences(page, "<script>") == 1);
  CHECK(occurrences(page, "</script>") == 1);
  CHECK(occurrences(page, "<title>") == occurrences(page, "</title>"));
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("run <b>") == std::string::npos);
  CHECK(page.find("&lt;img src=x onerror=&#39;a()&#39;&gt;&quot;&amp;") != std::string::npos);
}

TEST_CASE("report tells which lines of damaged metrics it left out") {
  const TemporaryFolder folder;
  write_run(folder, "run", "fp16", 0.5);
  const std::string good = folder.read("run/metrics.jsonl");
  folder.write("run/metrics.jsonl", good + "{\"step\": 4, \"lo\n[1]\n\n" + good + "\x01\xff\n" +
                                        std::string((1 << 20) + 1, 'x') + "\n" + good);
  const auto result = run_report(in_quotes(folder / "run"));
  CHECK(result.code == 0);
  CHECK_MESSAGE(result.says("left out lines 5 to 7, 12 to 13 (line 5: not JSON)"), result.output);
  CHECK(folder.read("run/report.html").find("left out lines 5 to 7") != std::string::npos);
  CHECK(read_metrics(folder / "run/metrics.jsonl").lines.size() == 12);
  for (const std::string& torn : {std::string("{\"step\": 4, \"lo"), std::string(300, '\0')}) {
    folder.write("run/metrics.jsonl", good + torn);
    const MetricsFile metrics = read_metrics(folder / "run/metrics.jsonl");
    CHECK(metrics.lines.size() == 4);
    CHECK(metrics.left_out.empty());
  }
  folder.write("run/run.json", "{\"config\": ");
  const auto damaged = run_report(in_quotes(folder / "run"));
  CHECK(damaged.code == 0);
  CHECK_MESSAGE(damaged.says("run.json cannot be used"), damaged.output);
}

TEST_CASE("report refuses what is no run and names what is near") {
  const TemporaryFolder folder;
  write_run(folder, "runs/vit_fp16", "fp16", 0.5);
  const auto misspelled = run_report(in_quotes(folder / "runs/vit_fp61"));
  CHECK(misspelled.code == 2);
  CHECK_MESSAGE(misspelled.says("did you mean"), misspelled.output);
  CHECK(misspelled.says("vit_fp16"));
  const auto parent = run_report(in_quotes(folder / "runs"));
  CHECK(parent.code == 2);
  CHECK_MESSAGE(parent.says("is no run"), parent.output);
  CHECK(parent.says("runs/vit_fp16"));
}

TEST_CASE("precision events are what changed between logged steps") {
  RunFolder run;
  run.metrics.lines = {
      {{"step", 2}, {"loss", 1.0}, {"loss_scale", 8}, {"skipped", 0}},
      {{"step", 4}, {"loss", nullptr}, {"loss_scale", 2}, {"skipped", 2}},
      {{"step", 4}, {"val_loss", 1.0}},
      {{"step", 6}, {"loss", nullptr}, {"loss_scale", 2}, {"skipped", 2}},
      {{"step", 8}, {"loss", 0.5}, {"loss_scale", 2}, {"skipped", 2}, {"refusal", "too low"}}};
  const auto events = precision_events(run);
  REQUIRE(events.size() == 2);
  CHECK(events[0].from == 2);
  CHECK(events[0].to == 4);
  CHECK(events[0].what == "2 steps skipped; loss scale 8 to 2; the loss is not finite");
  CHECK(events[1].from == 6);
  CHECK(events[1].what == "the loss is finite again; too low");
}

TEST_CASE("charts of any numbers stay within their frame and lose no extreme") {
  for (const unsigned round : testing::draws(200)) {
    std::mt19937 random(round);
    Chart chart = {.title = "t", .lines = {}, .powers_of_two = round % 3 == 0};
    const double size = std::pow(10, std::uniform_real_distribution(-12.0, 12.0)(random));
    double highest = -INFINITY;
    for (int line = 0; line < 3; ++line) {
      ChartLine drawn = {.name = "n", .colour = line, .points = {}};
      const int points = std::uniform_int_distribution(0, round % 5 == 0 ? 3000 : 5)(random);
      for (int i = 0; i < points; ++i) {
        double y = size * std::uniform_real_distribution(-1.0, 1.0)(random);
        if (i % 97 == 3) y = i % 2 ? NAN : INFINITY;
        if (std::isfinite(y) && (y > 0 || !chart.powers_of_two)) highest = std::max(highest, y);
        drawn.points.push_back({static_cast<double>(i), y});
      }
      chart.lines.push_back(std::move(drawn));
    }
    const std::string svg = chart_element(chart);
    if (std::isfinite(highest))
      CHECK(svg.find(fmt::format(" {:.5g} ", highest)) != std::string::npos);
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    const std::regex pair("[ M](-?[0-9.]+),(-?[0-9.]+)");
    for (auto at = std::sregex_iterator(svg.begin(), svg.end(), pair); at != std::sregex_iterator();
         ++at) {
      const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
      REQUIRE(x >= 0);
      REQUIRE(x <= chart_width);
      REQUIRE(y >= 0);
      REQUIRE(y <= chart_height);
    }
  }
}

TEST_CASE("charts take any doubles, of which a width or a distance may be none") {
  std::mt19937_64 random(11);
  const double least = 5e-324, most = 1.7976931348623157e308;
  std::vector<std::pair<double, double>> ends = {
      {least, 2 * least}, {0, least},          {-least, least}, {-most, most},   {0, most},
      {1e-310, 1e-308},   {3 * least, 1e-322}, {most, most},    {-most, -1e307}, {1, 1 + 1e-15}};
  for (int round = 0; round < 2000; ++round) {
    const auto drawn = [&] { return std::bit_cast<double>(random()); };
    ends.emplace_back(drawn(), drawn());
    const auto tiny = [&] { return static_cast<double>(random() % 1000) * least; };
    ends.emplace_back(tiny(), tiny());
  }
  for (const auto& [a, b] : ends)
    for (const bool powers : {false, true}) {
      const Chart chart = {.title = "t",
                           .lines = {{.name = "n", .points = {{0, a}, {a, b}, {b, b}}}},
                           .powers_of_two = powers};
      const std::string svg = chart_element(chart);
      CAPTURE_PART(a);
      CAPTURE_PART(b);
      REQUIRE(svg.size() < 20'000);
      REQUIRE(svg.find("nan") == std::string::npos);
      REQUIRE(svg.find("inf") == std::string::npos);
    }
}

#ifdef __SANITIZE_ADDRESS__  // it reserves terabytes of addresses
constexpr const char* memory_limit = "";
#else
constexpr const char* memory_limit = "ulimit -v 4000000; ";
#endif

TEST_CASE("report ends for losses near zero, and for what is no file") {
  const TemporaryFolder folder;
  write_run(folder, "run", "fp16", 0.5);
  folder.write("run/metrics.jsonl",
               "{\"step\": 1, \"loss\": 5e-324}\n"
               "{\"step\": 2, \"loss\": 1e-323}\n");
  const auto limited = [&](const std::string& name) {
    return run_command(std::string(memory_limit) + "timeout 60 '" +
                       (build_folder() / "tools/booster").string() + "' report " +
                       in_quotes(folder / name));
  };
  CHECK(limited("run").code == 0);
  CHECK(folder.read("run/report.html").find("4.941e-324") != std::string::npos);
  for (const char* name : {"metrics.jsonl", "trace.json", "worst_images.json"}) {
    CAPTURE(name);
    for (const std::string make : {"mkfifo", "ln -s /dev/zero"}) {
      const std::string run = make.substr(0, 2) + name;
      write_run(folder, run, "fp16", 0.5);
      const std::string there = in_quotes(folder / run / name);
      REQUIRE(run_command("rm -f " + there + "; " + make + " " + there).code == 0);
      const CommandResult result = limited(run);
      CHECK_MESSAGE(result.code == 0, result.output);
    }
  }
}

TEST_CASE("a trace is summed by kernel, of the main thread, and damaged events are counted") {
  const TemporaryFolder folder;
  std::string trace = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const auto add = [&](const char* name, const char* kind, int thread, double us) {
    trace += fmt::format(
        "{{\"pid\":0,\"ph\":\"X\",\"tid\":{},\"name\":\"{}\",\"cat\":\"{}\","
        "\"ts\":1,\"dur\":{},\"args\":{{\"dtype\":\"f32\"}}}},\n",
        thread, name, kind, us);
  };
  add("forward", "phase", 0, 9000);
  add("small", "kernel", 0, 1000);
  add("large", "kernel", 0, 2500);
  add("small", "kernel", 0, 1000);
  add("elsewhere", "kernel", 1, 1e6);
  folder.write("trace.json", trace + "{\"pid\":0, cut\n]}\n");
  const TraceSummary summary = summarize_trace(folder / "trace.json");
  REQUIRE(summary.kernels.size() == 2);
  CHECK(summary.kernels[0].name == "large");
  CHECK(summary.kernels[1].calls == 2);
  CHECK(summary.kernels[1].milliseconds == doctest::Approx(2));
  REQUIRE(summary.phases.size() == 1);
  CHECK(summary.phases[0].milliseconds == doctest::Approx(9));
  CHECK(summary.left_out == 1);
  CHECK(summarize_trace(folder / "none").kernels.empty());
}

TEST_CASE("base64 is that of RFC 4648") {
  // Test vectors of RFC 4648, section 10.
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) CHECK(base64(bytes) == text);
  CHECK(base64("\xff\xfe\xfd") == "//79");
}
