// The example server: its answers, its figures and its end.
#include "booster/booster.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include <signal.h>
#include <unistd.h>

using namespace booster;

namespace {

const std::string small_server = "--size 32 --classes 7 ";

std::string server_program() { return (build_folder() / "examples/server").string(); }

CommandResult run_load(const std::string& arguments) {
  return run_command(
      fmt::format("OMP_NUM_THREADS=1 '{}' {}{}", server_program(), small_server, arguments));
}

// A server that runs until it is stopped; `exec` makes the shell's process the server's.
class RunningServer {
 public:
  explicit RunningServer(const std::string& arguments)
      : pipe_(::popen(fmt::format("echo $$; OMP_NUM_THREADS=1 exec '{}' {}--port 0 {} 2>&1",
                                  server_program(), small_server, arguments)
                          .c_str(),
                      "r")) {
    REQUIRE(pipe_);
    pid_ = std::stoi(line());
    const std::string listening = line();
    REQUIRE_MESSAGE(listening.starts_with("listening on http://127.0.0.1:"), listening);
    address_ = listening.substr(listening.find("http"));
    address_ = address_.substr(0, address_.rfind("/predict"));
  }
  ~RunningServer() {
    if (pipe_) stop();
  }
  CommandResult get(const std::string& arguments, const std::string& path) const {
    return run_command(
        fmt::format("curl -sS -w ' %{{http_code}}' {} '{}{}'", arguments, address_, path));
  }
  // Returns the last line.
  std::string stop() {
    ::kill(pid_, SIGTERM);
    const std::string last = line();
    code_ = WEXITSTATUS(::pclose(pipe_));
    pipe_ = nullptr;
    return last;
  }
  int code() const { return code_; }

 private:
  std::string line() {
    std::string text;
    for (int c; (c = std::fgetc(pipe_)) != EOF && c != '\n';) text += static_cast<char>(c);
    return text;
  }
  FILE* pipe_;
  int pid_ = 0, code_ = -1;
  std::string address_;
};

}  // namespace

TEST_CASE("server: all requests of a load are answered, in batches, on any number of threads") {
  for (const char* arguments : {"--load 40 --clients 8 --batch 4 --most-wait 50000",
                                "--load 40 --clients 8 --threads 3 --precision bf16",
                                "--load 3 --clients 1 --batch 1 --most-wait 0"}) {
    CAPTURE(arguments);
    const CommandResult result = run_load(arguments);
    REQUIRE_MESSAGE(result.code == 0, result.output);
    CHECK(result.says(std::string(arguments).starts_with("--load 40") ? "clients: 40 requests, "
                                                                      : "clients: 3 requests, "));
    for (const char* part : {" a second; latency p50 ", " ms, p95 ", " ms, p99 ", "per pass"})
      CHECK(result.says(part));
  }
  // Eight clients fill batches of four: no request waits in vain.
  const CommandResult full = run_load("--load 64 --clients 8 --batch 4 --most-wait 10000000");
  CHECK_MESSAGE(full.says("4.0 samples per pass"), full.output);
}

TEST_CASE("server: answers images, refuses what is none, and ends on SIGTERM") {
  if (run_command("curl --version").code != 0) return;
  const TemporaryFolder folder;
  Image grey(40, 50, 1);
  std::fill_n(grey.data(), grey.bytes(), uint8_t{128});
  folder.write("grey.jpg", encode_jpeg(grey));
  folder.write("text", "no image");
  RunningServer server("--threads 2");
  const std::string image = "--data-binary @" + in_quotes(folder / "grey.jpg");
  const CommandResult answer = server.get(image, "/predict");
  CHECK_MESSAGE(answer.says("\"probability\": "), answer.output);
  CHECK(answer.output.ends_with(" 200"));
  CHECK(server.get(image, "/predict").output == answer.output);
  const CommandResult text = server.get("--data-binary @" + in_quotes(folder / "text"), "/predict");
  CHECK_MESSAGE(text.says("bad image 'request'"), text.output);
  CHECK(text.output.ends_with(" 400"));
  CHECK(server.get("", "/other").output.ends_with(" 404"));
  CHECK(server.get("", "/metrics").says("2 requests, "));
  CHECK(server.stop().starts_with("2 requests, "));
  CHECK(server.code() == 0);
}

TEST_CASE("server: refuses wrong options, and weights that do not fit") {
  CHECK(run_load("--threads 0").code == 2);
  CHECK(run_load("--precision bf17").says("did you mean bf16?"));
  CHECK(run_load("--load 1 --weights nothing.safetensors").says("nothing.safetensors"));
  CHECK(run_load("--port 70000").code == 2);
}
