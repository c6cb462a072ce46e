// A worker whose ranks make random calls on the backend that the first argument names, and compare
// each result with the serial one. A second argument tells what it should suffer instead:
//   hang   rank 0 waits for a message that nobody sends, at most for a second
//   abort  rank 0 gives such a wait up
//   death  in the first attempt rank 0 waits for rank 1, which is killed; nobody heeds SIGTERM
#include "tests/support/random_calls.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

using namespace ddprun;

constexpr unsigned kSeed = 20;
constexpr int kCalls = 60;

int make_random_calls(const ProcessGroup& group) {
  const auto said = test::RandomCalls(group, kSeed, {}, test::Arithmetic::in_any_order).run(kCalls);
  std::printf("rank %d of %d over %s: %s\n", group.rank(), group.size(), group.backend().c_str(),
              said.c_str());
  return said == "ok" ? 0 : 1;
}

int suffer(const std::string& what, ProcessGroup& group) {
  float value = 0;
  if (what == "death") {
    group.barrier().wait();
    if (group.rank() == 1) std::raise(SIGKILL);
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
    if (what == "death") std::signal(SIGTERM, SIG_IGN);
    auto group = ProcessGroup::create(env, options);
    const bool is_well = what.empty() || (what == "death" && env.restart_count > 0);
    return is_well ? make_random_calls(group) : suffer(what, group);
  });
}
