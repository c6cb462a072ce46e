// Corpora of the fuzzers of the launcher: files, and input from other machines.
#include "tests/fuzz/config_target.hpp"
#include "tests/fuzz/failure_target.hpp"
#include "tests/fuzz/flights_target.hpp"
#include "tests/fuzz/page_target.hpp"
#include "tests/fuzz/ssh_target.hpp"
#include "tests/fuzz/stacks_target.hpp"
#include "tests/fuzz/symbols_target.hpp"
#include "tests/support/fuzz_corpus.hpp"

namespace launcher_corpus_test {

using ddprun::test::run_fuzz_corpus;

TEST_SUITE("fuzz corpus") {
  TEST_CASE("fuzz corpus: configuration files are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("config", ddprun::fuzz::run_config, 9, 300);
  }

  TEST_CASE("fuzz corpus: ssh input is parsed safely even if truncated or mutated") {
    run_fuzz_corpus("ssh", ddprun::fuzz::run_ssh, 9, 300);
  }

  TEST_CASE("fuzz corpus: flight records are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("flights", ddprun::fuzz::run_flights, 5, 300);
  }

  TEST_CASE("fuzz corpus: error files are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("failure", ddprun::fuzz::run_failure, 6, 300);
  }

  TEST_CASE("fuzz corpus: stack texts are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("stacks", ddprun::fuzz::run_stacks, 7, 300);
  }

  TEST_CASE("fuzz corpus: symbol tables are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("symbols", ddprun::fuzz::run_symbols, 2, 300);
  }

  TEST_CASE("fuzz corpus: read_flights() is safe with any bytes in a worker's part of the page") {
    run_fuzz_corpus("page", ddprun::fuzz::run_page, 8, 300);
  }
}

}  // namespace launcher_corpus_test
