// Corpora of the fuzzers of the rendezvous: input from unauthenticated peers.
#include "tests/fuzz/dialogue_target.hpp"
#include "tests/fuzz/etcd_target.hpp"
#include "tests/fuzz/membership_target.hpp"
#include "tests/fuzz/store_target.hpp"
#include "tests/support/fuzz_corpus.hpp"

namespace rendezvous_corpus_test {

using ddprun::test::run_fuzz_corpus;

TEST_SUITE("fuzz corpus") {
  TEST_CASE("fuzz corpus: the store is safe with truncated or mutated input") {
    run_fuzz_corpus("store", ddprun::fuzz::run_store, 10, 100);
  }

  TEST_CASE("fuzz corpus: agents and coordinator are safe with truncated or mutated input") {
    run_fuzz_corpus("membership", ddprun::fuzz::run_membership, 12, 300);
  }

  TEST_CASE("fuzz corpus: truncated or mutated input of unauthenticated peers has no effect") {
    run_fuzz_corpus("dialogue", ddprun::fuzz::run_dialogue, 8, 100);
  }

  TEST_CASE("fuzz corpus: etcd responses are parsed safely even if truncated or mutated") {
    run_fuzz_corpus("etcd", ddprun::fuzz::run_etcd, 12, 300);
  }
}

}  // namespace rendezvous_corpus_test
