// Corpora of the fuzzers of the worker runtime: files, and input from other processes.
#include "tests/fuzz/checkpoint_target.hpp"
#include "tests/fuzz/meeting_target.hpp"
#include "tests/support/fuzz_corpus.hpp"

namespace worker_corpus_test {

using ddprun::test::run_fuzz_corpus;

TEST_SUITE("fuzz corpus") {
  TEST_CASE("fuzz corpus: checkpoint files are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("checkpoint", ddprun::fuzz::run_checkpoint, 6, 300);
  }

  TEST_CASE("fuzz corpus: a peer without the key is never accepted") {
    run_fuzz_corpus("meeting", ddprun::fuzz::run_meeting, 5, 30);
  }
}

}  // namespace worker_corpus_test
