#include "tests/support/rank_threads.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trainers/gpt2/settings.hpp"
#include "trainers/gpt2/tests/token_files.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace gpt2_settings_test {

using namespace trainer::gpt2;
using ddprun::ProcessGroup;
using ddprun::test::TemporaryFolder;
using ddprun::test::write_token_file;

namespace {

std::string differences(const std::vector<Settings>& ranks) {
  return describe_differences(ranks);
}

}  // namespace

TEST_SUITE("gpt2 settings") {
  TEST_CASE("gpt2 settings: each difference is reported with values and ranks") {
    const Settings one = {{"lr", 0.5}, {"seed", 1}, {"device", "cpu"}};
    CHECK(differences({one, one, one}).empty());
    Settings other = one;
    other["seed"] = 7;
    other["device"] = "cuda";
    CHECK(differences({one, other, one}) ==
          "--device is cpu on ranks 0, 2 and cuda on rank 1; --seed is 1 on ranks 0, 2 and 7 on "
          "rank 1");
    other.erase("lr");
    other["seed"] = 1;
    other["device"] = "cpu";
    CHECK(differences({one, other}) == "--lr is 0.5 on rank 0 and not there on rank 1");
  }

  TEST_CASE("gpt2 settings: the report for many ranks is short") {
    std::vector<Settings> ranks(20);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank]["seed"] = std::max<std::size_t>(rank, 12);
    }
    CHECK(differences(ranks) ==
          "--seed is 12 on ranks 0, 1, 2, 3, 4, 5, 6, 7 and 5 more and 13 on rank 13 and 14 on "
          "rank 14 and 15 on rank 15 and others elsewhere");
  }

  TEST_CASE("gpt2 settings: only different settings are an error and it is the same on all ranks") {
    const Settings settings = {{"lr", 0.5}, {"data_checksum", "00aa"}};
    ddprun::test::run_ranks(3, [&](ProcessGroup& group) {
      CHECK_NOTHROW(require_same_settings(group, settings));
      Settings own = settings;
      if (group.rank() == 1) own["lr"] = 0.0625;
      if (group.rank() == 2) own["data_checksum"] = "00ab";
      CHECK_THROWS_WITH_AS(
          require_same_settings(group, own),
          "the workers have different settings: the checksum of --data is 00aa on ranks 0, 1 and "
          "00ab on rank 2; --lr is 0.5 on ranks 0, 2 and 0.0625 on rank 1 (start all nodes with "
          "the same options and the same tokens)",
          ddprun::Error);
    });
  }

  TEST_CASE("gpt2 settings: every option that must be equal is compared") {
    const TemporaryFolder folder;
    write_token_file(folder / "tokens", 5, {0, 1, 2, 3});
    write_token_file(folder / "others", 5, {0, 1, 2, 4});
    const TokenFile data(folder / "tokens");
    const TokenFile others(folder / "others");
    const ddprun::WorkerEnv env;
    const Settings plain = common_settings({}, env, data, nullptr);
    const auto differs = [&](const std::function<void(Options&)>& change) {
      Options options;
      change(options);
      return !differences({plain, common_settings(options, env, data, nullptr)}).empty();
    };
    CHECK_FALSE(differs([](Options& o) { o.metrics = o.ledger = o.checkpoint_dir = "x"; }));
    CHECK(differs([](Options& o) { o.shape.layers = 99; }));
    CHECK(differs([](Options& o) { o.batch_size = 99; }));
    CHECK(differs([](Options& o) { o.global_batch_size = 99; }));
    CHECK(differs([](Options& o) { o.gradient_accumulation = 99; }));
    CHECK(differs([](Options& o) { o.steps = 99; }));
    CHECK(differs([](Options& o) { o.seed = 99; }));
    CHECK(differs([](Options& o) { o.lr = 99; }));
    CHECK(differs([](Options& o) { o.test_every = 99; }));
    CHECK(differs([](Options& o) { o.test_sequences = 99; }));
    CHECK(differs([](Options& o) { o.bucket_cap_mb = 99; }));
    CHECK(differences({plain, common_settings({}, env, others, nullptr)})
              .starts_with("the checksum of --data is "));
    CHECK(differences({plain, common_settings({}, env, data, &others)})
              .starts_with("the checksum of --test_data is none on rank 0 and "));
  }
}

}  // namespace gpt2_settings_test
