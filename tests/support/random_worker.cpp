// A worker whose ranks make random calls on the backend of the first argument, and compare each
// result with the serial one. A second argument selects a fault instead:
//   hang   rank 0 waits up to a second for a message that is not sent
//   abort  rank 0 aborts such a wait
//   groups the ranks also make concurrent random calls in subgroups
//   order  rank 1 creates such groups in another order
#include "tests/support/random_calls.hpp"
#include "tests/support/subgroup_calls.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

using namespace ddprun;

constexpr unsigned kSeed = 20;
constexpr int kCalls = 60;

int make_random_calls(const ProcessGroup& group, bool in_subgroups) {
  constexpr auto kArithmetic = test::Arithmetic::in_any_order;
  const auto result = in_subgroups ? test::exercise_subgroups(group, kSeed, kArithmetic)
                                   : test::RandomCalls(group, kSeed, {}, kArithmetic).run(kCalls);
  std::printf("rank %d of %d over %s: %s\n", group.rank(), group.size(), group.backend().c_str(),
              result.c_str());
  return result == "ok" ? 0 : 1;
}

int suffer(const std::string& what, ProcessGroup& group) {
  float value = 0;
  if (what == "order") {
    group.new_group(test::every(1, group.rank() == 1 ? 1 : 0, group.size()));
    return 0;
  }
  const Work work = group.recv(as_buffer(&value, 1), (group.rank() + 1) % group.size());
  if (group.rank() == 0 && what == "abort") group.abort("enough");
  work.wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_worker([&](const WorkerEnv& env) {
    GroupOptions options{.backend = argc > 1 ? argv[1] : "auto"};
    const std::string what = argc > 2 ? argv[2] : "";
    if (what == "hang" && env.rank == 0) options.collective_timeout = std::chrono::seconds(1);
    auto group = ProcessGroup::create(env, options);
    const bool is_well = what.empty() || what == "groups";
    return is_well ? make_random_calls(group, what == "groups") : suffer(what, group);
  });
}
