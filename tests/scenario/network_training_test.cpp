// Training on machines that are cut off, killed, asked to leave and rejoin; then the same history
// with planned changes only. Parameters must be equal bit for bit, and every step must have used
// the same samples.
#include "tests/support/cluster.hpp"
#include "tests/support/json_lines.hpp"
#include "tests/support/network.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace network_training_test {

using namespace ddprun::test;

namespace {

constexpr int kWorkersPerNode = 2;

std::string trainer_in(const TemporaryFolder& folder, const std::string& more = "") {
  return "exec " + in_bin("trainer") + " --dataset=random --model=mlp --seed=5" +
         " --global_batch_size=96 --epochs=100000 --checkpoint_every=10 --checkpoint_dir=" +
         (folder / "checkpoints") + " --metrics=" + (folder / "metrics") +
         " --ledger=" + (folder / "ledger") + " " + more;
}

/// A range of steps made by one set of workers and not superseded.
struct Stretch {
  int world_size = 0;
  int first_step = 0;  ///< the step before its first
  int last_step = 0;

  bool operator==(const Stretch&) const = default;
};

struct History {
  std::vector<Stretch> stretches;
  std::string parameters;  ///< hash of the final parameters

  /// The latest world, and the steps that it has made.
  int world_size = 0;
  int steps = 0;
};

History history_in(const TemporaryFolder& folder) {
  History history;
  int step = 0;
  for (const auto& line : read_json_lines(folder / "metrics")) {
    if (line.at("event") == "start") {
      step = line.at("step");
      if (!history.stretches.empty()) history.stretches.back().last_step = step;
      std::erase_if(history.stretches,
                    [](const Stretch& s) { return s.first_step == s.last_step; });
      history.stretches.push_back({.world_size = line.at("world_size"), .first_step = step});
    }
    if (line.at("event") == "step") step = line.at("step");
    if (line.at("event") == "end") history.parameters = line.at("parameters_hash");
  }
  if (history.stretches.empty()) return history;
  history.stretches.back().last_step = step;
  history.world_size = history.stretches.back().world_size;
  history.steps = step - history.stretches.back().first_step;
  return history;
}

/// By step and rank. Results after a step that others resumed from are omitted.
std::map<int, std::vector<std::vector<std::int64_t>>> samples_in(const TemporaryFolder& folder) {
  std::map<int, std::vector<std::vector<std::int64_t>>> samples;
  for (const auto& stretch : history_in(folder).stretches) {
    for (int step = stretch.first_step + 1; step <= stretch.last_step; ++step) {
      samples[step].resize(static_cast<std::size_t>(stretch.world_size));
    }
  }
  for (std::size_t rank = 0; rank < 3 * kWorkersPerNode; ++rank) {
    for (const auto& line : read_json_lines(folder / ("ledger.rank" + std::to_string(rank)))) {
      if (!line.contains("step")) continue;
      const auto step = samples.find(line.at("step"));
      // A repeated step is further down in the file.
      if (step != samples.end() && rank < step->second.size()) {
        step->second[rank] = line.at("samples").get<std::vector<std::int64_t>>();
      }
    }
  }
  return samples;
}

/// Machine 1 hosts the rendezvous and has rank 0.
class Machines {
 public:
  explicit Machines(const TemporaryFolder& folder)
      : network(3), folder_(folder), secret_file_(make_secret(folder / "secret")) {}

  Program& start(int number) {
    programs_.push_back(std::make_unique<Program>(network.on(
        number, launch({"--nnodes=1:3", "--nproc_per_node=" + std::to_string(kWorkersPerNode),
                        "--rdzv_backend=c10d", "--rdzv_endpoint=" + network.address(1) + ":29400",
                        "--rdzv_id=train", "--local_addr=" + network.address(number),
                        "--secret_file=" + secret_file_, "--max_restarts=0",
                        "--rdzv_conf=last_call_timeout=60,lease_timeout=1.5,rejoin_timeout=60"},
                       trainer_in(folder_)))));
    return *programs_.back();
  }

  /// Waits until this number of nodes train together and have saved a checkpoint.
  void await(int nodes) const {
    const int world_size = nodes * kWorkersPerNode;
    REQUIRE(wait_until([&] {
      const auto history = history_in(folder_);
      return history.world_size == world_size && history.steps > 15;
    }));
  }

  const Network network;

 private:
  const TemporaryFolder& folder_;
  std::string secret_file_;
  std::vector<std::unique_ptr<Program>> programs_;
};

/// Continues to the end of each range, in a run of its own without faults.
void train(const std::vector<Stretch>& stretches, const TemporaryFolder& folder) {
  for (const auto& stretch : stretches) {
    const int nodes = stretch.world_size / kWorkersPerNode;
    Cluster cluster(std::to_string(nodes),
                    trainer_in(folder, "--max_steps=" + std::to_string(stretch.last_step)),
                    {"--nproc_per_node=" + std::to_string(kWorkersPerNode)},
                    "last_call_timeout=60,lease_timeout=10");
    std::vector<Program*> programs;
    for (int node = 0; node < nodes; ++node) programs.push_back(&cluster.start(2 + node));
    for (auto* program : programs) {
      const int exit_code = program->wait();
      INFO(program->output());
      REQUIRE(exit_code == 0);
    }
  }
}

}  // namespace

TEST_SUITE("network training") {
  TEST_CASE("network training: faults of nodes do not change the result") {
    const TemporaryFolder disturbed;
    Machines machines(disturbed);
    if (!machines.network.is_there()) {
      return skip("network namespaces are not permitted here");
    }
    auto& host = machines.start(1);
    auto& second = machines.start(2);
    auto& third = machines.start(3);
    machines.await(3);
    machines.network.cut(3);
    machines.await(2);
    machines.network.mend(3);
    machines.await(3);
    third.signal(SIGKILL);
    CHECK(third.wait() == -SIGKILL);
    machines.await(2);
    auto& newcomer = machines.start(3);
    machines.await(3);
    second.signal(SIGTERM);
    CHECK(second.wait() == 128 + SIGTERM);
    machines.await(2);
    host.signal(SIGTERM);
    CHECK(host.wait() == 128 + SIGTERM);
    CHECK(newcomer.wait() == 128 + SIGTERM);
    for (const auto* program : {&host, &second, &third, &newcomer}) {
      CHECK(program->leaves_no_process());
    }

    // A last range without faults, to the end.
    const int last_step = history_in(disturbed).stretches.back().last_step;
    train({{.world_size = 4, .last_step = last_step + 20}}, disturbed);
    const auto happened = history_in(disturbed);
    CHECK(happened.stretches.size() >= 7);
    const TemporaryFolder planned;
    train(happened.stretches, planned);
    const auto repeated = history_in(planned);
    CHECK(repeated.stretches == happened.stretches);
    CHECK_FALSE(happened.parameters.empty());
    CHECK(repeated.parameters == happened.parameters);
    CHECK_FALSE(samples_in(planned).at(1).at(5).empty());
    CHECK((samples_in(planned) == samples_in(disturbed)));
  }
}

}  // namespace network_training_test
