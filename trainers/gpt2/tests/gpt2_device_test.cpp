#include "trainers/gpt2/tests/gpt2_trainings.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace gpt2_device_test {

using namespace ddprun;
using namespace ddprun::test;

TEST_SUITE("gpt2 on devices") {
  TEST_CASE("gpt2 on devices: training equals that on CPUs over NCCL and memory") {
    constexpr int kRanks = 2;
    const CleanDevices clean;
    const SmallText text;
    const auto options = small_training();
    std::vector<RankResults> on_cpus(kRanks);
    run_ranks(kRanks, [&](ProcessGroup& group) {
      const auto compute = trainer::make_cpu_compute(1);
      const auto rank = static_cast<std::size_t>(group.rank());
      TrainingEnds ends;
      on_cpus[rank] = train_rank(std::move(group), *compute, text, options, ends);
    });
    CHECK(on_cpus[0] == on_cpus[1]);
    const RankResults on_devices = train_on_devices(kRanks, text, options);
    for (std::size_t step = 0; step < on_devices.losses.size(); ++step)
      CHECK(on_devices.losses[step] == doctest::Approx(on_cpus[0].losses[step]).epsilon(1e-5));
  }
}

}  // namespace gpt2_device_test
