// The inputs of the fuzzers of what strangers say to the rendezvous.
#include "tests/fuzz/dialogue_target.hpp"
#include "tests/fuzz/etcd_target.hpp"
#include "tests/fuzz/membership_target.hpp"
#include "tests/fuzz/store_target.hpp"
#include "tests/support/fuzz_corpus.hpp"

namespace rendezvous_corpus_test {

using ddprun::test::run_fuzz_corpus;

TEST_SUITE("fuzz corpus") {
  TEST_CASE("the store keeps its promises on each input, cut short and with a slip") {
    run_fuzz_corpus("store", ddprun::fuzz::run_store, 10, 100);
  }

  TEST_CASE("agents and coordinator keep their promises on each input, cut short and with a slip") {
    run_fuzz_corpus("membership", ddprun::fuzz::run_membership, 12, 300);
  }

  TEST_CASE("strangers learn and move nothing on each input, cut short and with a slip") {
    run_fuzz_corpus("dialogue", ddprun::fuzz::run_dialogue, 8, 100);
  }

  TEST_CASE("what etcd answers is read safely: each input, each cut short, each with a slip") {
    run_fuzz_corpus("etcd", ddprun::fuzz::run_etcd, 12, 300);
  }
}

}  // namespace rendezvous_corpus_test
