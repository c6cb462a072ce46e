#include <ddprun/error.hpp>
#include <ddprun/worker.hpp>

#include <cstdio>
#include <exception>

namespace ddprun {

int run_worker(const std::function<int(const WorkerEnv&)>& body) noexcept {
  try {
    return body(from_process_environment());
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.code() == Errc::usage ? 2 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

}  // namespace ddprun
