// A worker that fails in the way given by its argument.
#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

volatile int sink = 0;

__attribute__((noinline)) int overflow_stack(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  if (sink < 0) return 0;  // never, but the compiler cannot know
  return overflow_stack(depth + 1) + frame[0];
}

int fail(const std::string& how) {
  if (how == "exception") throw std::runtime_error("no \"such\" layer\nat all");
  // Like the text of LibTorch's exceptions.
  if (how == "libtorch")
    throw std::runtime_error(
        "sizes differ\n\nException raised from f at g.cpp:1 (most recent "
        "call first):\nframe #0: main\n");
  if (how == "error") throw ddprun::Error(ddprun::Errc::system, "disk full");
  if (how == "usage") throw ddprun::Error(ddprun::Errc::usage, "no such option");
  if (how == "peer") throw ddprun::PeerFailed(3, "rank 3 died");
  if (how == "unknown") throw 42;
  if (how == "thread") std::thread([] { throw std::runtime_error("in a thread"); }).join();
  if (how == "libtorch thread") std::thread([] { fail("libtorch"); }).join();
  if (how == "overflow") return overflow_stack(0);
  if (how == "access") {
    int* volatile const address = reinterpret_cast<int*>(0x1f0);
    return *address;
  }
  if (how == "exit") ::exit(7);
  if (how == "child") {
    const pid_t child = ::fork();
    if (child == 0) ::raise(SIGSEGV);
    ::waitpid(child, nullptr, 0);
    return 0;
  }
  if (how == "success") return 0;
  return ::raise(std::stoi(how));
}

}  // namespace

int main(int, char** arguments) {
  return ddprun::run_worker([&](const ddprun::WorkerEnv&) { return fail(arguments[1]); });
}
