// The doctest runner of every layer's test program.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>

namespace {

// doctest counts cases named "rank: ..." as skipped. Other cases run them in separate processes,
// and the suites `*_on_device` run cases named "GPU: ...". So the summary prints their number for
// scripts/count_tests.awk.
struct ElsewhereCounter : doctest::IReporter {
  explicit ElsewhereCounter(const doctest::ContextOptions&) {}
  void test_case_skipped(const doctest::TestCaseData& test_case) override {
    for (const char* elsewhere : {"rank: ", "GPU: "})
      count_ += std::strncmp(test_case.m_name, elsewhere, std::strlen(elsewhere)) == 0;
  }
  void test_run_end(const doctest::TestRunStats&) override {
    if (count_ > 0) std::printf("[doctest] skipped as parts of other cases: %d\n", count_);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}

 private:
  int count_ = 0;
};
REGISTER_LISTENER("cases that run elsewhere", 1, ElsewhereCounter);

}  // namespace
