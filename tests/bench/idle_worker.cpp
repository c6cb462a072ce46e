// A worker that links the runtime, touches some memory and waits to be killed: idle_worker [MIB].
#include <ddprun/worker.hpp>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

int main(int argc, char** argv) {
  const std::size_t mebibytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0;
  return ddprun::run_worker([mebibytes](const ddprun::WorkerEnv&) {
    const std::vector<char> touched(mebibytes << 20, 1);
    std::puts("ready");
    std::fflush(stdout);
    while (true) ::pause();
    return 0;
  });
}
